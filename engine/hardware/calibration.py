"""Measures this machine's speed in short pieces: bandwidth, kernels, attention, passes.

Knows what is tried and in which order; each trial is a module of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import TypeVar

import torch

from engine.calibration import Calibration, Curve
from engine.decode.sampler import Sampler
from engine.errors import DisturbedError, MemoryLimitError
from engine.hardware.calibration_kernels import (
    KernelTrials,
    kernel_trials,
    overlap_of,
    plain_reads,
    usual_ns,
)
from engine.hardware.calibration_passes import KV, AttentionTrials, PassTrials
from engine.hardware.calibration_trials import ROUNDS, PlainReads, QuickestRun, Trial, sampling
from engine.hardware.probe import cache_bytes, ram_bytes
from engine.hardware.reading import make_reader
from engine.native import library as native
from engine.quant.candidates import Memory, running
from engine.quant.thread_choice import Clocks
from engine.types import SamplingParams
from engine.words import tr

BUDGET_S = 5.0  # of the whole, but for a piece
LEAST_BYTES, MOST_BYTES = 128 << 20, 512 << 20
_CACHES = 2  # times the last cache: as much, read again, comes from memory
_FREE_PART = 4  # of what is free, no more is taken
_LEAST_CACHED, _MOST_CACHED = 2 << 20, 8 << 20
READ_SIZES = tuple(mb << 20 for mb in (4, 8, 16, 32, 48, 64, 96, 128, 192))
_VOCAB = 49_152
_LAST_PART = 0.99


T = TypeVar("T")


@dataclass(slots=True)
class _Trials:
    """All trials of a calibration."""

    reads: dict[int, QuickestRun] = field(default_factory=dict)  # by bytes
    kernels: list[KernelTrials] = field(default_factory=list)
    passes: list[PassTrials] = field(default_factory=list)
    attention: list[AttentionTrials] = field(default_factory=list)
    draw: QuickestRun | None = None


def calibrating(
    threads: int,
    clocks: Clocks | None = None,
    now: Callable[[], float] = time.time,
    budget_s: float = BUDGET_S,
    rounds: int = ROUNDS,
) -> Generator[float, None, Calibration]:
    """Measure on ``threads`` threads; yields the part that is done, after pieces of some tens of
    milliseconds. Dropping the generator cancels. Nothing else may be computed during a piece.

    Raises MemoryLimitError where too little memory is free, DisturbedError where others had the processor.
    """
    clocks = clocks or Clocks()
    started = clocks.wall()
    memory = Memory(_spread_bytes())
    plain, made = plain_reads(memory), _Trials()
    trials = _prepared(made, memory, plain, threads)
    pieces = chain(memory.fill(), sampling(trials, threads, clocks, started + budget_s, rounds))
    for _ in pieces:
        yield min(_LAST_PART, (clocks.wall() - started) / budget_s)
    if plain.is_disturbed:
        raise DisturbedError(
            tr("Other programs use the processor: the machine's speed cannot be measured."),
            tr("Try again later."),
        )
    return _result(made, plain.gbps, threads, now())


def _spread_bytes() -> int:
    """As much as has left the last cache when it is read again. Raises MemoryLimitError."""
    wanted = min(max(_CACHES * (cache_bytes() or 0), LEAST_BYTES), MOST_BYTES)
    _, free = ram_bytes()
    nbytes = wanted if free is None else min(wanted, free // _FREE_PART)
    if nbytes < LEAST_BYTES:
        raise MemoryLimitError(
            tr("Too little memory is free to measure this machine's speed."),
            tr("Close other programs and try again."),
        )
    return nbytes


def _prepared(made: _Trials, memory: Memory, plain: PlainReads, threads: int) -> Iterator[Trial]:
    """All trials, the most important first."""
    yield plain  # the first is sampled even where there is no time for more
    yield from _within(_read_trials(made, memory, threads), threads)
    cached = min(max(_LEAST_CACHED, (cache_bytes() or 0) // 4), _MOST_CACHED)
    for kernel in _within(kernel_trials(memory, plain, cached, threads), threads):
        made.kernels.append(kernel)
        yield from kernel.trials
    library = native.load()
    runners = {"native": library, "torch": None} if library else {"torch": None}
    for runner, kernels in runners.items():
        passes = PassTrials(runner, kernels, memory, plain)
        made.passes.append(passes)
        yield from _within(passes.prepare(), threads)
        for kv in KV if kernels else KV[:1]:
            attention = AttentionTrials(runner, kernels, kv, plain)
            made.attention.append(attention)
            yield from _within(attention.prepare(), threads)
    made.draw = _draw_trial()
    yield made.draw


def _within(items: Iterator[T], threads: int) -> Iterator[T]:
    """Each made under the same settings as it is sampled."""
    while True:
        with running(threads):
            item = next(items, None)
        if item is None:
            return
        yield item


def _read_trials(made: _Trials, memory: Memory, threads: int) -> Iterator[Trial]:
    [everything] = memory.copies(memory.nbytes)
    for size in (each for each in READ_SIZES if each <= memory.nbytes):
        made.reads[size] = QuickestRun(make_reader(everything[:size], threads))
        yield made.reads[size]


def _draw_trial() -> QuickestRun:
    sampler, logits = Sampler(SamplingParams(seed=0)), torch.linspace(-8, 8, _VOCAB)
    return QuickestRun(lambda: sampler.draw(logits, []))


def _result(made: _Trials, gbps: float, threads: int, when: float) -> Calibration:
    overlap = overlap_of(made.kernels, gbps)
    usual = usual_ns(made.kernels, gbps, overlap)
    kernels = _known(each.speed(gbps, usual, overlap) for each in made.kernels)
    passes = _known(each.speed(kernels, gbps, overlap) for each in made.passes)
    far_ns = {each.runner: each.far_ns(gbps, overlap) for each in made.attention if each.far}
    score_ns = {each.runner: each.score_ns for each in passes}
    return Calibration(
        read_gbps=gbps,
        when=when,
        threads=threads,
        reads=_reads(made.reads, gbps, 2 * max(made.reads)),
        kernels=kernels,
        attention=_known(
            each.speed(score_ns.get(each.runner, 0.0), far_ns.get(each.runner, 0.0))
            for each in made.attention
        ),
        overlap=overlap,
        passes=passes,
        draw_ns=1e9 * made.draw.least_s / _VOCAB if made.draw and made.draw.is_known else 0.0,
    )


def _known(speeds: Iterable[T | None]) -> tuple[T, ...]:
    """Those that were measured."""
    return tuple(speed for speed in speeds if speed is not None)


def _reads(trials: dict[int, QuickestRun], memory_gbps: float, memory_bytes: int) -> Curve:
    """GB/s by size: from the cache by the quickest run, from memory as it usually is. The more is read, the
    slower: a quicker one was a lucky moment of all larger ones.
    """
    rates, quickest = [(memory_bytes, memory_gbps)], memory_gbps
    for size in sorted((size for size, trial in trials.items() if trial.is_known), reverse=True):
        quickest = max(quickest, size / trials[size].least_s / 1e9)
        rates.append((size, quickest))
    return tuple(reversed(rates))
