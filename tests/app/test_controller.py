"""The program around a scripted engine: chats, queueing, stopping, failing, loading, downloading, ending."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import model_choice, starter
from app.answer_desk import ABOUT_ANSWER
from app.download import DownloadCancelledError
from app.progress import DownloadProgress
from app.transport import DownloadError
from engine.errors import ContextError, ModelFileError
from engine.types import ModelSpec
from tests.app.program import MODEL, Desk
from tests.fakes import FakeEngine, make_spec
from ui.values import ModelState, NoticeView


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
    assert desk.notice is None


def test_a_waiting_message_always_shows_how_to_get_a_model(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ensure(progress: object, cancel: threading.Event) -> Path:
        tries.append(True)
        if len(tries) == 1:
            raise DownloadError("No connection.", "")
        return Path(MODEL)

    tries: list[bool] = []
    monkeypatch.setattr(starter, "ensure", ensure)
    desk.start(None)
    desk.wait(lambda: desk.download is not None)
    desk.send("hello?")
    notice = desk.window.body.centre.notice
    notice.dismiss()
    desk.window.clear_notice()
    assert notice.view is not None and "press Enter" in notice.view.text
    field = desk.window.body.centre.composer.focusProxy()
    desk.qtbot.keyClick(field, Qt.Key.Key_Return)
    desk.wait(lambda: notice.view is not None and notice.view.text.startswith("No connection."))
    desk.window.picker_opened.emit()
    button = desk.window.picker._starter
    desk.wait(lambda: not button.isHidden() and button.text() == "Download the starter")
    desk.qtbot.keyClick(field, Qt.Key.Key_Return)
    desk.wait_for_answer()
    assert notice.view is None
    desk.qtbot.keyClick(field, Qt.Key.Key_Return)
    desk.window.picker_opened.emit()
    desk.wait(button.isHidden)
    assert len(tries) == 2


def test_a_starter_that_is_here_is_not_offered_as_a_download(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(path: str) -> ModelSpec:
        if path == "/models/trunc.gguf":
            raise ModelFileError(f"{path}: the file ends too early.")
        return make_spec(path)

    monkeypatch.setattr(model_choice, "read_spec", read)
    monkeypatch.setattr(starter, "installed_path", lambda: Path(MODEL))
    desk.start("/models/trunc.gguf")
    desk.wait(lambda: desk.download is not None and desk.download.state == "here")
    assert desk.notice is not None and desk.notice.title == "trunc.gguf cannot be used."
    desk.qtbot.keyClick(desk.window.body.centre.composer.focusProxy(), Qt.Key.Key_Return)
    desk.wait(lambda: desk.chip.state == ModelState.READY)
    assert desk.notice is None


def test_a_send_takes_away_only_what_was_said_of_the_message_before(desk: Desk) -> None:
    desk.start_ready()
    desk.window.show_notice(NoticeView("error", "The search failed."))
    desk.window.show_notice(NoticeView("error", "It went wrong.", key=ABOUT_ANSWER))
    desk.send("again")
    assert desk.notice is not None and desk.notice.title == "The search failed."
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

    monkeypatch.setattr(model_choice, "read_spec", refuse)
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
        model_choice, "read_spec", lambda path: replace(make_spec(path), num_layers=2, head_dim=1 << 26)
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


def test_the_window_comes_back_in_its_size(
    desk: Desk, qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.start_ready()
    desk.window.resize(1100, 760)
    desk.stop()
    again = Desk(qtbot, qapp, monkeypatch, FakeEngine())
    assert (again.window.width(), again.window.height()) == (1100, 760)


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


def test_a_chat_that_cannot_be_read_gives_the_text_back(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    from app.atomic_file import StorageError
    from app.store import Store

    desk.start_ready()
    desk.send("one")
    desk.wait_for_answer()
    chat = desk.rows[0].chat_id
    desk.flush()
    desk.window.new_chat_requested.emit()
    desk.program.controller.chats.conversations.clear()
    gate = threading.Event()
    desk.program.io.submit(gate.wait)

    def fail(*_: object) -> None:
        raise StorageError("The file of chats is damaged.")

    monkeypatch.setattr(Store, "messages", fail)
    desk.window.chat_selected.emit(chat)
    desk.send("typed for a chat that is gone")
    gate.set()
    desk.wait(lambda: desk.notice is not None)
    assert desk.window.composer_text() == "typed for a chat that is gone"
    assert desk.shown() == []
    assert len(desk.fake.requests) == 1


def test_a_message_goes_to_the_chat_it_was_typed_in(desk: Desk) -> None:
    desk.start_ready()
    desk.send("one")
    desk.wait_for_answer()
    chat = desk.rows[0].chat_id
    desk.flush()
    desk.window.new_chat_requested.emit()
    desk.program.controller.chats.conversations.clear()
    gate = threading.Event()
    desk.program.io.submit(gate.wait)
    desk.window.chat_selected.emit(chat)
    desk.send("for the first chat")
    desk.window.new_chat_requested.emit()
    gate.set()
    desk.wait(lambda: len(desk.fake.requests) == 2)
    contents = [message.content for message in desk.fake.requests[-1].messages]
    assert contents == ["one", "Hello there.", "for the first chat"]


def test_an_older_load_is_not_taken_for_the_newer_one(desk: Desk) -> None:
    desk.start_ready()
    desk.fake.hold_load.clear()
    desk.window.model_chosen.emit("/models/a.gguf")
    desk.wait(lambda: len(desk.fake.loads) == 2)
    desk.window.model_chosen.emit("/models/b.gguf")
    desk.wait(lambda: len(desk.fake.loads) == 3)
    desk.send("for b")
    desk.fake.hold_load.set()
    desk.wait_for_answer()
    assert desk.chip.name == "b"
    assert desk.rows[0].detail.startswith("b · ")


def test_an_engine_that_cannot_start_says_why(
    qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> FakeEngine:
        raise ImportError("libgomp.so.1 is missing")

    desk = Desk(qtbot, qapp, monkeypatch, FakeEngine())
    desk.program.engine._factory = broken
    desk.start()
    desk.wait(lambda: desk.notice is not None)
    assert desk.notice is not None
    assert "libgomp.so.1" in desk.notice.text
    assert desk.chip.state == ModelState.FAILED
    assert desk.stop()


def test_a_failing_cancel_ends_the_answer_all_the_same(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.start_ready()
    desk.fake.hold.clear()
    desk.send("x")
    desk.wait_for_answer("writing")
    monkeypatch.setattr(desk.fake, "cancel", lambda _: 1 / 0)
    desk.window.stop_requested.emit()
    desk.wait_for_answer("failed")
    desk.fake.hold.set()
    desk.send("again")
    desk.wait_for_answer("done")


def test_undo_puts_a_waiting_message_back_in_line(desk: Desk) -> None:
    desk.start_ready()
    desk.fake.hold.clear()
    desk.send("a")
    desk.wait_for_answer("writing")
    desk.send("b")
    chat = desk.rows[0].chat_id
    desk.window.chat_delete_requested.emit(chat)
    desk.window.notice_action.emit("undo-delete")
    desk.fake.hold.set()
    desk.wait(lambda: len(desk.fake.requests) == 2)
    desk.wait_for_answer()
    assert desk.fake.requests[-1].messages[-1].content == "b"


def test_a_message_that_was_waiting_goes_after_a_restart(
    desk: Desk, qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.start(None)
    desk.wait(lambda: desk.download is not None)
    desk.send("What is the sea made of?")
    desk.flush()
    desk.stop()
    again = Desk(qtbot, qapp, monkeypatch, FakeEngine())
    again.start()
    again.wait(lambda: bool(again.rows) and bool(again.fake.requests))
    again.wait(lambda: not again.rows[0].is_writing)
    again.window.chat_selected.emit(again.rows[0].chat_id)
    again.wait(lambda: len(again.shown()) == 2)
    assert again.shown()[0] == ("user", "What is the sea made of?", "done")
    assert again.shown()[1][1] == "Hello there."
    again.stop()


def test_what_is_typed_stays_with_its_chat_and_over_a_restart(
    desk: Desk, qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.start_ready()
    desk.send("one")
    desk.wait_for_answer()
    chat = desk.rows[0].chat_id
    desk.window.set_composer_text("half a thought")
    desk.window.new_chat_requested.emit()
    assert desk.window.composer_text() == ""
    desk.window.set_composer_text("another")
    desk.window.chat_selected.emit(chat)
    assert desk.window.composer_text() == "half a thought"
    desk.stop()
    again = Desk(qtbot, qapp, monkeypatch, FakeEngine())
    again.start()
    again.wait(lambda: again.window.composer_text() == "another")
    again.window.chat_selected.emit(chat)
    assert again.window.composer_text() == "half a thought"
    again.stop()


def test_the_newest_count_is_shown_and_of_the_chat_in_view(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.start_ready()
    controller = desk.program.controller
    gate, counted, shown = threading.Event(), [], []
    monkeypatch.setattr(desk.window, "set_counter", lambda view: shown.append(view.tokens))

    def count(path: str, messages: tuple[object, ...], options: object) -> int:
        counted.append(len(messages))
        gate.wait(5)
        return len(messages)

    monkeypatch.setattr(controller._counter, "count", count)
    desk.send("one")
    desk.wait_for_answer()
    desk.wait(lambda: 2 in counted)
    desk.window.new_chat_requested.emit()
    desk.wait(lambda: controller._count_again)
    gate.set()
    desk.wait(lambda: shown[-1:] == [0])


def test_a_format_chosen_during_a_reload_is_kept(desk: Desk) -> None:
    desk.start_ready()
    desk.window.format_chosen.emit("bf16")
    desk.fake.hold_load.clear()
    desk.window.apply_requested.emit()
    desk.wait(lambda: len(desk.fake.loads) == 2)
    desk.window.format_chosen.emit("f32")
    desk.fake.hold_load.set()
    desk.wait(lambda: desk.chip.state == ModelState.READY)
    assert desk.tuning is not None
    assert (desk.tuning.loaded_format, desk.tuning.chosen_format, desk.tuning.apply) == (
        "bf16",
        "f32",
        "ready",
    )


def test_escape_stops_a_load(desk: Desk) -> None:  # B077
    desk.fake.hold_load.clear()
    desk.start()
    desk.wait(lambda: desk.chip.state == ModelState.LOADING)
    desk.window.stop_requested.emit()
    desk.wait(lambda: desk.chip.state == ModelState.NO_MODEL)
    assert desk.is_first_start
    desk.fake.hold_load.set()
    desk.window.model_chosen.emit(MODEL)
    desk.wait(lambda: desk.chip.state == ModelState.READY)


def test_a_returning_user_never_sees_the_welcome(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[bool] = []
    original = desk.window.show_first_start
    monkeypatch.setattr(desk.window, "show_first_start", lambda on: (seen.append(on), original(on)))
    desk.start_ready()
    assert True not in seen


def test_settings_of_one_run_are_not_saved_and_hold_for_every_load(
    qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    from app import settings
    from engine.types import LoadSpec

    desk = Desk(qtbot, qapp, monkeypatch, FakeEngine(), LoadSpec(MODEL, context=1024, threads=1, kv="32"))
    desk.start_ready()
    desk.window.model_chosen.emit("/models/other.gguf")
    desk.wait(lambda: len(desk.fake.loads) == 2 and desk.chip.state == ModelState.READY)
    first, second = desk.fake.loads
    assert (first.context, first.threads, first.kv_bits) == (1024, 1, 32)
    assert (second.context, second.threads, second.kv_bits) == (4096, 1, 32)
    desk.flush()
    assert settings.load()[0].context is None
    desk.stop()


def test_up_takes_the_waiting_message_back_for_good(
    desk: Desk, qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.start_ready()
    desk.fake.hold.clear()
    desk.send("first")
    desk.wait_for_answer("writing")
    desk.send("not like this")
    desk.window.recall_requested.emit()
    assert desk.window.composer_text() == "not like this"
    assert [role for role, _, _ in desk.shown()] == ["user", "assistant"]
    desk.fake.hold.set()
    desk.wait_for_answer()
    desk.window.set_composer_text("")
    desk.stop()
    again = Desk(qtbot, qapp, monkeypatch, FakeEngine())
    again.start_ready()
    again.flush()
    again.window.chat_selected.emit(again.rows[0].chat_id)
    again.wait(lambda: len(again.shown()) == 2)
    assert again.fake.requests == []
    again.stop()


def test_the_offer_to_undo_ends(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.start_ready()
    desk.send("precious")
    desk.wait_for_answer()
    chats = desk.program.controller.chats
    chats.library.undo._timer.setInterval(0)
    desk.window.chat_delete_requested.emit(desk.rows[0].chat_id)
    desk.wait(lambda: desk.notice is None)
    desk.window.notice_action.emit("undo-delete")
    assert desk.rows == []


def test_the_loaded_model_is_listed_wherever_it_lies(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    rows: list[str] = []
    monkeypatch.setattr(
        desk.window, "set_models", lambda views: rows.extend(v.path for v in views if v.is_loaded)
    )
    desk.start_ready()
    desk.window.picker_opened.emit()
    desk.wait(lambda: rows == [MODEL])


def test_a_message_that_waits_behind_a_refused_one_still_goes(desk: Desk) -> None:
    desk.start_ready()
    gate = threading.Event()
    desk.program.io.submit(gate.wait)
    desk.fake.fail_request = ContextError("too long", "Shorten it.")
    desk.send("first")
    desk.send("second")
    gate.set()
    desk.wait(lambda: len(desk.fake.requests) == 2)
    desk.wait(lambda: desk.answers()[-1].status == "done")
    assert "second" in desk.fake.requests[-1].messages[-1].content


def test_closing_leaves_a_waiting_message_waiting(desk: Desk) -> None:
    from app import paths
    from app.store import Store

    desk.start_ready()
    desk.fake.hold.clear()
    desk.send("first")
    desk.wait_for_answer("writing")
    desk.send("second")
    desk.flush()
    desk.stop()
    store = Store(paths.chats_db())
    assert len(store.queued_chats()) == 1
    store.close()
    assert len(desk.fake.requests) == 1


def test_a_sent_draft_does_not_come_back(
    desk: Desk, qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.start_ready()
    desk.window.set_composer_text("typed before the end")
    desk.stop()
    for _ in range(2):
        again = Desk(qtbot, qapp, monkeypatch, FakeEngine())
        again.start_ready()
        again.flush()
        text = again.window.composer_text()
        if text:
            again.window.set_composer_text("")
            again.send(text)
            again.wait_for_answer()
        again.stop()
    assert text == ""


def test_closing_at_once_keeps_the_stored_draft(
    desk: Desk, qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.start_ready()
    desk.window.set_composer_text("keep me")
    desk.stop()
    Desk(qtbot, qapp, monkeypatch, FakeEngine()).stop()
    again = Desk(qtbot, qapp, monkeypatch, FakeEngine())
    again.start()
    again.wait(lambda: again.window.composer_text() == "keep me")


def test_two_windows_answer_a_waiting_message_once(
    desk: Desk, qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.start(None)
    desk.wait(lambda: desk.download is not None)
    desk.send("once")
    desk.flush()
    desk.stop()
    both = [Desk(qtbot, qapp, monkeypatch, FakeEngine()) for _ in range(2)]
    for each in both:
        each.start()
    qtbot.waitUntil(lambda: any(each.fake.requests for each in both), timeout=5000)
    for each in both:
        each.wait(lambda each=each: each.chip.state == ModelState.READY)  # type: ignore[misc]
        each.flush()
    assert sum(len(each.fake.requests) for each in both) == 1


def test_escape_during_a_reload_brings_the_loaded_model_back(desk: Desk) -> None:
    desk.start_ready()
    desk.send("hello")
    desk.wait_for_answer()
    desk.window.format_chosen.emit("bf16")
    desk.fake.hold_load.clear()
    desk.window.apply_requested.emit()
    desk.wait(lambda: len(desk.fake.loads) == 2)
    desk.window.stop_requested.emit()
    desk.wait(lambda: len(desk.fake.loads) == 3)
    desk.fake.hold_load.set()
    desk.wait(lambda: desk.chip.state == ModelState.READY)
    assert [plan.format for plan in desk.fake.loads] == ["file", "bf16", "file"]
    assert not desk.is_first_start


def test_a_chat_can_be_read_without_a_model(
    desk: Desk, qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.start_ready()
    desk.send("hello")
    desk.wait_for_answer()
    desk.stop()
    monkeypatch.setattr(starter, "usable", lambda _: None)
    again = Desk(qtbot, qapp, monkeypatch, FakeEngine())
    again.start(None)
    again.wait(lambda: bool(again.rows) and again.is_first_start is True)
    again.window.chat_selected.emit(again.rows[0].chat_id)
    again.wait(lambda: len(again.shown()) == 2)
    assert again.is_first_start is False
    again.window.new_chat_requested.emit()
    assert again.is_first_start is True


def test_changing_ones_mind_takes_a_waiting_apply_back(desk: Desk) -> None:
    desk.start_ready()
    desk.fake.hold.clear()
    desk.send("talk")
    desk.wait_for_answer("writing")
    desk.window.format_chosen.emit("bf16")
    desk.window.apply_requested.emit()
    desk.window.format_chosen.emit("file")
    assert desk.tuning is not None
    assert desk.tuning.apply == "hidden"
    desk.fake.hold.set()
    desk.wait_for_answer()
    desk.flush()
    assert len(desk.fake.loads) == 1


def test_a_finished_download_does_not_replace_the_chosen_model(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()
    monkeypatch.setattr(starter, "ensure", lambda *_: go_on.wait(5) and Path("/models/starter.gguf"))
    desk.start(None)
    desk.wait(lambda: desk.download is not None)
    desk.window.starter_requested.emit()
    desk.window.model_chosen.emit("/models/mine.gguf")
    desk.wait(lambda: desk.chip.state == ModelState.READY)
    go_on.set()
    desk.wait(lambda: desk.download is not None and desk.download.state == "done")
    desk.flush()
    assert [plan.model.name for plan in desk.fake.loads] == ["mine"]


def test_the_end_of_the_undo_offer_leaves_other_notices_alone(desk: Desk) -> None:
    from ui.values import NoticeView

    desk.start_ready()
    desk.send("precious")
    desk.wait_for_answer()
    desk.window.chat_delete_requested.emit(desk.rows[0].chat_id)
    desk.window.show_notice(NoticeView("error", "Something else"))
    desk.program.controller.chats.library.undo.forget()
    assert desk.notice is not None
    assert desk.notice.title == "Something else"


def test_damaged_settings_are_told_in_the_window(
    qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    from app import cli, paths

    paths.settings_file().parent.mkdir(parents=True, exist_ok=True)
    paths.settings_file().write_text("{broken")
    cli.load_spec(cli.build_parser().parse_args(["--set", "top_k=3"]), "")
    desk = Desk(qtbot, qapp, monkeypatch, FakeEngine())
    desk.start()
    desk.wait(lambda: desk.chip.state == ModelState.READY)
    assert desk.notice is not None
    assert "damaged" in desk.notice.text
