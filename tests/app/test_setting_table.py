"""Every setting is declared once and completely: shown, kept, and set by name."""

from __future__ import annotations

import json
from dataclasses import fields, replace
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app import paths, settings, settings_view
from app.setting_rules import ByModel, Device, Flag, Folder, Number, OneOf, Text
from app.setting_table import CARDS, GROUPS, REMEMBERED, Settings
from app.settings_view import Around
from app.typed_setting import shown
from ui.settings import SettingsDialog
from ui.settings_controls import Control
from ui.settings_values import SettingField

SHOWN = [name for name, card in CARDS.items() if card.group != REMEMBERED]
AROUND = Around({"data_folder": "/data", "models_folder": "/data/models"}, gpus=(("cuda:0", "A GPU"),))


def another(name: str) -> object:
    """A value of a setting that is not its default."""
    rule, now = CARDS[name].rule, getattr(Settings(), name)
    match rule:
        case OneOf():
            return next(each for each in rule.choices if each != now)
        case Flag():
            return not now
        case Number():
            low = max(rule.range.low, 2)
            return round(low + 1) if rule.range.is_whole else min(low, rule.range.high) / 4
        case Folder():
            return str(Path("/somewhere/else").absolute())
        case Device():
            return "cuda:1"
        case Text():
            return "= ₿" if rule.most else "words = and more"
    raise AssertionError(f"no value for {name}")


def test_every_field_of_the_settings_is_declared() -> None:
    assert [each.name for each in fields(Settings) if each.name != "unknown"] == list(CARDS)


@pytest.mark.parametrize("name", CARDS)
def test_every_setting_has_a_label_a_help_and_a_group(name: str) -> None:
    card = CARDS[name]
    assert card.label and card.label[0].isupper() and not card.label.endswith(".")
    assert card.help.endswith(".") and card.group in GROUPS
    assert card.counts_from in ("", "load", "start")
    assert card.rule.read(getattr(Settings(), name)) == getattr(Settings(), name)


def test_what_a_person_sees_is_told_apart() -> None:
    labels = [CARDS[name].label for name in SHOWN]
    assert len(set(labels)) == len(labels)
    for name in SHOWN:
        rule = CARDS[name].rule
        if isinstance(rule, OneOf):
            assert len(set(rule.labels or rule.choices)) == len(rule.choices), name


@pytest.mark.parametrize("name", [name for name, card in CARDS.items() if not isinstance(card.rule, ByModel)])
def test_every_setting_goes_through_the_file_and_by_name(name: str) -> None:
    value = another(name)
    assert value != getattr(Settings(), name)
    changed = settings.with_value(Settings(), f"{name}={shown(value)}")
    assert changed == replace(Settings(), **{name: value})  # type: ignore[arg-type]
    settings.save(changed)
    assert settings.load() == (changed, None)
    first = settings.with_value(changed, f"{name}={shown(getattr(Settings(), name))}")
    assert first == Settings()


@pytest.mark.parametrize("name", SHOWN)
def test_every_setting_has_a_control_that_says_what_it_is(name: str, qtbot: QtBot) -> None:
    dialog = SettingsDialog()
    qtbot.addWidget(dialog)
    dialog.set_view(settings_view.view(Settings(), AROUND))
    row = dialog.row(name)
    assert isinstance(row.control, Control)
    assert CARDS[name].label in row.control.accessibleName()
    assert row.control.target.accessibleName()
    assert CARDS[name].help.casefold() in row.words


def test_a_setting_that_only_remembers_is_not_shown() -> None:
    view = settings_view.view(Settings(), AROUND)
    shown = {row.name for group in view.groups for row in group.rows if isinstance(row, SettingField)}
    assert shown == set(SHOWN)


def test_the_file_has_a_version_and_a_newer_one_stays() -> None:
    settings.save(Settings(theme="dark"))
    path = paths.settings_file()
    kept = json.loads(path.read_text())
    assert kept["version"] == settings.VERSION
    path.write_text(json.dumps(kept | {"version": 9, "new": [1]}))
    loaded, notice = settings.load()
    assert notice is None
    settings.save(replace(loaded, theme="light"))
    again = json.loads(path.read_text())
    assert (again["version"], again["new"], again["theme"]) == (9, [1], "light")


@pytest.mark.parametrize(("saved", "changes", "size"), [("125", (), 125), ("125", ("text-size=90",), 90)])
def test_the_text_size_is_known_before_there_is_a_window(
    saved: str, changes: tuple[str, ...], size: int
) -> None:
    settings.save(Settings(text_size=saved))
    assert int(settings.at_start(changes).text_size) == size


def test_the_language_that_an_earlier_version_kept_stays() -> None:
    paths.settings_file().write_text('{"version": 1, "language": "en"}')
    assert settings.load() == (Settings(language="en"), None)
    assert settings.at_start(("language=de",)).language == "de"


def test_languages_are_named_in_their_own_words() -> None:
    rule = CARDS["language"].rule
    assert isinstance(rule, OneOf)
    assert dict(zip(rule.choices, rule.labels, strict=True)) == {
        "system": "System",
        "en": "English",
        "de": "Deutsch",
    }


def test_a_damaged_file_gives_the_first_settings_and_stays_to_be_named() -> None:
    paths.settings_file().write_bytes(b"junk")
    assert settings.at_start(()) == Settings()
    assert paths.settings_file().read_bytes() == b"junk"


@pytest.mark.parametrize("device", ["auto", "cpu", "mps", "cuda", "cuda:0", "xpu:12"])
def test_the_words_of_devices(device: str) -> None:
    assert settings.with_value(Settings(), f"device={device.upper()}").device == device


@pytest.mark.parametrize("change", ["device=tpu", "device=cuda:", "models_folder=here", "data_folder=a/b"])
def test_what_is_no_device_or_folder_is_refused(change: str) -> None:
    with pytest.raises(settings.WishError, match="cannot be"):
        settings.with_value(Settings(), change)
