"""The rate at which layers come from the disk: bytes of the files over seconds, from the disk itself."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from engine import disk_rate
from engine.disk_rate import BUDGET_S, timing_disk
from engine.errors import ModelFileError
from engine.fit.disk import disk_bytes, disk_layers
from engine.types import LoadPlan
from engine.waiting import drained
from tests.engine.models.disk import Disk, disk
from tests.engine.models.generic_models import generic_folder, plan_for

__all__ = ["disk"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return generic_folder(tmp_path_factory.mktemp("m") / "m", "qwen3_moe")


@pytest.fixture
def spilled(folder: Path, monkeypatch: pytest.MonkeyPatch) -> LoadPlan:
    """All of three layers are on the disk, and one is enough to be timed."""
    monkeypatch.setattr(disk_rate, "LEAST_BYTES", 1)
    return plan_for(folder, disk_layers=3)


def clock_of(disk: Disk, gbps: float) -> Callable[[], float]:
    """Seconds that pass as bytes are read, and at no other time."""
    return lambda: disk.num_bytes / gbps / 1e9


@pytest.mark.parametrize("gbps", [0.15, 2.0])
@pytest.mark.parametrize("format", ["f32", "bf16", "f16"])
def test_it_is_the_bytes_of_the_files_over_the_seconds_they_take(
    format: str, gbps: float, spilled: LoadPlan, disk: Disk
) -> None:
    made = plan_for(Path(spilled.model.path), format, disk_layers=3)
    assert drained(timing_disk(made, clock_of(disk, gbps))) == pytest.approx(gbps)
    assert disk.num_bytes == disk_bytes(made.model, 3)


def test_a_layer_that_was_held_up_does_not_count(spilled: LoadPlan, disk: Disk) -> None:
    first = disk_bytes(spilled.model, 3) - disk_bytes(spilled.model, 2)

    def clock() -> float:
        return disk.num_bytes / 1e9 + (0.1 if disk.num_bytes > first else 0.0)  # in the second one

    assert drained(timing_disk(spilled, clock)) == pytest.approx(1.0)


def test_a_slow_disk_is_read_no_longer_than_it_takes_to_tell(
    spilled: LoadPlan, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = disk_bytes(spilled.model, 1)
    assert disk_bytes(spilled.model, 3) == 3 * layer
    for seconds, least, layers in ((BUDGET_S, 1, 1), (BUDGET_S / 1.5, 1, 2), (BUDGET_S, layer + 1, 2)):
        monkeypatch.setattr(disk_rate, "LEAST_BYTES", least)
        rate, before = layer / seconds / 1e9, disk.num_bytes
        assert drained(timing_disk(spilled, clock_of(disk, rate))) == pytest.approx(rate)
        assert disk.num_bytes - before == layers * layer


@pytest.mark.skipif(not hasattr(os, "posix_fadvise"), reason="the system cannot be told here")
def test_what_the_system_holds_of_these_layers_is_dropped_before_they_are_read(
    spilled: LoadPlan, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    dropped: list[tuple[int, int]] = []

    def advise(descriptor: int, offset: int, nbytes: int, advice: int) -> None:
        assert advice == os.POSIX_FADV_DONTNEED and not disk.sizes
        dropped.append((offset, nbytes))

    monkeypatch.setattr(os, "posix_fadvise", advise)
    drained(timing_disk(spilled, clock_of(disk, 1.0)))
    tensors = [tensor for layer in disk_layers(spilled.model, 3) for tensor in layer]
    begin = min(tensor.offset for tensor in tensors)
    assert dropped == [(begin, disk_bytes(spilled.model, 3))]  # they lie side by side


def test_a_system_that_cannot_drop_them_is_no_error(
    spilled: LoadPlan, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "posix_fadvise", raising=False)
    assert drained(timing_disk(spilled, clock_of(disk, 1.0))) == pytest.approx(1.0)


def test_nothing_is_read_for_a_plan_that_needs_no_disk_or_too_little_of_it(
    folder: Path, spilled: LoadPlan, disk: Disk, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert drained(timing_disk(replace(spilled, disk_layers=0))) is None
    monkeypatch.setattr(disk_rate, "LEAST_BYTES", disk_bytes(spilled.model, 3) + 1)
    assert drained(timing_disk(spilled)) is None
    assert not disk.sizes


def test_files_that_are_others_now_are_told_in_words(tmp_path: Path, spilled: LoadPlan) -> None:
    made = plan_for(generic_folder(tmp_path / "m", "mixtral"), disk_layers=1)
    (tmp_path / "m" / "model.safetensors").write_bytes(b"")
    with pytest.raises(ModelFileError):
        drained(timing_disk(made))


def test_a_timing_that_is_dropped_closes_its_files(spilled: LoadPlan) -> None:
    def num_open() -> int:
        return len(os.listdir("/proc/self/fd"))

    if not Path("/proc/self/fd").exists():
        pytest.skip("open files cannot be counted here")
    drained(timing_disk(spilled))
    gc.collect()
    before = num_open()
    for pieces in (2, 10):
        timing = timing_disk(spilled)
        for _ in range(pieces):
            next(timing)
        timing.close()
    gc.collect()
    assert num_open() <= before
