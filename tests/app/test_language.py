"""Tests for the language of the window: which it is, its words out of a file, plurals, and Qt's own words."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import PySide6
import pytest
from PySide6.QtCore import QCoreApplication, QLocale, QTranslator
from PySide6.QtWidgets import QApplication

from app import language
from engine import words
from engine.words import tr
from ui import numbers

TS = """<?xml version="1.0" encoding="utf-8"?>
<!DOCTYPE TS>
<TS version="2.1" language="de_DE" sourcelanguage="en">
<context>
    <name></name>
    <message><source>Undo</source><translation>Rückgängig</translation></message>
    <message><source>Open</source><comment>state</comment><translation>Offen</translation></message>
    <message><source>Open</source><comment>a link</comment><translation>Öffnen</translation></message>
    <message numerus="yes"><source>%n chat(s)</source>
        <translation><numerusform>%n Chat</numerusform><numerusform>%n Chats</numerusform></translation>
    </message>
</context>
</TS>
"""


@pytest.fixture(autouse=True)
def _english_again() -> Iterator[None]:
    yield
    language.use("en")
    QLocale.setDefault(QLocale.system())


@pytest.fixture
def german(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder of languages with a small German one."""
    make = str(Path(PySide6.__file__).parent / "lrelease")
    source = tmp_path / "de.ts"
    source.write_text(TS, "utf-8")
    subprocess.run([make, str(source), "-qm", str(tmp_path / "de.qm")], check=True, capture_output=True)
    monkeypatch.setattr(language, "FOLDER", tmp_path)


@pytest.mark.parametrize(
    ("chosen", "system", "found"),
    [
        ("en", ["de-DE"], "en"),
        ("de", ["en-US"], "de"),
        ("system", ["de-AT", "en-US"], "de"),
        ("system", ["de"], "de"),
        ("system", ["fr-FR", "de-Latn-DE", "en"], "de"),
        ("system", ["en-GB", "de-DE"], "en"),
        ("system", ["fr-FR"], "en"),
        ("system", ["C"], "en"),
        ("system", [], "en"),
        ("tlh", ["fr-FR"], "en"),
    ],
)
def test_the_first_of_the_system_that_there_is(
    monkeypatch: pytest.MonkeyPatch, chosen: str, system: list[str], found: str
) -> None:
    monkeypatch.setattr(language, "_system_languages", lambda: system)
    assert language.code(chosen) == found


def test_figures_follow_the_language() -> None:
    assert language.locale("de").toString(1234.5, "f", 1) == "1.234,5"
    assert language.locale("en").toString(1234.5, "f", 1) == "1,234.5"
    assert language.locale("system") == QLocale.system()


def test_english_needs_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language, "FOLDER", tmp_path)
    assert language.use("en") == "en"
    assert tr("Undo") == "Undo"


def test_a_language_whose_file_is_missing_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language, "FOLDER", tmp_path)
    with pytest.raises(FileNotFoundError, match=r"de\.qm"):
        language.use("de")


def test_words_out_of_a_file(german: None) -> None:
    assert language.use("de") == "de"
    assert tr("Undo") == "Rückgängig"
    assert (tr("Open", "state"), tr("Open", "a link"), tr("Open")) == ("Offen", "Öffnen", "Open")
    assert tr("Not translated: {name}").format(name="a") == "Not translated: a"


def test_plural_forms_with_figures_of_the_language(german: None) -> None:
    language.use("de")
    QLocale.setDefault(language.locale("de"))
    assert [tr("%n chat(s)", "", number) for number in (0, 1, 2, 1234)] == [
        "0 Chats",
        "1 Chat",
        "2 Chats",
        "1.234 Chats",
    ]


def test_the_system_language_is_taken(german: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(language, "_system_languages", lambda: ["de-CH"])
    assert language.use("system") == "de"
    assert tr("Undo") == "Rückgängig"


def test_qt_speaks_the_language_too_until_another_is_taken(qapp: QApplication, german: None) -> None:
    language.use("de")
    language.use("de")
    assert len(qapp.findChildren(QTranslator)) == 1
    assert QCoreApplication.translate("QPlatformTheme", "Cancel") == "Abbrechen"
    language.use("en")
    assert not qapp.findChildren(QTranslator)
    assert QCoreApplication.translate("QPlatformTheme", "Cancel") == "Cancel"


def test_percentages_and_decimals_are_written_as_the_language_does() -> None:
    assert (numbers.percent(0.24), words.number(1e9), words.number(0.1)) == ("24%", "1,000,000,000", "0.1")
    language.use("de")
    QLocale.setDefault(language.locale("de"))
    assert (numbers.percent(0.24), numbers.percent(0.037, 1)) == ("24\u00a0%", "3,7\u00a0%")
    assert (words.number(1e9), words.number(0.1), words.decimal(5.7, 1)) == ("1.000.000.000", "0,1", "5,7")
