"""Decode steps recorded once and replayed: some hundred small kernels are then one call of the driver.

Knows static buffers, caches and a function to record; not what that computes. A CUDA graph is the model
(https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs): every address, size and number that the
host knew while recording stays; only what lies in the buffers and caches is read anew.
"""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from engine.kv.cache import DeviceCache

LEAST_PLACES = 256  # of a cache that a step reads; twice as many are recorded anew when these are full
MOST_RECORDINGS = 16  # of sets of caches and sizes, the oldest goes
_WARM_STEPS = 2  # libraries set themselves up in the first calls, which cannot be recorded


@dataclass(frozen=True, slots=True)
class StepInputs:
    """What a step of one row for each cache reads. ``x`` [rows, hidden] float32 and ``positions`` [rows]
    int64 lie on the device and are filled before each replay; the first ``size`` places of every cache count.
    """

    x: Tensor
    positions: Tensor
    caches: tuple[DeviceCache, ...]
    size: int


Step = Callable[[StepInputs], Tensor]  # → logits [rows, vocab]; waits for nothing and leaves ``x`` as it is


class Recorder(Protocol):
    """Records what ``run`` does on a device."""

    def __call__(self, run: Callable[[], Tensor]) -> tuple[Tensor, Callable[[], object]]:
        """The result, whose memory every replay fills anew, and the replay. Runs it, perhaps several times.

        Raises whatever the device cannot do.
        """
        ...


class AcceleratorRecorder:
    """Records on one accelerator through torch's device-neutral graphs; its recordings share their memory."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._pool: tuple[int, int] | None = None

    def __call__(self, run: Callable[[], Tensor]) -> tuple[Tensor, Callable[[], object]]:
        graph = torch.accelerator.Graph(pool=self._pool)
        stream, before = torch.Stream(self._device), torch.accelerator.current_stream(self._device)
        stream.wait_stream(before)
        with stream:
            for _ in range(_WARM_STEPS):
                run()
        with stream, graph:
            out = run()
        before.wait_stream(stream)
        self._pool = graph.pool()
        return out, graph.replay


@dataclass(frozen=True, slots=True)
class _Recording:
    """A recorded step. Caches are held by nobody here: one that is gone takes its recordings with it."""

    inputs: tuple[Tensor, Tensor]  # x, positions
    caches: tuple[weakref.ref[DeviceCache], ...]
    logits: Tensor
    replay: Callable[[], object]

    @property
    def is_alive(self) -> bool:
        return all(cache() is not None for cache in self.caches)

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for tensor in (*self.inputs, self.logits))


class StepGraphs:
    """The recordings of one model's steps, made as they are needed, for each set of caches and size.

    ``failure`` says why there are none where the device cannot; every step is then computed as it comes.
    """

    def __init__(self, step: Step, layers: range, record: Recorder) -> None:
        """``step`` appends to the caches of ``layers``."""
        self._step = step
        self._layers = layers
        self._record = record
        self._recordings: OrderedDict[tuple[tuple[int, ...], int], _Recording] = OrderedDict()
        self.failure = ""

    @property
    def nbytes(self) -> int:
        """Bytes of the static buffers."""
        return sum(recording.nbytes for recording in self._recordings.values())

    def run(self, x: Tensor, caches: Sequence[DeviceCache]) -> Tensor | None:
        """Logits [rows, vocab] of one row of x [rows, hidden] for each cache, at the place behind what that
        holds; the caches' lengths stay. None where steps cannot be recorded here.
        """
        if self.failure:
            return None
        size = places(max(cache.length for cache in caches) + 1)
        key = tuple(id(cache) for cache in caches), size
        recording = self._recordings.get(key)
        if recording is None or not recording.is_alive:
            try:
                recording = self._recorded(x, tuple(caches), size)
            except (RuntimeError, NotImplementedError) as error:
                if isinstance(error, torch.OutOfMemoryError):
                    raise
                self.failure = str(error).strip().partition("\n")[0] or type(error).__name__
                return None
            self._keep(key, recording)
        self._recordings.move_to_end(key)
        _fill(recording.inputs, x, caches)
        recording.replay()
        return recording.logits.clone()  # the next replay writes over it

    def _recorded(self, x: Tensor, caches: tuple[DeviceCache, ...], size: int) -> _Recording:
        for cache in caches:
            self._clear_free_places(cache, size)
        inputs = torch.empty_like(x), torch.empty(len(caches), dtype=torch.int64, device=x.device)
        _fill(inputs, x, caches)
        step_inputs = StepInputs(*inputs, caches, size)
        logits, replay = self._record(lambda: self._step(step_inputs))
        return _Recording(inputs, tuple(weakref.ref(cache) for cache in caches), logits, replay)

    def _clear_free_places(self, cache: DeviceCache, size: int) -> None:
        """Zeros where nothing is held: a step reads these places too and weighs them with 0, which leaves a
        NaN what it is.
        """
        for layer in self._layers:
            for held in cache.layer(layer):
                held[:, cache.length : size].zero_()

    def _keep(self, key: tuple[tuple[int, ...], int], recording: _Recording) -> None:
        for old in [old for old, held in self._recordings.items() if not held.is_alive]:
            del self._recordings[old]
        self._recordings[key] = recording
        if len(self._recordings) > MOST_RECORDINGS:
            self._recordings.popitem(last=False)


def places(length: int) -> int:
    """How many places a recorded step reads of a cache with ``length`` tokens, its own among them: a power of
    two, so that a growing answer is recorded a few times only and reads at most twice what it needs.
    """
    return max(LEAST_PLACES, 1 << (length - 1).bit_length())


def _fill(inputs: tuple[Tensor, Tensor], x: Tensor, caches: Sequence[DeviceCache]) -> None:
    inputs[0].copy_(x)
    inputs[1].copy_(torch.tensor([cache.length for cache in caches]), non_blocking=True)
