"""The Lab's table: every column in its place, errors above 8 % in amber, rows in step with the chart."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from tests.ui.lab_states import TABLE
from ui import theme
from ui.lab_table import PointTable, error_text
from ui.lab_values import LabRow, LabTable


@pytest.fixture
def table(qtbot: QtBot) -> PointTable:
    made = PointTable()
    qtbot.addWidget(made)
    made.resize(1000, 300)
    made.set_table(TABLE)
    made.show()
    return made


def text(table: PointTable, row: int, column: int) -> str:
    return str(table.model().index(row, column).data())


def test_cells_stand_under_their_heads(table: PointTable) -> None:
    heads = [table.model().headerData(i, Qt.Orientation.Horizontal) for i in range(9)]
    assert heads == list(TABLE.heads)
    assert [text(table, 3, column) for column in range(9)] == [
        "8",
        "19.2",
        "20.4",
        "154",
        "163",
        "−5.8%",
        "1.52 s",
        "1.90 GB",
        "compute",
    ]
    spoken = table.model().index(3, 5).data(Qt.ItemDataRole.AccessibleTextRole)
    assert spoken == "Error: −5.8%"


@pytest.mark.parametrize(
    ("error", "words"), [(0.012, "+1.2%"), (-0.058, "−5.8%"), (0.0, "+0.0%"), (None, "–")]
)
def test_errors_have_their_sign(error: float | None, words: str) -> None:
    assert error_text(error) == words


def test_only_large_errors_are_amber(table: PointTable) -> None:
    amber = theme.palette().warn_fill.name()
    assert amber in colors(table)
    table.set_table(replace(TABLE, rows=tuple(replace(row, is_large_error=False) for row in TABLE.rows)))
    assert amber not in colors(table)


def test_a_row_that_failed_says_why(table: PointTable) -> None:
    failed = LabRow(4, ("4", *("–",) * 7), failed="There is no room.")
    table.set_table(replace(TABLE, rows=(TABLE.rows[0], failed)))
    assert text(table, 1, 5) == "There is no room."
    assert table.model().index(1, 0).data(Qt.ItemDataRole.ToolTipRole) == "There is no room."
    assert theme.palette().bad.name() in colors(table)


def test_keys_choose_rows_and_tell_their_place(table: PointTable) -> None:
    seen: list[int] = []
    table.chosen.connect(seen.append)
    table.setFocus(Qt.FocusReason.TabFocusReason)
    table.choose(2)
    assert seen == []
    QTest.keyClick(table, Qt.Key.Key_Down)
    QTest.keyClick(table, Qt.Key.Key_Up)
    assert seen == [4, 2]


def test_a_chosen_row_survives_new_figures_of_the_same_points(table: PointTable) -> None:
    table.choose(8)
    changed = tuple(replace(row, error=0.0) for row in TABLE.rows)
    table.set_table(replace(TABLE, rows=changed))
    assert table.currentIndex().row() == 3
    table.choose(None)
    assert not table.selectionModel().hasSelection()


def test_an_empty_table_is_no_trouble(table: PointTable) -> None:
    table.set_table(LabTable())
    table.choose(8)
    assert table.model().rowCount() == 0


def colors(table: PointTable) -> set[str]:
    image = table.grab().toImage()
    return {image.pixelColor(x, y).name() for x in range(image.width()) for y in range(image.height())}
