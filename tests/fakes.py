"""A scripted engine that keeps the protocol without torch: what it says and when is the test's choice."""

from __future__ import annotations

import threading
from collections.abc import Generator

from engine.errors import EngineBusyError, EngineError
from engine.types import (
    AnswerStats,
    Chunk,
    Event,
    Failed,
    Finished,
    GenerateRequest,
    Hardware,
    Loaded,
    LoadPlan,
    LoadProgress,
    LoadSpec,
    MemoryReport,
    ModelSpec,
    Prefilled,
    RopeSpec,
    StepStats,
    TensorInfo,
)

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


def make_plan(path: str = "/models/tiny.gguf", **wish: object) -> LoadPlan:
    from engine.fit.plan import plan

    return plan(make_spec(path), HARDWARE, LoadSpec(path, **wish))  # type: ignore[arg-type]


class FakeEngine:
    """Answers every request with ``words``, one a step. ``hold`` makes it wait between the events.

    ``fail_load`` and ``fail_step`` are raised once, at the next load or step.
    """

    def __init__(self, words: tuple[str, ...] = ("Hello", " there", ".")) -> None:
        self.words = words
        self.reason = "stop"
        self.load_pieces = 3
        self.fail_load: Exception | None = None
        self.fail_step: Exception | None = None
        self.fail_request: EngineError | None = None
        self.hold = threading.Event()  # while cleared, answers stand still after their first word
        self.hold.set()
        self.hold_load = threading.Event()
        self.hold_load.set()
        self.loads: list[LoadPlan] = []
        self.requests: list[GenerateRequest] = []
        self.cancelled: list[str] = []
        self.threads: set[str] = set()
        self._plan: LoadPlan | None = None
        self._running: list[tuple[GenerateRequest, list[str]]] = []
        self._pending: list[Event] = []

    @property
    def is_busy(self) -> bool:
        return bool(self._running or self._pending)

    def load(self, plan: LoadPlan) -> Generator[LoadProgress | Loaded, None, None]:
        self.threads.add(threading.current_thread().name)
        self.loads.append(plan)
        self._plan = None
        for piece in range(self.load_pieces):
            yield LoadProgress(piece / self.load_pieces, "weights")
            while not self.hold_load.wait(0.005):
                yield LoadProgress(piece / self.load_pieces, "weights")
        error, self.fail_load = self.fail_load, None
        if error is not None:
            raise error
        self._plan = plan
        yield Loaded(plan, "fake", 0.1)

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
        for entry in list(self._running):
            request, said = entry
            if said and not self.hold.wait(0.005):
                continue
            if len(said) < len(self.words):
                word = self.words[len(said)]
                said.append(word)
                self._pending.append(Chunk(request.request_id, word))
                self._pending.append(StepStats(request.request_id, len(said), 50.0, 51.0, 0.1))
            else:
                self._running.remove(entry)
                self._pending.append(self._finished(request, self.reason, said))
        events, self._pending = self._pending, []
        return events

    def memory(self) -> MemoryReport:
        weights = self._plan.bytes.weights if self._plan else 0
        reserved = self._plan.bytes.kv_reserved if self._plan else 0
        return MemoryReport(weights, reserved, 0, 0, 0, 1000, 16_000_000_000, 8_000_000_000, 23)

    def _finished(self, request: GenerateRequest, reason: str, said: list[str]) -> Finished:
        count = len(said)
        stats = AnswerStats(20, 5, count, 0.1 if count else None, 200.0, 50.0 if count > 1 else None, 7)
        return Finished(request.request_id, reason, "".join(said), stats)
