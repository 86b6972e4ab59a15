"""Settings: corrected with a notice, kept through damage, never half written."""

from __future__ import annotations

import json
import os
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from app import paths, settings
from app.atomic_file import StorageError
from app.settings import Settings
from engine.errors import WishError
from engine.types import SamplingParams


def write(data: object) -> None:
    paths.settings_file().write_text(data if isinstance(data, str) else json.dumps(data))


def test_what_is_saved_is_loaded() -> None:
    wish = Settings(theme="dark", last_model="/m/ü.gguf", context=4096, temperature=0.0, seed=7, top_k=0)
    settings.save(wish)
    assert settings.load() == (wish, None)


def test_without_a_file_there_are_defaults_and_no_notice() -> None:
    assert settings.load() == (Settings(), None)
    assert Settings().sampling() == SamplingParams()


@pytest.mark.parametrize(
    ("written", "expected"),
    [(0, 0.0), (0.0, 0.0), (-0.0, 0.0), (1, 1.0), (2, 2.0), (1e-9, 1e-9)],
)
def test_every_kind_of_number_is_a_temperature_without_a_notice(written: float, expected: float) -> None:
    write({"temperature": written})
    loaded, notice = settings.load()
    assert notice is None
    assert repr(loaded.temperature) == repr(expected)  # so −0.0 shows


@pytest.mark.parametrize(
    ("name", "written", "expected"),
    [
        ("temperature", '"0.7"', 0.7),
        ("temperature", "NaN", Settings().temperature),
        ("temperature", "Infinity", 5.0),
        ("temperature", "-1", 0.0),
        ("temperature", "1" + "0" * 400, 5.0),
        ("temperature", "true", Settings().temperature),
        ("temperature", "null", Settings().temperature),
        ("temperature", "[1]", Settings().temperature),
        ("top_k", "40.7", 41),
        ("top_k", '"many"', Settings().top_k),
        ("top_p", "1.5", 1.0),
        ("context", "0", 2),
        ("seed", "-3", 0),
        ("theme", '"neon"', "system"),
        ("when_full", '"never"', "oldest"),
        ("speculate", '"maybe"', "auto"),
        ("format", '{"a": 1}', "auto"),
        ("sidebar_open", "1", True),
        ("last_model", "5", None),
        ("system_prompt", "null", ""),
        ("system_prompt", '"\\ud800"', ""),
    ],
)
def test_a_wrong_value_is_corrected_and_named(name: str, written: str, expected: object) -> None:
    write(f'{{"{name}": {written}, "tuning_open": false}}')
    loaded, notice = settings.load()
    assert getattr(loaded, name) == expected
    assert type(getattr(loaded, name)) is type(expected)
    assert loaded.tuning_open is False  # one wrong value costs no other
    assert notice is not None
    assert name in notice


def test_settings_of_a_newer_version_are_kept() -> None:
    write({"theme": "light", "minimap": {"width": 3}})
    loaded, notice = settings.load()
    assert notice is None
    settings.save(replace(loaded, theme="dark"))
    saved = json.loads(paths.settings_file().read_text())
    assert saved["minimap"] == {"width": 3}
    assert saved["theme"] == "dark"


BROKEN = (bytes(50_000), b"", b'{"theme": "dark', b'{"theme": "dark"}x', b"\xff\xfe", b"[]", b"[" * 100_000)


@pytest.mark.parametrize("content", BROKEN, ids=range(len(BROKEN)))
def test_a_damaged_file_is_set_aside_and_the_copy_stands_in(content: bytes) -> None:
    settings.save(Settings(theme="light"))
    settings.save(Settings(theme="dark"))
    paths.settings_file().write_bytes(content)
    loaded, notice = settings.load()
    assert loaded.theme == "light"
    (aside,) = paths.data_dir().glob("settings.broken-*.json")
    assert aside.read_bytes() == content
    assert notice is not None
    assert aside.name in notice
    settings.save(loaded)
    assert settings.load() == (loaded, None)


