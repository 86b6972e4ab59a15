"""Presets: values that are brought into their ranges, and files that cannot do more than set them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import presets
from app.chat_export import as_json
from app.conversation import Turn
from app.imports import own
from app.presets import PresetError, applied, checked, clean_name, differing, from_file, read_shared, to_file
from app.settings import Settings
from app.store import Chat

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
VALUES = st.dictionaries(st.sampled_from([*presets.OF_A_CHAT, "theme", "models"]), JSON, max_size=6)


@given(VALUES)
def test_whatever_is_given_only_a_chats_settings_come_out_and_can_be_used(raw: dict[str, object]) -> None:
    values = checked(raw)
    assert values.keys() <= set(presets.OF_A_CHAT)
    assert checked(values) == values
    applied(Settings(), values).sampling()


def test_values_are_brought_into_their_ranges() -> None:
    assert checked({"temperature": 99, "seed": None, "top_p": "0.5", "max_tokens": 0, "min_p": "x"}) == {
        **{"temperature": 5, "seed": None, "top_p": 0.5, "max_tokens": 1}
    }
    assert len(str(checked({"system_prompt": "x" * 50_000})["system_prompt"])) == presets.MOST_PROMPT_CHARS


def test_only_what_differs_is_a_chats_own() -> None:
    saved = Settings(temperature=0.2)
    assert differing(saved, {"temperature": 0.2, "top_k": 7}) == {"top_k": 7}
    assert applied(saved, {"top_k": 7}).temperature == 0.2


@given(st.text(max_size=80), VALUES)
def test_a_shared_file_gives_back_what_it_was_made_of(name: str, raw: dict[str, object]) -> None:
    values = checked(raw)
    if values:
        assert from_file(to_file(name, values), "a.json") == (clean_name(name) or "Preset", values)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is not a preset"),
        (b"\xff\xfe", "is not a preset"),
        (b"[" * 100_000, "is not a preset"),
        (b"[1]", "is not a preset"),
        (b'{"format": "other"}', "is not a preset"),
        (b"x" * (presets.MOST_BYTES + 1), "too large"),
        (b'{"format": "decodeck-preset", "version": 2, "values": {"seed": 1}}', "newer version"),
        (b'{"format": "decodeck-preset", "version": 1, "values": {"theme": "dark"}}', "sets nothing"),
        (b'{"format": "decodeck-preset", "version": 1, "values": 3}', "sets nothing"),
    ],
)
def test_a_file_that_is_no_preset_is_refused_by_its_name(data: bytes, says: str) -> None:
    with pytest.raises(PresetError, match=rf"^a\.json.*{says}"):
        from_file(data, "a.json")


def test_instructions_that_are_too_long_are_not_cut_behind_ones_back() -> None:
    values = {"system_prompt": "x" * (presets.MOST_PROMPT_CHARS + 1)}
    data = json.dumps({"format": presets.FORMAT, "version": 1, "values": values}).encode()
    with pytest.raises(PresetError, match="too long"):
        from_file(data, "a.json")


def test_what_is_no_file_is_not_opened(tmp_path: Path) -> None:
    with pytest.raises(PresetError, match="is not a file"):
        read_shared(tmp_path)


def test_presets_are_kept_and_a_damaged_file_is_none(tmp_path: Path) -> None:
    path = tmp_path / "presets.json"
    assert presets.read(path) == {}
    presets.write(path, {"Poet": {"temperature": 1.2, "seed": None}})
    assert presets.read(path) == {"Poet": {"temperature": 1.2, "seed": None}}
    path.write_bytes(b"\0" * 100)
    assert presets.read(path) == {}
    path.write_text(json.dumps({"": {"seed": 1}, "A": {"theme": "dark"}, "B": {"seed": 2}}))
    assert presets.read(path) == {"B": {"seed": 2}}


def test_an_exported_chat_comes_back_with_what_it_has_of_its_own() -> None:
    chat = Chat("c", "Poems", 1.0, 2.0, options={"system_prompt": "Rhyme", "seed": 3})
    turn = Turn("a", "c", None, "user", "hi", "done", {}, 1.0)
    (held,) = json.loads(as_json([(chat, [turn])], {}, 3.0))["chats"]
    held["options"]["theme"] = "dark"  # nobody may set anything else by it
    assert own.read(held).chat.options == {"system_prompt": "Rhyme", "seed": 3}
