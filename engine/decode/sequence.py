"""One answer in the making: its tokens, sampler, text and clock. Knows no other sequence."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from engine.decode.meter import Meter
from engine.decode.sampler import Sampler
from engine.kv.cache import KVCache
from engine.text.detok import StreamDecoder
from engine.text.stops import StopMatcher
from engine.text.tokenizer import Tokenizer
from engine.types import AnswerStats, Chunk, Finished, GenerateRequest, Prefilled, StepStats


class Slot:
    """A cache and the ids whose keys and values it holds; kept between answers so that they can be reused."""

    def __init__(self, cache: KVCache) -> None:
        self.cache = cache
        self.ids: list[int] = []

    def common_prefix(self, ids: list[int]) -> int:
        """Number of leading tokens of ``ids`` that are already in the cache."""
        count = 0
        for held, wanted in zip(self.ids, ids, strict=False):
            if held != wanted:
                break
            count += 1
        return count

    def keep(self, length: int) -> None:
        """Forget everything after the first ``length`` tokens."""
        self.cache.trim(length)
        del self.ids[length:]


class Sequence:
    """State of one request from submission to its end."""

    def __init__(self, request: GenerateRequest, tokenizer: Tokenizer, clock: Callable[[], float]) -> None:
        self.request = request
        self.meter = Meter(clock)
        self.sampler = Sampler(request.sampling, never_penalized=tokenizer.control_ids)
        self.generated: list[int] = []
        self.prompt: list[int] = []
        self.notes: tuple[str, ...] = ()
        self.reused = 0
        self.reason: str | None = None  # set once the answer has ended
        self._slot: Slot | None = None
        self._eos_ids = tokenizer.eos_ids
        self._detok = StreamDecoder(tokenizer)
        self._stops = StopMatcher(request.stop)
        self._text: list[str] = []

    @property
    def slot(self) -> Slot:
        assert self._slot is not None, "a sequence runs only after it was admitted"
        return self._slot

    @property
    def is_admitted(self) -> bool:
        return self._slot is not None

    def admit(self, slot: Slot, prompt: list[int], notes: tuple[str, ...]) -> None:
        """Take ``slot`` and reuse what it holds of ``prompt``; the last token is always read again, since its
        logits are needed.
        """
        self._slot, self.prompt, self.notes = slot, prompt, notes
        self.reused = min(slot.common_prefix(prompt), len(prompt) - 1)
        slot.keep(self.reused)
        self.meter.prefill_started()

    @property
    def is_prefilling(self) -> bool:
        """Whether prompt tokens are still unread."""
        return self.slot.cache.length < len(self.prompt)

    def next_ids(self, piece: int) -> list[int]:
        """Tokens to run next: a piece of the prompt, or the last generated token."""
        done = self.slot.cache.length
        if done < len(self.prompt):
            return self.prompt[done : done + piece]
        return self.generated[-1:]

    def ran(self, ids: list[int]) -> None:
        """Note that ``ids`` are in the cache now."""
        self.slot.ids.extend(ids)
        if not self.generated:
            self.meter.prefilled(len(ids))

    def accept(self, logits: Tensor) -> str:
        """Choose a token from logits [vocab]; return the text that became final. May set ``reason``."""
        token = self.sampler.choose(logits, self.slot.ids)
        if token in self._eos_ids:
            self.reason = "stop"
            return self._release("", is_end=True)
        self.generated.append(token)
        self.meter.token()
        text = self._stops.push(self._detok.push(token))
        limit = self.request.max_tokens
        if self._stops.hit:
            self.reason = "stop"
        elif limit is not None and len(self.generated) >= limit:
            self.reason = "length"
        elif len(self.prompt) + len(self.generated) >= self.slot.cache.capacity:
            self.reason = "context"
        return self._release(text, is_end=self.reason is not None)

    def end(self, reason: str) -> str:
        """End the answer early; return the text that was held back."""
        self.reason = reason
        return self._release("", is_end=True)

    def _release(self, text: str, is_end: bool) -> str:
        if is_end and not self._stops.hit:
            text += self._stops.push(self._detok.flush())
            if not self._stops.hit:
                text += self._stops.flush()
        self._text.append(text)
        return text

    def prefilled_event(self) -> Prefilled:
        done = min(self.slot.cache.length, len(self.prompt))
        return Prefilled(self.request.request_id, len(self.prompt), self.reused, done, self.notes)

    def chunk_event(self, text: str) -> list[Chunk]:
        return [Chunk(self.request.request_id, text)] if text else []

    def step_event(self) -> StepStats:
        meter = self.meter
        return StepStats(
            self.request.request_id,
            meter.generated_tokens,
            meter.decode_tps,
            meter.recent_tps,
            meter.ttft_s,
            meter.take_step_ms(),
        )

    def finished_event(self) -> Finished:
        assert self.reason is not None
        meter = self.meter
        stats = AnswerStats(
            prompt_tokens=len(self.prompt),
            reused_tokens=self.reused,
            generated_tokens=len(self.generated),
            ttft_s=meter.ttft_s,
            prefill_tps=meter.prefill_tps,
            decode_tps=meter.decode_tps,
            seed=self.sampler.seed,
            token_ids=tuple(self.generated),
        )
        return Finished(self.request.request_id, self.reason, "".join(self._text), stats)
