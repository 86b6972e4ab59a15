"""Times of kernels on the disk: kept for one machine and version, and never a reason to fail."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from engine.hardware import kernel_times
from engine.hardware.kernel_times import MOST_ENTRIES, KernelTimesFile
from engine.machine import Hardware, KernelPair, KernelTimes

HARDWARE = Hardware("A processor", 2, None, None, ("avx2",), "avx2")
PAIR = KernelPair("int4z", "int4g32", 1536, 576, 2)
TIMES = KernelTimes(PAIR, 20.5, 41.0)


def entries(path: Path) -> list[dict[str, Any]]:
    listed: list[dict[str, Any]] = json.loads(path.read_text())["kernel_times"]
    return listed


def test_times_come_back_as_they_were_and_newer_ones_replace_older(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "times.json"  # the folder is made
    file = KernelTimesFile(path, HARDWARE)
    assert file.read() == ()
    other = KernelTimes(replace(PAIR, threads=1), 50.0, 60.0)
    for times in (TIMES, other, replace(TIMES, native_us=99.0)):
        file.add(times)
    assert file.read() == (other, replace(TIMES, native_us=99.0))
    assert [each.name for each in path.parent.iterdir()] == ["times.json"]  # nothing half-written is left


@pytest.mark.parametrize(
    "change", [{"cpu_name": "Another"}, {"instruction_sets": ("avx2", "avx512f")}, {"native": "avx512vnni"}]
)
def test_another_machine_or_instruction_set_has_times_of_its_own(
    tmp_path: Path, change: dict[str, Any]
) -> None:
    ours, other = (KernelTimesFile(tmp_path / "t", h) for h in (HARDWARE, replace(HARDWARE, **change)))
    ours.add(TIMES)
    assert other.read() == ()
    other.add(replace(TIMES, stock_us=1.0))
    assert (ours.read(), other.read()) == ((TIMES,), (replace(TIMES, stock_us=1.0),))


def test_another_version_of_the_program_measures_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    KernelTimesFile(tmp_path / "t", HARDWARE).add(TIMES)
    monkeypatch.setattr(kernel_times, "_program_version", lambda: "99.0")
    assert KernelTimesFile(tmp_path / "t", HARDWARE).read() == ()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff\xfe\x00",
        b"[]",
        b"3",
        b'{"kernel_times": 5}',
        b'{"kernel_times": [1, null, "x", {}]}',
        b'{"kernel_times": [{"machine"',
        b"[" * 100_000,
    ],
)
def test_a_damaged_or_foreign_file_is_ignored_and_rewritten(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "t"
    path.write_bytes(content)
    file = KernelTimesFile(path, HARDWARE)
    assert file.read() == ()
    file.add(TIMES)
    assert file.read() == (TIMES,)
    assert len(entries(path)) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"native_us": "quick"},
        {"native_us": -1.0},
        {"stock_us": float("nan")},
        {"stock_us": float("inf")},
        {"stock_us": 10**400},
        {"rows": "many"},
        {"rows": True},
        {"native_format": 4},
        {"threads": None},
    ],
)
def test_an_entry_that_no_measurement_wrote_is_no_time(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "t"
    file = KernelTimesFile(path, HARDWARE)
    file.add(TIMES)
    (entry,) = entries(path)
    path.write_text(json.dumps({"kernel_times": [entry | change]}))
    assert file.read() == ()


def test_the_file_does_not_grow_for_ever(tmp_path: Path) -> None:
    file = KernelTimesFile(tmp_path / "t", HARDWARE)
    file.add(TIMES)
    (entry,) = entries(tmp_path / "t")
    many = [entry | {"rows": rows} for rows in range(1, 2 * MOST_ENTRIES)]
    (tmp_path / "t").write_text(json.dumps({"kernel_times": many}))
    file.add(TIMES)
    assert len(entries(tmp_path / "t")) == MOST_ENTRIES
    assert TIMES in file.read()


def test_a_place_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    file = KernelTimesFile(tmp_path / "file" / "times.json", HARDWARE)
    file.add(TIMES)
    assert file.read() == ()
    KernelTimesFile(tmp_path, HARDWARE).add(TIMES)  # a folder stands there
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


def test_the_best_number_of_threads_is_kept_beside_the_times(tmp_path: Path) -> None:
    file = KernelTimesFile(tmp_path / "t", HARDWARE)
    assert file.best_threads((4, 2, 8)) is None
    file.add(TIMES)
    file.add_best_threads((4, 2, 8), 8)
    assert (file.best_threads((4, 2, 8)), file.read()) == (8, (TIMES,))
    file.add(replace(TIMES, native_us=1.0))
    assert file.best_threads((4, 2, 8)) == 8
    assert file.best_threads((2, 1)) is None  # the process may use other cores now
    file.add_best_threads((2, 1), 2)
    assert (file.best_threads((2, 1)), file.best_threads((4, 2, 8))) == (2, None)
    assert KernelTimesFile(tmp_path / "t", replace(HARDWARE, cpu_name="Another")).best_threads((2, 1)) is None


@pytest.mark.parametrize(
    "change", [{"best": 3}, {"best": "2"}, {"tried": 2}, {"best": None}, {"tried": None}]
)
def test_a_number_of_threads_that_no_trial_wrote_is_none(tmp_path: Path, change: dict[str, Any]) -> None:
    path = tmp_path / "t"
    file = KernelTimesFile(path, HARDWARE)
    file.add_best_threads((2, 1), 2)
    held = json.loads(path.read_text())
    path.write_text(json.dumps({"threads": [held["threads"][0] | change]}))
    assert file.best_threads((2, 1)) is None
