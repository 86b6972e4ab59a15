"""A kept calibration: what is read is what was kept, of this machine and version alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.calibration import AttentionSpeed, Calibration, KernelSpeed, PassSpeed
from engine.fit.correction import fresh
from engine.hardware import kernel_times
from engine.hardware.calibration_file import NAME, CalibrationFile
from engine.hardware.kernel_times import KernelTimesFile
from engine.hardware.probe import probe
from engine.machine import Hardware
from tests.fakes import HARDWARE

KNOWN = Calibration(
    read_gbps=20.5,
    when=1e9,
    threads=2,
    reads=((1 << 20, 60.0), (1 << 28, 20.5)),
    kernels=(KernelSpeed("torch bf16", 0.05, ((1, 0.02), (8, 0.03))),),
    attention=(AttentionSpeed("native", 8, 4, ((1, 0.1),), 2.0),),
    passes=(PassSpeed("native", 1e-4, 2e-5, 3e-5, 4e-4, 0.5, 0.02),),
    draw_ns=2.0,
    disk_gbps=1.5,
    corrections=(replace(fresh("cpu torch bf16"), answers=2, doubts=(0.5,)),),
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "cache" / "kernel-times.json"


def kept(path: Path, hardware: Hardware = HARDWARE) -> Calibration | None:
    return CalibrationFile(path, hardware).read()


def test_what_is_kept_is_read_again(path: Path) -> None:
    CalibrationFile(path, HARDWARE).keep(KNOWN)
    assert kept(path) == KNOWN
    assert path.with_name(NAME).is_file() and not path.exists()


def test_another_machine_or_version_knows_nothing_of_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    CalibrationFile(path, HARDWARE).keep(KNOWN)
    others = [
        replace(HARDWARE, cpu_name="Another processor"),
        replace(HARDWARE, native="avx2"),
        replace(HARDWARE, instruction_sets=("avx2",)),
    ]
    assert [kept(path, other) for other in others] == [None] * 3
    CalibrationFile(path, others[0]).keep(replace(KNOWN, read_gbps=7.0))
    found = kept(path)
    assert found is not None and found.read_gbps == 20.5  # one does not take the other's place
    monkeypatch.setattr(kernel_times, "_program_version", lambda: "another")
    assert kept(path) is None


def test_a_newer_one_takes_the_place_of_an_older_one(path: Path) -> None:
    for gbps in (1.0, 2.0, 3.0):
        CalibrationFile(path, HARDWARE).keep(replace(KNOWN, read_gbps=gbps))
    entries = json.loads(path.with_name(NAME).read_text())["calibrations"]
    assert [entry["calibration"]["read_gbps"] for entry in entries] == [3.0]


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "null", '{"calibrations": 3}', '{"calibrations": [1, null]}', "[" * 10_000, "\x00\xff"],
)
def test_a_file_that_is_something_else_holds_nothing(path: Path, text: str) -> None:
    path.parent.mkdir()
    path.with_name(NAME).write_text(text)
    assert kept(path) is None
    CalibrationFile(path, HARDWARE).keep(KNOWN)
    assert kept(path) == KNOWN


def test_a_file_that_is_missing_holds_nothing(path: Path) -> None:
    assert kept(path) is None


def test_a_place_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    CalibrationFile(tmp_path / "file" / "kernel-times.json", HARDWARE).keep(KNOWN)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("read_gbps", 0),
        ("read_gbps", -1.0),
        ("read_gbps", float("nan")),
        ("read_gbps", float("inf")),
        ("read_gbps", "20"),
        ("read_gbps", True),
        ("read_gbps", None),
        ("reads", [[1, 0.0]]),
        ("reads", [[1]]),
        ("reads", [[1.5, 2.0]]),
        ("kernels", [{"kernel": "x", "memory_ns": 1.0, "cache_ns": []}]),
        ("kernels", [{"kernel": "x", "memory_ns": 1.0, "cache_ns": [[1, 0.0]]}]),
        ("kernels", [{"kernel": "x"}]),
        ("kernels", {}),
        ("kernels", [None]),
        ("corrections", [{"place": "x", "factors": [1.0], "covariance": [], "spread": 1.0, "answers": 1}]),
        ("threads", "two"),
        ("disk_gbps", 0.0),
        ("disk_gbps", -1.0),
        ("disk_gbps", "1"),
    ],
)
def test_numbers_that_no_measurement_leaves_are_not_believed(path: Path, name: str, value: Any) -> None:
    CalibrationFile(path, HARDWARE).keep(KNOWN)
    held = json.loads(path.with_name(NAME).read_text())
    held["calibrations"][0]["calibration"][name] = value
    path.with_name(NAME).write_text(json.dumps(held))
    assert kept(path) is None


def test_a_part_that_is_not_there_is_as_not_measured(path: Path) -> None:
    CalibrationFile(path, HARDWARE).keep(KNOWN)
    held = json.loads(path.with_name(NAME).read_text())
    for name in ("kernels", "draw_ns", "disk_gbps", "corrections"):
        del held["calibrations"][0]["calibration"][name]
    path.with_name(NAME).write_text(json.dumps(held))
    assert kept(path) == replace(KNOWN, kernels=(), draw_ns=0.0, disk_gbps=None, corrections=())


def test_the_probe_reads_it_and_leaves_the_kernel_times_alone(path: Path) -> None:
    assert probe(path).calibration is None
    here = probe()
    CalibrationFile(path, here).keep(KNOWN)
    assert probe(path).calibration == KNOWN
    assert probe().calibration is None
    assert KernelTimesFile(path, here).read() == ()
