"""The program around a scripted engine: chats, queueing, stopping, failing, loading, downloading, ending."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import model_desk, starter
from app.download import DownloadCancelledError
from app.progress import DownloadProgress
from app.transport import DownloadError
from engine.errors import ContextError, ModelFileError
from tests.app.program import MODEL, Desk
from tests.fakes import FakeEngine, make_spec
from ui.values import ModelState


@pytest.fixture
def desk(qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    made = Desk(qtbot, qapp, monkeypatch, FakeEngine())
    yield made
    made.stop()


def test_a_message_is_answered_and_both_are_stored(desk: Desk) -> None:
    desk.start_ready()
    desk.send("How are you?")
    answer = desk.wait_for_answer()
    assert answer.text == "Hello there."
    assert answer.stats == "3 tokens · 50.0\u00a0tok/s · first token 0.10\u00a0s"
    assert desk.stored() == [("user", "How are you?", "done"), ("assistant", "Hello there.", "done")]
    assert [row.title for row in desk.rows] == ["How are you?"]
    assert desk.rows[0].detail == "tiny · 50.0\u00a0tok/s"
    assert not desk.is_generating


def test_the_question_is_on_the_disk_before_the_engine_sees_it(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.start_ready()
    seen: list[list[tuple[str, str, str]]] = []
    submit = desk.fake.submit

    def look_first(request: object) -> None:
        from app import paths
        from app.store import Store

        store = Store(paths.chats_db())
        seen.append([(t.role, t.content, t.status) for c in store.list_chats() for t in store.messages(c.id)])
        store.close()
        submit(request)  # type: ignore[arg-type]

    monkeypatch.setattr(desk.fake, "submit", look_first)
    desk.send("keep me")
    desk.wait_for_answer()
    assert seen[0][0] == ("user", "keep me", "done")


def test_a_second_turn_carries_the_whole_chat_and_the_settings(desk: Desk) -> None:
    desk.start_ready()
    desk.send("one")
    desk.wait_for_answer()
    desk.send("two")
    desk.wait(lambda: len(desk.answers()) == 2)
    desk.wait_for_answer()
    roles = [(m.role, m.content) for m in desk.fake.requests[-1].messages]
    assert roles == [("user", "one"), ("assistant", "Hello there."), ("user", "two")]
    assert desk.fake.requests[-1].sampling.seed == 7


def test_a_message_waits_for_the_model_and_then_goes(desk: Desk) -> None:
    desk.fake.hold_load.clear()
    desk.start()
    desk.wait(lambda: desk.chip.state == ModelState.LOADING)
    desk.send("early bird")
    assert desk.shown() == [("user", "early bird", "queued")]
    desk.fake.hold_load.set()
    assert desk.wait_for_answer().text == "Hello there."
    assert desk.shown()[0] == ("user", "early bird", "done")


def test_without_a_model_a_message_waits_and_says_so(desk: Desk) -> None:
    desk.start(None)
    desk.wait(lambda: desk.download is not None)
    assert desk.is_first_start
    desk.send("hello?")
    assert desk.shown() == [("user", "hello?", "queued")]
    assert desk.notice is not None
    assert desk.notice.title == "Your message waits: hello?"
    desk.window.model_chosen.emit(MODEL)
    desk.wait_for_answer()


def test_enter_while_an_answer_is_written_queues_and_then_sends(desk: Desk) -> None:
    desk.start_ready()
    desk.fake.hold.clear()
    desk.send("first")
    desk.wait_for_answer("writing")
    desk.send("second")
    desk.send("and third")
    assert desk.shown()[-1] == ("user", "second\n\nand third", "queued")
    desk.fake.hold.set()
    desk.wait(lambda: len(desk.answers()) == 2 and desk.answers()[-1].status == "done")
    assert desk.fake.requests[-1].messages[-1].content == "second\n\nand third"


def test_stop_keeps_the_text_and_marks_it(desk: Desk) -> None:  # B077
    desk.start_ready()
    desk.fake.hold.clear()
    desk.send("talk")
    desk.wait(lambda: bool(desk.answers()) and desk.answers()[-1].text == "Hello")
    assert desk.is_generating
    desk.window.stop_requested.emit()
    desk.window.stop_requested.emit()
    answer = desk.wait_for_answer("stopped")
    assert answer.text == "Hello"
    assert not desk.is_generating
    assert desk.stored()[-1] == ("assistant", "Hello", "stopped")


def test_stop_then_send_at_once_gives_a_clean_new_answer(desk: Desk) -> None:  # B077
    desk.start_ready()
    desk.fake.hold.clear()
    desk.send("talk")
    desk.wait(lambda: bool(desk.answers()) and desk.answers()[-1].text == "Hello")
    desk.window.stop_requested.emit()
    desk.send("again")
    desk.wait(lambda: desk.answers()[0].status == "stopped")
    desk.fake.hold.set()
    desk.wait(lambda: len(desk.answers()) == 2 and desk.answers()[-1].status == "done")
    assert [answer.text for answer in desk.answers()] == ["Hello", "Hello there."]


def test_an_answer_goes_on_while_another_chat_is_shown(desk: Desk) -> None:
    desk.start_ready()
    desk.fake.hold.clear()
    desk.send("background")
    desk.wait_for_answer("writing")
    first = desk.rows[0].chat_id
    desk.window.new_chat_requested.emit()
    assert desk.shown() == []
    assert not desk.is_generating
    assert desk.rows[0].is_writing
    desk.fake.hold.set()
    desk.wait(lambda: not desk.rows[0].is_writing)
    desk.window.chat_selected.emit(first)
    assert desk.shown() == [("user", "background", "done"), ("assistant", "Hello there.", "done")]


def test_a_prompt_that_is_too_long_goes_back_to_the_composer(desk: Desk) -> None:  # B072
    desk.start_ready()
    desk.fake.fail_request = ContextError(
        "The prompt has 9,000 tokens and the context holds 4,096.", "Shorten it."
    )
    desk.send("a very long message")
    desk.wait(lambda: desk.notice is not None)
    assert desk.notice is not None
    assert "9,000" in desk.notice.title
    assert desk.window.composer_text() == "a very long message"
    assert desk.shown() == []
    desk.send("short")
    desk.wait_for_answer()
    assert [m.content for m in desk.fake.requests[-1].messages] == ["short"]


def test_a_fault_in_the_engine_keeps_the_text_and_the_next_answer_works(desk: Desk) -> None:
    desk.start_ready()
    desk.fake.hold.clear()
    desk.send("fragile")
    desk.wait(lambda: bool(desk.answers()) and desk.answers()[-1].text == "Hello")
    desk.fake.fail_step = ZeroDivisionError("oops")
    assert desk.wait_for_answer("failed").text == "Hello"
    desk.fake.hold.set()
    assert desk.notice is not None
    assert "Traceback" in desk.notice.details
    desk.send("again")
    desk.wait_for_answer("done")


def test_a_deleted_chat_can_come_back(desk: Desk) -> None:
    desk.start_ready()
    desk.send("precious")
    desk.wait_for_answer()
    chat = desk.rows[0].chat_id
    desk.window.chat_delete_requested.emit(chat)
    assert desk.rows == []
    assert desk.shown() == []
    assert desk.stored() == []
    desk.window.notice_action.emit("undo-delete")
    assert [row.chat_id for row in desk.rows] == [chat]
    desk.window.chat_selected.emit(chat)
    desk.wait(lambda: len(desk.shown()) == 2)
    assert len(desk.stored()) == 2


def test_deleting_a_chat_stops_its_answer(desk: Desk) -> None:
    desk.start_ready()
    desk.fake.hold.clear()
    desk.send("doomed")
    desk.wait_for_answer("writing")
    desk.window.chat_delete_requested.emit(desk.rows[0].chat_id)
    desk.wait(lambda: bool(desk.fake.cancelled))
    desk.fake.hold.set()
    desk.send("next")
    desk.wait_for_answer()
    assert [row.title for row in desk.rows] == ["next"]


def test_a_renamed_chat_keeps_its_name(desk: Desk) -> None:
    desk.start_ready()
    desk.send("long winded title")
    desk.wait_for_answer()
    desk.window.chat_renamed.emit(desk.rows[0].chat_id, "Short")
    desk.flush()
    assert desk.rows[0].title == "Short"


def test_chats_are_there_after_a_restart(
    desk: Desk, qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.start_ready()
    desk.send("remember")
    desk.wait_for_answer()
    desk.flush()
    desk.stop()
    again = Desk(qtbot, qapp, monkeypatch, FakeEngine())
    again.start()
    again.wait(lambda: bool(again.rows))
    again.window.chat_selected.emit(again.rows[0].chat_id)
    again.wait(lambda: len(again.shown()) == 2)
    assert again.shown()[1] == ("assistant", "Hello there.", "done")
    again.stop()


@pytest.mark.parametrize("while_doing", ["idle", "loading", "answering", "downloading"])
def test_closing_ends_within_two_seconds_and_keeps_the_text(
    desk: Desk, while_doing: str, monkeypatch: pytest.MonkeyPatch
) -> None:  # B078
    if while_doing == "loading":
        desk.fake.hold_load.clear()
        desk.start()
        desk.wait(lambda: desk.chip.state == ModelState.LOADING)
    elif while_doing == "downloading":
        monkeypatch.setattr(starter, "ensure", lambda progress, cancel: cancel.wait(60) and Path("x"))
        desk.start(None)
        desk.wait(lambda: desk.download is not None)
        desk.window.starter_requested.emit()
    else:
        desk.start_ready()
    if while_doing == "answering":
        desk.fake.hold.clear()
        desk.send("cut off")
        desk.wait(lambda: bool(desk.answers()) and desk.answers()[-1].text == "Hello")
    started = time.monotonic()
    assert desk.program.controller.stop()
    assert time.monotonic() - started < 2.0
    if while_doing == "answering":
        from app import paths
        from app.store import Store

        store = Store(paths.chats_db())
        turns = [t for c in store.list_chats() for t in store.messages(c.id)]
        store.close()
        assert (turns[-1].content, turns[-1].status) == ("Hello", "stopped")


def test_a_file_that_is_no_model_is_named_and_the_old_model_stays(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.start_ready()

    def refuse(path: str) -> None:
        raise ModelFileError(f"{path}: this is not a GGUF file.", "Choose another file.")

    monkeypatch.setattr(model_desk, "read_spec", refuse)
    desk.window.model_chosen.emit("/tmp/notes.gguf")
    desk.wait(lambda: desk.notice is not None)
    assert desk.notice is not None
    assert "notes.gguf" in desk.notice.title
    assert desk.chip.state == ModelState.READY


def test_settings_that_do_not_load_bring_the_previous_ones_back(desk: Desk) -> None:
    desk.start_ready()
    assert desk.tuning is not None
    assert desk.tuning.loaded_context == 4096
    desk.window.context_chosen.emit(1024)
    assert desk.tuning.apply == "ready"
    desk.fake.fail_load = ModelFileError("The disk is gone.", "Plug it in.")
    desk.window.apply_requested.emit()
    desk.wait(lambda: desk.chip.state == ModelState.READY and len(desk.fake.loads) == 3)
    assert [plan.context for plan in desk.fake.loads] == [4096, 1024, 4096]
    assert desk.notice is not None
    assert "did not load" in desk.notice.title


def test_changing_a_setting_back_hides_apply(desk: Desk) -> None:
    desk.start_ready()
    desk.window.format_chosen.emit("bf16")
    assert desk.tuning is not None
    assert desk.tuning.apply == "ready"
    assert desk.tuning.verdict is not None
    desk.window.format_chosen.emit("file")
    assert desk.tuning.apply == "hidden"


def test_apply_waits_for_the_answer(desk: Desk) -> None:
    desk.start_ready()
    desk.fake.hold.clear()
    desk.send("talk")
    desk.wait_for_answer("writing")
    desk.window.context_chosen.emit(1024)
    desk.window.apply_requested.emit()
    assert desk.tuning is not None
    assert desk.tuning.apply == "waiting"
    assert len(desk.fake.loads) == 1
    desk.fake.hold.set()
    desk.wait(lambda: len(desk.fake.loads) == 2 and desk.chip.state == ModelState.READY)
    assert desk.fake.loads[-1].context == 1024
    assert desk.answers()[0].text == "Hello there."


def test_a_model_that_does_not_fit_is_refused_before_loading(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.start_ready()
    monkeypatch.setattr(
        model_desk, "read_spec", lambda path: replace(make_spec(path), num_layers=2, head_dim=1 << 26)
    )
    desk.window.model_chosen.emit("/models/huge.gguf")
    desk.wait(lambda: desk.notice is not None)
    assert desk.notice is not None
    assert "does not fit" in desk.notice.title
    assert len(desk.fake.loads) == 1


def test_the_starter_downloads_with_progress_and_loads(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()

    def ensure(progress: object, cancel: threading.Event) -> Path:
        progress(DownloadProgress(10, 100, 5.0, 18.0, "running"))  # type: ignore[operator]
        go_on.wait(5)
        return Path(MODEL)

    monkeypatch.setattr(starter, "ensure", ensure)
    desk.start(None)
    desk.wait(lambda: desk.download is not None and desk.download.state == "offered")
    desk.window.starter_requested.emit()
    desk.window.starter_requested.emit()
    desk.wait(lambda: desk.download is not None and desk.download.state == "running")
    assert desk.chip.state == ModelState.DOWNLOADING
    assert desk.chip.percent == 10
    desk.send("meanwhile")
    go_on.set()
    assert desk.wait_for_answer().text == "Hello there."
    assert not desk.is_first_start


def test_a_cancelled_download_is_paused_and_a_failed_one_says_why(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:  # B094
    def ensure(progress: object, cancel: threading.Event) -> Path:
        if not cancel.wait(5):
            raise DownloadError("No connection.", "Models on this computer still work.")
        raise DownloadCancelledError("Paused.", "")

    monkeypatch.setattr(starter, "ensure", ensure)
    desk.start(None)
    desk.wait(lambda: desk.download is not None)
    desk.window.starter_requested.emit()
    desk.window.download_cancelled.emit()
    desk.wait(lambda: desk.download is not None and desk.download.state == "paused")

    def fail(progress: object, cancel: threading.Event) -> Path:
        raise DownloadError("No connection.", "Models on this computer still work.")

    monkeypatch.setattr(starter, "ensure", fail)
    desk.window.starter_requested.emit()
    desk.wait(lambda: desk.download is not None and desk.download.state == "failed")
    assert desk.download is not None
    assert "No connection." in desk.download.message
    assert desk.chip.state == ModelState.NO_MODEL


def test_choices_are_saved(desk: Desk) -> None:
    desk.start_ready()
    desk.window.theme_chosen.emit("light")
    desk.window.panels_changed.emit(True, False)
    desk.flush()
    from app import settings

    saved, notice = settings.load()
    assert notice is None
    assert (saved.theme, saved.tuning_open, saved.last_model) == ("light", False, MODEL)
    assert saved.seed is None  # what counts for one run is not kept


def test_a_store_that_cannot_be_written_does_not_stop_the_answer(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:  # B086
    from app.atomic_file import StorageError
    from app.store import Store

    desk.start_ready()

    def full(*_: object) -> None:
        raise StorageError("The disk is full.", "Make room.")

    monkeypatch.setattr(Store, "add_message", full)
    desk.send("anyway")
    assert desk.wait_for_answer().text == "Hello there."
    assert desk.notice is not None
    assert "could not be saved" in desk.notice.title
