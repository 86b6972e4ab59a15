"""Whole programs that stream an answer until they are killed; each says what it shows and what is stored.

``python -m tests.app.streaming_child HOME…`` runs one after another, forked from a process that has imported
everything: lines "pid N", then "shown N" with the characters that came from the engine, "asked N" with those
that are to be stored, "saved N" with those that are, and "end 0". The engine's words come ten to a second of
the desk's own clock.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Generator

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication

from app import answer_desk, main, model_choice
from app.answer_desk import AnswerDesk
from app.conversation import Turn
from app.store import Store
from engine.events import Chunk
from engine.types import LoadSpec
from tests.fakes import HARDWARE, FakeEngine, make_spec

PROMPT = "Write until you are stopped"
STEP_S = 0.1  # of the clock, with each word
MODEL = "/models/tiny.gguf"


def words() -> Generator[str, None, None]:
    """Words that all differ, so that a lost one is seen."""
    number = 0
    while True:
        yield f"{number} "
        number += 1


class Clock:
    """Seconds that pass with each word that is shown."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


def say(word: str, number: int) -> None:
    """One write, so that lines of two threads do not mix."""
    os.write(sys.stdout.fileno(), f"{word} {number}\n".encode())


def watch(clock: Clock) -> None:
    """Say what is shown and what is stored."""
    handle, save, update = AnswerDesk.handle, AnswerDesk._save, Store.update_message
    shown = [0]

    def asked(desk: AnswerDesk, turn: Turn) -> None:
        say("asked", len(turn.content))
        save(desk, turn)

    def handled(desk: AnswerDesk, event: object) -> None:
        if isinstance(event, Chunk):
            clock.now += STEP_S
            shown[0] += len(event.text)
        handle(desk, event)
        if isinstance(event, Chunk):
            say("shown", shown[0])

    def updated(store: Store, turn: Turn) -> bool:
        is_stored = update(store, turn)
        say("saved", len(turn.content))
        return is_stored

    AnswerDesk.handle = handled  # type: ignore[method-assign]
    AnswerDesk._save = asked  # type: ignore[method-assign]
    Store.update_message = updated  # type: ignore[method-assign]


def run() -> None:
    clock = Clock()
    watch(clock)
    made = words()
    fake = FakeEngine(tuple(next(made) for _ in range(100_000)))
    model_choice.read_spec = make_spec  # type: ignore[assignment]
    model_choice.probe = lambda _: HARDWARE  # type: ignore[assignment]
    application = QApplication([])
    program = main.build(application, ("seed=7",), LoadSpec(MODEL), lambda: fake)
    program.controller.chats.answers._clock = clock
    assert answer_desk.SAVE_EVERY_S == 1.0
    program.window.show()
    program.controller.start(LoadSpec(MODEL))
    program.window.message_sent.emit(PROMPT)
    QTimer.singleShot(60_000, application.quit)  # nobody came to kill it
    application.exec()


if __name__ == "__main__":
    for home in sys.argv[1:]:
        number = os.fork()
        if not number:
            os.environ["DECODECK_HOME"] = home
            run()
            os._exit(0)
        say("pid", number)
        os.waitpid(number, 0)
        say("end", 0)
