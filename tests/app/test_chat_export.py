"""Exported chats: Markdown as it was shown, and JSON that comes back as it was."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from app.chat_export import as_json, markdown
from app.conversation import Conversation
from app.imports.reader import read_chats
from app.imports.shapes import ImportedChat
from app.store import Chat, Store


def make_chat() -> tuple[Chat, Conversation]:
    chat = Conversation("c", clock=lambda: 1_700_000_000.0)
    question = chat.append("user", "How?\n\n# not a heading of ours")
    first = chat.append("assistant", "So.")
    second = chat.branch(first.id, "Like **this**.\n")
    chat.update(second.id, thinking="line one\nline two", raw="<think>line one", stats={"line": "3 tokens"})
    chat.append("assistant", "another", parent_id=question.id)
    chat.select(second.id)
    return Chat(
        "c", "A \n title", 1_700_000_000.0, 1_700_000_001.0, "SmolLM2", second.id, 42.5, 5.0, "f"
    ), chat


def test_markdown_is_the_shown_path_as_it_was_written() -> None:
    text = markdown(*make_chat())
    head, _, rest = text.partition("\n\n## You\n\n")
    assert head.startswith("# A title\n\nSmolLM2 · 2023-11-")
    assert rest == (
        "How?\n\n# not a heading of ours\n\n## Answer\n\n> **Thinking**\n>\n> line one\n> line two\n\n"
        "Like **this**.\n"
    )
    assert "So." not in text


def test_exported_chats_come_back_equal(tmp_path: Path) -> None:  # B089
    chat, conversation = make_chat()
    path = tmp_path / "chats.json"
    path.write_text(as_json([(chat, conversation.turns())], {"f": "Work"}, 1.0), encoding="utf-8")
    [found] = list(read_chats(path))
    assert isinstance(found, ImportedChat)
    assert found.turns == conversation.turns()
    assert found.folder == "Work"
    assert (found.chat.pinned_s, found.chat.active_id, found.chat.decode_tps) == (5.0, chat.active_id, 42.5)
    with contextlib.closing(Store(tmp_path / "chats.db")) as store:
        assert store.import_chat(found.chat, found.turns) == 4
        assert store.messages("c") == conversation.turns()
        assert Conversation("c", store.messages("c"), found.chat.active_id).path() == conversation.path()


def test_answers_that_were_not_done_come_back_as_failed(tmp_path: Path) -> None:
    chat, conversation = make_chat()
    whole = json.loads(as_json([(chat, conversation.turns())], {}, 1.0))
    for row, status in zip(
        whole["chats"][0]["messages"], ("queued", "writing", "elsewhere", "odd"), strict=True
    ):
        row["status"] = status
    whole["chats"][0]["messages"].append({"id": 5})
    (tmp_path / "chats.json").write_text(json.dumps(whole), encoding="utf-8")
    [found] = list(read_chats(tmp_path / "chats.json"))
    assert isinstance(found, ImportedChat)
    assert [turn.status for turn in found.turns] == ["done", "failed", "failed", "done"]
    assert found.left_out == {"damaged messages": 1}
