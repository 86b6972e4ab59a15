"""Attached files from the drop to the prompt: read, counted, made to fit, kept in drafts, shown."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app.counter import TokenCounter
from tests.app.program import Desk
from tests.fakes import FakeEngine
from ui.attachment_text import attached, compose, parse

CONTEXT = 4096  # of the tiny model


@pytest.fixture
def desk(qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A program whose counter takes each word for a token: the scripted model has no tokenizer."""

    def count(_: object, path: str, messages: tuple[object, ...], options: object = None) -> int:
        return sum(len(each.content.split()) for each in messages)  # type: ignore[attr-defined]

    def beginning(_: object, path: str, text: str, most: int) -> str:
        return " ".join(text.split()[:most])

    monkeypatch.setattr(TokenCounter, "count", count)
    monkeypatch.setattr(TokenCounter, "count_text", lambda _, path, text: len(text.split()))
    monkeypatch.setattr(TokenCounter, "beginning", beginning)
    made = Desk(qtbot, qapp, monkeypatch, FakeEngine())
    yield made
    made.stop()


def attach(desk: Desk, *paths: Path) -> None:
    desk.window.composing.attach_requested.emit([str(path) for path in paths])
    desk.wait(lambda: not desk.window.body.centre.composer.files.reading)


def names(desk: Desk) -> list[str]:
    return [each.name for each in desk.window.composing.files]


def test_a_file_goes_to_the_model_with_its_name_and_is_stored_with_the_message(
    desk: Desk, tmp_path: Path
) -> None:
    desk.start_ready()
    (tmp_path / "sales.csv").write_text("a,b\n1,2\n")
    attach(desk, tmp_path / "sales.csv")
    composer = desk.window.body.centre.composer
    composer.set_text("Sum up")
    composer.submit()
    desk.wait_for_answer()
    wanted = compose([attached("sales.csv", "a,b\n1,2\n")], "Sum up")
    assert desk.fake.requests[-1].messages[-1].content == wanted
    assert desk.stored()[0] == ("user", wanted, "done")
    assert desk.rows[0].title == "Sum up"
    assert names(desk) == []


def test_each_file_shows_its_cost(desk: Desk, tmp_path: Path) -> None:
    desk.start_ready()
    (tmp_path / "a.txt").write_text("one two three")
    attach(desk, tmp_path / "a.txt")
    chip = desk.window.body.centre.composer.files.row.chips[0]
    desk.wait(lambda: "3\u00a0tokens" in chip.accessibleName())


def test_what_is_no_text_is_refused_by_its_name_and_the_rest_is_attached(desk: Desk, tmp_path: Path) -> None:
    desk.start_ready()
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "photo.txt").write_bytes(b"\x89PNG\0\xff")
    attach(desk, tmp_path / "photo.txt", tmp_path / "a.txt", tmp_path / "gone.md")
    assert names(desk) == ["a.txt"]
    assert desk.notice is not None
    assert desk.notice.title.startswith("photo.txt is not text")
    assert "gone.md could not be read" in desk.notice.text


def test_more_files_than_a_message_takes_are_named(desk: Desk, tmp_path: Path) -> None:
    desk.start_ready()
    paths = [tmp_path / f"{number}.txt" for number in range(12)]
    for path in paths:
        path.write_text(path.name)
    attach(desk, *paths)
    desk.wait(lambda: desk.notice is not None)
    assert sorted(names(desk)) == sorted(path.name for path in paths[:10])
    assert desk.notice is not None and "left out: 10.txt, 11.txt." in desk.notice.title


def too_long(desk: Desk, tmp_path: Path) -> None:
    """Attach a file with more tokens than the context, until the window says so."""
    desk.start_ready()
    (tmp_path / "log.txt").write_text("word " * 5_000)
    attach(desk, tmp_path / "log.txt")
    desk.wait(lambda: desk.notice is not None and desk.notice.key == "attachment-too-long")


def test_the_beginning_of_a_file_can_go_where_all_of_it_does_not_fit(desk: Desk, tmp_path: Path) -> None:
    too_long(desk, tmp_path)
    assert desk.notice is not None
    assert desk.notice.title == "log.txt does not fit into the context."
    assert [each.label for each in desk.notice.actions] == [
        *("Attach the beginning", "Leave it out", "Raise the context")
    ]
    desk.window.notice_action.emit("attach-part")
    desk.wait(lambda: bool(desk.window.composing.files[0].note))
    (part,) = desk.window.composing.files
    assert len(part.text.split()) < CONTEXT - 500  # and there is room for an answer
    assert part.note.startswith("the first ")
    desk.wait(lambda: desk.window.body.centre.composer._button.isEnabled())
    assert desk.notice is None


