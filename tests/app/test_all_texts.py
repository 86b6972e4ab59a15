"""Every text that the window paints goes through the translations: a made-up language marks those that do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from PySide6.QtGui import QAction, QPainter, QTextLayout
from PySide6.QtWidgets import QAbstractButton, QApplication, QLabel, QLineEdit, QWidget
from pytestqt.qtbot import QtBot

from app.offers import offer_list
from engine import words
from tests.app.program import Desk
from tests.fakes import HARDWARE, FakeEngine

OPEN, CLOSE = "⟦", "⟧"
TYPED = "my own question"
ANSWER = (" some", " written", " words")
# Names, keys, and what the fakes call their model and machine.
_NAMES = (
    *(
        TYPED,
        "some written words",
        "tiny",
        "fake",
        HARDWARE.cpu_name,
        "SmolLM2-135M-Instruct",
        "English",
        "Deutsch",
    ),
    *("Ctrl", "Shift", "Return", "Enter", "Esc", "Alt", "Tab", "Left", "Right", "Up", "Down", "Home", "End"),
    *("Decodeck", "PyTorch", "PySide6", "Python", "Qt", "Inter-OFL", "Tokenizers", "safetensors", "Markdown"),
    *("LM Studio", "Jan", "GPT4All", "llama.cpp", "Ollama", "ChatGPT", "Open WebUI", "Hugging Face"),
    *(offer.name for offer in offer_list().offers),
    *("Apache-2.0", "GGUF", "CSV", "PNG", "JSON", "NF4", "KV", "RAM", "cpu"),
)
_UNITS = re.compile(r"\b(?:tok/s|GB/s|GB|MB|kB|ms|min|kWh|bit|int\d|f\d\d|bf16)\b")


class Painted:
    """All texts that are painted, and all that the made-up language gave."""

    def __init__(self) -> None:
        self.texts: set[str] = set()
        self.given: set[str] = set()

    def look_up(self, text: str, meaning: str, number: int) -> str:
        if number >= 0:
            text = text.replace("%n", f"{number:,}")
        self.given.add(text)
        return f"{OPEN}{text}{CLOSE}"

    def untranslated(self) -> list[str]:
        whole = "\n".join(self.given)
        found = {text for text in self.texts if OPEN not in text and CLOSE not in text}
        return sorted(text for text in found if is_word(text) and text.strip("… ") not in whole)


def is_word(text: str) -> bool:
    """Whether there is something to translate in ``text``."""
    if text.startswith("/"):  # where a file lies
        return False
    for name in _NAMES:
        text = text.replace(name, " ")
    return re.search(r"[^\W\d_]{2,}", _UNITS.sub(" ", text)) is not None


@pytest.fixture
def painted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Painted]:
    made = Painted()
    draw_text, draw_layout = QPainter.drawText, QTextLayout.draw

    def watched_text(painter: QPainter, *args: Any) -> Any:
        made.texts |= {each for each in args if isinstance(each, str)}
        return draw_text(painter, *args)

    def watched_layout(layout: QTextLayout, *args: Any) -> Any:
        made.texts.add(layout.text())
        return draw_layout(layout, *args)

    monkeypatch.setattr(QPainter, "drawText", watched_text)
    monkeypatch.setattr(QTextLayout, "draw", watched_layout)
    words.use(made.look_up)
    yield made
    words.use(None)


def told(window: QWidget) -> Iterator[str]:
    """What tooltips, menus and screen readers tell of all that is there, and what Qt paints by itself."""
    for each in (window, *window.findChildren(QWidget)):
        yield from (each.toolTip(), each.accessibleName(), each.accessibleDescription())
        if isinstance(each, QLabel | QAbstractButton):
            yield each.text()
        if isinstance(each, QLineEdit):
            yield each.placeholderText()
    yield from (action.text() for action in window.findChildren(QAction))


def places(desk: Desk) -> Iterator[Callable[[], object]]:
    """What opens one part of the window after the other."""
    window = desk.window
    yield window.show_library
    yield window.show_chat_page
    yield window.toggle_lab
    yield window.show_chat_page
    yield window.body.tuning.speed.why.click
    yield window.explaining.close
    yield window.open_palette
    yield window.escape
    yield window.open_picker
    yield window.escape
    yield window.settings_requested.emit
    yield window.show_shortcuts
    yield window.show_about


def test_every_text_of_the_window_can_be_translated(
    qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch, painted: Painted
) -> None:
    desk = Desk(qtbot, qapp, monkeypatch, FakeEngine(ANSWER))
    desk.window.resize(1440, 900)
    desk.start(None)
    desk.wait(lambda: desk.is_first_start is True)
    qapp.processEvents()
    desk.window.model_chosen.emit("/models/tiny.gguf")
    desk.wait(lambda: desk.tuning is not None)
    desk.send(TYPED)
    desk.wait_for_answer()
    for show in places(desk):
        show()
        for _ in range(5):
            qapp.processEvents()
        painted.texts |= set(told(desk.window))
    assert painted.untranslated() == []
    assert len(painted.given) > 300  # it was not an empty window
