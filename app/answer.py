"""One answer without a window: load, ask, and the settled JSON of `decodeck chat` and `smoke`.

Knows the engine and the shape of the report; not where the model came from or who asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.engine import Engine
from engine.errors import EngineError
from engine.events import (
    AnswerStats,
    Chunk,
    ContextShifted,
    Failed,
    Finished,
    Loaded,
    LoadProgress,
    MemoryReport,
    Prefilled,
    TokenLogprob,
)
from engine.fit import speed
from engine.types import GenerateRequest, LoadPlan


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
    dropped_tokens: int = 0  # of the chat, left out because the context was full


def load(
    engine: Engine, plan: LoadPlan, on_progress: Callable[[LoadProgress], None] = lambda _: None
) -> Loaded:
    """Load ``plan`` to its end. Raises what Engine.load raises."""
    for event in engine.load(plan):
        if isinstance(event, Loaded):
            return event
        on_progress(event)
    raise AssertionError("a load ends with Loaded or raises")


def ask(
    engine: Engine,
    request: GenerateRequest,
    on_text: Callable[[str, str], None] = lambda _kind, _text: None,
    on_note: Callable[[str], None] = lambda _: None,
    is_stopped: Callable[[], bool] = lambda: False,
) -> Answer:
    """Run one request to its end, or until ``is_stopped``; ``on_text`` takes kind (thinking, answer, tool)
    and text of each piece.

    Raises AnswerError where not one token was made because of an error.
    """
    engine.submit(request)
    failed: Failed | None = None
    noted, dropped = False, 0
    while engine.is_busy:
        if is_stopped():
            engine.cancel(request.request_id)
        for event in engine.step():
            if isinstance(event, Chunk):
                on_text(event.kind, event.text)
            elif isinstance(event, Prefilled) and event.notes and not noted:
                noted = True
                for note in event.notes:
                    on_note(note)
            elif isinstance(event, ContextShifted):
                dropped += event.dropped_tokens
                on_note(shifted_sentence(event))
            elif isinstance(event, Failed):
                failed = event
            elif isinstance(event, Finished):
                if failed and not event.stats.generated_tokens:
                    raise AnswerError(failed)
                return Answer(event, engine.memory(), failed, dropped)
    raise AssertionError("an answer ends with Finished")


def shifted_sentence(event: ContextShifted) -> str:
    """Says what was left out of a chat."""
    tokens = f"{event.dropped_tokens:,} tokens"
    if event.dropped_turns:
        return f"The context is full: {event.dropped_turns} earlier questions ({tokens}) are left out."
    return f"The context is full: {tokens} in the middle are left out."


def cut_sentence(finished: Finished) -> str:
    """Says why an answer is not finished that was to be; "" where it is."""
    if finished.reason != "context":
        return ""
    count = f"{finished.stats.generated_tokens:,} tokens"
    return f"The answer was cut after {count}: the context is full. --context makes it longer."


def report(plan: LoadPlan, kernels: str, finished: Finished, memory: MemoryReport) -> dict[str, object]:
    """The JSON object of ``decodeck chat``; features that do not exist yet are None."""
    stats: AnswerStats = finished.stats
    return {
        "text": finished.text,
        "thinking": finished.thinking,
        "token_ids": list(stats.token_ids),
        "prompt_tokens": stats.prompt_tokens,
        "reused_tokens": stats.reused_tokens,
        "generated_tokens": stats.generated_tokens,
        "ttft_s": stats.ttft_s,
        "prefill_tps": stats.prefill_tps,
        "decode_tps": stats.decode_tps,
        "finish_reason": finished.reason,
        "drafted": stats.drafted_tokens,
        "accepted": stats.accepted_tokens,
        "predicted": predicted(plan, stats),
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


def predicted(plan: LoadPlan, stats: AnswerStats) -> dict[str, float]:
    """What was to be expected of an answer of this length, by what the plan knew of the machine."""
    middle = stats.prompt_tokens + stats.generated_tokens // 2
    return {
        "decode_tps": 1 / speed.step_s(plan, min(plan.context, max(1, middle))),
        "ttft_s": speed.prefill_s(plan, max(1, stats.prompt_tokens), stats.reused_tokens),
    }


def logprobs(finished: Finished) -> list[dict[str, object]]:
    """The JSON of ``chat --logprobs``: an entry for each of ``token_ids``, with the likeliest, best first."""
    return [
        _logprob(each.chosen) | {"top": [_logprob(other) for other in each.top]}
        for each in finished.stats.logprobs
    ]


def _logprob(token: TokenLogprob) -> dict[str, object]:
    return {"id": token.id, "token": token.text, "logprob": token.logprob}
