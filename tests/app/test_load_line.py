"""The line that says how far a load is: the window's words, at a terminal; little elsewhere."""

from __future__ import annotations

import io

import pytest

from app.load_line import LoadLine, load_words
from engine.events import LoadProgress


class Screen(io.StringIO):
    """A terminal, or a file that stands for one."""

    def __init__(self, is_terminal: bool) -> None:
        super().__init__()
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        return self.is_terminal


def loading(percent: int, left_s: float | None = None) -> LoadProgress:
    return LoadProgress((percent + 0.5) / 100, "weights", remaining_s=left_s)


@pytest.mark.parametrize(
    ("percent", "left_s", "words"),
    [
        (43, None, "Loading 43%"),
        (43, 5.0, "Loading 43%"),
        (43, 6.2, "Loading 43% · 6 s left"),
        (99, 0.0, "Loading 99%"),
    ],
)
def test_the_rest_is_said_above_five_seconds(percent: int, left_s: float | None, words: str) -> None:
    assert load_words(loading(percent, left_s)) == words


def test_a_terminal_has_one_line_that_goes_in_the_end() -> None:
    now, screen = [0.0], Screen(is_terminal=True)
    line = LoadLine(screen, lambda: now[0])
    for step in range(100):
        now[0] = step / 100
        line(loading(step, 9.0))
    shown = screen.getvalue().split("\r\x1b[K")
    assert shown[1] == "Loading 30% · 9 s left"
    assert len(shown) == 1 + 7
    assert "\n" not in screen.getvalue()
    line.clear()
    assert screen.getvalue().endswith("\r\x1b[K")


def test_a_quick_load_shows_nothing() -> None:
    screen = Screen(is_terminal=True)
    line = LoadLine(screen, lambda: 0.0)
    line(loading(50))
    line.clear()
    assert screen.getvalue() == ""


def test_where_nobody_looks_only_a_long_load_says_something() -> None:
    screen = Screen(is_terminal=False)
    line = LoadLine(screen)
    for percent in range(100):
        line(loading(percent, 30.0 if 20 <= percent < 45 else 2.0))
    line.clear()
    assert screen.getvalue().splitlines() == [
        "decodeck: Loading 20% · 30 s left",
        "decodeck: Loading 30% · 30 s left",
        "decodeck: Loading 40% · 30 s left",
    ]


def test_without_an_error_stream_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", None)
    line = LoadLine()
    line(loading(50, 30.0))
    line.clear()
