"""The model's side of the window, where the engine takes other kernels than were planned."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import model_desk, settings
from engine.fit.plan import plan
from engine.types import Hardware, KernelPair, KernelTimes, Loaded, LoadPlan, LoadProgress
from tests.app.program import Desk
from tests.fakes import HARDWARE, FakeEngine
from ui.values import ModelState

TIMES = KernelTimes(KernelPair("int4", "int4g32", 96, 64, 2), 9.0, 1.0)


class MeasuringEngine(FakeEngine):
    """Learns something of the machine at every load, and loads a plan that is made with it."""

    def load(self, plan_: LoadPlan) -> Generator[LoadProgress | Loaded, None, None]:
        for event in super().load(plan_):
            if isinstance(event, Loaded):
                hardware = replace(plan_.hardware, kernel_times=(TIMES,))
                event = replace(
                    event, plan=plan(plan_.model, hardware, plan_.wish), kernels="decodeck x avx2"
                )
            yield event


@pytest.fixture
def desk(qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(qtbot, qapp, monkeypatch, MeasuringEngine())


def test_what_a_load_measured_is_in_the_next_plans(desk: Desk) -> None:
    desk.start_ready()
    assert [made.hardware.kernel_times for made in desk.fake.loads] == [()]
    desk.window.context_chosen.emit(1024)
    desk.window.apply_requested.emit()
    desk.wait(lambda: len(desk.fake.loads) == 2 and desk.chip.state == ModelState.READY)
    assert desk.fake.loads[1].hardware.kernel_times == (TIMES,)


def test_settings_from_the_dock_are_kept_where_the_engine_made_another_plan(desk: Desk) -> None:
    desk.start_ready()
    desk.window.context_chosen.emit(1024)
    desk.window.apply_requested.emit()
    desk.wait(lambda: len(desk.fake.loads) == 2 and desk.chip.state == ModelState.READY)
    assert desk.tuning is not None
    assert (desk.tuning.loaded_context, desk.tuning.apply) == (1024, "hidden")
    desk.stop()
    assert settings.load()[0].context == 1024


def test_the_status_bar_names_the_kernels_of_the_loaded_model(desk: Desk) -> None:
    desk.start_ready()
    bar = desk.window.body.status
    assert "decodeck x avx2" in bar.accessibleName()
    assert bar.toolTip() == "<qt>Weights are read by decodeck x avx2.</qt>"


def test_the_status_bar_says_what_is_lost_without_native_kernels(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def poor(_: object) -> Hardware:
        return replace(HARDWARE, native_missing="They were not built.")

    monkeypatch.setattr(model_desk, "probe", poor)
    desk.start_ready()
    bar = desk.window.body.status
    assert bar.accessibleDescription() == "Weights are read by decodeck x avx2. They were not built."
