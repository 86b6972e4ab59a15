"""The program as a process, with the real model: it ends quickly, cleanly, and loses nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from app import paths
from app.store import Store

pytestmark = pytest.mark.starter

# Runs the window as `decodeck --model PATH` does and prints what it has reached; sends a message if asked to.
DRIVER = """
import sys
from app import cli, main
from engine.events import Chunk, Loaded, LoadProgress

original, what = main.start, sys.argv[1]

def refuse(event, arguments):
    if event in ("socket.getaddrinfo", "socket.gethostbyname", "socket.sendto") or (
        event == "socket.connect" and isinstance(arguments[1], tuple)  # a path is this computer's
    ):
        print("network", event, file=sys.stderr, flush=True)
        raise OSError("no network")

if CUT_OFF:
    sys.addaudithook(refuse)

def start(program, wish):
    def report(events):
        for event in events:
            print(type(event).__name__, flush=True)
    program.engine.events.connect(report)
    def ask():
        program.window.message_sent.emit("Tell me a long story.")
    if what == "answer":
        program.controller.models.ready.connect(ask)
    original(program, wish)
    print("Started", flush=True)

main.start = start
sys.exit(main.run(cli.build_parser().parse_args(sys.argv[2:])))
"""


class Window:
    """A window in a process of its own."""

    def __init__(self, what: str, *arguments: str, is_cut_off: bool = False) -> None:
        driver = DRIVER.replace("CUT_OFF", str(is_cut_off))
        command = [sys.executable, "-c", driver, what, *arguments]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=os.environ.copy()
        )

    def wait_for(self, word: str) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.strip() == word:
                return
        pytest.fail(f"never reached {word}: {self.process.stderr and self.process.stderr.read()}")

    def end(self, number: int) -> tuple[int, float, str]:
        """Exit code, seconds until the end, and what was said on standard error."""
        started = time.monotonic()
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=20)
        return self.process.returncode, time.monotonic() - started, said


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("what", "reached"),
    [("answer", "Chunk"), ("nothing", "LoadProgress"), ("nothing", "Started"), ("nothing", "Loaded")],
)
def test_a_signal_closes_the_window_in_time_and_cleanly(
    what: str, reached: str, number: signal.Signals, starter_path: Path
) -> None:  # B078
    window = Window(what, "--model", str(starter_path))
    window.wait_for(reached)
    code, seconds, said = window.end(number)
    assert code == 0
    assert seconds < 3
    assert "QThread" not in said
    assert "Traceback" not in said


def stored() -> list[tuple[str, str, str]]:
    store = Store(paths.chats_db())
    turns = [turn for chat in store.list_chats() for turn in store.messages(chat.id)]
    store.close()
    return [(turn.role, turn.content, turn.status) for turn in turns]


def test_an_answer_cut_off_by_the_end_is_kept(starter_path: Path) -> None:  # B078
    window = Window("answer", "--model", str(starter_path))
    window.wait_for("Chunk")
    window.end(signal.SIGTERM)
    question, answer = stored()
    assert question == ("user", "Tell me a long story.", "done")
    assert answer[0] == "assistant"
    assert answer[1]
    assert answer[2] == "stopped"


def test_a_kill_loses_no_question(starter_path: Path) -> None:  # B087
    window = Window("answer", "--model", str(starter_path))
    window.wait_for("Chunk")
    window.end(signal.SIGKILL)
    turns = stored()
    assert turns[0] == ("user", "Tell me a long story.", "done")
    assert len(turns) == 2


def test_two_windows_write_into_one_store_without_damage(starter_path: Path) -> None:  # B090
    windows = [Window("answer", "--model", str(starter_path)) for _ in range(2)]
    for window in windows:
        window.wait_for("Chunk")
    for window in windows:
        assert window.end(signal.SIGTERM)[0] == 0
    turns = stored()
    assert [role for role, _, _ in turns].count("user") == 2
    assert all(content for role, content, _ in turns if role == "assistant")


def test_a_whole_chat_asks_no_network_for_anything_and_leaves_no_word_in_the_log(starter_path: Path) -> None:
    window = Window("answer", "--model", str(starter_path), is_cut_off=True)
    window.wait_for("Finished")
    code, _, said = window.end(signal.SIGTERM)
    assert (code, "network" in said) == (0, False), said
    store = Store(paths.chats_db())
    [chat] = store.list_chats()
    question, answer = store.messages(chat.id)
    store.close()
    assert question.content == "Tell me a long story."
    log = (paths.log_dir() / "decodeck.log").read_text("utf-8")
    assert question.content not in log
    assert answer.content[:20] not in log
