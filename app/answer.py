"""One answer without a window: load, ask, and the settled JSON of `decodeck chat` and `smoke`.

Knows the engine and the shape of the report; not where the model came from or who asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.engine import Engine
from engine.errors import EngineError
from engine.types import (
    AnswerStats,
    Chunk,
    Failed,
    Finished,
    GenerateRequest,
    Loaded,
    LoadPlan,
    MemoryReport,
    Prefilled,
)


class AnswerError(EngineError):
    """The request failed before an answer could begin."""

    def __init__(self, failed: Failed) -> None:
        super().__init__(failed.message, failed.hint)
        self.kind = failed.kind


@dataclass(frozen=True, slots=True)
class Answer:
    """An ended answer, what it cost, and why it failed if it did."""

    finished: Finished
    memory: MemoryReport
    failed: Failed | None


def load(engine: Engine, plan: LoadPlan, on_progress: Callable[[float], None] = lambda _: None) -> Loaded:
    """Load ``plan`` to its end. Raises what Engine.load raises."""
    for event in engine.load(plan):
        if isinstance(event, Loaded):
            return event
        on_progress(event.fraction)
    raise AssertionError("a load ends with Loaded or raises")


def ask(
    engine: Engine,
    request: GenerateRequest,
    on_text: Callable[[str], None] = lambda _: None,
    on_note: Callable[[str], None] = lambda _: None,
) -> Answer:
    """Run one request to its end. Raises AnswerError where not one token was made because of an error."""
    engine.submit(request)
    failed: Failed | None = None
    noted = False
    while engine.is_busy:
        for event in engine.step():
            if isinstance(event, Chunk):
                on_text(event.text)
            elif isinstance(event, Prefilled) and event.notes and not noted:
                noted = True
                for note in event.notes:
                    on_note(note)
            elif isinstance(event, Failed):
                failed = event
            elif isinstance(event, Finished):
                if failed and not event.stats.generated_tokens:
                    raise AnswerError(failed)
                return Answer(event, engine.memory(), failed)
    raise AssertionError("an answer ends with Finished")


def report(plan: LoadPlan, kernels: str, finished: Finished, memory: MemoryReport) -> dict[str, object]:
    """The JSON object of ``decodeck chat``; features that do not exist yet are None."""
    stats: AnswerStats = finished.stats
    return {
        "text": finished.text,
        "token_ids": list(stats.token_ids),
        "prompt_tokens": stats.prompt_tokens,
        "reused_tokens": stats.reused_tokens,
        "generated_tokens": stats.generated_tokens,
        "ttft_s": stats.ttft_s,
        "prefill_tps": stats.prefill_tps,
        "decode_tps": stats.decode_tps,
        "finish_reason": finished.reason,
        "drafted": None,
        "accepted": None,
        "predicted": None,
        "model": plan.model.path,
        "format": plan.format,
        "weight_bits": round(plan.weight_bits, 3),
        "kernels": kernels,
        "context": plan.context,
        "kv_bits": plan.kv_bits,
        "device": plan.device,
        "memory_bytes": {
            "weights": memory.weights_bytes,
            "kv_reserved": memory.kv_reserved_bytes,
            "kv_used": memory.kv_used_bytes,
            "working": memory.working_bytes,
            "overhead": memory.overhead_bytes,
            "total": memory.weights_bytes
            + memory.kv_reserved_bytes
            + memory.working_bytes
            + memory.overhead_bytes,
        },
        "rss_bytes": memory.rss_bytes,
        "seed": stats.seed,
    }
