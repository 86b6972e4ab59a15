"""Positions in UTF-16 units, links and selections under a point."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PySide6.QtCore import QPointF

from ui.markdown import Span
from ui.text_layout import Style, TextLayout
from ui.text_units import cut, units

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


def test_a_column_on_the_right_is_there_in_every_direction() -> None:
    spans = (Span("بيت"),)
    assert TextLayout.of_spans(spans, Style(), 500, "right").rects(0, 3)[0].right() > 490
    assert TextLayout.of_spans(spans, Style(), 500, "left").rects(0, 3)[0].right() > 490


def test_code_that_begins_in_arabic_stands_at_the_left() -> None:
    layout = TextLayout.of_code("# مرحبا\nx = 1", (), Style("code", wraps=False))
    assert layout.rects(0, 2)[0].left() < 1
    assert layout.natural_width < 1_000


def test_a_layout_made_narrow_keeps_its_lines() -> None:
    layout = TextLayout.of_text("مرحبا بك هنا", Style(), 500)
    height, needed = layout.height, int(layout.natural_width) + 1
    layout.narrow(needed)
    (rect,) = layout.rects(0, layout.length)
    assert (layout.height, round(rect.left()) >= 0, rect.right() <= needed) == (height, True, True)


CLUSTERS = ("e\u0301", "👍🏽", "👩\u200d👩\u200d👧", "🇪🇺", "ก็", "각", "Z\u0351\u036b\u0343")


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_a_click_never_lands_inside_a_character(cluster: str) -> None:
    text = f"a{cluster}b"
    layout = TextLayout.of_text(text, Style(), 500)
    places = {layout.hit(QPointF(x, 5)) for x in range(0, 120)}
    assert places == {0, 1, 1 + units(cluster), units(text)}


@pytest.mark.parametrize("text", ["这是一个没有空格的句子" * 20, "長い文です。" * 30, "ภาษาที่ไม่มีช่องว่าง" * 15])
def test_text_without_spaces_breaks_inside_the_column(text: str) -> None:
    layout = TextLayout.of_text(text, Style(), 200)
    assert layout.natural_width <= 200.5
    assert layout.height > 2 * Style().line_px


@pytest.mark.parametrize("text", ["abc مرحبا def", "مرحبا abc שלום 12", "שלום (abc) 42!"])
def test_every_selection_in_two_directions_paints_and_cuts_the_same_text(text: str) -> None:
    layout = TextLayout.of_text(text, Style(), 500)
    for start in range(len(text)):
        for end in range(start + 1, len(text) + 1):
            assert cut(text, start, end) == text[start:end]
            (rect,) = layout.rects(start, end)
            assert 0 <= rect.left() <= rect.right() <= 500


def test_a_link_in_text_of_two_directions_is_found_where_it_is_painted() -> None:
    layout = TextLayout.of_spans((Span("مرحبا "), Span("hello", href="https://a.org")), Style(), 500)
    (rect,) = layout.rects(6, 11)
    assert rect.width() > 25
    assert layout.link_at(rect.center()) == "https://a.org"
