"""Positions in UTF-16 units, links and selections under a point."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QPointF

from ui.markdown import Span
from ui.text_layout import Style, TextLayout, cut, units

pytestmark = pytest.mark.usefixtures("qapp")


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=40), st.integers(0, 40))
def test_cutting_at_any_character_gives_the_text_back(text: str, at: int) -> None:
    middle = units(text[:at])
    assert cut(text, 0, middle) + cut(text, middle, units(text)) == text


def test_an_emoji_counts_two_units() -> None:
    assert (units("a🧊"), cut("a🧊b", 1, 3)) == (3, "🧊")


def test_a_link_behind_an_emoji_is_found_where_it_is_painted() -> None:
    layout = TextLayout.of_spans((Span("🧊🧊🧊 "), Span("link", href="https://a.org")), Style(), 500)
    (rect,) = layout.rects(7, 11)
    assert layout.link_at(rect.center()) == "https://a.org"
    assert layout.link_at(QPointF(2, 5)) == ""


def test_lines_are_as_high_as_the_style_says() -> None:
    layout = TextLayout.of_text("a\nb\nc", Style(line_px=24), 500)
    assert layout.height == 72
    assert layout.hit(QPointF(0, 30)) == 2


def test_a_word_that_is_too_long_breaks_anywhere() -> None:
    layout = TextLayout.of_text("x" * 1_000, Style(), 200)
    assert layout.natural_width <= 201


def test_a_paragraph_that_begins_in_arabic_reads_from_the_right() -> None:
    layout = TextLayout.of_text("مرحبا", Style(), 500)
    assert layout.rects(0, 1)[0].left() > 400


def test_a_link_in_text_of_two_directions_is_found_where_it_is_painted() -> None:
    layout = TextLayout.of_spans((Span("مرحبا "), Span("hello", href="https://a.org")), Style(), 500)
    (rect,) = layout.rects(6, 11)
    assert rect.width() > 25
    assert layout.link_at(rect.center()) == "https://a.org"
