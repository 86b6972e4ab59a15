"""``python -m tests.lateness``: how late the window's event loop runs while the transcript has much to do.

A timer is due every few milliseconds; how late it fires is how long a key press or a click would have waited.
Prints the median, the 99th percentile and the worst of each load, of this machine as it is: run it alone.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")

from PySide6.QtCore import QEventLoop, QObject, Qt, QTimer
from PySide6.QtWidgets import QApplication

from ui import theme
from ui.chat_values import MessageView
from ui.main_window import MainWindow
from ui.transcript import Transcript

GOAL_MS = 50.0  # at the 99th percentile
_TICK_S = 0.004
_STREAM_TPS = 2_000  # far above what a model writes, so that a long answer takes seconds
NUM_TOKENS = 10_000
FORMULA = (
    r"Let $x_{0}^2 + \frac{{{0}}}{{\sqrt{{2\pi}}}}$ be \(\alpha_{0} \in \mathbb{{R}}\) and",
    r"$$ \sum_{{k=0}}^{{{0}}} \frac{{f^{{(k)}}(a)}}{{k!}} = \begin{{cases}} a & b \\ c \end{{cases}} $$",
)


@dataclass(slots=True)
class Lateness:
    """Delays of the event loop, in milliseconds."""

    delays_ms: list[float] = field(default_factory=list)

    def at(self, share: float) -> float:
        """The delay that ``share`` of all stay below."""
        ordered = sorted(self.delays_ms)
        return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else 0.0


class Pulse(QObject):
    """Fires every tick and notes how much later than due that was."""

    def __init__(self) -> None:
        super().__init__()
        self.lateness = Lateness()
        self._due_s = time.perf_counter() + _TICK_S
        self._timer = QTimer(self)
        self._timer.setTimerType(Qt.TimerType.PreciseTimer)
        self._timer.setSingleShot(True)
        self._timer.timeout.connect(self._on_timeout)
        self._timer.start(round(_TICK_S * 1_000))

    def _on_timeout(self) -> None:
        now_s = time.perf_counter()
        self.lateness.delays_ms.append(max(0.0, now_s - self._due_s) * 1_000)
        self._due_s = now_s + _TICK_S
        self._timer.start(round(_TICK_S * 1_000))


def steps(load: Iterator[object]) -> Lateness:
    """Carry out one step of ``load`` at each turn of the event loop until it ends."""
    loop, pulse = QEventLoop(), Pulse()
    timer = QTimer()
    timer.setInterval(5)

    def step() -> None:
        if next(load, loop) is loop:
            timer.stop()
            loop.quit()

    timer.timeout.connect(step)
    timer.start()
    loop.exec()
    return pulse.lateness


def _view(text: str, status: str = "done", name: str = "a") -> MessageView:
    return MessageView(name, "assistant", text, status)


def _stream(transcript: Transcript, text: str, num_tokens: int) -> Iterator[None]:
    """An answer in pieces of a few characters, as many a second as the rate says."""
    size = max(1, len(text) // num_tokens)
    transcript.show_messages([_view("", "writing")])
    begun_s, at = time.perf_counter(), 0
    while at < len(text):
        due = int((time.perf_counter() - begun_s) * _STREAM_TPS) * size
        while at < min(due, len(text)):
            transcript.append_text("a", text[at : at + size])
            at += size
        yield
    transcript.set_message(_view(text))
    yield from _until_read(transcript)


def _until_read(transcript: Transcript) -> Iterator[None]:
    while transcript.is_busy:
        yield


def _scroll(transcript: Transcript) -> Iterator[None]:
    """From the end to the beginning in strides of a page, as a held Page Up does."""
    bar = transcript.verticalScrollBar()
    stride = max(bar.pageStep(), bar.maximum() // 300)
    while bar.value() > 0:
        bar.setValue(bar.value() - stride)
        yield


def _open(transcript: Transcript, views: list[MessageView]) -> Iterator[None]:
    yield
    transcript.show_messages(views)
    yield from _until_read(transcript)
    yield from _scroll(transcript)
    transcript.clear()
    yield


def _prose() -> str:
    line = "Some **words** of a long answer with `code`, a [link](https://a.org) and no end; number {0}.\n\n"
    fence = "```python\ndef step_{0}(x):\n    return x + {0}  # one more\n```\n\n"
    parts = (line.format(n) + (fence.format(n) if n % 10 == 0 else "") for n in range(440))
    return "".join(parts)


def _formulas() -> str:
    return "\n\n".join(f"{FORMULA[0].format(n)}\n\n{FORMULA[1].format(n)}" for n in range(220))


def _chat(count: int) -> list[MessageView]:
    text = "Some **bold** words.\n\n- one\n- two `x`\n\n```python\nprint({0})\n```\n\n|a|b|\n|-|-|\n|1|{0}|"
    roles = ("user", "assistant")
    return [
        MessageView(str(n), roles[n % 2], text.format(n) if n % 2 else f"Question {n}?") for n in range(count)
    ]


LOADS: dict[str, Callable[[Transcript], Iterator[None]]] = {
    "10,000-token answer": lambda transcript: _stream(transcript, _prose(), NUM_TOKENS),
    "10,000 tokens of formulas": lambda transcript: _stream(transcript, _formulas(), NUM_TOKENS),
    "1,000-message chat": lambda transcript: _open(transcript, _chat(1_000)),
    "100,000-character line": lambda transcript: _open(transcript, [_view("word " * 20_000)]),
    "100,000 characters, no space": lambda transcript: _open(transcript, [_view("x" * 100_000)]),
    "100,000-character line of code": lambda transcript: _open(
        transcript, [_view("```\n" + "y" * 100_000 + "\n```")]
    ),
    "2,000-row table": lambda transcript: _open(
        transcript, [_view("| a | b | c |\n|-|-|-|\n" + "| 1 | **two** | three words here |\n" * 2_000)]
    ),
    "3,000 lines of code": lambda transcript: _open(
        transcript, [_view("```python\n" + "value = compute(1, 'two')  # three\n" * 3_000 + "```")]
    ),
}


def main(arguments: list[str]) -> int:
    """Print a line for each load; 1 where one is over the goal."""
    parser = argparse.ArgumentParser(prog="python -m tests.lateness", description=__doc__)
    parser.add_argument("--only", choices=list(LOADS), action="append", help="only this load")
    options = parser.parse_args(arguments)
    app = QApplication.instance() or QApplication([])
    assert isinstance(app, QApplication)
    theme.apply(app, "dark")
    window = MainWindow()
    window.resize(1280, 900)
    window.show_first_start(False)
    window.show()
    print(
        f"{'load':<32}{'median':>9}{'p99':>9}{'worst':>9}   (ms; goal: p99 under {GOAL_MS:.0f})", flush=True
    )
    is_late = False
    for name in options.only or LOADS:
        found = steps(LOADS[name](window.body.centre.transcript))
        is_late |= found.at(0.99) >= GOAL_MS
        print(f"{name:<32}{found.at(0.5):>9.1f}{found.at(0.99):>9.1f}{found.at(1.0):>9.1f}", flush=True)
    window.close()
    return int(is_late)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
