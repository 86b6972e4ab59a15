"""The translations hold what the sources say: every text, with its placeholders, and nothing that is gone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from PySide6.QtCore import QTranslator

from engine.words import LANGUAGES

ROOT = Path(__file__).resolve().parents[1]
FILES = sorted((ROOT / "assets" / "languages").glob("*.ts"))
_PLACE = re.compile(r"\{(\w*)[^}]*\}|%n")
Key = tuple[str, str]  # text and meaning


def literals() -> Iterator[tuple[Key, bool, str]]:
    """Texts of the sources with their meanings, whether a number is in them, and where they stand."""
    for name in ("app", "engine", "ui"):
        for path in sorted((ROOT / name).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                    place = f"{path.relative_to(ROOT)}:{node.lineno}"
                    if node.func.id in ("tr", "mark") and node.args:
                        yield from literal(node.args, place)


def literal(args: list[ast.expr], place: str) -> Iterator[tuple[Key, bool, str]]:
    text, meaning = args[0], args[1] if len(args) > 1 else ast.Constant("")
    if isinstance(text, ast.JoinedStr):
        pytest.fail(f"{place}: an f-string cannot be translated")
    if isinstance(text, ast.Constant) and isinstance(meaning, ast.Constant) and text.value:
        yield (text.value, meaning.value), len(args) > 2, place


def messages(path: Path) -> dict[Key, ElementTree.Element]:
    found = ElementTree.parse(path).getroot().iter("message")
    return {(each.findtext("source") or "", each.findtext("comment") or ""): each for each in found}


def forms(message: ElementTree.Element) -> list[str]:
    translation = message.find("translation")
    assert translation is not None
    several = [each.text or "" for each in translation.iter("numerusform")]
    return several or [translation.text or ""]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_text_of_the_sources_is_there_and_nothing_else(path: Path) -> None:
    known, wanted = messages(path), {key: place for key, _, place in literals()}
    missing = {key: place for key, place in wanted.items() if key not in known}
    assert not missing, "run python packaging/languages.py"
    assert set(known) <= set(wanted)
    for key, has_number, place in literals():
        assert (known[key].get("numerus") == "yes") == has_number, place


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_text_is_translated_with_all_its_placeholders(path: Path) -> None:
    for (text, _), message in messages(path).items():
        translation = message.find("translation")
        assert translation is not None
        assert translation.get("type") is None, text
        for form in forms(message):
            assert form, text
            assert sorted(_PLACE.findall(form)) == sorted(_PLACE.findall(text)), text
            assert form.startswith(" ") == text.startswith(" "), text
            assert form.startswith("{path}: ") == text.startswith("{path}: "), text  # notices cut it off
            assert form.endswith(" ") == text.endswith(" "), text


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_program_reads_what_the_translators_wrote(path: Path) -> None:
    translator = QTranslator()
    assert translator.load(str(path.with_suffix(".qm")))
    for (text, meaning), message in messages(path).items():
        number = 2 if message.get("numerus") else -1
        assert translator.translate("", text, meaning, number) == forms(message)[-1], text


def test_every_language_that_can_be_chosen_is_there() -> None:
    assert {path.stem for path in FILES} == set(LANGUAGES) - {"en"}
