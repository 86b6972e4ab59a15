"""Chunks of a Markdown stream: the same however the text arrives, and bounded."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ui import splitter
from ui.splitter import BlockSplitter, Chunk, split, split_plain

SAMPLE = """Intro line
second line

1. First:
   ```python
   x = 1

   y = 2
   ```
   more
1. Second
   - nested
     1. deep
# Heading
Words before
| a | b |
|---|:-:|
| 1 | 2 |
after
> quote
> more

    indented

    code
***
~~~~
``` inside
~~~~
- end"""


def stream(text: str, size: int) -> list[Chunk]:
    made = BlockSplitter()
    chunks: list[Chunk] = []
    for start in range(0, len(text), size):
        made.push(text[start : start + size])
        made.tail()
        chunks += made.take()
    made.finish()
    return chunks + made.take()


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
def test_pieces_of_any_size_give_the_same_chunks(size: int) -> None:
    assert stream(SAMPLE, size) == split(SAMPLE)


@settings(max_examples=150, deadline=None)
@given(st.text("ab \n`-#>|1.*~\t\r\u202e", max_size=120), st.integers(1, 9))
def test_any_text_is_cut_alike_in_pieces_and_at_once(text: str, size: int) -> None:
    assert stream(text, size) == split(text)


@given(st.text("ab \n`-#>|1.*~", max_size=120))
def test_the_tail_after_everything_but_the_last_line_never_changes_what_is_final(text: str) -> None:
    made = BlockSplitter()
    made.push(text)
    final = made.take()
    made.tail()
    made.finish()
    assert final + made.take() == split(text)


def test_kinds_and_levels_follow_the_lists() -> None:
    shapes = [(chunk.kind, chunk.level, chunk.number) for chunk in split(SAMPLE)]
    assert shapes[:7] == [
        ("text", 0, None),
        ("text", 0, 1),
        ("code", 1, None),
        ("text", 1, None),
        ("text", 0, 2),
        ("text", 1, None),
        ("text", 2, 1),
    ]


def test_code_in_a_list_item_loses_the_indent_of_the_item_only() -> None:
    code = [chunk.source for chunk in split(SAMPLE) if chunk.kind == "code"]
    assert code == ["x = 1\n\ny = 2", "``` inside"]


def test_a_long_code_block_is_cut_in_pieces_of_one_block() -> None:
    lines = [f"line {number}" for number in range(100)]
    pieces = split("```c\n" + "\n".join(lines) + "\n```\nafter")
    assert "\n".join(piece.source for piece in pieces[:-1]) == "\n".join(lines)
    assert [piece.is_first for piece in pieces[:-1]] == [True, False, False]
    assert [piece.is_last for piece in pieces[:-1]] == [False, False, True]
    assert len({piece.code_id for piece in pieces[:-1]}) == 1


def test_an_unclosed_fence_is_code_up_to_the_end() -> None:
    made = BlockSplitter()
    made.push("```py\na = 1\nb")
    assert made.tail() == [Chunk("code", "a = 1\nb", language="py", code_id=1, is_last=False)]


def test_a_fence_of_four_holds_a_fence_of_three() -> None:
    assert [c.source for c in split("````\n```\nx\n```\n````")] == ["```\nx\n```"]


def test_a_table_needs_a_delimiter_row_with_as_many_cells() -> None:
    assert [c.kind for c in split("| a | b |\n|---|---|")] == ["table"]
    assert [c.kind for c in split("| a | b |\n|---|")] == ["text"]


def test_a_long_table_repeats_its_header_in_every_piece() -> None:
    pieces = split("|a|b|\n|-|-|\n" + "\n".join(f"|{n}|x|" for n in range(40)))
    assert all(piece.source.startswith("|a|b|\n|-|-|\n") for piece in pieces)
    assert [piece.is_joined for piece in pieces] == [False, True, True]


@pytest.mark.parametrize(
    "text", ["x" * 100_000, "word " * 20_000, "a\n" * 20_000, "> q\n" * 5_000, "- a " * 9_000]
)
def test_no_chunk_is_larger_than_its_bound(text: str) -> None:
    chunks = split(text)
    assert max(len(chunk.source) for chunk in chunks) <= splitter.MAX_CHARS + splitter.MAX_LINES
    joined = "".join(chunk.source for chunk in chunks)
    assert "".join(joined.split()) == "".join(text.split())


def test_the_tail_stays_bounded_while_one_line_grows() -> None:
    made = BlockSplitter()
    for _ in range(2_000):
        made.push("some words of one line that never ends ")
        assert sum(len(chunk.source) for chunk in made.tail()) <= 2 * splitter.MAX_CHARS
        made.take()


def test_numbers_that_do_not_count_are_counted() -> None:
    assert [c.number for c in split("1. a\n1. b\n1. c")] == [1, 2, 3]
    assert [c.number for c in split("3. a\n4. b\n9. c")] == [3, 4, 9]


def test_a_year_at_the_start_of_a_line_is_no_list() -> None:
    assert [c.source for c in split("It was\n1986. A great year")] == ["It was\n1986. A great year"]


def test_a_marker_that_may_still_become_something_else_is_held_back() -> None:
    made = BlockSplitter()
    made.push("Text\n-")
    assert [chunk.source for chunk in made.tail()] == ["Text"]
    made.push("- not a rule")
    assert [chunk.source for chunk in made.tail()] == ["Text\n-- not a rule"]


@given(st.text(max_size=5_000))
def test_plain_pieces_hold_all_of_the_text(text: str) -> None:
    assert "".join(split_plain(text)).replace("\n", "") == text.replace("\n", "")


def test_short_plain_text_is_one_piece() -> None:
    assert split_plain("a\n\nb") == ["a\n\nb"]
