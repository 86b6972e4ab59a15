"""The Tuning panel: views in, the user's intents out; no dead control before there is something to set."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from tests.ui.tuning_states import DRAFT_MODEL, GPU, NO_FIT, SPILLS, TIGHT, TUNING
from ui import theme
from ui.controls import IconButton
from ui.gauge_values import ContextView, MemoryView, SpeedView, WhyView
from ui.tuning import TuningDock
from ui.tuning_values import FormatChoice, TuningView, VerdictView

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
    assert not dock.settings.formats.isVisible()
    assert not dock.settings.context.isVisible()
    assert not dock.footer.verdict.isVisible()
    assert not dock.footer.apply.isVisible()


def test_settings_appear_with_a_model(dock: TuningDock) -> None:
    dock.set_tuning(VIEW)
    assert dock.settings.formats.isVisible()
    assert dock.settings.context.isVisible()
    assert dock.footer.verdict.isVisible()
    assert not dock.footer.apply.isVisible()


def test_before_data_it_says_so(dock: TuningDock) -> None:
    assert dock.speed.why.sentence.startswith("Not measured yet")
    dock.set_speed(SpeedView(40.0, why=WhyView("Memory-bound: it reads weights")))
    assert dock.speed.why.sentence.startswith("Memory-bound")


def test_steps_are_added_once(dock: TuningDock) -> None:
    dock.set_speed(SpeedView(40.0, True, step_ms=(25.0, 26.0), is_new_answer=True))
    dock.set_speed(SpeedView(40.0, True))
    assert dock.speed.latency.steps == (25.0, 26.0)


def test_choices_leave_as_intents_and_showing_them_does_not(qtbot: QtBot, dock: TuningDock) -> None:
    with qtbot.assertNotEmitted(dock.format_chosen), qtbot.assertNotEmitted(dock.context_chosen):
        dock.set_tuning(replace(VIEW, chosen_format="bf16", chosen_context=512))
    with qtbot.waitSignal(dock.format_chosen) as told:
        qtbot.mouseClick(dock.settings.formats.segments[2], Qt.MouseButton.LeftButton)
    assert told.args == ["f32"]
    with qtbot.waitSignal(dock.context_chosen) as told:
        qtbot.keyClick(dock.settings.context, Qt.Key.Key_End)
    assert told.args == [8192]


@pytest.mark.parametrize(
    ("changes", "text", "name", "is_enabled"),
    [
        ({"apply": "ready"}, "Apply", "Apply", True),
        ({"apply": "ready", "reload_s": 2.2}, "Apply", "Apply, reload about 2 seconds", True),
        ({"apply": "ready", "reload_s": 0.4}, "Apply", "Apply, reload about 1 second", True),
        ({"apply": "waiting"}, "Applies after this answer", "Applies after this answer", False),
        ({"apply": "reloading", "apply_percent": 62}, "Reloading 62%", "Reloading 62%", False),
        ({"apply": "reloading"}, "Reloading", "Reloading", False),
    ],
)
def test_apply_says_what_it_waits_for(
    dock: TuningDock, changes: dict[str, object], text: str, name: str, is_enabled: bool
) -> None:
    dock.set_tuning(replace(VIEW, **changes))  # type: ignore[arg-type]
    assert dock.footer.apply.isVisible()
    assert dock.footer.apply.text() == text
    assert dock.footer.apply.accessibleName() == name
    assert dock.footer.apply.isEnabled() == is_enabled
    dock.grab()


def test_ctrl_enter_applies_only_when_there_is_something_to_apply(qtbot: QtBot, dock: TuningDock) -> None:
    dock.set_tuning(replace(VIEW, apply="ready"))
    dock.activateWindow()
    dock.settings.context.setFocus()
    qtbot.waitUntil(dock.settings.context.hasFocus)
    with qtbot.waitSignal(dock.apply_clicked):
        qtbot.keyClick(dock.settings.context, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)
    dock.set_tuning(replace(VIEW, apply="waiting"))
    with qtbot.assertNotEmitted(dock.apply_clicked):
        qtbot.keyClick(dock.settings.context, Qt.Key.Key_Return, Qt.KeyboardModifier.ControlModifier)


def test_it_can_be_closed_by_its_button(qtbot: QtBot, dock: TuningDock) -> None:
    button = next(item for item in dock.findChildren(IconButton) if "Close" in item.toolTip())
    with qtbot.waitSignal(dock.close_clicked):
        qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


def test_quality_stands_under_each_format_and_in_its_tooltip(dock: TuningDock) -> None:
    file = replace(VIEW.formats[0], quality="perplexity +0.4%", quality_tooltip="On 4,096 tokens")
    dock.set_tuning(replace(VIEW, formats=(file, *VIEW.formats[1:])))
    segment = dock.settings.formats.segments[0]
    assert segment.choice.note == "perplexity +0.4%"
    assert "On 4,096 tokens" in segment.toolTip()
    assert dock.settings.formats.segments[1].choice.note == ""


@pytest.mark.parametrize("height", [852, 600, 520])
def test_verdict_and_apply_stay_in_sight_at_every_height(qtbot: QtBot, dock: TuningDock, height: int) -> None:
    dock.set_tuning(replace(VIEW, apply="ready"))
    dock.set_memory(MemoryView("RAM", 8, 1, 1, 1, 1, 2, 2))
    dock.resize(360, height)
    QApplication.processEvents()
    for widget in (dock.footer.verdict, dock.footer.apply):
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
        bottom = dock.settings.context.mapTo(dock, dock.settings.context.rect().bottomLeft()).y()
        return dock.footer.verdict.mapTo(dock, dock.footer.verdict.rect().topLeft()).y() - bottom

    bar = dock.scroll_area.verticalScrollBar()
    qtbot.waitUntil(lambda: 0 < gap() < 40 and not bar.isVisible())


def test_both_themes_are_drawn_and_recolour_at_once(dock: TuningDock, qapp: QApplication) -> None:
    dock.set_tuning(VIEW)
    dark = dock.grab().toImage().pixelColor(5, 300)
    theme.apply(qapp, "light")
    light = dock.grab().toImage().pixelColor(5, 300)
    assert (dark.name(), light.name()) == ("#14171c", "#f5f6f9")


def show(dock: TuningDock, view: TuningView) -> None:
    dock.set_tuning(view)
    dock.set_memory(MemoryView("RAM", 8, 1, 1, 1, 1, 2, 2))
    dock.set_context(ContextView(100, 8192))
    QApplication.processEvents()


WINDOW_900 = 876  # less the status bar


@pytest.mark.parametrize(
    "view", [TUNING, TIGHT, GPU, SPILLS, NO_FIT], ids=["fits", "tight", "gpu", "spills", "no"]
)
def test_at_900_high_all_of_it_is_seen_without_scrolling(dock: TuningDock, view: TuningView) -> None:
    dock.resize(360, WINDOW_900)
    dock.set_speed(
        SpeedView(40.0, why=WhyView("Memory-bound: " + "it reads weights, " * 4, can_explain=True))
    )
    show(dock, replace(view, apply="ready"))
    content = dock.scroll_area.widget()
    assert content.height() <= dock.scroll_area.viewport().height()
    tops = [
        each.mapTo(dock, each.rect().topLeft()).y()
        for each in (dock.footer.verdict, dock.heat, dock.footer.apply)
    ]
    assert tops == sorted(tops)
    assert tops[-1] + dock.footer.apply.height() < WINDOW_900


@pytest.mark.parametrize("height", [676, 576])
def test_where_it_is_short_the_heatmap_scrolls_and_verdict_and_apply_stay(
    dock: TuningDock, height: int
) -> None:
    dock.resize(360, height)
    show(dock, replace(TUNING, apply="ready"))
    assert dock.scroll_area.isAncestorOf(dock.heat)
    for widget in (dock.footer.verdict, dock.footer.recommended, dock.footer.apply):
        assert widget.mapTo(dock, widget.rect().bottomLeft()).y() < height
    dock.resize(360, 1100)
    QApplication.processEvents()
    assert dock.footer.isAncestorOf(dock.heat)


def test_quality_stands_under_the_formats_where_there_is_room(dock: TuningDock) -> None:
    dock.resize(360, 1000)
    show(dock, TUNING)
    high = dock.settings.formats.height()
    dock.resize(360, 800)
    QApplication.processEvents()
    assert high == dock.settings.formats.height() + dock.settings.notes_height
    assert "perplexity +0.5%" in dock.settings.formats.segments[2].accessibleName()


def test_a_split_and_a_draft_model_have_rows_only_where_they_are(dock: TuningDock) -> None:
    show(dock, TUNING)
    assert not dock.settings.layers.isVisible()
    assert not dock.settings.draft_model.isVisible()
    show(dock, GPU)
    assert dock.settings.layers.isVisible()
    show(dock, DRAFT_MODEL)
    assert dock.settings.draft_model.isVisible()
    words = "Draft model SmolLM2-135M-Instruct-Q4_1, 0.31 GB. Press to change"
    assert dock.settings.draft_model.accessibleName() == words


def test_every_control_says_what_was_chosen(qtbot: QtBot, dock: TuningDock) -> None:
    show(dock, replace(GPU, drafting=DRAFT_MODEL.drafting))
    settings = dock.settings
    for signal, widget, expected in (
        (dock.kv_chosen, settings.kv.segments[1], ["8"]),
        (dock.drafting_chosen, settings.drafting.segments[1], ["off"]),
        (dock.draft_model_clicked, settings.draft_model, []),
        (dock.recommended_clicked, dock.footer.recommended.button, []),
        (dock.apply_clicked, dock.footer.apply, []),
    ):
        with qtbot.waitSignal(signal) as told:
            qtbot.mouseClick(widget, Qt.MouseButton.LeftButton)
        assert told.args == expected
    with qtbot.waitSignal(dock.layers_chosen) as told:
        qtbot.keyClick(settings.layers, Qt.Key.Key_Home)
    assert told.args == [0]
    with qtbot.waitSignal(dock.cell_chosen) as told:
        qtbot.keyClick(dock.heat.cells, Qt.Key.Key_Return)
    assert told.args == ["int4", 16384]


def test_tab_goes_through_the_controls_from_top_to_bottom(qtbot: QtBot, dock: TuningDock) -> None:
    dock.resize(360, WINDOW_900)
    show(dock, replace(GPU, apply="ready"))
    dock.activateWindow()
    settings, footer = dock.settings, dock.footer
    order = (
        *(
            settings.formats.segments[2],
            settings.context,
            settings.kv.segments[0],
            settings.drafting.segments[0],
        ),
        *(settings.layers, footer.verdict, dock.heat.cells, footer.recommended.button),
        *(footer.recommended.chooser, footer.apply),
    )
    order[0].setFocus(Qt.FocusReason.TabFocusReason)
    for before, after in pairwise(order):
        assert before.hasFocus()
        qtbot.keyClick(before, Qt.Key.Key_Tab)
        assert after.hasFocus(), after


def test_what_does_not_fit_is_loaded_by_a_quiet_button(dock: TuningDock) -> None:
    show(dock, NO_FIT)
    assert (dock.footer.apply.text(), dock.footer.apply.isEnabled()) == ("Load anyway", True)
    assert "does not fit" in dock.footer.apply.toolTip()


def test_while_apply_waits_it_has_the_row_to_itself(dock: TuningDock) -> None:
    for apply, is_alone in (("ready", False), ("waiting", True), ("reloading", True), ("hidden", False)):
        show(dock, replace(TUNING, apply=apply))
        assert dock.footer.recommended.isVisible() != is_alone


def test_the_list_of_draft_models_gives_the_keyboard_back(qtbot: QtBot, dock: TuningDock) -> None:
    show(dock, DRAFT_MODEL)
    dock.activateWindow()
    dock.focus_drafting()
    assert dock.settings.drafting.segments[3].hasFocus()
