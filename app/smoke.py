"""`decodeck smoke`: the window offscreen with the real model, keys typed by a simulated hand.

Speed in the window is compared with `decodeck chat` in a child process, in turn: two torch runtimes in one
process would share one set of threads, and the machine's speed drifts between distant runs.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from app import relaunch
from engine.errors import EngineError
from engine.events import Event, Failed, Finished, Loaded, LoadFailed, MemoryReport, StepStats
from engine.types import LoadSpec

PROMPT = "Write a long story about a lighthouse keeper and the sea."
FOLLOW_UP = "Now write a small Python function that prints the story line by line."
TOKENS = 128
PAIRS = 5
TIMEOUT_S = 180
POLL_MS = 50


class SmokeError(EngineError):
    """The window did not do what a person would see it do."""

    kind = "smoke"


def run(arguments: argparse.Namespace, path: Path) -> int:
    """Chat in the window, measure, print; returns the exit code."""
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    from app.cli import changes, load_spec, say

    wish = load_spec(arguments, path)
    # A lane that does not wait for the end, such as one that reads files, may still write while it goes.
    with tempfile.TemporaryDirectory(prefix="decodeck-smoke-", ignore_cleanup_errors=True) as home:
        os.environ["DECODECK_HOME"] = home  # a person's chats and settings stay as they are
        hand = _Hand(wish, changes(arguments))
        hand.open()
        answers, ratios = [], []
        for pair in range(PAIRS):
            answers.append(hand.ask(PROMPT))
            reference = _child_tps(wish, changes(arguments))
            ratios.append(_tps(answers[-1]) / reference)
            inside = f"in the window {_tps(answers[-1]):.1f} tok/s, alone {reference:.1f}"
            say(f"pair {pair + 1} of {PAIRS}: {inside}")
        if "screenshot" in arguments and arguments.screenshot:
            hand.screenshot(arguments.screenshot)
        report = hand.report(answers[-1])
        hand.close()
    median = statistics.median(ratios)
    report["decode_ratio"] = {"median": median, "min": min(ratios), "max": max(ratios)}
    if "json" in arguments:
        print(json.dumps(report))
    else:
        print(f"{report['generated_tokens']} tokens; in the window {median:.3f} of the speed without it")
    return 0


def _tps(finished: Finished) -> float:
    if finished.stats.decode_tps is None:
        raise SmokeError("The answer was too short to be measured.", "Use a model that was made for chat.")
    return finished.stats.decode_tps


def _child_tps(wish: LoadSpec, settings: Sequence[str]) -> float:
    """Decode speed of the same request on the command line."""
    command = relaunch.command("app.cli", "chat", PROMPT, "--json", "--temperature", "0")
    command += ["--max-tokens", str(TOKENS), "--model", wish.path, "--format", wish.format, "--kv", wish.kv]
    command += ["--context", str(wish.context)] if wish.context else []
    command += ["--threads", str(wish.threads)] if wish.threads else []
    command += [] if wish.gpu_layers is None else ["--gpu-layers", str(wish.gpu_layers)]
    command += ["--device", wish.device, *(f"--set={change}" for change in settings)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise SmokeError(f"decodeck chat failed: {done.stderr.strip()}", "Run it by hand to see why.")
    return float(json.loads(done.stdout)["decode_tps"])


class _Hand:
    """A simulated person: opens the window, types, waits for what should appear."""

    def __init__(self, wish: LoadSpec, changes: Sequence[str]) -> None:
        from PySide6.QtWidgets import QApplication

        from app import main

        application = QApplication.instance() or QApplication([sys.argv[0]])
        assert isinstance(application, QApplication)
        self._application = application
        settings = ("theme=dark", "temperature=0", f"max_tokens={TOKENS}", *changes)
        self._program = main.build(application, settings, wish)
        self._wish = wish
        self._loaded: Loaded | None = None
        self._memory: MemoryReport | None = None
        self._ended: Finished | None = None
        self._written = 0
        self._failed: Failed | LoadFailed | None = None
        self._program.engine.events.connect(self._on_events)

    def open(self) -> None:
        from app import main

        self._program.window.resize(1440, 900)
        main.start(self._program, self._wish)
        self._wait(lambda: self._loaded is not None, "the model to load")

    def ask(self, text: str) -> Finished:
        """Type into a new chat, press Enter, wait for the end of the answer."""
        from PySide6.QtCore import Qt
        from PySide6.QtTest import QTest

        QTest.keyClick(self._program.window, Qt.Key.Key_N, Qt.KeyboardModifier.ControlModifier)
        self._type(text)
        self._wait(lambda: self._ended is not None, "the answer")
        return self._answer()

    def _type(self, text: str) -> None:
        """Type into the composer and press Enter."""
        from PySide6.QtCore import Qt
        from PySide6.QtTest import QTest
        from PySide6.QtWidgets import QApplication

        window = self._program.window
        self._ended, self._written = None, 0
        window.focus_composer()
        field = QApplication.focusWidget() or window
        QTest.keyClicks(field, text)
        if window.composer_text() != text:
            raise SmokeError("What was typed is not in the composer.", "Look at a screenshot.")
        QTest.keyClick(field, Qt.Key.Key_Return)

    def _answer(self) -> Finished:
        if self._ended is None or self._ended.reason not in ("stop", "length"):
            raise SmokeError("The answer did not end as it should.", "Run decodeck chat to see why.")
        return self._ended

    def screenshot(self, path: Path) -> None:
        """Ask once more in the same chat; the picture is taken while the answer is being written."""
        self._type(FOLLOW_UP)
        self._wait(lambda: self._written >= TOKENS // 3 or self._ended is not None, "the answer")
        if not self._program.window.grab().save(str(path)):
            raise SmokeError(f"{path} could not be written.", "Give a .png path in a folder that exists.")
        self._wait(lambda: self._ended is not None, "the answer")

    def report(self, finished: Finished) -> dict[str, object]:
        from app import answer

        assert self._loaded is not None
        assert self._memory is not None
        return answer.report(self._loaded.plan, self._loaded.kernels, finished, self._memory)

    def close(self) -> None:
        self._program.window.close_for_good()
        if not self._program.controller.stop():
            raise SmokeError("The program did not end within two seconds.", "Look at the log.")

    def _on_events(self, events: tuple[Event, ...]) -> None:
        for event in events:
            if isinstance(event, Loaded):
                self._loaded = event
            elif isinstance(event, MemoryReport):
                self._memory = event
            elif isinstance(event, StepStats):
                self._written = event.generated_tokens
            elif isinstance(event, Finished):
                self._ended = event
            elif isinstance(event, Failed | LoadFailed):
                self._failed = event

    def _wait(self, is_done: Callable[[], bool], what: str) -> None:
        from PySide6.QtCore import QDeadlineTimer, QEventLoop, QTimer

        loop, deadline = QEventLoop(), QDeadlineTimer(TIMEOUT_S * 1000)
        timer = QTimer(interval=POLL_MS)  # waking up more often would slow down what is measured
        timer.timeout.connect(
            lambda: loop.quit() if is_done() or self._failed or deadline.hasExpired() else None
        )
        timer.start()
        loop.exec()
        if self._failed is not None:
            raise SmokeError(self._failed.message, self._failed.hint)
        if not is_done():
            raise SmokeError(f"Waited {TIMEOUT_S} s for {what}.", "Is another program using the processor?")
