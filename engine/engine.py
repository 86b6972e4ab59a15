"""The engine: load a planned model, then turn requests into events, one step for every running sequence.

Use it from one thread. It knows no window, no files but the model's, and no chats: only requests.

    engine = Engine()
    for progress in engine.load(plan): ...
    engine.submit(request)
    while engine.is_busy:
        for event in engine.step(): ...
"""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from engine.decode.governor import ThreadGovernor
from engine.decode.sequence import Sequence, Slot
from engine.errors import ContextError, EngineBusyError, EngineError, MemoryLimitError, TemplateError
from engine.hardware import probe as machine
from engine.kv.cache import KVCache
from engine.models.checkpoint import Checkpoint
from engine.models.decoder import Runner, Segment
from engine.models.load import load_decoder
from engine.quant.registry import KernelChoice
from engine.text.chat import ChatText
from engine.types import (
    Event,
    Failed,
    GenerateRequest,
    Loaded,
    LoadPlan,
    LoadProgress,
    MemoryReport,
)

_NO_MEMORY = re.compile(r"allocate memory|out of memory|not enough memory", re.IGNORECASE)


@dataclass(slots=True)
class _Model:
    """Everything that comes and goes with a loaded model."""

    plan: LoadPlan
    runner: Runner
    text: ChatText
    slots: list[Slot]
    governor: ThreadGovernor


