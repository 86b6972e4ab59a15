"""The registry: medians of a fake clock, candidates that fail, and a choice that is made once."""

from __future__ import annotations

import os
import types
from collections.abc import Callable, Generator
from dataclasses import replace
from itertools import accumulate, cycle
from pathlib import Path

import pytest
import torch

from engine.engine import Engine
from engine.errors import MemoryLimitError
from engine.events import Loaded
from engine.fit import kernels as fit_kernels
from engine.fit.kernels import kernel_pair
from engine.fit.plan import plan
from engine.hardware import probe as machine
from engine.hardware.kernel_times import KernelTimesFile
from engine.machine import KernelPair, KernelTimes
from engine.models.spec import read_spec
from engine.native import library
from engine.native.library import NativeLibrary
from engine.quant import bits_and_bytes, candidates, registry
from engine.quant.candidates import Bench, Candidate, Cursor, Maker, Memory, makers
from engine.quant.registry import KernelChoice, Measured, Timing, measure, time_pair
from engine.types import LoadPlan, LoadSpec
from engine.waiting import drained
from tests.engine.fit.test_kernels import NATIVE, large_spec
from tests.engine.tiny import tiny_folder
from tests.fakes import HARDWARE, make_spec

SHAPE = (96, 256)  # whole blocks of every format
Choice = Callable[[KernelPair], KernelTimes | None]


@pytest.fixture(autouse=True)
def _little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "LEAST_SPREAD_BYTES", 1 << 20)
    monkeypatch.setattr(registry, "cache_bytes", lambda: None)


