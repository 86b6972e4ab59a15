"""Blocks of code: colours when complete, long lines folded, scrolling sideways."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QImage, QPainter

from ui.blocks import Look
from ui.code_block import BAR, COPY, CodeItem, CodeSource
from ui.markdown import Code
from ui.text_layout import Mark, Style, TextLayout

pytestmark = pytest.mark.usefixtures("qapp")
PYTHON = "def f(x):\n    return 1"


def make(text: str, language: str = "python", *, is_closed: bool = True) -> CodeItem:
    source = CodeSource(language)
    source.set_piece(0, text)
    source.is_closed = is_closed
    item = CodeItem(Code(text, language), source, 0, is_tail=not is_closed)
    item.fit(600)
    return item


def paint(item: CodeItem) -> Look:
    image = QImage(600, item.height, QImage.Format.Format_ARGB32)
    painter = QPainter(image)
    look = Look()
    item.paint(painter, QRectF(0, 0, 600, item.height), look)
    painter.end()
    return look


def test_colours_come_only_when_the_fence_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[Mark]] = []
    real = TextLayout.of_code

    def watched(text: str, marks: Iterable[Mark], style: Style) -> TextLayout:
        seen.append(list(marks))
        return real(text, seen[-1], style)

    monkeypatch.setattr(TextLayout, "of_code", watched)
    item = make(PYTHON, is_closed=False)
    assert seen[-1] == []
    item.source.is_closed = True
    paint(item)
    assert Mark(0, 3, "code_keyword") in seen[-1]


def test_code_that_is_still_being_coloured_asks_to_be_painted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    item = make(PYTHON)
    monkeypatch.setattr(item.source, "marks", lambda index: None)
    item._is_colored = False
    assert paint(item).wants_more


def test_a_line_of_a_hundred_thousand_characters_is_folded_but_kept() -> None:
    item = make("y" * 100_000, "")
    assert item.length < 1_100
    assert "99,000 more characters" in item.text(0, item.length)
    assert item.source.text() == "y" * 100_000


def test_long_lines_scroll_sideways_and_have_a_bar() -> None:
    item = make("z" * 300, "")
    assert item.sideways.most > 0
    assert item.action_at(QPointF(100, item.height - 4)) == BAR
    assert item.sideways.scroll_to(99_999)
    assert item.sideways.offset == item.sideways.most
    assert not make("short").sideways.most


def test_copy_lies_in_the_header() -> None:
    item = make("x")
    assert item.action_at(QPointF(560, 16)) == COPY
    assert item.action_at(QPointF(100, 16)) == ""
    assert item.action_at(QPointF(560, 60)) == ""


def test_the_height_is_known_before_it_is_laid_out() -> None:
    source = CodeSource("")
    source.set_piece(0, "a\nb\nc")
    item = CodeItem(Code("a\nb\nc"), source, 0, is_tail=False)
    item.guess(600)
    guessed = item.height
    item.fit(600)
    assert item.height == guessed


def test_hostile_characters_are_shown_and_not_obeyed() -> None:
    item = make("a\u202eb\x00c\u2028d", "")
    assert item.text(0, item.length) == "a\ufffdb\ufffdc\ufffdd"