class Engine:
    """Continuous batching over one model. ``clock`` gives seconds and never goes back; the file
    ``kernel_times`` keeps what was measured of kernels, without one every process measures anew.
    """

    def __init__(
        self, clock: Callable[[], float] = time.perf_counter, kernel_times: Path | None = None
    ) -> None:
        self._clock = clock
        self._kernels = KernelChoice(kernel_times)
        self._model: _Model | None = None
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []
        self._pending: list[Event] = []
        self._overhead_bytes = machine.rss_bytes()

    @property
    def is_busy(self) -> bool:
        """Whether ``step`` has something to do."""
        return bool(self._waiting or self._running or self._pending)

    @property
    def plan(self) -> LoadPlan | None:
        """The plan of the loaded model."""
        return self._model.plan if self._model else None

    def load(self, plan: LoadPlan) -> Generator[LoadProgress | Loaded, None, None]:
        """Replace the loaded model by the planned one, in pieces of about 100 ms; dropping the generator
        cancels and leaves no model. Tokenizer and template are read beside the weights; their error ends the
        load as soon as it is known. ``Loaded`` has another plan where kernels that were timed for it turned
        out quicker.

        Raises ModelFileError, UnsupportedModelError, TokenizerError, MemoryLimitError.
        """
        with _out_of_memory_as_error():
            yield from self._load(plan)

    def _load(self, plan: LoadPlan) -> Generator[LoadProgress | Loaded, None, None]:
        started = self._clock()
        self.unload()
        torch.set_num_threads(plan.threads)
        yield LoadProgress(0.0, "tokenizer")
        plan = self._kernels.settle(plan)
        self._check_free(plan)
        yield LoadProgress(0.02, "weights")
        with Checkpoint(plan.model, verify_later=True) as checkpoint:
            reading = _in_background(lambda: _read_text(checkpoint))
            runner = yield from _watching(load_decoder(plan, checkpoint), reading)
            text = reading.result()
        with torch.inference_mode():
            slots = [Slot(runner.new_cache(plan.context)) for _ in range(plan.max_sequences)]
            self._warm_up(runner, slots[0])
        governor = ThreadGovernor(plan.threads, torch.set_num_threads, self._clock)
        self._model = _Model(plan, runner, text, slots, governor)
        yield Loaded(plan, runner.kernels, self._clock() - started, text.tokenizer.warnings)

    def unload(self) -> None:
        """End all answers as cancelled and give weights and caches back."""
        for sequence in (*self._running, *self._waiting):
            self.cancel(sequence.request.request_id)
        self._model = None

    def submit(self, request: GenerateRequest) -> None:
        """Queue ``request``; its events come from ``step``. Raises EngineBusyError without a model, WishError
        for sampling values that cannot be used.
        """
        model = self._require_model()
        self._waiting.append(Sequence(request, model.text.tokenizer, self._clock))

    def cancel(self, request_id: str) -> None:
        """End an answer now; its Finished("cancelled") comes with the next step. Unknown ids are ignored."""
        for sequence in (*self._running, *self._waiting):
            if sequence.request.request_id == request_id:
                self._end(sequence, "cancelled")

    def abort(self) -> None:
        """End every answer as failed, after an error that no sequence can be blamed for."""
        for sequence in (*self._running, *self._waiting):
            self._end(sequence, "error")
        if self._model:
            for slot in self._model.slots:
                slot.keep(0)

    def step(self) -> list[Event]:
        """Admit what fits, read one piece of one prompt, decode one token of every running answer.

        Raises MemoryLimitError where the system gives no memory; call ``abort`` after any exception.
        """
        if self._model:
            with _out_of_memory_as_error(), torch.inference_mode():
                self._admit(self._model)
                self._prefill(self._model)
                self._decode(self._model)
        events, self._pending = self._pending, []
        return events

    def memory(self) -> MemoryReport:
        """Bytes as they are held now, measured on the tensors, and the machine around them."""
        weights = working = reserved = used = used_tokens = 0
        if self._model:
            weights, working = self._model.runner.bytes_by_part()
            caches = [slot.cache for slot in self._model.slots]
            reserved, used = sum(c.nbytes for c in caches), sum(c.used_nbytes for c in caches)
            used_tokens = sum(c.length for c in caches)
        total, free = machine.ram_bytes()
        return MemoryReport(
            weights_bytes=weights,
            kv_reserved_bytes=reserved,
            kv_used_bytes=used,
            working_bytes=working,
            overhead_bytes=self._overhead_bytes,
            rss_bytes=machine.rss_bytes(),
            ram_total_bytes=total,
            ram_free_bytes=free,
            kv_used_tokens=used_tokens,
        )

    def new_cache(self, capacity: int) -> KVCache:
        """An empty cache that no answer uses, for measurements and tests."""
        with torch.inference_mode():
            return self._require_model().runner.new_cache(capacity)

    def forward(self, segments: list[Segment]) -> Tensor:
        """One pass over new tokens of some caches, as a step runs it, for measurements and tests: float32
        logits [rows wanted, vocab].
        """
        with torch.inference_mode():
            return self._require_model().runner.forward(segments)

    def logits(self, ids: list[int]) -> Tensor:
        """Float32 logits [len(ids), vocab] of a fresh sequence, for measurements and tests."""
        return self.forward([Segment(self.new_cache(len(ids)), ids, wants_all_logits=True)])

    def _require_model(self) -> _Model:
        if self._model is None:
            raise EngineBusyError("No model is loaded.", "Choose a model first.")
        return self._model

    def _check_free(self, plan: LoadPlan) -> None:
        """A plan may be stale: look at the memory that is free now."""
        _, free = machine.ram_bytes()
        need = plan.bytes.total - plan.bytes.overhead
        if free is not None and need > free:
            raise MemoryLimitError(
                f"The model needs {need / 1e9:.2f} GB and {free / 1e9:.2f} GB are free.",
                "Close other programs, or choose a smaller format or a shorter context.",
            )

    def _warm_up(self, runner: Runner, slot: Slot) -> None:
        """The first products set up threads and kernels; an answer should not pay for that."""
        for ids in ([0, 0], [0]):
            if slot.cache.capacity > len(ids):
                runner.forward([Segment(slot.cache, ids)])
                slot.cache.reset()

    def _admit(self, model: _Model) -> None:
        if self._waiting:
            model.governor.reconsider()
        busy = [sequence.slot for sequence in self._running]
        free = [slot for slot in model.slots if slot not in busy]
        while free and self._waiting:
            sequence = self._waiting.popleft()
            try:
                prompt, notes = self._prompt(model, sequence.request)
            except EngineError as error:
                self._fail(sequence, error)
                continue
            slot = max(free, key=lambda candidate: candidate.common_prefix(prompt))
            free.remove(slot)
            sequence.admit(slot, prompt, notes)
            self._running.append(sequence)
            self._pending.append(sequence.prefilled_event())

    def _prompt(self, model: _Model, request: GenerateRequest) -> tuple[list[int], tuple[str, ...]]:
        ids, notes = model.text.prompt(request.messages)
        vocab = model.plan.model.vocab_size
        if any(token >= vocab for token in ids):
            raise TemplateError(
                "The tokenizer and the weights do not belong together.", "Download the model again."
            )
        if not ids:
            raise ContextError("The prompt is empty.", "Write a message first.")
        if len(ids) >= model.plan.context:
            raise ContextError(
                f"The prompt has {len(ids):,} tokens and the context holds {model.plan.context:,}.",
                "Shorten it, start a new chat, or raise the context length.",
            )
        return ids, notes

    def _prefill(self, model: _Model) -> None:
        """One piece of the first prompt in line, so that running answers never wait longer than a piece."""
        sequence = next((s for s in self._running if s.is_prefilling), None)
        if sequence is None:
            return
        self._run(model, [sequence])
        if sequence.reason is None:
            self._pending.append(sequence.prefilled_event())

    def _decode(self, model: _Model) -> None:
        """One token for every sequence that has its prompt."""
        ready = [sequence for sequence in self._running if not sequence.is_prefilling]
        if ready:
            self._run(model, ready)

    def _run(self, model: _Model, sequences: list[Sequence]) -> None:
        pieces = [s.next_ids(model.plan.prefill_piece) for s in sequences]
        segments = [Segment(s.slot.cache, ids) for s, ids in zip(sequences, pieces, strict=True)]
        started = self._clock()
        logits = model.runner.forward(segments)
        if all(len(ids) == 1 for ids in pieces):
            model.governor.observe(self._clock() - started)
        for sequence, ids, row in zip(sequences, pieces, logits, strict=True):
            sequence.ran(ids)
            if not sequence.is_prefilling:
                self._accept(sequence, row)

    def _accept(self, sequence: Sequence, logits: Tensor) -> None:
        try:
            text = sequence.accept(logits)
        except EngineError as error:
            self._fail(sequence, error)
            return
        self._pending += sequence.chunk_event(text)
        if sequence.generated:
            self._pending.append(sequence.step_event())
        if sequence.reason is not None:
            self._running.remove(sequence)
            self._pending.append(sequence.finished_event())

    def _fail(self, sequence: Sequence, error: EngineError) -> None:
        request_id = sequence.request.request_id
        self._pending.append(Failed(request_id, error.kind, error.message, error.hint))
        if sequence.is_admitted:
            sequence.slot.keep(0)  # what it computed is not to be trusted
        self._end(sequence, "error")

    def _end(self, sequence: Sequence, reason: str) -> None:
        if sequence in self._running:
            self._running.remove(sequence)
        elif sequence in self._waiting:
            self._waiting.remove(sequence)
        self._pending += sequence.chunk_event(sequence.end(reason))
        self._pending.append(sequence.finished_event())


