"""The status bar: parts without data are left out, privacy always stays."""

from __future__ import annotations

from dataclasses import replace

import pytest
from pytestqt.qtbot import QtBot

from ui import theme
from ui.status_bar import StatusBar
from ui.values import ReadingsView, StatusView

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


READINGS = ReadingsView("A GPU · driver 550.120", 48.4, 4.26, "0.14 kWh/M tok · $0.04", "At the wall.")


def test_readings_stand_beside_the_device_and_come_in_words(bar: StatusBar) -> None:
    bar.set_readings(READINGS)
    bar.resize(1200, 24)
    assert bar.facts_that_fit() == ("48\u00a0°C", "4.3\u00a0W", *VIEW.facts)
    name = bar.accessibleName()
    assert name.startswith("A GPU · driver 550.120. 48 degrees Celsius. 4.3 watts. 16.5 GB RAM")
    assert name.endswith("0.14 kWh/M tok · $0.04. Nothing leaves this computer")
    assert bar.toolTip() == "<qt>At the wall.</qt>"


@pytest.mark.parametrize("missing", ["device", "temperature_c", "power_w", "cost"])
def test_what_no_sensor_says_is_left_out(bar: StatusBar, missing: str) -> None:
    empty = {"device": "", "cost": ""}.get(missing)
    bar.set_readings(replace(READINGS, **{missing: empty}))
    bar.resize(1400, 24)
    words = {"device": "A GPU", "temperature_c": "Celsius", "power_w": "watts", "cost": "kWh"}
    assert words[missing] not in bar.accessibleName()
    assert len(bar.facts_that_fit()) == 4 - (missing in ("temperature_c", "power_w"))


def test_cost_gives_way_before_the_device_is_cut_off(bar: StatusBar) -> None:
    bar.set_readings(READINGS)
    shown = []
    for width in (1200, 420):
        bar.resize(width, 24)
        shown.append([part.text for part in bar._fitting_right()])
    assert shown == [[READINGS.cost, VIEW.privacy], [VIEW.privacy]]
    assert not bar.grab().isNull()