class Clock:
    """Seconds that pass only where a product takes them."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def counting(*steps_s: float) -> Callable[[], float]:
    """A clock that goes on by these seconds in turn each time it is read."""
    return accumulate(cycle(steps_s)).__next__


def fake(clock: Clock, name: str, *row_s: float, nbytes: int = 1_000_000) -> Maker:
    """A candidate whose products take the seconds of ``row_s`` in turn, again and again, for each row."""

    def make(bench: Bench) -> Candidate:
        def prepare(rows: int) -> Callable[[int], object]:
            calls = iter(range(1 << 30))

            def multiply(index: int) -> None:
                assert 0 <= index < 3
                clock.now += rows * row_s[next(calls) % len(row_s)]

            return multiply

        return Candidate(name, "fake", 8.0, nbytes, 3, Cursor(), prepare)

    return make


def run(
    clock: Clock, contenders: dict[str, Maker], rows: tuple[int, ...] = (1,), **options: int
) -> list[Measured]:
    return measure([SHAPE], rows, 1, clock=clock, contenders=contenders, **options)


def test_a_time_is_the_median_of_samples_and_speed_comes_from_the_bytes_read() -> None:
    clock = Clock()
    contenders = {"steady": fake(clock, "steady", 0.002), "rough": fake(clock, "rough", 0.001, 0.001, 9.0)}
    steady, rough = run(clock, contenders, repeats=5)
    assert steady.us == pytest.approx(2000.0)
    assert steady.gbps == pytest.approx(0.5)
    assert (steady.name, steady.shape, steady.rows) == ("steady", SHAPE, 1)
    assert rough.us == pytest.approx(1000.0)


def test_candidates_take_turns() -> None:
    order: list[str] = []

    def noting(name: str) -> Maker:
        def make(bench: Bench) -> Candidate:
            return Candidate(name, "fake", 8.0, 1, 1, Cursor(), lambda rows: lambda index: order.append(name))

        return make

    clock = Clock()
    measure(
        [SHAPE], [1], 1, clock=clock, contenders={"a": noting("a"), "b": noting("b")}, repeats=3, sample_s=0
    )
    assert order == ["a", "a", "b", "b", "a", "b", "a", "b", "a", "b"]


def test_every_shape_and_number_of_rows_is_there_once() -> None:
    clock = Clock()
    measured = measure(
        [SHAPE, (32, 64)], [1, 4], 1, clock=clock, contenders={"a": fake(clock, "a", 0.001)}, repeats=2
    )
    assert [(each.shape, each.rows) for each in measured] == [
        (SHAPE, 1),
        (SHAPE, 4),
        ((32, 64), 1),
        ((32, 64), 4),
    ]


def test_many_rows_that_would_take_too_long_are_left_out() -> None:
    clock = Clock()
    contenders = {"slow": fake(clock, "slow", 0.01), "quick": fake(clock, "quick", 1e-5)}
    measured = run(clock, contenders, (1, 16, 512))
    assert [(each.name, each.rows) for each in measured if each.rows > 1] == [
        ("slow", 16),
        ("quick", 16),
        ("quick", 512),
    ]


def test_what_fails_is_left_out_with_its_reason_and_the_others_go_on() -> None:
    clock = Clock()

    def not_here(bench: Bench) -> Candidate:
        raise NotImplementedError("not on this processor\nwith a long trace")

    def broken(bench: Bench) -> Candidate:
        def prepare(rows: int) -> Callable[[int], object]:
            if rows > 1:
                raise RuntimeError
            return lambda index: None

        return Candidate("broken", "fake", 8.0, 1, 1, Cursor(), prepare)

    reasons: dict[str, str] = {}
    contenders = {"absent": not_here, "broken": broken, "good": fake(clock, "good", 0.001)}
    measured = measure(
        [SHAPE], [1, 2, 1], 1, clock=clock, contenders=contenders, leave_out=reasons.__setitem__
    )
    assert [each.name for each in measured] == ["broken", "good", "good", "good"]
    assert reasons == {"absent": "not on this processor", "broken": "RuntimeError"}


def test_what_fails_later_on_is_left_out_too() -> None:
    def tiring(bench: Bench) -> Candidate:
        left = iter(range(4))
        return Candidate("tiring", "fake", 8.0, 1, 1, Cursor(), lambda rows: lambda index: next(left))

    clock = Clock()
    reasons: dict[str, str] = {}
    contenders = {"tiring": tiring, "good": fake(clock, "good", 0.001)}
    measured = measure(
        [SHAPE], [1], 1, clock=clock, contenders=contenders, sample_s=0, leave_out=reasons.__setitem__
    )
    assert [each.name for each in measured] == ["good"]
    assert reasons == {"tiring": "StopIteration"}


def test_where_there_is_no_memory_nothing_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(nbytes: int) -> Memory:
        raise MemoryError(f"{nbytes} bytes")

    monkeypatch.setattr(registry, "Memory", refuse)
    reasons: dict[str, str] = {}
    assert measure([SHAPE], [1], 1, leave_out=reasons.__setitem__) == []
    assert list(reasons) == ["every kernel"]
    assert drained(time_pair(KernelPair("bf16", "bf16", *SHAPE, threads=1))) is None


def test_the_threads_of_torch_are_put_back() -> None:
    before = torch.get_num_threads()
    seen: list[int] = []

    def make(bench: Bench) -> Candidate:
        seen.append(torch.get_num_threads())
        raise RuntimeError

    measure([SHAPE], [1], before + 1, contenders={"a": make})
    assert (seen, torch.get_num_threads()) == ([before + 1], before)


def test_copies_are_read_one_behind_the_other_whoever_reads_them() -> None:
    cursor = Cursor()
    assert [cursor.next(4) for _ in range(6)] == [0, 1, 2, 3, 0, 1]
    assert cursor.next(2) == 1  # the first half has just been read
    assert cursor.next(8) == 0
    assert cursor.next(1) == 0
    memory = Memory(1000)
    copies = memory.copies(300)
    assert [copy.data_ptr() - copies[0].data_ptr() for copy in copies] == [0, 320, 640]
    assert all(copy.data_ptr() % 64 == 0 for copy in copies)
    with pytest.raises(ValueError, match="too large"):
        memory.copies(1001)


@pytest.mark.parametrize("name", sorted(makers()))
def test_every_kernel_of_this_machine_runs_or_says_why_not(name: str) -> None:
    """On a real matrix with real clocks; what the times are is the bench's business."""
    reasons: dict[str, str] = {}
    chosen = {name: makers()[name]}
    found = measure([SHAPE], [1, 3], 1, leave_out=reasons.__setitem__, repeats=1, contenders=chosen)
    if name.startswith(("torch", "decodeck")) and name != "torch int4pack":
        assert reasons == {}
    assert [each.rows for each in found] == ([1, 3] if not reasons else [])
    for each in found:
        assert (each.name, each.shape) == (name, SHAPE)
        assert each.us > 0
        assert each.read_bytes == pytest.approx(each.bits * SHAPE[0] * SHAPE[1] / 8)


def test_only_kernels_of_the_wanted_formats_are_tried() -> None:
    found = makers(["bf16"])
    assert {"torch bf16"} <= set(found) <= {"torch bf16", *(name for name in found if " bf16 " in name)}


def test_our_own_kernels_are_left_out_where_they_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library, "load", lambda: None)
    assert not any(name.startswith("decodeck") for name in makers())
    assert drained(time_pair(KernelPair("bf16", "bf16", *SHAPE, threads=1))) is None


