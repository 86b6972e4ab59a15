"""The window's figures of quality: read off its thread, read again when it comes to the front, shown."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import model_choice, paths
from app.fingerprint import fingerprint
from app.io_thread import IoThread
from app.quality_figures import QualityFigures
from app.quality_record import MeasuredModel, QualityFigure, keep
from engine.types import ModelSpec
from tests.app.program import Desk
from tests.fakes import FakeEngine, make_spec
from ui.tuning_values import FormatChoice

EXACT = QualityFigure("f32", 32, "torch", 4096, 22.5, 22.5, 0.0)
FILE = QualityFigure("file", 16, "torch", 4096, 22.6, 22.5, 0.003)


@pytest.fixture
def spec(tmp_path: Path) -> ModelSpec:
    path = tmp_path / "m.gguf"
    path.write_bytes(b"weights")
    return make_spec(str(path))


@pytest.fixture
def figures(qapp: QApplication) -> Iterator[QualityFigures]:
    io = IoThread()
    yield QualityFigures(io)
    io.stop()


def measure(spec: ModelSpec, *found: QualityFigure) -> None:
    keep(paths.quality_file(), MeasuredModel(fingerprint(spec), spec.name, found))


def test_the_figures_of_a_model_come_with_a_signal(
    qtbot: QtBot, figures: QualityFigures, spec: ModelSpec
) -> None:
    measure(spec, EXACT, FILE)
    assert figures.of(spec) == ()
    with qtbot.waitSignal(figures.changed):
        figures.read(spec)
    assert set(figures.of(spec)) == {EXACT, FILE}
    assert figures.of(make_spec("/other.gguf")) == ()


def test_what_is_measured_meanwhile_is_seen_when_the_window_comes_to_the_front(
    qtbot: QtBot, qapp: QApplication, figures: QualityFigures, spec: ModelSpec
) -> None:
    measure(spec, EXACT)
    with qtbot.waitSignal(figures.changed):
        figures.read(spec)
    measure(spec, FILE)
    with qtbot.waitSignal(figures.changed):
        qapp.applicationStateChanged.emit(Qt.ApplicationState.ApplicationActive)
    assert set(figures.of(spec)) == {EXACT, FILE}


def test_figures_of_a_model_that_was_left_come_too_late(
    qtbot: QtBot, figures: QualityFigures, spec: ModelSpec, tmp_path: Path
) -> None:
    other = replace(make_spec(str(tmp_path / "other.gguf")), name="other")
    Path(other.path).write_bytes(b"other weights")
    measure(spec, EXACT)
    measure(other, FILE)
    with qtbot.waitSignal(figures.changed):
        figures.read(spec)
        figures.read(other)
    assert (figures.of(spec), figures.of(other)) == ((), (FILE,))


@pytest.fixture
def desk(qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> Desk:
    return Desk(qtbot, qapp, monkeypatch, FakeEngine())


def choice(desk: Desk, key: str) -> FormatChoice:
    assert desk.tuning is not None
    return next(each for each in desk.tuning.formats if each.key == key)


def test_the_dock_shows_what_was_measured_beside_each_format(
    desk: Desk, spec: ModelSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(model_choice, "read_spec", lambda _: spec)
    measure(spec, EXACT, FILE)
    desk.start(spec.path)
    desk.wait(lambda: desk.tuning is not None and choice(desk, "file").quality != "")
    segments = desk.window.body.tuning.settings.formats.segments
    shown = {segment.choice.key: segment for segment in segments}
    assert "perplexity +0.4%" in shown["file"].accessibleName()
    assert "KL 0.003" in shown["file"].toolTip()
    assert shown["f32"].choice.note == "perplexity 22.5"
    assert shown["int8"].choice.note == "not measured"
    assert shown["nf4"].choice.note == ""


def test_without_a_measurement_the_tooltip_says_how_to_make_one(desk: Desk) -> None:
    desk.start_ready()
    assert choice(desk, "file").quality == ""
    assert "decodeck bench --quality" in choice(desk, "file").quality_tooltip
