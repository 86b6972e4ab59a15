"""Chats of other programs come in as they were shown, with their branches; what is left out is named."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.conversation import Conversation
from app.imports import reader, shapes
from app.imports.reader import Problem, read_chats
from app.imports.shapes import ImportedChat
from tests.app.imports import files


def write(path: Path, value: object) -> Path:
    path.write_text(json.dumps(value), encoding="utf-8")
    return path


def chats_in(path: Path) -> list[ImportedChat]:
    return [each for each in read_chats(path) if isinstance(each, ImportedChat)]


def problems_in(path: Path) -> list[Problem]:
    return [each for each in read_chats(path) if isinstance(each, Problem)]


def tree(imported: ImportedChat) -> Conversation:
    return Conversation(imported.chat.id, imported.turns, imported.chat.active_id)


def shown(imported: ImportedChat) -> list[tuple[str, str]]:
    return [(turn.role, turn.content) for turn in tree(imported).path()]


def test_chatgpt_brings_the_shown_branch_and_keeps_the_others(tmp_path: Path) -> None:  # B089
    [found] = chats_in(write(tmp_path / "conversations.json", [files.chatgpt_chat()]))
    assert shown(found) == [
        ("user", "Why is the sky blue?"),
        ("assistant", "Short waves scatter more."),
        ("user", "And this?"),
    ]
    chat = found.chat
    assert (chat.title, chat.model, chat.created_s, chat.updated_s) == (
        "The sky",
        "gpt-4o",
        1.7e9,
        1.7e9 + 100,
    )
    answer = tree(found).path()[1]
    assert [turn.content for turn in tree(found).siblings(answer.id)] == [
        "Scattering.",
        "Short waves scatter more.",
    ]
    assert answer.thinking == "Rayleigh"
    assert found.left_out == {"messages of tools": 1, "images and files": 1}


def test_lm_studio_brings_versions_as_branches(tmp_path: Path) -> None:
    [found] = chats_in(write(tmp_path / "1.conversation.json", files.lm_studio_chat()))
    assert shown(found) == [("user", "What now?"), ("assistant", "Plant beans."), ("user", "")]
    answer = tree(found).path()[1]
    assert (answer.thinking, found.chat.model, found.chat.created_s) == ("hm", "qwen2.5-1.5b-instruct", 1.7e9)
    assert [turn.content for turn in tree(found).siblings(answer.id)] == ["Nothing.", "Plant beans."]
    assert found.left_out == {"images and files": 1}


def test_jan_brings_a_folder_of_two_files(tmp_path: Path) -> None:
    write(tmp_path / "thread.json", files.jan_thread())
    lines = "\n".join(json.dumps(row) for row in files.jan_messages())
    (tmp_path / "messages.jsonl").write_text(f"{lines}\n\n{{broken\n", encoding="utf-8")
    [found] = chats_in(tmp_path / "messages.jsonl")
    assert shown(found) == [("user", "Write to the landlord"), ("assistant", "Dear sir"), ("user", "Longer")]
    assert (found.chat.title, found.chat.model) == ("Letters", "llama3.2-3b-instruct")
    answer = tree(found).path()[1]
    assert (answer.thinking, answer.status, answer.created_s) == ("politely", "stopped", pytest.approx(1.7e9))
    assert [problem.reason for problem in problems_in(tmp_path / "messages.jsonl")] == [
        "1 line in it could not be read"
    ]


def test_jan_of_old_keeps_its_messages_in_the_thread(tmp_path: Path) -> None:
    path = write(tmp_path / "thread.json", files.jan_thread() | {"messages": files.jan_messages()})
    [found] = chats_in(path)
    assert len(found.turns) == 3


def test_open_webui_brings_its_tree_and_thoughts(tmp_path: Path) -> None:
    [found] = chats_in(write(tmp_path / "chat-export.json", [files.open_webui_chat()]))
    assert shown(found) == [("user", "2+2?"), ("assistant", "4")]
    answer = tree(found).path()[1]
    assert (answer.thinking, found.chat.model, found.chat.title) == ("2+2", "llama3", "Sums")
    assert len(tree(found).siblings(answer.id)) == 2
    said = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]
    line = {"title": "Old", "chat": {"messages": said}}
    [old] = chats_in(write(tmp_path / "old.json", [line]))
    assert shown(old) == [("user", "hi"), ("assistant", "ho")]


def test_the_same_file_gives_the_same_ids(tmp_path: Path) -> None:
    path = write(tmp_path / "conversations.json", [files.chatgpt_chat()])
    first, second = chats_in(path), chats_in(path)
    assert [turn.id for turn in first[0].turns] == [turn.id for turn in second[0].turns]
    assert first[0].chat.id == second[0].chat.id


def test_an_archive_is_read_in_memory_and_writes_nowhere(tmp_path: Path) -> None:  # B089
    path = tmp_path / "in" / "export.zip"
    path.parent.mkdir()
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("conversations.json", json.dumps([files.chatgpt_chat()]))
        archive.writestr("../../evil.json", json.dumps([files.open_webui_chat()]))
        archive.writestr("threads/a/thread.json", json.dumps(files.jan_thread()))
        archive.writestr(
            "threads/a/messages.jsonl", "\n".join(json.dumps(row) for row in files.jan_messages())
        )
        archive.writestr("chat.html", "<script>")
        archive.writestr("user.json", json.dumps({"id": "me"}))
    titles = sorted(found.chat.title for found in chats_in(path))
    assert titles == ["Letters", "Sums", "The sky"]
    assert [problem.name for problem in problems_in(path)] == ["export.zip: user.json"]
    assert sorted(each.name for each in tmp_path.rglob("*")) == ["export.zip", "in"]


def test_a_member_that_is_larger_than_it_says_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "bomb.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("conversations.json", json.dumps([files.chatgpt_chat()]) + " " * 5_000_000)
        archive.writestr("small.json", json.dumps([files.open_webui_chat()]))
    monkeypatch.setattr(reader, "MOST_BYTES", 100_000)
    found = list(read_chats(path))
    assert Problem("bomb.zip: conversations.json", "it is too large") in found
    assert [each.chat.title for each in found if isinstance(each, ImportedChat)] == ["Sums"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not whole JSON"),
        (b"[]", "there is no chat in it"),
        (b"{}", "there is no chat in it"),
        (b"null", "there is no chat in it"),
        (b'[{"title": "A", "mapping": {}}]', "no message with text"),
        (b'[{"mapping": {"a": {"message": null}}}]', "no message with text"),
        (b"[[]]", "no chat in a known format"),
        (b'{"a": 1}', "no chat in a known format"),
        (b'[{"mapping": {"a": {"mess', "not whole JSON"),
        (b"[" * 200_000, "nested too deeply"),
        (b"\xff\xfe\x00", "not UTF-8"),
        (b"PK\x03\x04 broken", "not"),
        (b"\x00" * 50_000, "not whole JSON"),
        (b'{"format": "decodeck-chats", "version": 99, "chats": []}', "newer version"),
        (b"9" * 10_000, "not whole JSON"),
    ],
)
def test_what_cannot_be_imported_is_named_with_the_reason(
    tmp_path: Path, content: bytes, reason: str
) -> None:
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    found = list(read_chats(path))
    assert found
    assert all(isinstance(each, Problem) and each.name.startswith("broken.json") for each in found)
    assert reason in found[0].reason  # type: ignore[union-attr]


def test_a_file_that_is_not_there_or_too_large_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [absent] = list(read_chats(tmp_path / "absent.json"))
    assert isinstance(absent, Problem)
    assert "cannot be read" in absent.reason
    path = write(tmp_path / "big.json", [files.chatgpt_chat()])
    monkeypatch.setattr(reader, "MOST_BYTES", 100)
    [big] = list(read_chats(path))
    assert isinstance(big, Problem)
    assert "larger than" in big.reason


def test_too_many_chats_and_messages_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    many = [files.open_webui_chat() | {"id": str(number)} for number in range(5)]
    path = write(tmp_path / "many.json", many)
    monkeypatch.setattr(reader, "MOST_CHATS", 3)
    found = list(read_chats(path))
    assert [isinstance(each, ImportedChat) for each in found] == [True, True, True, False]
    monkeypatch.setattr(shapes, "MOST_TURNS", 2)
    assert all("more than 2 messages" in problem.reason for problem in problems_in(path)[:2])


def test_one_broken_chat_costs_itself_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "conversations.json", [{"title": "Empty", "mapping": {}}, files.chatgpt_chat()])
    assert [found.chat.title for found in chats_in(path)] == ["The sky"]
    assert [problem.name for problem in problems_in(path)] == ['conversations.json: "Empty"']


def test_a_circle_of_parents_is_cut(tmp_path: Path) -> None:  # B089
    mapping = {
        "a": {"message": files.chatgpt_message("user", "one"), "parent": "b"},
        "b": {"message": files.chatgpt_message("assistant", "two"), "parent": "a"},
        "c": {"message": files.chatgpt_message("user", "three"), "parent": "c"},
    }
    [found] = chats_in(write(tmp_path / "circle.json", [{"mapping": mapping, "current_node": "a"}]))
    assert len(found.turns) == 3
    for turn in found.turns:
        tree(found).select(turn.id)
    roots = [turn for turn in found.turns if turn.parent_id is None]
    assert len(roots) == 2
    assert ("user", "one") in shown(found)


def test_odd_times_become_none_or_the_chats(tmp_path: Path) -> None:
    chat = files.chatgpt_chat()
    for odd in (None, "yesterday", -5, 1e300, True, [], float("nan")):
        chat["create_time"] = chat["update_time"] = odd
        chat["mapping"]["ask"]["message"]["create_time"] = odd
        [found] = chats_in(write(tmp_path / "odd.json", [chat]))
        assert 0 < found.chat.created_s < 4.2e9
        assert all(0 < turn.created_s < 4.2e9 for turn in found.turns)


def test_a_cancelled_import_ends(tmp_path: Path) -> None:
    path = write(tmp_path / "many.json", [files.open_webui_chat() | {"id": str(n)} for n in range(50)])
    seen: list[object] = []
    for found in read_chats(path, lambda: len(seen) >= 3):
        seen.append(found)
    assert len(seen) == 3


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def with_holes(value: Any, draw: Any) -> Any:
    """A copy in which some values are something else."""
    if draw(st.integers(0, 14)) == 0:
        return draw(JSON)
    if isinstance(value, dict):
        return {key: with_holes(each, draw) for key, each in value.items() if draw(st.integers(0, 20))}
    return [with_holes(each, draw) for each in value] if isinstance(value, list) else value


@given(st.data())
@settings(deadline=None, max_examples=150)
def test_no_file_however_damaged_raises(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    make = data.draw(
        st.sampled_from([files.chatgpt_chat, files.lm_studio_chat, files.open_webui_chat, files.jan_thread])
    )
    path = tmp_path_factory.getbasetemp() / "damaged.json"
    path.write_text(json.dumps(with_holes([make()], data.draw)), encoding="utf-8")
    for found in read_chats(path):
        if isinstance(found, ImportedChat):
            ids = {turn.id for turn in found.turns}
            assert all(turn.parent_id is None or turn.parent_id in ids for turn in found.turns)
            assert all(isinstance(turn.content, str) for turn in found.turns)
            assert tree(found).path()
