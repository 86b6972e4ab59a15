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
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from engine.copies import CopiesMeasurement
from engine.decode.draft_model import DraftModel
from engine.decode.governor import ThreadGovernor
from engine.decode.scheduler import Scheduler
from engine.errors import (
    DeviceError,
    EngineBusyError,
    EngineError,
    MemoryLimitError,
    NumericsError,
)
from engine.events import (
    Calibrated,
    Calibrating,
    Event,
    Finished,
    Loaded,
    LoadProgress,
    Measured,
    Measuring,
    MemoryReport,
)
from engine.fit.devices import gpu_parts
from engine.fit.guard import check_again
from engine.fit.plan import without_draft
from engine.hardware import heap
from engine.hardware import probe as machine
from engine.hardware.gpus import GpuProbe, give_back
from engine.kv.cache import KVCache
from engine.kv.store import KVStore, Usage
from engine.learning import SpeedLearning
from engine.loading import lacks, part, read_draft, read_model, timed
from engine.models.decoder import Runner, Segment
from engine.models.generic import ReadsDisk
from engine.quant.registry import KernelChoice
from engine.quant.thread_choice import ThreadChoice
from engine.text.chat import ChatText
from engine.types import GenerateRequest, LoadPlan, MeasureWish, MemoryParts
from engine.waiting import saying
from engine.words import tr

_LAST_READ = 0.98  # of a load: what comes behind are the first steps
_NO_MEMORY = re.compile(r"allocate memory|out of memory|not enough memory", re.IGNORECASE)


@dataclass(slots=True)
class _Model:
    """Everything that comes and goes with a loaded model."""

    plan: LoadPlan
    runner: Runner
    text: ChatText
    store: KVStore
    scheduler: Scheduler
    draft: DraftModel | None = None


