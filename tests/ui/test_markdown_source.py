"""What is copied as Markdown reads as the same blocks again."""

from __future__ import annotations

import pytest

from ui.blocks import Item, ProseItem
from ui.growing_text import GrowingText
from ui.markdown import Code, Prose, Table, parse
from ui.selection import Selection
from ui.splitter import split
from ui.text_units import units

pytestmark = pytest.mark.usefixtures("qapp")

TEXTS = {
    "styles": "a **b** *c* ~~d~~ `e` [f](https://g.org/h) https://a.org and ***x***",
    "ticks": "`` a`b ``",
    "heading": "## Two **words**",
    "quote": "> one\n> two\n\n> > deep",
    "lists": "1. one\n   - [x] done\n   - [ ] open\n2. two\n   1. inner",
    "formula": "so $x_1^2$ is\n\n$$\n\\frac{a}{b}\n$$",
    "code": "```python\nx = 1\n\ny = '''\n```",
    "fence": "````\n```\ninner\n```\n````",
    "long code": "```c\n" + "x;\n" * 90 + "```",
    "table": "| a | b | c |\n|---|:-:|--:|\n| 1 | **2** | x \\| y |",
    "emoji": "👍 **שלום** `x`",
}


def items_of(text: str) -> list[Item]:
    growing = GrowingText(text)
    growing.read(is_open=False)
    while growing.has_unread:
        growing.read(is_open=False)
    return growing.items


def blocks_of(text: str) -> list[Prose | Code | Table]:
    found = [block for chunk in split(text) for block in parse(chunk)]
    return [block for block in found if isinstance(block, Prose | Code | Table)]


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS.keys())
def test_a_whole_answer_reads_as_the_same_blocks(text: str) -> None:
    items = items_of(text)
    selection = Selection()
    selection.take_all(items)
    assert blocks_of(selection.markdown(items)) == blocks_of(text)


def test_a_part_keeps_its_marks_and_a_formula_its_source() -> None:
    (item,) = items_of("👍 one **bold words** and $x_1^2 + y$")
    assert isinstance(item, ProseItem)
    start = units("👍 one bo")
    assert item.markdown(start, item.length - 1) == "**ld words** and $x_1^2 + y$"
    assert item.text(start, item.length) == "ld words and x₁² + y"


def test_a_part_of_code_or_of_a_table_is_its_text() -> None:
    code, table = items_of("```\nab cd\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |")
    assert code.markdown(0, 2) == "ab"
    assert table.markdown(0, 3) == "a\tb"


def test_bullets_and_blocks_are_kept_in_plain_text() -> None:
    items = items_of("# Head\n\n- one\n- two\n\n> said")
    selection = Selection()
    selection.take_all(items)
    assert selection.text(items) == "Head\n\n• one\n• two\n\nsaid"