def test_others_kernels_are_imported_offline_and_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    module = types.ModuleType("bitsandbytes.functional")
    module.has_avx512bf16 = lambda: False  # type: ignore[attr-defined]
    seen: list[str | None] = []

    def load(name: str) -> types.ModuleType:
        seen.append(os.environ.get("HF_HUB_OFFLINE"))
        return module

    monkeypatch.setattr(candidates, "has_bitsandbytes", lambda: True)
    monkeypatch.setattr(bits_and_bytes.importlib, "import_module", load)
    bits_and_bytes.functional.cache_clear()
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    maker = makers(["nf4cpu"])["bitsandbytes nf4"]
    assert seen == []
    reasons: dict[str, str] = {}
    assert measure([SHAPE], [1], 1, contenders={"nf4": maker}, leave_out=reasons.__setitem__) == []
    assert (seen, os.environ.get("HF_HUB_OFFLINE")) == (["1"], None)
    assert "AVX-512 BF16" in reasons["nf4"]
    bits_and_bytes.functional.cache_clear()


def test_both_homes_of_a_pair_are_timed(kernels: NativeLibrary) -> None:
    pair = KernelPair("bf16", "bf16", *SHAPE, threads=1)
    times = drained(time_pair(pair, counting(1e-3)))
    assert times is not None
    assert times.pair == pair
    assert min(times.native_us, times.stock_us) > 0


def test_the_quickest_sample_counts_where_homes_are_compared() -> None:
    clock = Clock()
    [steady] = run(clock, {"steady": fake(clock, "steady", 0.004, 0.002, 0.003)}, repeats=3)
    assert (steady.us, steady.least_us) == (pytest.approx(3000), pytest.approx(2000))


def test_on_a_busy_machine_nothing_is_compared_and_nothing_is_kept(
    kernels: NativeLibrary, tmp_path: Path
) -> None:
    pair = KernelPair("bf16", "bf16", *SHAPE, threads=1)
    assert drained(time_pair(pair, counting(1e-3, 9e-3, 5e-3))) is None
    path = tmp_path / "kernel-times.json"
    busy = counting(1e-3, 9e-3, 5e-3)
    choice = KernelChoice(path, lambda pair: time_pair(replace(pair, rows=64, cols=64, threads=1), busy))
    made = make_plan()
    assert choice.settle(made) is made
    assert not path.exists()


# The choice


@pytest.fixture(autouse=True)
def _not_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(library.VARIABLE, raising=False)


def stock_wins(pair: KernelPair) -> KernelTimes:
    return KernelTimes(pair, 1e6, 1.0)


def native_wins(pair: KernelPair) -> KernelTimes:
    return KernelTimes(pair, 1.0, 1e6)


def unwanted(pair: KernelPair) -> KernelTimes | None:
    pytest.fail("nothing had to be measured")


def timed(choose: Choice) -> Timing:
    """The measurement that ends so, in two pieces."""

    def timing(pair: KernelPair) -> Generator[None, None, KernelTimes | None]:
        yield
        return choose(pair)

    return timing


def make_plan(format: str = "file", type_name: str = "Q4_0") -> LoadPlan:
    return plan(large_spec(type_name), NATIVE, LoadSpec("/models/tiny.gguf", format=format))


def test_the_quicker_home_is_taken_and_the_plan_made_again() -> None:
    made = make_plan()
    settled = KernelChoice(None, timed(stock_wins)).settle(made)
    assert (settled.kernels, settled.bytes.weights > made.bytes.weights) == ("torch", True)
    assert settled.wish == made.wish
    assert settled == plan(made.model, settled.hardware, made.wish)
    kept = KernelChoice(None, timed(native_wins)).settle(made)
    assert (kept.kernels, kept.bytes) == (made.kernels, made.bytes)


def test_a_choice_never_changes_and_is_measured_once() -> None:
    asked: list[KernelPair] = []

    def time(pair: KernelPair) -> KernelTimes:
        asked.append(pair)
        return stock_wins(pair) if len(asked) == 1 else native_wins(pair)

    choice = KernelChoice(None, timed(time))
    assert [choice.settle(make_plan()).kernels for _ in range(3)] == ["torch"] * 3
    assert len(asked) == 1
    choice.settle(make_plan("f32"))
    assert len(asked) == 2