def _read_text(checkpoint: Checkpoint) -> ChatText:
    """Tokenizer and template of a model whose header is still the one that was planned for."""
    return ChatText.load(checkpoint.spec.path, checkpoint.verify())


def _in_background(read: Callable[[], ChatText]) -> Future[ChatText]:
    """Start ``read`` on a thread of its own, which nobody has to wait for."""
    future: Future[ChatText] = Future()

    def run() -> None:
        try:
            future.set_result(read())
        except BaseException as error:
            future.set_exception(error)

    # A daemon: an executor's threads are waited for when the process ends.
    threading.Thread(target=run, name="decodeck-text", daemon=True).start()
    return future


def _watching(
    loading: Generator[LoadProgress, None, Runner], reading: Future[ChatText]
) -> Generator[LoadProgress, None, Runner]:
    """Pass ``loading`` on to its end; an error of ``reading`` ends it at once."""
    while True:
        if reading.done():
            reading.result()
        try:
            progress = next(loading)
        except StopIteration as end:
            runner: Runner = end.value
            return runner
        yield progress


@contextmanager
def _out_of_memory_as_error() -> Iterator[None]:
    """torch raises a plain RuntimeError where the system gives no memory."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not _NO_MEMORY.search(str(error)):
            raise
        raise MemoryLimitError(
            "There is not enough memory.", "Choose a smaller format or a shorter context."
        ) from None
