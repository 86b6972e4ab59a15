"""Cores, hyper-threads, affinity and quotas, on recorded machines."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from engine.hardware import cgroup, cores
from engine.hardware.cgroup import cpu_quota
from tests.engine.hardware.test_cgroup import Machine

Describe = Callable[..., None]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setattr(cgroup, "_SELF", made.proc)
    return made


@pytest.fixture
def describe(machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Describe:
    """Lets the system describe itself: the core of each processor, and those allowed."""

    def made(cores_of: list[int], allowed: set[int] | None = None) -> None:
        for number, core in enumerate(cores_of):
            folder = tmp_path / "cpu" / f"cpu{number}" / "topology"
            folder.mkdir(parents=True)
            (folder / "core_id").write_text(f"{core}\n")
            (folder / "physical_package_id").write_text("0\n")
        may_use = set(range(len(cores_of))) if allowed is None else allowed
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: may_use, raising=False)
        monkeypatch.setattr(cores, "_CPUS", tmp_path / "cpu")

    return made


EIGHT = [0, 0, 1, 1, 2, 2, 3, 3]  # four cores of two threads each


@pytest.mark.parametrize(
    ("cores_of", "allowed", "physical", "logical"),
    [
        (EIGHT, None, 4, 8),
        (EIGHT, {0, 1}, 1, 2),  # the two threads of one core
        (EIGHT, {0, 2, 4}, 3, 3),
        ([0, 1], None, 2, 2),
        ([0], None, 1, 1),
    ],
)
def test_cores_and_threads_are_those_that_the_process_may_use(
    cores_of: list[int], allowed: set[int] | None, physical: int, logical: int, describe: Describe
) -> None:
    describe(cores_of, allowed)
    assert (cores.physical_cores(), cores.logical_cores()) == (physical, logical)


@pytest.mark.parametrize(
    ("text", "quota", "physical", "logical"),
    [
        ("max 100000\n", None, 4, 8),
        ("300000 100000\n", 3.0, 3, 3),
        ("150000 100000\n", 1.5, 1, 1),
        ("20000 100000\n", 0.2, 1, 1),
        ("lots\n", None, 4, 8),
        ("", None, 4, 8),
        ("100 0\n", None, 4, 8),
        (None, None, 4, 8),
    ],
)
def test_a_containers_quota_is_never_exceeded(
    text: str | None, quota: float | None, physical: int, logical: int, machine: Machine, describe: Describe
) -> None:
    describe(EIGHT)
    root = machine.mount("", "cgroup2", "rw")
    machine.join("0::/")
    if text is not None:
        (root / "cpu.max").write_text(text)
    assert cpu_quota() == quota
    assert (cores.physical_cores(), cores.logical_cores()) == (physical, logical)


def test_the_tightest_of_nested_groups_counts(machine: Machine) -> None:
    root = machine.mount("", "cgroup2", "rw")
    machine.join("0::/a/b")
    (root / "a" / "b").mkdir(parents=True)
    for folder, text in ((root, "max 1000"), (root / "a", "2000 1000"), (root / "a" / "b", "6000 1000")):
        (folder / "cpu.max").write_text(text)
    assert cpu_quota() == 2.0


@pytest.mark.parametrize(("quota_us", "expected"), [("250000", 2.5), ("-1", None), ("", None)])
def test_the_first_version_of_control_groups_has_its_own_files(
    quota_us: str, expected: float | None, machine: Machine
) -> None:
    root = machine.mount("cpu,cpuacct", "cgroup", "rw,cpu,cpuacct")
    machine.join("2:cpu,cpuacct:/x")
    (root / "x").mkdir()
    (root / "x" / "cpu.cfs_quota_us").write_text(f"{quota_us}\n")
    (root / "x" / "cpu.cfs_period_us").write_text("100000\n")
    assert cpu_quota() == expected


@pytest.mark.parametrize(
    ("cores_of", "counts"), [(EIGHT, (4, 2, 8)), ([0, 1], (2, 1)), ([0], (1,)), ([0, 0], (1, 2))]
)
def test_counts_worth_a_trial_begin_with_one_for_each_core(
    cores_of: list[int], counts: tuple[int, ...], describe: Describe
) -> None:
    describe(cores_of)
    assert cores.thread_counts() == counts


def test_a_system_that_tells_nothing_has_its_processors(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cores, "_CPUS", tmp_path / "none")
    monkeypatch.delattr(os, "sched_getaffinity", raising=False)
    monkeypatch.setattr(os, "cpu_count", lambda: 6)
    monkeypatch.setattr(psutil, "cpu_count", lambda logical: 3)
    assert (cores.physical_cores(), cores.logical_cores(), cpu_quota()) == (3, 6, None)
    monkeypatch.setattr(psutil, "cpu_count", lambda logical: None)
    assert cores.physical_cores() == 6
    monkeypatch.setattr(os, "cpu_count", lambda: None)
    assert (cores.physical_cores(), cores.logical_cores()) == (1, 1)