class Engine:
    """Continuous batching over one model. ``clock`` gives seconds and never goes back; the file
    ``kernel_times`` keeps what was measured of kernels, without one every process measures anew.
    """

    def __init__(
        self, clock: Callable[[], float] = time.perf_counter, kernel_times: Path | None = None
    ) -> None:
        self._clock = clock
        self._kernels = KernelChoice(kernel_times)
        self._threads = ThreadChoice(kernel_times)
        self._gpus = GpuProbe()
        self._speed = SpeedLearning(kernel_times)
        self._model: _Model | None = None
        self._pending: list[Event] = []  # of a model that is gone
        self._overhead_bytes = machine.rss_bytes()

    @property
    def is_busy(self) -> bool:
        """Whether ``step`` has something to do."""
        return bool(self._pending or (self._model and self._model.scheduler.is_busy))

    @property
    def plan(self) -> LoadPlan | None:
        """The plan of the loaded model."""
        return self._model.plan if self._model else None

    def load(self, plan: LoadPlan) -> Generator[LoadProgress | Loaded, None, None]:
        """Replace the loaded model by the planned one, in pieces of about 100 ms; dropping the generator
        cancels and leaves no model. Tokenizer and template are read beside the weights; their error ends the
        load as soon as it is known. ``Loaded`` has another plan where kernels that were timed for it turned
        out quicker.

        Raises ModelFileError, UnsupportedModelError, TokenizerError, MemoryLimitError, NumericsError.
        """
        with _device_errors():
            yield from timed(self._load(plan), self._clock)

    def _load(self, plan: LoadPlan) -> Generator[LoadProgress | Loaded, None, None]:
        started = self._clock()
        self.unload()
        torch.set_num_threads(plan.threads)
        plan = self._gpus.settle(plan)
        self._check_free(plan)  # before anything is timed for a model that does not fit
        planned, plan = plan, (yield from saying(self._settling(plan), LoadProgress(0.0, "kernels")))
        if plan is not planned:
            self._check_free(plan)
            torch.set_num_threads(plan.threads)
        runner, text = yield from part(read_model(plan), 0.0, _targets_part(plan))
        plan, draft, no_draft = yield from self._with_draft(plan, text)
        with torch.inference_mode():
            store = runner.new_store(plan.context, plan.prefill_piece, plan.max_sequences)
        yield from saying(self._warming_up(plan, runner, store), LoadProgress(0.99, "first step"))
        if isinstance(runner, ReadsDisk) and runner.disk_gbps is not None:
            plan = self._speed.with_disk(plan, runner.disk_gbps)
        threads = plan.threads if plan.devices[0].layers else 1  # nothing to govern: no layer runs on them
        governor = ThreadGovernor(threads, torch.set_num_threads, self._clock)
        scheduler = Scheduler(plan, runner, text, store, governor, self._clock, draft)
        self._model = _Model(plan, runner, text, store, scheduler, draft)
        seconds = self._clock() - started
        can = runner.capabilities
        said = (*text.tokenizer.warnings, *lacks(plan, can), *((no_draft,) if no_draft else ()))
        yield Loaded(
            plan,
            runner.kernels,
            seconds,
            said,
            thinking=text.thinking,
            capabilities=can,
            no_draft=no_draft,
        )

    def _with_draft(
        self, plan: LoadPlan, text: ChatText
    ) -> Generator[LoadProgress, None, tuple[LoadPlan, DraftModel | None, str]]:
        """The draft model of a plan; where it cannot be used, the plan without it, and why."""
        if plan.draft is None:
            return plan, None, ""
        own, begin = plan.draft, _targets_part(plan)
        try:
            runner = yield from part(read_draft(plan, text.tokenizer), begin, _LAST_READ, "draft model")
            with torch.inference_mode():
                store = runner.new_store(own.context, own.prefill_piece, plan.max_sequences)
            yield from saying(self._warming_up(own, runner, store), LoadProgress(_LAST_READ, "draft model"))
        except EngineError as error:
            warning = tr("No draft model is used.")
            return without_draft(plan), None, f"{warning} {error}"
        model = DraftModel(own, runner, store, plan.model.vocab_size, text.tokenizer.eos_ids)
        return plan, model, ""

    def unload(self) -> None:
        """End all answers as cancelled and give weights and caches back."""
        if self._model:
            self._model.scheduler.end_all("cancelled")
            self._pending += self._model.scheduler.take_events()
        self._model = None
        give_back()
        heap.trim()

    def submit(self, request: GenerateRequest) -> None:
        """Queue ``request``; its events come from ``step``. Raises EngineBusyError without a model, WishError
        for sampling values that cannot be used.
        """
        self._require_model().scheduler.submit(request)

    def cancel(self, request_id: str) -> None:
        """End an answer now; its Finished("cancelled") comes with the next step. Unknown ids are ignored."""
        if self._model:
            self._model.scheduler.cancel(request_id)

    def abort(self) -> None:
        """End every answer as failed, after an error that no sequence can be blamed for."""
        if self._model:
            self._model.scheduler.abort()
        give_back()

    def step(self) -> list[Event]:
        """Admit what fits, read one piece of one prompt, decode for every running answer.

        Raises MemoryLimitError where the system gives no memory; call ``abort`` after any exception.
        """
        events, self._pending = self._pending, []
        if self._model:
            with _device_errors(), torch.inference_mode():
                self._model.scheduler.step()
            events += self._model.scheduler.take_events()
            if any(isinstance(event, Finished) for event in events):
                events += self._speed.learn(self._model.plan, self._model.scheduler.take_steps())
        return events

    def memory(self) -> MemoryReport:
        """Bytes as they are held now, measured on the tensors, and the machine around them."""
        weights = working = 0
        kv = Usage()
        if self._model:
            weights, working = self._model.runner.bytes_by_part()
            kv = self._model.store.usage()
            if self._model.draft:
                drafts_weights, drafts_working = self._model.draft.bytes_by_part()
                weights, working = weights + drafts_weights, working + drafts_working
                kv = kv.with_draft(self._model.draft.usage())
        total, free = machine.ram_bytes()
        return MemoryReport(
            weights_bytes=weights,
            kv_reserved_bytes=kv.reserved_bytes,
            kv_used_bytes=kv.used_bytes,
            working_bytes=working,
            overhead_bytes=self._overhead_bytes,
            rss_bytes=machine.rss_bytes(),
            ram_total_bytes=total,
            ram_free_bytes=free,
            kv_used_tokens=kv.used_tokens,
            on_gpus=gpu_parts(self._model.plan) if self._model else MemoryParts(),
            gpus=self._gpus.read(),
            kv_waste_bytes=kv.waste_bytes,
            kv_answer_tokens=self._model.scheduler.held_tokens if self._model else (),
        )

    def calibrate(self, threads: int | None = None) -> Generator[Calibrating | Calibrated, None, None]:
        """Measure this machine's speed in pieces of some tens of milliseconds, in some seconds in all, and
        keep it beside the kernel times; dropping the generator cancels. Nothing else may run meanwhile. On as
        many ``threads`` as the loaded model has, or would have, unless a number is given.

        Raises MemoryLimitError where too little is free for that, DisturbedError where other programs need
        the processor.
        """
        with _device_errors():
            yield from self._speed.calibrating(self._model.plan if self._model else None, threads)

    def measure(self, wish: MeasureWish) -> Generator[Measuring | Measured, None, None]:
        """Measure the speed of several copies of a chat at once, in pieces of one pass; dropping the
        generator ends it. Nothing else may run meanwhile.

        Raises EngineBusyError without a model and while answers are written, TemplateError and ContextError
        where the chat gives no prompt.
        """
        model = self._require_model()
        if model.scheduler.is_busy:
            raise EngineBusyError(tr("An answer is being written."), tr("Measure again when it has ended."))
        with _device_errors():
            measurement = CopiesMeasurement(model.runner, model.text, model.plan, wish, self._clock)
            yield from measurement.run()

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

    def rehearsal(self, wrap: Callable[[Runner], Runner], text: ChatText) -> Scheduler:
        """Another scheduler of the loaded model, for measurements while the engine has nothing to do: with
        the runner that ``wrap`` makes of its own and the tokens of ``text``, no draft model, all threads.
        """
        model = self._require_model()
        governor = ThreadGovernor(1, torch.set_num_threads, self._clock)  # of one thread: governs nothing
        return Scheduler(model.plan, wrap(model.runner), text, model.store, governor, self._clock)

    def _require_model(self) -> _Model:
        if self._model is None:
            raise EngineBusyError(tr("No model is loaded."), tr("Choose a model first."))
        return self._model

    def _check_free(self, plan: LoadPlan) -> None:
        """A plan may be stale: look at the memory that is free now."""
        _, free = machine.ram_bytes()
        check_again(plan, free, self._gpus.read())

    def _settling(self, plan: LoadPlan) -> Generator[None, None, LoadPlan]:
        """The plan for the number of threads and the kernels that read quickest here."""
        return (yield from self._kernels.settling((yield from self._threads.settling(plan))))

    def _warming_up(self, plan: LoadPlan, runner: Runner, store: KVStore) -> Generator[None, None, None]:
        """The first products set up threads and kernels; an answer should not pay for that. Raises
        NumericsError where they give no numbers.
        """
        for ids in ([0, 0], [0]):
            if plan.context > len(ids):
                with torch.inference_mode():
                    cache = store.begin([])
                    logits = runner.forward([Segment(cache, ids)])
                    store.drop(cache)
                if bool(logits.isnan().any()):
                    raise NumericsError(
                        tr("{path}: the weights give no numbers as {format}.").format(
                            path=plan.model.path, format=plan.format
                        ),
                        tr("Choose another format; if that fails too, download the model again."),
                    )
            yield


def _targets_part(plan: LoadPlan) -> float:
    """The fraction of a load at which its draft model begins, by the bytes of weights."""
    own = plan.draft.bytes.weights if plan.draft else 0
    return _LAST_READ * (1 - own / plan.bytes.weights) if own else 1.0


@contextmanager
def _device_errors() -> Iterator[None]:
    """torch raises a plain RuntimeError where the system gives no memory, and one of its own for a GPU that
    failed.
    """
    try:
        yield
    except torch.AcceleratorError as error:
        raise DeviceError(
            tr("The GPU stopped working: {reason}.").format(reason=str(error).partition("\n")[0]),
            tr(
                "Start the program again. If this comes back, load the model on the processor (--device cpu)."
            ),
        ) from None
    except (MemoryError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not _NO_MEMORY.search(str(error)):
            raise
        raise MemoryLimitError(
            tr("There is not enough memory."), tr("Choose a smaller format or a shorter context.")
        ) from None