def test_a_small_file_is_not_blamed_for_the_large_one_before_it(desk: Desk, tmp_path: Path) -> None:
    too_long(desk, tmp_path)
    (tmp_path / "small.txt").write_text("one two three")
    desk.window.clear_notice()
    attach(desk, tmp_path / "small.txt")
    desk.wait(lambda: desk.notice is not None)
    assert desk.notice is not None
    assert desk.notice.title == "log.txt does not fit into the context."
    assert desk.notice.text.startswith("It has 5,000 tokens, ")
    desk.window.notice_action.emit("leave-out")
    assert names(desk) == ["small.txt"]


def test_the_first_file_that_is_too_much_is_blamed(desk: Desk, tmp_path: Path) -> None:
    desk.start_ready()
    for name, count in (("first.txt", 2_500), ("second.txt", 2_000), ("third.txt", 10)):
        (tmp_path / name).write_text("word " * count)
    attach(desk, tmp_path / "first.txt", tmp_path / "second.txt", tmp_path / "third.txt")
    desk.wait(lambda: desk.notice is not None and desk.notice.key == "attachment-too-long")
    assert desk.notice is not None
    assert desk.notice.title == "second.txt does not fit into the context."


def test_a_file_that_does_not_fit_can_be_left_out(desk: Desk, tmp_path: Path) -> None:
    too_long(desk, tmp_path)
    desk.window.notice_action.emit("leave-out")
    assert names(desk) == []
    assert desk.notice is None


def test_the_context_can_be_raised_for_a_file(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    too_long(desk, tmp_path)
    asked: list[int] = []
    monkeypatch.setattr(desk.window, "make_room", asked.append)
    desk.window.notice_action.emit("raise-context")
    assert len(asked) == 1
    assert 5_000 < asked[0] < 5_700  # the file and an answer
    assert names(desk) == ["log.txt"]


def test_what_no_context_of_the_model_holds_offers_none(desk: Desk, tmp_path: Path) -> None:
    desk.start_ready()
    (tmp_path / "log.txt").write_text("word " * 200_000)
    attach(desk, tmp_path / "log.txt")
    desk.wait(lambda: desk.notice is not None and desk.notice.key == "attachment-too-long")
    assert desk.notice is not None
    assert "This model's context ends at 8,192 tokens." in desk.notice.text
    assert [each.label for each in desk.notice.actions] == ["Attach the beginning", "Leave it out"]


def test_where_memory_went_meanwhile_the_other_ways_stay(
    desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    too_long(desk, tmp_path)
    monkeypatch.setattr(desk.window, "lack_of_room", lambda least: "No room.")
    desk.window.notice_action.emit("raise-context")
    assert desk.notice is not None and desk.notice.text.startswith("It has 5,000 tokens, ")
    assert [each.label for each in desk.notice.actions] == ["Attach the beginning", "Leave it out"]


def test_files_stay_with_the_draft_of_their_chat_and_survive_a_restart(desk: Desk, tmp_path: Path) -> None:
    desk.start_ready()
    desk.send("first")
    desk.wait_for_answer()
    (tmp_path / "a.txt").write_text("one")
    attach(desk, tmp_path / "a.txt")
    first = desk.rows[0].chat_id
    desk.window.new_chat_requested.emit()
    assert names(desk) == []
    desk.window.chat_selected.emit(first)
    assert names(desk) == ["a.txt"]
    desk.flush()
    from app import paths
    from app.store import Store

    store = Store(paths.chats_db())
    (draft,) = store.drafts().values()
    store.close()
    assert [each.name for each in parse(draft)[0]] == ["a.txt"]


def test_a_file_read_too_late_goes_to_the_chat_it_was_dropped_in(desk: Desk, tmp_path: Path) -> None:
    desk.start_ready()
    desk.send("first")
    desk.wait_for_answer()
    (tmp_path / "a.txt").write_text("one")
    desk.window.composing.attach_requested.emit([str(tmp_path / "a.txt")])
    first = desk.rows[0].chat_id
    desk.window.new_chat_requested.emit()
    desk.wait(lambda: not desk.window.body.centre.composer.files.reading)
    assert names(desk) == []
    desk.window.chat_selected.emit(first)
    assert names(desk) == ["a.txt"]


def test_editing_a_message_brings_its_files_back(desk: Desk, tmp_path: Path) -> None:
    desk.start_ready()
    desk.send(compose([attached("a.txt", "one")], "Sum up"))
    desk.wait_for_answer()
    desk.window.recall_requested.emit()
    assert names(desk) == ["a.txt"]
    assert desk.window.body.centre.composer.text() == "Sum up"
