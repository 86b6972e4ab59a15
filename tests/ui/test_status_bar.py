"""The status bar: parts without data are left out, privacy always stays."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pytestqt.qtbot import QtBot

from ui import theme
from ui.status_bar import StatusBar
from ui.values import StatusView

VIEW = StatusView("AMD EPYC · 2 cores", ("16.5 GB RAM", "7.2 GB free"))


@pytest.fixture
def bar(qtbot: QtBot) -> StatusBar:
    widget = StatusBar()
    qtbot.addWidget(widget)
    widget.set_view(VIEW)
    return widget


def test_it_says_what_it_shows(bar: StatusBar) -> None:
    assert (
        bar.accessibleName() == "AMD EPYC · 2 cores. 16.5 GB RAM. 7.2 GB free. Nothing leaves this computer"
    )


def test_what_has_no_room_is_said_on_hovering_as_plain_text(bar: StatusBar) -> None:
    assert bar.toolTip() == ""
    bar.set_view(replace(VIEW, tooltip="Read by <b>x</b>."))
    assert bar.toolTip() == "<qt>Read by &lt;b&gt;x&lt;/b&gt;.</qt>"
    assert bar.accessibleDescription() == "Read by <b>x</b>."


def test_facts_give_way_before_privacy(bar: StatusBar) -> None:
    bar.resize(1000, 24)
    assert bar.facts_that_fit() == VIEW.facts
    bar.resize(460, 24)
    assert bar.facts_that_fit() == VIEW.facts[:1]
    bar.resize(300, 24)
    assert bar.facts_that_fit() == ()
    image = bar.grab().toImage()
    assert theme.palette().text2.name() in {
        image.pixelColor(x, y).name() for x in range(150, 300) for y in range(24)
    }


def test_nothing_known_yet_is_an_empty_left_side(bar: StatusBar) -> None:
    bar.set_view(StatusView(""))
    assert bar.accessibleName() == "Nothing leaves this computer"
    bar.resize(600, 24)
    image = bar.grab().toImage()
    ground = theme.palette().bg1.name()
    assert {image.pixelColor(x, y).name() for x in range(300) for y in range(2, 24)} == {ground}
