"""Answers that were recorded, decoded once more: the model computes every row, and the recorded token wins.

So drafts stand or fall as in the recorded chat whatever the weights are, random ones too. All else is the
engine's own: the scheduler's steps with its drafts, sampler and text.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from app.answer import AnswerError
from app.bench.streams import options_of
from engine.capabilities import Capabilities
from engine.engine import Engine
from engine.events import Event, Failed, Finished, StepStats
from engine.kv.cache import KVCache
from engine.kv.store import KVStore
from engine.models.decoder import Runner, Segment
from engine.text.chat import ChatText
from engine.types import GenerateRequest, Message, SamplingParams

_CERTAIN = 1e30  # a logit above all that a model gives


class ForcedRunner(Runner):
    """A runner whose best token is the recorded one at every place of ``stream``, prompt and answer."""

    def __init__(self, runner: Runner) -> None:
        self.stream: Sequence[int] = ()
        self._runner = runner

    @property
    def kernels(self) -> str:
        return self._runner.kernels

    @property
    def capabilities(self) -> Capabilities:
        return self._runner.capabilities

    def new_cache(self, capacity: int) -> KVCache:
        return self._runner.new_cache(capacity)

    def new_store(self, context: int, piece: int, sequences: int) -> KVStore:
        return self._runner.new_store(context, piece, sequences)

    def bytes_by_part(self) -> tuple[int, int]:
        return self._runner.bytes_by_part()

    def forward(self, segments: list[Segment]) -> Tensor:
        places = [place for segment in segments for place in _next_places(segment)]  # before caches grow
        logits = self._runner.forward(segments)
        for row, place in enumerate(places):
            if place < len(self.stream):
                logits[row, self.stream[place]] = _CERTAIN
        return logits


def _next_places(segment: Segment) -> range:
    """Places in the stream that the segment's rows of logits tell."""
    end = segment.cache.length + len(segment.ids) + 1
    return range(end - segment.num_logits, end)


class ForcedAnswers:
    """Recorded answers on the model that ``engine`` has loaded, in the tokens of ``text``."""

    def __init__(self, engine: Engine, text: ChatText) -> None:
        self._text = text
        self._scheduler = engine.rehearsal(self._forced, text)

    def _forced(self, runner: Runner) -> Runner:
        self._runner = ForcedRunner(runner)
        return self._runner

    def run(
        self, question: str, prompt: Sequence[int], answer: Sequence[int], speculate: str
    ) -> dict[str, Any]:
        """Decode ``answer`` behind the prompt of ``question``, whose ids are ``prompt``.

        ``seconds`` a token after the first, as an answer's speed is always counted, and the ``steps``:
        [tokens checked, tokens that came, why drafting is off]. Raises the error that the answer fails with.
        """
        self._runner.stream = (*prompt, *answer)
        request = GenerateRequest(
            "forced",
            (Message("user", question),),
            SamplingParams(temperature=0.0),
            max_tokens=len(answer),
            template=options_of(self._text),
            speculate=speculate,
        )
        self._scheduler.submit(request)
        steps: list[StepStats] = []
        for event in self._events():
            if isinstance(event, StepStats):
                steps.append(event)
            elif isinstance(event, Failed):
                raise AnswerError(event)
            elif isinstance(event, Finished):
                assert event.stats.prompt_tokens == len(prompt), "both sides make the same prompt"
                assert event.stats.token_ids == tuple(answer), "no token can win but the recorded one"
                return {"seconds": 1 / (event.stats.decode_tps or math.inf), "steps": _by_step(steps)}
        raise AssertionError("an answer ends with Finished")

    def _events(self) -> Iterator[Event]:
        while self._scheduler.is_busy:
            with torch.inference_mode():
                self._scheduler.step()
            yield from self._scheduler.take_events()


def _by_step(told: Sequence[StepStats]) -> list[list[Any]]:
    """What each step did, from the figures behind the first token and behind every step."""
    return [
        [
            now.drafted_tokens - before.drafted_tokens,
            now.generated_tokens - before.generated_tokens,
            now.drafting_off,
        ]
        for before, now in pairwise(told)
    ]
