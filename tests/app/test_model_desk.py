"""The model's side of the window, where the engine takes other kernels than were planned."""

from __future__ import annotations

import threading
from collections.abc import Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import load_notices, model_choice, model_desk, settings, starter
from engine.errors import ModelFileError, WishError
from engine.events import Loaded, LoadProgress
from engine.fit.plan import plan
from engine.machine import Hardware, KernelPair, KernelTimes
from engine.types import LoadPlan, LoadSpec, ModelSpec
from tests.app.program import MODEL, Desk
from tests.fakes import HARDWARE, FakeEngine, make_spec
from ui.main_window import CHOOSE_FILE
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
    assert settings.load()[0].models[MODEL]["context"] == 1024


def test_a_disk_that_hangs_holds_up_no_other_choice_and_comes_too_late(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on = threading.Event()

    def read(path: str) -> ModelSpec:
        if "dead" in path:
            assert goes_on.wait(20)
        return make_spec(path)

    monkeypatch.setattr(model_choice, "read_spec", read)
    desk.start("/dead/first.gguf")
    desk.window.model_chosen.emit("/dead/second.gguf")
    desk.window.model_chosen.emit("/models/good.gguf")
    desk.wait(lambda: desk.chip.state == ModelState.READY)
    assert [made.model.path for made in desk.fake.loads] == ["/models/good.gguf"]
    goes_on.set()
    desk.window.model_chosen.emit("/models/last.gguf")
    desk.wait(lambda: len(desk.fake.loads) == 2 and desk.chip.state == ModelState.READY)
    assert desk.fake.loads[-1].model.path == "/models/last.gguf"


def test_the_chip_says_how_long_a_long_load_still_takes(desk: Desk) -> None:
    desk.fake.hold_load.clear()
    desk.fake.remaining_s = 8.4
    desk.start()
    desk.wait(lambda: desk.chip.seconds_left == 8)
    assert (desk.chip.state, desk.chip.percent) == (ModelState.LOADING, 0)
    desk.fake.remaining_s = None
    desk.wait(lambda: desk.chip.seconds_left is None)
    desk.fake.hold_load.set()
    desk.wait(lambda: desk.chip.state == ModelState.READY)
    assert (desk.chip.percent, desk.chip.seconds_left) == (None, None)


def test_the_dock_says_what_was_measured_of_a_reload_and_estimates_else(desk: Desk) -> None:
    desk.start_ready()
    assert desk.tuning is not None
    estimated = desk.tuning.reload_s
    desk.fake.hold_load.clear()
    desk.fake.remaining_s = 7.0
    desk.window.context_chosen.emit(1024)
    desk.window.apply_requested.emit()
    desk.wait(lambda: desk.chip.seconds_left == 7)
    desk.fake.load_pieces = 4
    desk.program.controller.models.refresh()
    assert desk.tuning is not None
    assert (desk.tuning.apply, desk.tuning.reload_s) == ("reloading", 7.0)
    desk.fake.hold_load.set()
    desk.wait(lambda: desk.chip.state == ModelState.READY)
    assert desk.tuning.reload_s != 7.0
    assert estimated is not None


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

    monkeypatch.setattr(model_choice, "probe", poor)
    desk.start_ready()
    bar = desk.window.body.status
    assert bar.accessibleDescription() == "Weights are read by decodeck x avx2. They were not built."


def test_what_only_a_gpu_could_hold_is_for_the_engine_to_refuse(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anybody has looked for GPUs a plan that does not fit the processor is no last word."""
    desk.start_ready()
    monkeypatch.setattr(model_desk, "depends_on_gpus", lambda _: True)
    desk.window.context_chosen.emit(1 << 30)
    desk.window.apply_requested.emit()
    desk.wait(lambda: len(desk.fake.loads) == 2)
    assert desk.fake.loads[1].verdict == "no"


def keep(desk: Desk, **choices: object) -> None:
    """Settings of the model that an earlier run has kept."""
    desk.program.controller._preferences.change(last_model=MODEL, models={MODEL: choices})


def test_kept_settings_that_cannot_work_are_given_up_with_one_button(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusing(spec: ModelSpec, hardware: Hardware, wish: LoadSpec, *rest: Any) -> LoadPlan:
        if wish.kv == "4":
            raise WishError("A KV cache in 4 bits needs other kernels.", "Choose 16 bits.")
        return plan(spec, hardware, wish, *rest)

    keep(desk, kv="4")
    monkeypatch.setattr(model_desk, "plan", refusing)
    monkeypatch.setattr(starter, "usable", lambda last: Path(last) if last else None)
    desk.start(None)
    desk.wait(lambda: desk.notice is not None)
    assert desk.notice is not None
    assert [action.label for action in desk.notice.actions] == ["Load with the usual settings"]
    desk.window.notice_action.emit(load_notices.LOAD_USUAL)
    desk.wait(lambda: desk.chip.state == ModelState.READY)
    assert desk.notice is None
    assert [made.wish.kv for made in desk.fake.loads] == ["auto"]
    desk.stop()
    assert MODEL not in settings.load()[0].models


def test_kept_settings_that_do_not_load_are_given_up_too(desk: Desk) -> None:
    keep(desk, kv="8")
    desk.fake.fail_load = ModelFileError("The file ends too early.", "Download it again.")
    desk.start()
    desk.wait(lambda: desk.notice is not None)
    assert desk.notice is not None
    assert [action.key for action in desk.notice.actions] == [load_notices.LOAD_USUAL, CHOOSE_FILE]
    desk.window.notice_action.emit(load_notices.LOAD_USUAL)
    desk.wait(lambda: desk.chip.state == ModelState.READY)
    assert desk.fake.loads[-1].wish.kv == "auto"


def test_a_model_waits_for_what_is_known_of_the_machine(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    is_probed = threading.Event()

    def probe(_: Path) -> Hardware:
        assert is_probed.wait(20)
        return HARDWARE

    monkeypatch.setattr(model_choice, "probe", probe)
    desk.start()
    desk.wait(lambda: desk.program.controller.models.choice._early is not None)
    assert desk.fake.loads == []
    is_probed.set()
    desk.wait(lambda: desk.chip.state == ModelState.READY)
    assert desk.fake.loads[0].hardware.cpu_name == HARDWARE.cpu_name


def test_a_machine_that_tells_nothing_loads_models_all_the_same(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def probe(_: Path) -> Hardware:
        raise OSError("no such file: /proc/cpuinfo")

    monkeypatch.setattr(model_choice, "probe", probe)
    desk.start_ready()
    assert desk.fake.loads[0].hardware.ram_total_bytes is None