def test_a_choice_is_kept_for_the_next_process(tmp_path: Path) -> None:
    path = tmp_path / "times.json"
    first = KernelChoice(path, timed(stock_wins)).settle(make_plan())
    again = KernelChoice(path, timed(unwanted)).settle(make_plan())
    assert again == first
    file = KernelTimesFile(path, NATIVE)
    assert file.read() == first.hardware.kernel_times
    known = replace(NATIVE, kernel_times=file.read())
    foreseen = plan(large_spec(), known, LoadSpec("/models/tiny.gguf"))
    assert foreseen.kernels == "torch"
    assert KernelChoice(path, timed(unwanted)).settle(foreseen) is foreseen


def test_times_that_a_plan_carries_are_taken(tmp_path: Path) -> None:
    made = KernelChoice(None, timed(native_wins)).settle(make_plan())
    assert KernelChoice(tmp_path / "none.json", timed(unwanted)).settle(made) is made


def test_a_damaged_file_costs_one_measurement(tmp_path: Path) -> None:
    path = tmp_path / "times.json"
    path.write_bytes(b"\x00 damaged")
    assert KernelChoice(path, timed(stock_wins)).settle(make_plan()).kernels == "torch"
    assert KernelChoice(path, timed(unwanted)).settle(make_plan()).kernels == "torch"


def test_a_measurement_that_fails_leaves_ours_and_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "times.json"
    made = make_plan()
    assert KernelChoice(path, timed(lambda pair: None)).settle(made) is made
    assert not path.exists()


def test_where_there_is_one_home_nothing_is_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    choice = KernelChoice(None, timed(unwanted))
    tiny = plan(make_spec(), NATIVE, LoadSpec("/models/tiny.gguf"))
    stock = plan(large_spec(), HARDWARE, LoadSpec("/models/tiny.gguf"))
    for made in (tiny, stock, make_plan(type_name="Q4_K")):
        assert choice.settle(made) is made
    monkeypatch.setenv(library.VARIABLE, "avx2")
    named = make_plan()
    assert choice.settle(named) is named


def test_the_engine_loads_what_was_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernels: NativeLibrary
) -> None:
    monkeypatch.setattr(fit_kernels, "LEAST_READ_BYTES", 0)
    kernel_pair.cache_clear()
    folder = tiny_folder(tmp_path / "model")
    hardware = replace(HARDWARE, native=kernels.instruction_set)
    made = plan(read_spec(str(folder)), hardware, LoadSpec(str(folder), format="bf16", context=64))
    assert made.is_native
    for choice, name in ((stock_wins, "torch bf16"), (native_wins, f"decodeck bf16 {made.hardware.native}")):
        engine = Engine(kernel_times=tmp_path / choice.__name__)
        monkeypatch.setattr(engine, "_kernels", KernelChoice(tmp_path / choice.__name__, timed(choice)))
        *_, loaded = engine.load(made)
        assert isinstance(loaded, Loaded)
        assert (loaded.kernels, loaded.plan.is_native) == (name, choice is native_wins)
        assert engine.plan is loaded.plan
        assert engine.memory().weights_bytes == loaded.plan.bytes.weights
    kernel_pair.cache_clear()


def test_nothing_is_timed_for_a_model_that_does_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tiny_folder(tmp_path / "model")
    made = plan(read_spec(str(folder)), HARDWARE, LoadSpec(str(folder), context=64))
    engine = Engine()
    monkeypatch.setattr(machine, "ram_bytes", lambda: (1 << 30, 1000))
    monkeypatch.setattr(KernelChoice, "settling", lambda *_: pytest.fail("a kernel was timed"))
    with pytest.raises(MemoryLimitError):
        list(engine.load(made))


def test_settling_yields_between_samples_and_leaves_torch_as_it_was(kernels: NativeLibrary) -> None:
    before = torch.get_num_threads()
    timing = time_pair(KernelPair("bf16", "bf16", *SHAPE, threads=before + 1))
    pieces = 0
    for _ in timing:
        pieces += 1
        assert torch.get_num_threads() == before
        assert not torch.is_inference_mode_enabled()
    assert pieces > 2 * 2 * registry._PAIR_REPEATS


def test_without_a_file_a_process_measures_once(monkeypatch: pytest.MonkeyPatch) -> None:
    registry._timed_before.cache_clear()
    asked: list[KernelPair] = []
    monkeypatch.setattr(registry, "time_pair", timed(lambda pair: asked.append(pair) or stock_wins(pair)))
    assert [KernelChoice().settle(make_plan()).kernels for _ in range(2)] == ["torch"] * 2
    assert len(asked) == 1
    registry._timed_before.cache_clear()
