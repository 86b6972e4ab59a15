"""Tables: shared columns, wide ones scroll, cells can be selected."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPointF

from ui.markdown import Table, parse
from ui.splitter import split
from ui.table_block import TableItem, TableShape

pytestmark = pytest.mark.usefixtures("qapp")


def make(text: str, width: int = 600) -> list[TableItem]:
    tables = [block for chunk in split(text) for block in parse(chunk) if isinstance(block, Table)]
    shape = TableShape(tables[0])
    items = [TableItem(table, shape) for table in tables]
    for item in items:
        item.fit(width)
    return items


def test_columns_that_fit_take_what_they_need() -> None:
    (item,) = make("|a|b|\n|-|-|\n|1|2|")
    assert sum(item._shape.widths(600)) < 200
    assert item.sideways.most == 0


def test_long_cells_wrap_inside_the_column() -> None:
    (short,) = make("|a|b|\n|-|-|\n|1|2|")
    (long,) = make("|a|b|\n|-|-|\n|" + "word " * 80 + "|" + "more " * 80 + "|")
    assert long.height > 2 * short.height
    assert sum(long._shape.widths(600)) <= 600


def test_many_columns_scroll_sideways() -> None:
    (item,) = make("|column" * 20 + "|\n" + "|-" * 20 + "|\n" + "|value" * 20 + "|", width=400)
    assert item.sideways.most > 0


def test_pieces_of_one_table_share_their_columns() -> None:
    items = make("|a|b|\n|-|-|\n" + "".join(f"|{n}|{'x' * n}|\n" for n in range(60)))
    assert len(items) == 4
    assert len({tuple(item._shape.widths(600)) for item in items}) == 1


def test_a_selection_runs_through_the_cells() -> None:
    (item,) = make("|a|b|\n|-|-|\n|one|two|")
    assert item.text(0, item.length) == "a\tb\none\ttwo"
    assert item.hit(QPointF(0, item.height - 16)) == 4
    assert item.hit(QPointF(599, item.height)) == item.length


def test_a_cell_of_a_whole_book_is_cut() -> None:
    (item,) = make("|a|\n|-|\n|" + "word " * 300 + "|")
    assert item.length < 1_100


def test_a_link_in_a_cell_is_found() -> None:
    (item,) = make("|a|\n|-|\n|[x](https://a.org)|")
    assert item.link_at(QPointF(14, item.height - 16)) == "https://a.org"