def test_a_damaged_file_without_a_copy_gives_defaults() -> None:
    paths.settings_file().write_bytes(b"junk")
    loaded, notice = settings.load()
    assert loaded == Settings()
    assert notice is not None
    assert "Default settings are used" in notice


def test_a_damaged_file_never_replaces_the_copy() -> None:
    settings.save(Settings(theme="light"))
    settings.save(Settings(theme="dark"))
    paths.settings_file().write_bytes(b"junk")
    settings.save(Settings(theme="system"))
    paths.settings_file().write_bytes(b"junk")
    assert settings.load()[0].theme == "light"


def test_a_file_that_cannot_be_read_is_said_and_left_alone() -> None:
    paths.settings_file().mkdir()
    loaded, notice = settings.load()
    assert loaded == Settings()
    assert notice is not None
    assert "could not be read" in notice
    assert paths.settings_file().is_dir()


def test_a_full_disk_leaves_the_old_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    settings.save(Settings(theme="dark"))

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(StorageError, match="The disk is full"):
            settings.save(Settings(theme="light"))
    assert settings.load() == (Settings(theme="dark"), None)


def test_settings_that_did_not_change_are_not_written_again() -> None:
    settings.save(Settings())
    before = os.stat(paths.settings_file()).st_ino
    settings.save(Settings())
    assert os.stat(paths.settings_file()).st_ino == before


@pytest.mark.parametrize(
    ("change", "name", "expected"),
    [
        ("theme=dark", "theme", "dark"),
        ("temperature = 1", "temperature", 1.0),
        ("top-k=5", "top_k", 5),
        ("seed=none", "seed", None),
        ("context=4096", "context", 4096),
        ("sidebar_open=off", "sidebar_open", False),
        ("system_prompt=a=b", "system_prompt", "a=b"),
        ("last_model=", "last_model", None),
    ],
)
def test_a_setting_is_set_by_name(change: str, name: str, expected: object) -> None:
    changed = settings.with_value(Settings(seed=3, last_model="x"), change)
    assert getattr(changed, name) == expected
    others = {each.name for each in fields(Settings)} - {name}
    assert all(
        getattr(changed, other) == getattr(Settings(seed=3, last_model="x"), other) for other in others
    )


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("theme", "NAME=VALUE"),
        ("colour=red", r'no setting "colour".*Settings: theme, text_size'),
        ("unknown=1", "no setting"),
        ("theme=neon", "one of system, light, dark"),
        ("temperature=hot", "a number from 0 to 5"),
        ("temperature=9", "a number from 0 to 5"),
        ("temperature=nan", "a number from 0 to 5"),
        ("top_k=1.5", "a whole number from 0 to 1,048,576"),
        ("top_k=-5", "a whole number from 0 to 1,048,576"),
        ("context=none of it", "or none"),
        ("tuning_open=maybe", "on or off"),
    ],
)
def test_a_wrong_change_is_refused_with_what_is_allowed(change: str, words: str) -> None:
    with pytest.raises(WishError, match=words):
        settings.with_value(Settings(), change)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


@examples(deadline=None, max_examples=60)
@given(st.dictionaries(st.sampled_from([each.name for each in fields(Settings)]), JSON))
def test_any_values_give_settings_that_can_be_saved_and_loaded_unchanged(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, object]
) -> None:
    path: Path = tmp_path_factory.mktemp("any") / "settings.json"
    path.write_text(json.dumps(values))
    loaded, _ = settings.load(path)
    again = replace(loaded, unknown={})
    settings.save(again, path)
    assert settings.load(path) == (again, None)


@pytest.mark.parametrize("text", ["a long currency", "a\u202eb", "C\x00H"])
def test_a_currency_is_short_and_can_be_seen(text: str) -> None:
    with pytest.raises(WishError, match="at most 8 characters"):
        settings.with_value(Settings(), f"currency={text}")
    read = settings.CARDS["currency"].rule.read(text)
    assert isinstance(read, str) and len(read) <= 8 and read.isprintable()
