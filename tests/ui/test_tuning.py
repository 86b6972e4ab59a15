"""The Tuning panel: views in, the user's intents out; no dead control before there is something to set."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from ui import theme
from ui.controls import IconButton
from ui.speed_panel import NOT_MEASURED, WhyLine
from ui.tuning import TuningDock
from ui.values import (
    ContextView,
    FormatChoice,
    MemoryView,
    SpeedView,
    TuningView,
    VerdictView,
)

VIEW = TuningView(
    formats=(
        FormatChoice("file", "4-bit", "0.11 GB"),
        FormatChoice("bf16", "16-bit", "0.27 GB"),
        FormatChoice("f32", "32-bit", "0.54 GB", "no"),
    ),
    chosen_format="file",
    loaded_format="file",
    context_stops=(512, 1024, 2048, 4096, 8192),
    chosen_context=8192,
    loaded_context=8192,
    trained_context=8192,
    verdict=VerdictView("fits", "Fits · 1.2 GB spare", "0.16 GB for 8k tokens"),
)


@pytest.fixture
def dock(qtbot: QtBot) -> TuningDock:
    widget = TuningDock()
    qtbot.addWidget(widget)
    widget.resize(360, 852)
    with qtbot.waitExposed(widget):
        widget.show()
    return widget


def test_without_a_model_there_are_no_settings_but_a_guide(dock: TuningDock) -> None:
    assert not dock.formats.isVisible()
    assert not dock.context.isVisible()
    assert not dock.verdict.isVisible()
    assert not dock.apply.isVisible()


def test_settings_appear_with_a_model(dock: TuningDock) -> None:
    dock.set_tuning(VIEW)
    assert dock.formats.isVisible()
    assert dock.context.isVisible()
    assert dock.verdict.isVisible()
    assert not dock.apply.isVisible()


def test_before_data_it_says_so_and_no_longer(dock: TuningDock) -> None:
    line = dock.findChild(WhyLine)
    assert isinstance(line, WhyLine)
    assert line.isVisible()
    assert line.accessibleName() == NOT_MEASURED
    dock.set_speed(SpeedView(None, is_live=True, ttft_s=0.21))
    assert not line.isVisible()


def test_speeds_that_are_not_known_are_dashes(dock: TuningDock) -> None:
    dock.set_speed(SpeedView())
    assert dock.speed.first_token.words == "–"
    assert dock.speed.prompt_speed.words == "–"
    assert dock.speed.is_unmeasured


def test_prefill_and_first_token_stand_apart_from_the_dial(dock: TuningDock) -> None:
    dock.set_speed(SpeedView(10.0, is_live=False, ttft_s=10.0, prefill_tps=20.0, step_ms=(100.0,) * 10))
    assert dock.speed.dial.digits == "10.0"
    assert dock.speed.first_token.words == "10.0\u00a0s"
    assert dock.speed.prompt_speed.words == "20.0\u00a0tok/s"


def test_steps_are_added_once(dock: TuningDock) -> None:
    dock.set_speed(SpeedView(40.0, True, step_ms=(25.0, 26.0), is_new_answer=True))
    dock.set_speed(SpeedView(40.0, True))
    assert dock.speed.latency.steps == (25.0, 26.0)


def test_choices_leave_as_intents_and_showing_them_does_not(qtbot: QtBot, dock: TuningDock) -> None:
    with qtbot.assertNotEmitted(dock.format_chosen), qtbot.assertNotEmitted(dock.context_chosen):
        dock.set_tuning(replace(VIEW, chosen_format="bf16", chosen_context=512))
    with qtbot.waitSignal(dock.format_chosen) as told:
        qtbot.mouseClick(dock.formats.segments[2], Qt.MouseButton.LeftButton)
    assert told.args == ["f32"]
    with qtbot.waitSignal(dock.context_chosen) as told:
        qtbot.keyClick(dock.context, Qt.Key.Key_End)
    assert told.args == [8192]


@pytest.mark.parametrize(
    ("changes", "text", "name", "is_enabled"),
    [
        ({"apply": "ready"}, "Apply", "Apply", True),
        ({"apply": "ready", "reload_s": 2.2}, "Apply", "Apply, reload about 2 seconds", True),
        ({"apply": "waiting"}, "Applies after this answer", "Applies after this answer", False),
        ({"apply": "reloading", "apply_percent": 62}, "Reloading 62%", "Reloading 62%", False),
        ({"apply": "reloading"}, "Reloading", "Reloading", False),
    ],
)
def test_apply_says_what_it_waits_for(
    dock: TuningDock, changes: dict[str, object], text: str, name: str, is_enabled: bool
) -> None:
    dock.set_tuning(replace(VIEW, **changes))  # type: ignore[arg-type]
    assert dock.apply.isVisible()
    assert dock.apply.text() == text
    assert dock.apply.accessibleName() == name
    assert dock.apply.isEnabled() == is_enabled
    dock.grab()


def test_ctrl_enter_applies_only_when_there_is_something_to_apply(qtbot: QtBot, dock: TuningDock) -> None:
    dock.set_tuning(replace(VIEW, apply="ready"))
    dock.activateWindow()
    dock.context.setFocus()
    qtbot.waitUntil(dock.context.hasFocus)
    with qtbot.waitSignal(dock.apply_clicked):
        qtbot.keyClick(dock.context, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    dock.set_tuning(replace(VIEW, apply="waiting"))
    with qtbot.assertNotEmitted(dock.apply_clicked):
        qtbot.keyClick(dock.context, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)


def test_it_can_be_closed_by_its_button(qtbot: QtBot, dock: TuningDock) -> None:
    button = next(item for item in dock.findChildren(IconButton) if "Close" in item.toolTip())
    with qtbot.waitSignal(dock.close_clicked):
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


@pytest.mark.parametrize("height", [852, 600, 520])
def test_verdict_and_apply_stay_in_sight_at_every_height(qtbot: QtBot, dock: TuningDock, height: int) -> None:
    dock.set_tuning(replace(VIEW, apply="ready"))
    dock.set_memory(MemoryView("RAM", 8, 1, 1, 1, 1, 2, 2))
    dock.resize(360, height)
    QApplication.processEvents()
    for widget in (dock.verdict, dock.apply):
        bottom = widget.mapTo(dock, widget.rect().bottomLeft()).y()
        assert bottom < dock.height()
        assert widget.height() == widget.sizeHint().height()


def test_at_full_height_nothing_scrolls_and_apply_follows_the_settings(
    qtbot: QtBot, dock: TuningDock
) -> None:
    dock.set_tuning(replace(VIEW, apply="ready"))
    dock.set_memory(MemoryView("RAM", 8, 1, 1, 1, 1, 2, 2))
    dock.set_context(ContextView(100, 8192))

    def gap() -> int:
        bottom = dock.context.mapTo(dock, dock.context.rect().bottomLeft()).y()
        return dock.verdict.mapTo(dock, dock.verdict.rect().topLeft()).y() - bottom

    qtbot.waitUntil(lambda: 0 < gap() < 40)
    assert not dock.scroll_area.verticalScrollBar().isVisible()


def test_both_themes_are_drawn_and_recolour_at_once(dock: TuningDock, qapp: QApplication) -> None:
    dock.set_tuning(VIEW)
    dark = dock.grab().toImage().pixelColor(5, 300)
    theme.apply(qapp, "light")
    light = dock.grab().toImage().pixelColor(5, 300)
    assert (dark.name(), light.name()) == ("#14171c", "#f5f6f9")
