"""The Lab's chart: arrows move along the points, what failed is not joined, all of it comes in words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from tests.ui.lab_states import CHART
from ui import lab_chart, theme
from ui.lab_chart import Chart
from ui.lab_values import LabChart, LabDot


@pytest.fixture
def chart(qtbot: QtBot) -> Chart:
    made = Chart()
    qtbot.addWidget(made)
    made.resize(800, 400)
    made.set_view(CHART)
    made.show()
    made.setFocus(Qt.FocusReason.TabFocusReason)
    return made


def press(chart: Chart, *keys: Qt.Key) -> None:
    for key in keys:
        QTest.keyClick(chart, key)


def test_arrows_move_along_the_points_and_stop_at_the_ends(chart: Chart) -> None:
    seen: list[int] = []
    chart.chosen.connect(seen.append)
    press(chart, *[Qt.Key.Key_Right] * 6, Qt.Key.Key_Left)
    assert seen == [1, 2, 4, 8, 16, 16, 8]
    dot = chart.chosen_dot
    assert dot is not None
    assert chart.accessibleDescription() == dot.words == "8 copies, 153.6 tok/s"


def test_up_and_down_change_the_line_and_keep_the_place(chart: Chart) -> None:
    press(chart, Qt.Key.Key_Right, Qt.Key.Key_Right, Qt.Key.Key_Down)
    assert chart.accessibleDescription() == "2 copies, 30.7 tok/s"
    press(chart, Qt.Key.Key_Down)
    assert chart.accessibleDescription() == "2 copies, 30.7 tok/s"
    press(chart, Qt.Key.Key_Up, Qt.Key.Key_Up)
    assert chart.accessibleDescription() == "2 copies, 61.4 tok/s"


def test_the_place_stays_where_the_new_lines_have_it(chart: Chart) -> None:
    press(chart, *[Qt.Key.Key_Right] * 4)
    fewer = tuple(replace(line, measured=line.measured[:2]) for line in CHART.lines)
    chart.set_view(replace(CHART, lines=fewer))
    assert chart.chosen_dot is None
    press(chart, Qt.Key.Key_Right)
    assert chart.chosen_dot is not None and chart.chosen_dot.x == 1


def test_a_click_chooses_the_dot_under_it_and_nothing_elsewhere(chart: Chart) -> None:
    seen: list[int] = []
    chart.chosen.connect(seen.append)
    frame = chart._frame()
    place = frame.at(4, 28.8 * 4).toPoint() + QPoint(chart.SIDE, 0)
    QTest.mouseClick(chart, Qt.MouseButton.LeftButton, pos=place)
    QTest.mouseClick(chart, Qt.MouseButton.LeftButton, pos=QPoint(60, 60))
    assert seen == [4]
    QTest.mouseMove(chart, place)
    assert chart.toolTip() == "4 copies, 115.2 tok/s"


def test_what_failed_breaks_the_line() -> None:
    dots = [LabDot(x, None if x in (2, 16) else float(x), "") for x in (1, 2, 4, 8, 16)]
    parts = [[dot.x for dot in part] for part in lab_chart._unbroken(dots)]
    assert parts == [[1], [4, 8]]


def test_a_failed_point_can_be_reached_and_says_why(chart: Chart) -> None:
    first = CHART.lines[0]
    failed = LabDot(2, None, "All together, 2 copies: failed. There is no room.")
    line = replace(first, measured=(first.measured[0], failed, *first.measured[2:]))
    chart.set_view(replace(CHART, lines=(line, CHART.lines[1])))
    press(chart, Qt.Key.Key_Right, Qt.Key.Key_Right)
    assert chart.accessibleDescription() == failed.words
    assert theme.palette().bad_fill.name() in colors(chart)


def test_predicted_and_measured_are_told_apart(chart: Chart) -> None:
    only = tuple(replace(line, measured=()) for line in CHART.lines)
    chart.set_view(replace(CHART, lines=only, best=None))
    assert chart.sentence() == "Predicted only, nothing is measured yet"
    dashed = chart.grab().toImage()
    chart.set_view(CHART)
    solid = chart.grab().toImage()
    accent = theme.palette().accent.name()
    count = [
        sum(
            image.pixelColor(x, y).name() == accent
            for x in range(image.width())
            for y in range(image.height())
        )
        for image in (dashed, solid)
    ]
    assert count[0] < count[1]


def test_nothing_to_show_draws_and_says_nothing(chart: Chart) -> None:
    chart.set_view(LabChart("Speed", "", ()))
    assert chart.sentence() == "Nothing to show"
    press(chart, Qt.Key.Key_Right, Qt.Key.Key_Down, Qt.Key.Key_Left)
    assert chart.grab().width() == 800


def test_names_at_the_ends_never_lie_over_each_other(chart: Chart) -> None:
    same = tuple(replace(line, measured=(), predicted=((1, 10.0), (16, 10.0))) for line in CHART.lines)
    chart.set_view(replace(CHART, lines=same, best=None))
    assert chart.grab().height() == 400


def colors(chart: Chart) -> set[str]:
    image = chart.grab().toImage()
    return {image.pixelColor(x, y).name() for x in range(image.width()) for y in range(image.height())}


@pytest.mark.parametrize("size", [(360, 300), (640, 340), (800, 400), (1100, 500)])
@pytest.mark.parametrize("x", [1, 2, 4, 8, 16])
def test_the_words_of_the_best_trade_cover_no_line(chart: Chart, size: tuple[int, int], x: int) -> None:
    chart.resize(*size)
    chart.set_view(replace(CHART, best=x))
    frame = chart._frame()
    value = next(dot.y for dot in CHART.lines[0].measured if dot.x == x)
    assert value is not None
    box = chart._free_box(frame, frame.at(x, value), 200)
    if box is None:
        assert size[0] < 640  # there is no room
        return
    drawn = [QPointF(*each) for line in CHART.lines for each in lab_chart._along(frame, line)]
    assert not any(box.contains(point) for point in drawn)
    assert frame.box.contains(box)
