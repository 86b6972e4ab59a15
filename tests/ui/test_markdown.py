"""Markdown to styled spans: nothing hostile gets through, nothing is lost."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ui import markdown
from ui.markdown import Block, Code, Prose, Rule, Span, Table, parse, visible
from ui.splitter import Chunk, split


def blocks(text: str) -> list[Block]:
    return [block for chunk in split(text) for block in parse(chunk)]


def words(found: list[Block]) -> str:
    return "".join(span.text for block in found if isinstance(block, Prose) for span in block.spans)


def test_styles_become_spans() -> None:
    (block,) = blocks("a **b** *c* ~~d~~ `e` [f](https://g.org/h)")
    assert isinstance(block, Prose)
    assert [span for span in block.spans if span.text.strip()] == [
        Span("a "),
        Span("b", bold=True),
        Span("c", italic=True),
        Span("d", strike=True),
        Span("e", code=True),
        Span("f", href="https://g.org/h"),
    ]


def test_html_is_shown_as_it_was_written() -> None:
    text = "<script>alert(1)</script> <img src='file:///etc/passwd'> <b>x</b>"
    found = blocks(text)
    assert words(found) == text
    assert all(span == Span(span.text) for block in found if isinstance(block, Prose) for span in block.spans)


@pytest.mark.parametrize(
    "address", ["http://evil.org/a.png", "file:///etc/passwd", "data:image/png;base64,AAAA", "a.png"]
)
def test_an_image_is_words_and_never_an_address_to_load(address: str) -> None:
    found = blocks(f"![alt]({address})")
    assert "alt" in words(found)
    assert address in words(found)
    assert all(
        not span.href or markdown.is_allowed(span.href)
        for b in found
        if isinstance(b, Prose)
        for span in b.spans
    )


@pytest.mark.parametrize(
    "address",
    [
        "file:///etc/passwd",
        "javascript:alert(1)",
        "data:text/html,x",
        "vbscript:x",
        "smb://host/x",
        "a.md",
        "//host/x",
        "JaVaScRiPt:x",
    ],
)
def test_other_schemes_are_no_links_but_stay_readable(address: str) -> None:
    (block,) = blocks(f"[click]({address}) <{address}>")
    assert isinstance(block, Prose)
    assert not any(span.href for span in block.spans)
    assert address in words([block])


def test_bare_addresses_become_links_without_the_full_stop() -> None:
    (block,) = blocks("see https://a.org/b?c=d, (http://e.org).")
    assert isinstance(block, Prose)
    assert [span.href for span in block.spans if span.href] == ["https://a.org/b?c=d", "http://e.org"]


def test_link_definitions_do_not_vanish() -> None:
    assert "[a]: https://b.org" in words(blocks("[a]: https://b.org"))


def test_a_line_of_dashes_is_a_rule_and_not_a_heading() -> None:
    assert [type(block) for block in blocks("Text\n---\nmore")] == [Prose, Rule, Prose]


def test_lists_carry_level_and_marker() -> None:
    found = [(b.marker, b.level) for b in blocks("- a\n  - b\n\n2. c\n3. d") if isinstance(b, Prose)]
    assert found == [("•", 1), ("•", 2), ("2.", 1), ("3.", 1)]


def test_tasks_have_a_box_in_place_of_the_bullet() -> None:
    found = blocks("- [ ] open\n- [x] **done**\n- [y] no\n1. [x] numbered")
    assert [(block.marker, words([block])) for block in found if isinstance(block, Prose)] == [
        ("☐", "open"),
        ("☑", "done"),
        ("•", "[y] no"),
        ("1.", "[x] numbered"),
    ]


def test_quotes_carry_their_depth() -> None:
    assert [(b.quote, words([b])) for b in blocks("> a\n>> b") if isinstance(b, Prose)] == [
        (1, "a"),
        (2, "b"),
    ]


@pytest.mark.parametrize(
    "text", [">" * 500 + " deep", "- " * 300 + "deep", "1. " * 200 + "deep", "> - " * 100 + "deep"]
)
def test_deep_nesting_is_shown_and_not_lost(text: str) -> None:
    found = blocks(text)
    assert "deep" in words(found)
    assert all(
        block.level + block.quote < 2 * markdown.MAX_DEPTH for block in found if isinstance(block, Prose)
    )


@pytest.mark.parametrize(
    "text",
    ["[" * 5_000, "*a " * 3_000, "`a``b" * 2_000, "![" * 4_000, "[a](" * 2_000, "&#" * 4_000, "_a__" * 3_000],
)
def test_text_that_is_slow_for_parsers_is_read_in_bounded_pieces(text: str) -> None:
    for chunk in split(text):
        assert len(chunk.source) <= 1_700
        assert parse(chunk)


def test_tables_keep_alignment_and_cells() -> None:
    (table,) = blocks("| a | b |\n|:-:|--:|\n| **1** | 2 |\n| 3 |")
    assert isinstance(table, Table)
    assert table.aligns == ("center", "right")
    assert table.rows[0][0] == (Span("1", bold=True),)
    assert len(table.rows) == 2


def test_a_further_piece_of_a_table_has_no_header() -> None:
    first, second, *_ = blocks("|a|b|\n|-|-|\n" + "\n".join(f"|{n}|x|" for n in range(40)))
    assert isinstance(first, Table)
    assert isinstance(second, Table)
    assert (bool(first.header), bool(second.header)) == (True, False)
    assert second.rows[0][0] == (Span("16"),)


def test_a_table_of_a_thousand_columns_is_cut() -> None:
    (table,) = blocks("|a" * 300 + "|\n" + "|-" * 300 + "|\n" + "|1" * 300 + "|")
    assert isinstance(table, Table)
    assert len(table.aligns) == markdown.MAX_COLUMNS
    assert all(len(row) <= markdown.MAX_COLUMNS for row in (table.header, *table.rows))


@pytest.mark.parametrize(
    "content",
    [
        "\tif x:\n\n\t\ty  \n",
        "a\u00a0b",
        "```\ninner\n```",
        "a\r\nb\r",
        "\u202ereversed",
        "x" * 5_000,
        "\n\nblank",
        "",
    ],
)
def test_code_is_exact(content: str) -> None:
    found = [block for block in blocks(f"````python\n{content}\n````\nafter") if isinstance(block, Code)]
    assert "\n".join(block.text for block in found) == content


def test_marks_that_turn_the_reading_direction_are_made_visible() -> None:
    text = words(blocks("a \u202egnp.exe\u202c b \u2066x\u2069"))
    assert not set(text) & set("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
    assert text.count("\ufffd") == 4


@settings(deadline=None)
@given(st.text(max_size=400))
def test_visible_text_keeps_its_length_and_can_always_be_encoded(text: str) -> None:
    assert len(visible(text)) == len(text)
    visible(text + "\ud800").encode("utf-8")


@settings(max_examples=200, deadline=None)
@given(st.text("ab \n`-#>|1.*~[](!<>&;_\\:/", max_size=200))
def test_no_text_makes_it_fail(text: str) -> None:
    for block in blocks(text):
        assert isinstance(block, Block)


def test_an_unknown_language_word_is_kept_as_text() -> None:
    (code,) = parse(Chunk("code", "x", language="py\u202ethon"))
    assert isinstance(code, Code)
    assert code.language == "py\ufffdthon"
