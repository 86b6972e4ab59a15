"""Recorded answers decoded once more: the recorded tokens come, the model computes, the engine chooses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest
from torch import Tensor

from app import answer
from app.answer import AnswerError
from app.bench.forced import ForcedAnswers
from app.bench.streams import Stream, make_stream
from engine.decode.goodput import ChatDrafting, StepCosts, cost_prior
from engine.decode.replay import ByGoodput, replay
from engine.engine import Engine
from engine.fit.plan import plan
from engine.hardware.probe import probe
from engine.models.decoder import Segment
from engine.models.spec import read_spec
from engine.text.chat import ChatText
from engine.types import LoadSpec

LOOP = "over the hills and far away, "
CHATS = {"repeats": (LOOP, LOOP * 3 + "and back."), "free": ("Sing.", "Five quick foxes jump; why not we?")}
Write = Callable[[str], Path]


def loaded(path: Path) -> tuple[Engine, ChatText]:
    """An engine whose clock goes on by a second each time it is read: all steps take equally long."""
    ticks = count()
    engine = Engine(clock=lambda: float(next(ticks)))
    answer.load(engine, plan(read_spec(str(path)), probe(), LoadSpec(str(path), context=512, threads=1)))
    return engine, ChatText.load(str(path))


def run(forced: ForcedAnswers, stream: Stream, speculate: str = "ngram") -> list[list[object]]:
    steps: list[list[object]] = forced.run(stream.question, stream.prompt, stream.answer, speculate)["steps"]
    return steps


@pytest.mark.parametrize("kind", CHATS)
def test_without_drafts_every_step_is_one_row_and_brings_one_token(kind: str, tiny: Write) -> None:
    engine, text = loaded(tiny("Q4_0"))
    stream = make_stream(text, kind, *CHATS[kind])
    assert run(ForcedAnswers(engine, text), stream, "off") == [[0, 1, ""]] * (len(stream.answer) - 1)


class Noted(ByGoodput):
    """What the replay chooses, in the worker's words."""

    def observe(self, draft, checked, came, cost) -> None:  # type: ignore[no-untyped-def]
        super().observe(draft, checked, came, cost)
        self.steps.append([checked, len(came), self.chat.reason or ""])

    steps: list[list[object]]


@pytest.mark.parametrize("kind", CHATS)
def test_the_engines_steps_are_those_that_the_replay_counts(kind: str, tiny: Write) -> None:
    engine, text = loaded(tiny("Q4_0"))
    assert engine.plan is not None
    stream = make_stream(text, kind, *CHATS[kind])
    rule = Noted(ChatDrafting(), StepCosts(cost_prior(engine.plan.is_native)))
    rule.steps = []
    replay(stream.prompt, stream.answer, rule, lambda rows: 1.0, stream.ends)
    assert run(ForcedAnswers(engine, text), stream) == rule.steps
    assert any(checked for checked, *_ in rule.steps)


def test_the_model_computes_each_row_that_is_checked(tiny: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, text = loaded(tiny("Q4_0"))
    stream = make_stream(text, "repeats", *CHATS["repeats"])
    forced, rows = ForcedAnswers(engine, text), []
    inner = forced._runner._runner.forward

    def forward(segments: list[Segment]) -> Tensor:
        rows.append(sum(len(segment.ids) for segment in segments))
        return inner(segments)

    monkeypatch.setattr(forced._runner._runner, "forward", forward)
    steps = run(forced, stream)
    assert rows[-len(steps) :] == [1 + checked for checked, *_ in steps]  # type: ignore[operator]
    assert sum(rows[: -len(steps)]) == len(stream.prompt)


def test_the_next_run_reads_its_prompt_from_the_cache_and_the_model_is_what_it_was(tiny: Write) -> None:
    engine, text = loaded(tiny("Q4_0"))
    before = engine.logits([5, 6, 7])
    stream = make_stream(text, "repeats", *CHATS["repeats"])
    forced = ForcedAnswers(engine, text)
    run(forced, stream, "off")
    run(forced, replace(stream, answer=stream.answer[:9]), "off")  # another answer to the same prompt
    assert engine.logits([5, 6, 7]).equal(before)


def test_an_answer_that_fails_says_why(tiny: Write) -> None:
    engine, text = loaded(tiny("Q4_0"))
    stream = make_stream(text, "long", "x" * 600, "y")
    with pytest.raises(AnswerError, match="context holds 512"):
        run(ForcedAnswers(engine, text), stream)
