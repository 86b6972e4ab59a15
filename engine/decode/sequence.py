"""One answer in the making: its tokens, sampler, text and clock. Knows no other sequence."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future

from torch import Tensor

from engine.decode.acceptance import Target
from engine.decode.constraint import Constraint, Guide
from engine.decode.goodput import ChatDrafting
from engine.decode.logprobs import logprobs_of
from engine.decode.lookup import Draft, Lookup
from engine.decode.meter import Meter
from engine.decode.penalties import PENALTY_WINDOW
from engine.decode.sampler import Sampler, distribution, known
from engine.events import AnswerStats, Chunk, Finished, Prefilled, StepStats, TokenLogprobs
from engine.kv.cache import KVCache
from engine.text.channels import ANSWER, THINKING, TOOL, Piece
from engine.text.reply import Reply
from engine.text.tokenizer import Tokenizer
from engine.types import GenerateRequest

_INDEXED_AT_ONCE = 4096  # tokens of a long chat that a step looks at, some milliseconds


class Sequence:
    """State of one request from submission to its end."""

    def __init__(
        self,
        request: GenerateRequest,
        tokenizer: Tokenizer,
        clock: Callable[[], float],
        form: Future[Constraint] | None = None,
    ) -> None:
        """``form`` is what the answer is held to, once it has been compiled. Raises WishError for sampling
        values that cannot be used.
        """
        self.request = request
        self.form = form
        self.meter = Meter(clock)
        self.sampler = Sampler(request.sampling, tokenizer.control_ids, tokenizer.vocab_size)
        self.generated: list[int] = []
        self.prompt: list[int] = []
        self.prompt_tokens = 0  # before anything was left out of it for want of room
        self.ids: list[int] = []  # the prompt, and what was generated
        self.notes: tuple[str, ...] = ()
        self.reused = 0
        self.reason: str | None = None  # set once the answer has ended
        self.drafting = ChatDrafting()
        self._cache: KVCache | None = None
        self._lookup = Lookup((), tokenizer.eos_ids)
        self._tokenizer = tokenizer
        self._reply: Reply | None = None
        self._guide: Guide | None = None
        self._logprobs: list[TokenLogprobs] = []
        self._logprobs_told = 0

    @property
    def cache(self) -> KVCache:
        assert self._cache is not None, "a sequence runs only after it was admitted"
        return self._cache

    @property
    def is_admitted(self) -> bool:
        return self._cache is not None

    def prepare(self, prompt: list[int], notes: tuple[str, ...], reply: Reply) -> None:
        """Take the prompt; ``reply`` takes the tokens that come. Raises WishError where the answer's form
        cannot be had.
        """
        if self.form is not None:
            self._guide = Guide(self.form.result(), reply, self._tokenizer.eos_ids)
        self.prompt, self.notes, self._reply = prompt, notes, reply
        self.prompt_tokens = len(prompt)
        self.ids = list(prompt)

    @property
    def is_prepared(self) -> bool:
        return self._reply is not None

    def admit(self, cache: KVCache) -> None:
        """Run on ``cache``, and reuse what it holds."""
        self._cache = cache
        if not self.generated:
            self.reused = cache.length
            self.meter.prefill_started()

    def pause(self) -> KVCache:
        """Give the cache back; admitted again, the sequence goes on where it was."""
        cache, self._cache = self.cache, None
        return cache

    @property
    def is_full(self) -> bool:
        """Whether there is no room for another token."""
        return len(self.ids) >= self.cache.capacity

    def shift(self, prompt: list[int]) -> KVCache:
        """Go on behind a shorter prompt; the cache of the longer one is given back."""
        self.prompt = prompt
        self.ids = [*prompt, *self.generated]
        self._lookup.trim(0)
        return self.pause()

    @property
    def is_prefilling(self) -> bool:
        """Whether there are more tokens to read than the one that was generated last."""
        unread = len(self.ids) - self.cache.length
        return unread > 1 or not self.generated

    def next_ids(self, piece: int) -> list[int]:
        """Tokens to run next: a piece of what is unread, or the last generated token."""
        done = self.cache.length
        return self.ids[done : done + piece]

    def ran(self, ids: list[int]) -> None:
        """Note that ``ids`` have been read."""
        if not self.generated:
            self.meter.prefilled(len(ids))

    def draw(self, logits: Tensor, drafted: tuple[int, ...] = ()) -> Tensor:
        """The token after the ``drafted`` ones, [], from logits [vocab], on their device and without waiting
        for it. Raises WishError where the answer's form allows none.
        """
        if self._guide is not None:
            logits = self._guide.masked(logits, drafted)
        if not drafted:
            return self.sampler.draw(logits, self.ids, self.generated)
        return self.sampler.draw(logits, *self._behind(drafted))

    def target(self, drafted: tuple[int, ...], rows: list[Tensor]) -> Target:
        """The model's side of ``drafted``: row j, logits [vocab], follows the first j of them."""

        def probabilities(row: int) -> Tensor:
            before = drafted[:row]
            logits = rows[row] if self._guide is None else self._guide.masked(rows[row], before)
            return distribution(self.adjusted(logits, before), self.sampler.params)

        return Target(
            draw=lambda row: int(self.draw(rows[row], drafted[:row])),
            probabilities=probabilities,
            generator=self.sampler.generator(rows[0].device),
        )

    def adjusted(self, logits: Tensor, drafted: tuple[int, ...]) -> Tensor:
        """Logits [vocab] of what follows the ``drafted`` tokens, with bias and penalties."""
        return self.sampler.adjusted(logits, *self._behind(drafted))

    def _behind(self, drafted: tuple[int, ...]) -> tuple[list[int], list[int]]:
        """As much of the history as a penalty looks at, and the answer, with the ``drafted`` tokens."""
        return [*self.ids[-PENALTY_WINDOW:], *drafted], [*self.generated, *drafted]

    @property
    def draft_room(self) -> int:
        """Most drafted tokens that can be of use: another one comes after them."""
        left = self.cache.capacity - len(self.ids)
        if self.request.max_tokens is not None:
            left = min(left, self.request.max_tokens - len(self.generated))
        return max(0, left - 1)

    @property
    def can_be_drafted(self) -> bool:
        """Whether drafts can be judged: the answer has no form, or has begun."""
        return self._guide is None or self._guide.has_begun

    def standing(self, drafted: tuple[int, ...]) -> int:
        """How many of the ``drafted`` tokens the answer's form allows; all of them where it has none."""
        return len(drafted) if self._guide is None else self._guide.standing(drafted)

    def looked_up(self, most: int) -> Draft:
        """At most ``most`` tokens that may come next, by what came before, and no more than may come."""
        for token in self.ids[len(self._lookup) : len(self._lookup) + _INDEXED_AT_ONCE]:
            self._lookup.push(token)
        if self.request.speculate == "off" or len(self._lookup) < len(self.ids):
            return Draft()
        draft = self._lookup.draft(min(most, self.draft_room))
        standing = self.standing(draft.ids) if draft.ids else 0
        return Draft(draft.ids[:standing], draft.match) if standing else Draft()

    def accept(self, token: int, row: Tensor) -> list[Chunk]:
        """Take the token drawn from logits ``row`` [vocab]; return the text that became final. May set
        ``reason``. Raises NumericsError where they are invalid.
        """
        assert self._reply is not None, "a sequence runs only after it was admitted"
        token = known(token)
        if token in self._tokenizer.eos_ids:
            return self.end("stop")
        self.generated.append(token)
        self.ids.append(token)
        self.meter.token()
        self._note_logprobs(token, row)
        pieces = self._reply.push(token)
        if self._guide is not None:
            self._guide.accept(token)
        limit = self.request.max_tokens
        if self._reply.is_stopped or (self._guide is not None and self._guide.is_complete):
            self.reason = "stop"
        elif limit is not None and len(self.generated) >= limit:
            self.reason = "length"
        return self._chunks(pieces) + (self.end(self.reason) if self.reason else [])

    def _note_logprobs(self, token: int, row: Tensor) -> None:
        count = self.request.sampling.logprobs
        if count:
            self._logprobs.append(logprobs_of(row, token, count, self._text_of))

    def _text_of(self, token: int) -> str:
        return self._tokenizer.token_bytes(token).decode(errors="replace")

    def end(self, reason: str) -> list[Chunk]:
        """End the answer; return the text that was held back."""
        self.reason = reason
        return self._chunks(self._reply.flush()) if self._reply else []

    def _chunks(self, pieces: list[Piece]) -> list[Chunk]:
        return [Chunk(self.request.request_id, text, kind) for kind, text in pieces]

    def prefilled_event(self) -> Prefilled:
        total = len(self.ids) if self.generated else len(self.prompt)  # it may read all of it again
        done = min(self.cache.length, total)
        return Prefilled(self.request.request_id, total, self.reused, done, self.notes)

    def step_event(self) -> StepStats:
        meter = self.meter
        logprobs, self._logprobs_told = self._logprobs[self._logprobs_told :], len(self._logprobs)
        return StepStats(
            self.request.request_id,
            meter.generated_tokens,
            meter.decode_tps,
            meter.recent_tps,
            meter.ttft_s,
            meter.take_step_ms(),
            tuple(logprobs),
            self.drafting.drafted,
            self.drafting.accepted,
            self.drafting.reason or "",
        )

    def finished_event(self) -> Finished:
        assert self.reason is not None
        meter = self.meter
        stats = AnswerStats(
            prompt_tokens=self.prompt_tokens,
            reused_tokens=self.reused,
            generated_tokens=len(self.generated),
            ttft_s=meter.ttft_s,
            prefill_tps=meter.prefill_tps,
            decode_tps=meter.decode_tps,
            seed=self.sampler.seed,
            token_ids=tuple(self.generated),
            logprobs=tuple(self._logprobs),
            drafted_tokens=self.drafting.drafted,
            accepted_tokens=self.drafting.accepted,
        )
        reply = self._reply
        answer, thinking, tool = (reply.text(kind) if reply else "" for kind in (ANSWER, THINKING, TOOL))
        raw = reply.raw if reply else ""
        return Finished(self.request.request_id, self.reason, answer, stats, thinking, tool, raw)
