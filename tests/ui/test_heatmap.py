"""The heatmap: cells that say fit and speed in words, chosen with a click or keys; colour is never alone."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QModelIndex, QPoint, QPointF, Qt
from PySide6.QtGui import QImage, QWheelEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ui import theme
from ui.heatmap import LEAST_ROW_PX, ROW_PX, HeatMap
from ui.tuning_values import HeatCell, HeatRow, HeatView

ROWS = (
    HeatRow(
        "bf16",
        "16-bit",
        (HeatCell(2048, "fits", 16.4), HeatCell(4096, "spills", 3.3), HeatCell(8192, "no", None)),
    ),
    HeatRow(
        "int4",
        "4-bit",
        (HeatCell(2048, "fits", 50.2), HeatCell(4096, "tight", 48.0), HeatCell(8192, "fits", 9.94)),
    ),
)
VIEW = HeatView(ROWS, ("int4", 4096), ("int4", 2048))


@pytest.fixture
def heat(qtbot: QtBot) -> HeatMap:
    widget = HeatMap()
    qtbot.addWidget(widget)
    widget.resize(328, 80)
    widget.set_view(VIEW)
    with qtbot.waitExposed(widget):
        widget.show()
    return widget


@pytest.fixture
def told(heat: HeatMap) -> list[tuple[str, int]]:
    places: list[tuple[str, int]] = []
    heat.cell_chosen.connect(lambda format, context: places.append((format, context)))
    return places


def index(heat: HeatMap, row: int, column: int) -> QModelIndex:
    return heat.cells.heat.index(row, column)


def test_without_a_view_it_takes_no_room(heat: HeatMap) -> None:
    heat.set_view(None)
    assert heat.isHidden()
    assert heat.num_rows == 0


def test_every_cell_is_named_in_words(heat: HeatMap) -> None:
    def name(row: int, column: int) -> str:
        return str(index(heat, row, column).data(Qt.ItemDataRole.AccessibleTextRole))

    assert name(1, 0) == "4-bit, 2k, fits, 50 tok/s"
    assert name(1, 1) == "4-bit, 4k, fits tightly, 48 tok/s"
    assert name(0, 1) == "16-bit, 4k, spills, 3.3 tok/s"
    assert name(0, 2) == "16-bit, 8k, does not fit"


def test_predictions_are_whole_from_ten_up_and_a_dash_does_not_fit(heat: HeatMap) -> None:
    assert [index(heat, 0, column).data() for column in range(3)] == ["16", "3.3", "–"]
    assert [index(heat, 1, column).data() for column in range(3)] == ["50", "48", "9.9"]


def test_a_click_chooses_and_showing_tells_nothing(
    qtbot: QtBot, heat: HeatMap, told: list[tuple[str, int]]
) -> None:
    heat.set_view(replace(VIEW, chosen=("bf16", 2048)))
    assert told == []
    place = heat.cells.visualRect(index(heat, 0, 2)).center()
    qtbot.mouseClick(heat.cells.viewport(), Qt.MouseButton.LeftButton, pos=place)
    assert told == [("bf16", 8192)]  # what does not fit can be chosen, to see by how much


@pytest.mark.parametrize("key", [Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space])
def test_arrows_move_and_enter_chooses(
    qtbot: QtBot, heat: HeatMap, told: list[tuple[str, int]], key: Qt.Key
) -> None:
    heat.cells.setFocus(Qt.FocusReason.TabFocusReason)
    assert heat.cells.currentIndex() == index(heat, 1, 1)  # where the choice is
    for step in (Qt.Key.Key_Right, Qt.Key.Key_Up, Qt.Key.Key_Left):
        qtbot.keyClick(heat.cells, step)
    assert told == []
    qtbot.keyClick(heat.cells, key)
    assert told == [("bf16", 4096)]


def test_ctrl_enter_is_left_to_apply(qtbot: QtBot, heat: HeatMap, told: list[tuple[str, int]]) -> None:
    heat.cells.setFocus()
    qtbot.keyClick(heat.cells, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    assert told == []


def test_a_new_view_leaves_the_keyboard_where_it_is(qtbot: QtBot, heat: HeatMap) -> None:
    heat.activateWindow()
    heat.cells.setFocus(Qt.FocusReason.TabFocusReason)
    qtbot.waitUntil(heat.cells.hasFocus)
    qtbot.keyClick(heat.cells, Qt.Key.Key_Up)
    heat.set_view(replace(VIEW, chosen=("int4", 8192)))
    assert heat.cells.currentIndex() == index(heat, 0, 1)


def test_the_wheel_scrolls_the_panel(heat: HeatMap, told: list[tuple[str, int]]) -> None:
    point = QPointF(10, 10)
    no_button, no_key = Qt.MouseButton.NoButton, Qt.KeyboardModifier.NoModifier
    phase = Qt.ScrollPhase.NoScrollPhase
    event = QWheelEvent(point, point, QPoint(), QPoint(0, -120), no_button, no_key, phase, False)
    QApplication.sendEvent(heat.cells.viewport(), event)
    assert not event.isAccepted()


def picture(heat: HeatMap, row: int, column: int) -> QImage:
    box = heat.cells.visualRect(index(heat, row, column))
    return heat.cells.viewport().grab(box).toImage()


def colors_of(image: QImage) -> list[str]:
    return [image.pixelColor(x, y).name() for x in range(image.width()) for y in range(image.height())]


def test_what_does_not_simply_fit_is_told_by_shape_too(heat: HeatMap) -> None:
    colors = theme.palette()
    notch, plain, hatched = (colors_of(picture(heat, 0, column)) for column in (1, 0, 2))
    assert colors.warn_fill.name() in notch and colors.heat_warn.name() in notch
    assert colors.warn_fill.name() not in plain and colors.heat_ok.name() in plain
    ground = hatched.count(colors.heat_bad.name())
    assert 0 < ground < plain.count(colors.heat_ok.name()) / 2  # the lines take more than half of it


def test_chosen_is_solid_and_loaded_is_dashed(heat: HeatMap) -> None:
    """Of a row of pixels along the lower edge, those that are nearer to the accent than to the ground."""
    accent, ground = theme.palette().accent, theme.palette().heat_ok

    def share(row: int, column: int) -> float:
        image = picture(heat, row, column)
        rows = range(image.height() - 4, image.height() - 1)
        line = [max(image.pixelColor(x, y).blue() for y in rows) for x in range(8, image.width() - 8)]
        near = [accent.blue() - each < each - ground.blue() for each in line]
        return sum(near) / len(near)

    heat.set_view(replace(VIEW, chosen=("bf16", 2048)))
    assert share(0, 0) == 1
    assert 0.3 < share(1, 0) < 0.9
    assert share(1, 2) == 0


def test_rows_are_as_high_as_there_is_room_within_bounds(heat: HeatMap) -> None:
    for asked, given in ((100, ROW_PX), (16, 16), (1, LEAST_ROW_PX)):
        heat.set_row_height(asked)
        assert heat.height() == heat.height_for(given)
        assert heat.cells.rowHeight(1) == given
        bottom = heat.cells.visualRect(index(heat, 1, 0)).bottom()
        assert bottom < heat.cells.height()


def test_columns_share_the_width_to_the_pixel(heat: HeatMap) -> None:
    for width in (328, 329, 330):
        heat.resize(width, heat.height())
        widths = [heat.cells.columnWidth(column) for column in range(3)]
        assert sum(widths) == heat.cells.width()
        assert max(widths) - min(widths) <= 1


def test_other_formats_and_contexts_take_the_place_of_the_old(heat: HeatMap) -> None:
    rows = tuple(HeatRow(key, key, (HeatCell(512, "fits", 1.0),)) for key in ("a", "b", "c"))
    heat.set_view(HeatView(rows, ("a", 512), ("b", 512)))
    assert (heat.cells.heat.rowCount(), heat.cells.heat.columnCount()) == (3, 1)
    assert heat.height() == heat.height_for(ROW_PX)
    heat.grab()
