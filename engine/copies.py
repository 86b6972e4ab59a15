"""The speed of several copies of one chat at once, each with a cache of its own, in pieces of one pass.

Works below requests: copies are no answers, share no pages, and as many run at once as memory has room for.
Knows a loaded model; not who asked, and nothing of what was predicted.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator
from dataclasses import dataclass
from statistics import median

import torch
from torch import Tensor

from engine.decode.prompts import Prompts
from engine.errors import EngineError, MemoryLimitError
from engine.events import Measured, Measuring
from engine.fit import generic_bytes
from engine.fit.kv_pages import kinds_bytes, planned_bits, whole_kinds
from engine.hardware import probe as machine
from engine.kv.cache import KVCache
from engine.models.decoder import Runner, Segment
from engine.text.chat import ChatText
from engine.types import CopiesPoint, GenerateRequest, LoadPlan, MeasureWish
from engine.words import decimal, tr

_WARM_STEPS = 2
_LEAST_SPARE = 0.1  # of the free memory, left to everybody else
_Pieces = Generator[Measuring | Measured, None, None]


@dataclass(slots=True)
class _Copy:
    """One copy: what it holds, the token that comes next, and what reading all it holds has taken."""

    cache: KVCache
    next_id: int = 0
    read_s: float = 0.0


class CopiesMeasurement:
    """Measures the points of a wish, one after another. Every piece is one forward pass."""

    def __init__(
        self, runner: Runner, text: ChatText, plan: LoadPlan, wish: MeasureWish, clock: Callable[[], float]
    ) -> None:
        self._runner = runner
        self._plan = plan
        self._wish = wish
        self._clock = clock
        self._ids = self._prompt(text)
        self._points = [self._at_prompt(point) for point in wish.points]
        self._copies: list[_Copy] = []

    def run(self) -> _Pieces:
        """A ``Measured`` for every point; one that has no room, or fails, says why and the next one follows.
        The number of threads is the plan's meanwhile.
        """
        before = torch.get_num_threads()
        torch.set_num_threads(self._plan.threads)
        try:
            for index, point in enumerate(self._points):
                try:
                    yield from self._measure(index, point)
                except EngineError as error:
                    yield Measured(index, point, failed=error.message)
        finally:
            self._copies.clear()
            torch.set_num_threads(before)

    def _prompt(self, text: ChatText) -> list[int]:
        """The tokens that every copy reads: the chat's, else random ones, which take as long.

        Raises TemplateError, WishError, ContextError.
        """
        room = self._plan.context - self._answer_tokens
        if self._wish.messages:
            request = GenerateRequest("copy", self._wish.messages, template=self._wish.template)
            return Prompts(text, room, self._plan.model.vocab_size).of(request).prompt.ids
        deepest = max(point.tokens for point in self._wish.points)
        vocabulary = range(self._plan.model.vocab_size)
        return random.Random(0).choices(vocabulary, k=max(1, min(deepest, room)))

    def _at_prompt(self, point: CopiesPoint) -> CopiesPoint:
        whole = len(self._ids)
        tokens = whole if self._wish.messages else max(1, min(point.tokens, whole))
        return CopiesPoint(point.copies, tokens)

    @property
    def _answer_tokens(self) -> int:
        """Room for what is written behind the prompt; a cache that cannot be trimmed needs all of it."""
        return _WARM_STEPS + self._wish.steps * self._wish.repeats

    def _measure(self, index: int, point: CopiesPoint) -> _Pieces:
        yield from self._fill(index, point)
        copies = self._copies[: point.copies]
        first_s = self._step(copies)
        ttft_s = sum(copy.read_s for copy in copies) + first_s
        for _ in range(_WARM_STEPS - 1):
            self._step(copies)
        means: list[float] = []
        for repeat in range(self._wish.repeats):
            self._trim(copies, point.tokens)
            took_s = 0.0
            for step in range(self._wish.steps):
                took_s += self._step(copies)
                done = (repeat * self._wish.steps + step + 1) / (self._wish.repeats * self._wish.steps)
                yield Measuring(index, point, "decoding", done, step_s=took_s / (step + 1))
            means.append(took_s / self._wish.steps)
        held = sum(self._runner.bytes_by_part()) + sum(copy.cache.used_nbytes for copy in copies)
        yield Measured(index, point, median(means), ttft_s, held)

    def _fill(self, index: int, point: CopiesPoint) -> _Pieces:
        """Make the copies of a point hold its tokens. Raises MemoryLimitError."""
        if not self._plan.model.capabilities.can_trim:
            self._copies.clear()  # what they have written since cannot be taken back
        self._make_room(point)
        self._trim(self._copies[: point.copies], point.tokens)
        for number, copy in enumerate(self._copies[: point.copies]):
            while copy.cache.length < point.tokens:
                start = copy.cache.length
                ids = self._ids[start : min(start + self._plan.prefill_piece, point.tokens)]
                started = self._clock()
                self._read(copy, ids, is_last=start + len(ids) == point.tokens)
                copy.read_s += self._clock() - started
                share = copy.cache.length / point.tokens
                yield Measuring(index, point, "reading", (number + share) / point.copies)

    def _make_room(self, point: CopiesPoint) -> None:
        """Raises MemoryLimitError where the copies that are missing have no room."""
        for number in range(len(self._copies), point.copies):
            deepest = max(each.tokens for each in self._points if each.copies > number)
            capacity = deepest + self._answer_tokens
            self._check_free(capacity)
            with torch.inference_mode():
                try:
                    self._copies.append(_Copy(self._runner.new_cache(capacity)))
                except torch.OutOfMemoryError:
                    said = tr("There is no room for {count} caches.").format(count=point.copies)
                    raise MemoryLimitError(said) from None

    def _check_free(self, capacity: int) -> None:
        """Memory of a cache is taken when it fills: one that is there already counts with all it may take."""
        _, free = machine.ram_bytes()
        if free is None or self._plan.device != "cpu":
            return
        unused = sum(copy.cache.nbytes - copy.cache.used_nbytes for copy in self._copies)
        need = self._cache_bytes(capacity)
        if need + unused > (1 - _LEAST_SPARE) * free:
            raise MemoryLimitError(
                tr("Another cache needs {needed} GB and {free} GB are free.").format(
                    needed=decimal(need / 1e9, 2), free=decimal(max(0, free - unused) / 1e9, 2)
                )
            )

    def _cache_bytes(self, capacity: int) -> int:
        spec = self._plan.model
        if spec.generic is not None:
            return generic_bytes.kv_bytes(spec, capacity, self._plan.kv_bits)
        return kinds_bytes(spec, whole_kinds(spec, capacity), planned_bits(self._plan), 1)

    def _trim(self, copies: list[_Copy], tokens: int) -> None:
        if self._plan.model.capabilities.can_trim:
            for copy in copies:
                copy.cache.trim(min(copy.cache.length, tokens))

    def _step(self, copies: list[_Copy]) -> float:
        """The likeliest next token of every copy; seconds."""
        started = self._clock()
        logits = self._forward([Segment(copy.cache, [copy.next_id]) for copy in copies])
        chosen = logits.argmax(dim=-1).tolist()
        for copy, token in zip(copies, chosen, strict=True):
            copy.next_id = token
        return self._clock() - started

    def _read(self, copy: _Copy, ids: list[int], is_last: bool) -> None:
        """A piece of the prompt, and behind the last one the likeliest next token."""
        logits = self._forward([Segment(copy.cache, ids, wants_logits=is_last)])
        if is_last:
            copy.next_id = int(logits.argmax())

    def _forward(self, segments: list[Segment]) -> Tensor:
        with torch.inference_mode():
            return self._runner.forward(segments)
