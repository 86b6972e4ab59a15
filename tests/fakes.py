"""A scripted engine that keeps the protocol without torch: what it says and when is the test's choice."""

from __future__ import annotations

import queue
import threading
from collections.abc import Generator
from dataclasses import replace

from engine.calibration import Calibration
from engine.errors import EngineBusyError, EngineError
from engine.events import (
    AnswerStats,
    Calibrated,
    Calibrating,
    Chunk,
    Event,
    Failed,
    Finished,
    Loaded,
    LoadProgress,
    Measured,
    Measuring,
    MemoryReport,
    Prefilled,
    StepStats,
)
from engine.machine import Hardware
from engine.types import GenerateRequest, LoadPlan, LoadSpec, MeasureWish, ModelSpec, RopeSpec, TensorInfo

HARDWARE = Hardware("Test processor", 2, 16_000_000_000, 8_000_000_000)


def make_spec(path: str = "/models/tiny.gguf", trained_context: int = 4096) -> ModelSpec:
    """The header of a Llama of two layers whose matrices are Q4_0."""
    hidden, inner, vocab = 64, 96, 259
    names = {"token_embd.weight": (vocab, hidden), "output_norm.weight": (hidden,)}
    for i in range(2):
        names |= {
            f"blk.{i}.attn_norm.weight": (hidden,),
            f"blk.{i}.attn_q.weight": (hidden, hidden),
            f"blk.{i}.attn_k.weight": (hidden // 2, hidden),
            f"blk.{i}.attn_v.weight": (hidden // 2, hidden),
            f"blk.{i}.attn_output.weight": (hidden, hidden),
            f"blk.{i}.ffn_norm.weight": (hidden,),
            f"blk.{i}.ffn_gate.weight": (inner, hidden),
            f"blk.{i}.ffn_up.weight": (inner, hidden),
            f"blk.{i}.ffn_down.weight": (hidden, inner),
        }
    tensors = tuple(
        TensorInfo(name, shape, "Q4_0" if len(shape) == 2 else "F32", 0, 0, 100)
        for name, shape in names.items()
    )
    return ModelSpec(
        path=path,
        source="gguf",
        name=path.rpartition("/")[2].removesuffix(".gguf"),
        architecture="llama",
        num_layers=2,
        hidden_size=hidden,
        intermediate_size=inner,
        num_heads=4,
        num_kv_heads=2,
        head_dim=16,
        vocab_size=vocab,
        trained_context=trained_context,
        norm_eps=1e-5,
        rope=RopeSpec(),
        tied_embeddings=True,
        sliding_window=None,
        files=(path,),
        tensors=tensors,
    )


def measured_at(read_gbps: float, when: float = 0.0) -> Calibration:
    """A machine of which all kernels were measured, and were as is typical at that bandwidth."""
    from engine.fit.speed_defaults import machine_default

    return replace(machine_default(HARDWARE, read_gbps), reads=(), when=when)


def make_plan(path: str = "/models/tiny.gguf", **wish: object) -> LoadPlan:
    from engine.fit.plan import plan

    return plan(make_spec(path), HARDWARE, LoadSpec(path, **wish))  # type: ignore[arg-type]


class FakeEngine:
    """Answers every request with ``words``, one a step, after ``thoughts``. ``hold`` makes it wait between
    the events, ``held`` only the chats with one of these messages; ``tell`` makes it say anything else.
    ``thinking`` is what its template does by itself.

    ``fail_load`` and ``fail_step`` are raised once, at the next load or step.
    """

    def __init__(self, words: tuple[str, ...] = ("Hello", " there", ".")) -> None:
        self.words = words
        self.thoughts: tuple[str, ...] = ()
        self.thinking = ""
        self.reason = "stop"
        self.load_pieces = 3
        self.remaining_s: float | None = None  # what a load says of itself
        self.fail_load: Exception | None = None
        self.fail_step: Exception | None = None
        self.fail_request: EngineError | None = None
        self.hold = threading.Event()  # while cleared, answers stand still after their first word
        self.hold.set()
        self.held: set[str] = set()
        self.drafts = (0, 0)  # tokens drafted and accepted, as each answer says
        self.drafting_off = ""
        self.hold_load = threading.Event()
        self.hold_load.set()
        self.loads: list[LoadPlan] = []
        self.requests: list[GenerateRequest] = []
        self.cancelled: list[str] = []
        self.calibration: Calibration | None = None  # what measuring the machine gives; None: nothing
        self.calibrations = 0  # that were begun
        self.hold_calibration = threading.Event()  # while cleared, it stands still before its end
        self.hold_calibration.set()
        self.wishes: list[MeasureWish] = []
        self.no_room_from = 64  # copies: a point with so many fails
        self.hold_measure = threading.Event()  # while cleared, a run stands still behind its first point
        self.hold_measure.set()
        self.threads: set[str] = set()
        self._plan: LoadPlan | None = None
        self._running: list[tuple[GenerateRequest, list[str]]] = []
        self._pending: list[Event] = []
        self._told: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._never = threading.Event()

    @property
    def is_busy(self) -> bool:
        return bool(self._running or self._pending) or not self._told.empty()

    def tell(self, event: Event) -> None:
        """Say ``event`` with the next step; from any thread, while an answer is running."""
        self._told.put(event)

    def load(self, plan: LoadPlan) -> Generator[LoadProgress | Loaded, None, None]:
        self.threads.add(threading.current_thread().name)
        self.loads.append(plan)
        self._plan = None
        for piece in range(self.load_pieces):
            yield LoadProgress(piece / self.load_pieces, "weights")
            while not self.hold_load.wait(0.005):
                yield LoadProgress(piece / self.load_pieces, "weights", remaining_s=self.remaining_s)
        error, self.fail_load = self.fail_load, None
        if error is not None:
            raise error
        self._plan = plan
        yield Loaded(plan, "fake", 0.1, thinking=self.thinking)

    def unload(self) -> None:
        for request, _ in list(self._running):
            self.cancel(request.request_id)
        self._plan = None

    def submit(self, request: GenerateRequest) -> None:
        self.requests.append(request)
        if self._plan is None:
            raise EngineBusyError("No model is loaded.", "Choose a model first.")
        if self.fail_request is not None:
            error, self.fail_request = self.fail_request, None
            self._pending.append(Failed(request.request_id, error.kind, error.message, error.hint))
            self._pending.append(self._finished(request, "error", []))
            return
        self._running.append((request, []))
        self._pending.append(Prefilled(request.request_id, 20, 5, 20))

    def cancel(self, request_id: str) -> None:
        for entry in list(self._running):
            if entry[0].request_id == request_id:
                self.cancelled.append(request_id)
                self._running.remove(entry)
                self._pending.append(self._finished(entry[0], "cancelled", entry[1]))

    def abort(self) -> None:
        for entry in list(self._running):
            self._running.remove(entry)
            self._pending.append(self._finished(entry[0], "error", entry[1]))

    def step(self) -> list[Event]:
        error, self.fail_step = self.fail_step, None
        if error is not None:
            raise error
        while not self._told.empty():
            self._pending.append(self._told.get())
        for entry in list(self._running):
            request, said = entry
            gate = self.hold if self.held.isdisjoint(m.content for m in request.messages) else self._never
            if said and not gate.wait(0.005):
                continue
            everything = (*self.thoughts, *self.words)
            if len(said) < len(everything):
                word, kind = everything[len(said)], "thinking" if len(said) < len(self.thoughts) else "answer"
                said.append(word)
                self._pending.append(Chunk(request.request_id, word, kind))
                self._pending.append(self._step_stats(request, len(said)))
            else:
                self._running.remove(entry)
                self._pending.append(self._finished(request, self.reason, said))
        events, self._pending = self._pending, []
        return events

    def calibrate(self) -> Generator[Calibrating | Calibrated, None, None]:
        if self.calibration is None:
            return
        self.calibrations += 1
        yield Calibrating(0.5)
        while not self.hold_calibration.wait(0.005):
            yield Calibrating(0.5)
        yield Calibrated(self.calibration)

    def measure(self, wish: MeasureWish) -> Generator[Measuring | Measured, None, None]:
        """A step takes 10 ms, and 2 ms more for each copy behind the first."""
        self.wishes.append(wish)
        if self._plan is None:
            raise EngineBusyError("No model is loaded.", "Choose a model first.")
        for index, point in enumerate(wish.points):
            while index and not self.hold_measure.wait(0.005):
                yield Measuring(index, point, "reading", 0.5)
            if point.copies >= self.no_room_from:
                yield Measured(index, point, failed="Another cache needs 2.00 GB and 1.00 GB are free.")
                continue
            step_s = 0.010 + 0.002 * (point.copies - 1)
            yield Measuring(index, point, "decoding", 1.0, step_s)
            yield Measured(index, point, step_s, 0.2 * point.copies, 1_000_000 * point.copies)

    def memory(self) -> MemoryReport:
        weights = self._plan.bytes.weights if self._plan else 0
        reserved = self._plan.bytes.kv_reserved if self._plan else 0
        return MemoryReport(weights, reserved, 0, 0, 0, 1000, 16_000_000_000, 8_000_000_000, 23)

    def _step_stats(self, request: GenerateRequest, count: int) -> StepStats:
        drafted, accepted = self.drafts
        return StepStats(
            request.request_id,
            count,
            50.0,
            51.0,
            0.1,
            drafted_tokens=drafted,
            accepted_tokens=accepted,
            drafting_off=self.drafting_off,
        )

    def _finished(self, request: GenerateRequest, reason: str, said: list[str]) -> Finished:
        count = len(said)
        tps, (drafted, accepted) = 50.0 if count > 1 else None, self.drafts
        stats = AnswerStats(20, 5, count, 0.1 if count else None, 200.0, tps, 7)
        stats = replace(stats, drafted_tokens=drafted, accepted_tokens=accepted)
        num_thoughts = len(self.thoughts)
        thinking, text = "".join(said[:num_thoughts]), "".join(said[num_thoughts:])
        raw = f"<think>{thinking}</think>{text}" if thinking else text
        return Finished(request.request_id, reason, text, stats, thinking, raw=raw)
