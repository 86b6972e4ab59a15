"""A chat that outgrows its context: what is left out is said, what was asked stays, the answer goes on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.engine import Engine
from engine.errors import WishError
from engine.events import ContextShifted, Event, Failed, Finished
from engine.types import GenerateRequest, Message, SamplingParams, TemplateOptions
from tests.engine.test_engine import answer, ask, drain
from tests.engine.test_many_chats import chat, loaded
from tests.engine.tiny import finished, tiny_folder

CONTEXT = 200
SYSTEM = Message("system", "be brief")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("full") / "model")


@pytest.fixture
def engine(folder: Path) -> Engine:
    return loaded(folder, context=CONTEXT)


def run(engine: Engine, request: GenerateRequest) -> tuple[list[ContextShifted], Finished, list[Event]]:
    engine.submit(request)
    events = drain(engine)
    end = finished(events, request.request_id)
    assert end is not None
    return [event for event in events if isinstance(event, ContextShifted)], end, events


def long_chat(turns: int) -> tuple[Message, ...]:
    said = [part for turn in range(turns) for part in ("q" * 20 + str(turn), "a" * 20)]
    return (SYSTEM, *chat(*said, "and now?"))


def test_oldest_turns_give_way_to_the_question_and_it_is_said(engine: Engine) -> None:  # B071, B072
    messages = long_chat(6)
    [shift], end, _ = run(engine, ask(messages, tokens=10))
    assert shift.dropped_turns > 0 < shift.dropped_tokens
    left = (SYSTEM, *messages[1 + 2 * shift.dropped_turns :])
    assert end.stats.token_ids == answer(loaded_again(engine), ask(left, tokens=10)).stats.token_ids
    assert end.stats.prompt_tokens < CONTEXT


def loaded_again(engine: Engine) -> Engine:
    assert engine.plan is not None
    fresh = Engine()
    list(fresh.load(engine.plan))
    return fresh


def test_an_answer_goes_on_when_the_context_is_full(engine: Engine) -> None:
    messages = long_chat(2)
    shifts, end, events = run(
        engine, ask(messages, tokens=100, sampling=SamplingParams(temperature=1, seed=1))
    )
    assert [shift.dropped_turns for shift in shifts] == [1] or [s.dropped_turns for s in shifts] == [2]
    assert end.reason in ("length", "stop")
    assert end.stats.generated_tokens > CONTEXT - end.stats.prompt_tokens
    said = [place for place, event in enumerate(events) if isinstance(event, ContextShifted)]
    assert said[0] < len(events) - 1


def test_the_first_and_the_last_stay_where_that_is_wished(engine: Engine) -> None:
    shifts, end, _ = run(engine, ask(long_chat(6), tokens=10, when_full="middle"))
    assert [shift.dropped_turns for shift in shifts] == [0]
    assert end.reason in ("length", "stop")
    shifts, end, _ = run(engine, ask("q" * 150, tokens=60, when_full="middle"))
    assert [shift.dropped_turns for shift in shifts] == [0]
    assert end.stats.generated_tokens == 60 or end.reason == "stop"


def test_nothing_is_left_out_where_that_is_wished(engine: Engine) -> None:
    request = ask(long_chat(6), when_full="stop")
    engine.submit(request)
    events = drain(engine)
    assert [event.kind for event in events if isinstance(event, Failed)] == ["context"]
    shifts, end, _ = run(engine, ask(long_chat(2), tokens=100, when_full="stop"))
    assert (shifts, end.reason) == ([], "context")
    assert end.stats.prompt_tokens + end.stats.generated_tokens == CONTEXT


@pytest.mark.parametrize("when_full", ["oldest", "stop"])
def test_a_question_that_alone_is_too_long_is_refused_with_both_numbers(
    when_full: str, engine: Engine
) -> None:  # B072
    request = ask("q" * 400, when_full=when_full)
    engine.submit(request)
    [failed] = [event for event in drain(engine) if isinstance(event, Failed)]
    assert failed.kind == "context"
    assert f"{CONTEXT}" in failed.message
    assert answer(engine, ask("hello", tokens=3)).stats.generated_tokens <= 3


def test_an_endless_answer_ends_with_the_context(engine: Engine) -> None:
    """The answer itself is never cut to make room for more of it."""
    for when_full in ("oldest", "middle"):
        request = replace(ask("go", when_full=when_full), max_tokens=None)
        shifts, end, _ = run(engine, request)
        assert end.reason in ("context", "stop")
        assert len(shifts) <= 1


def test_a_context_of_next_to_nothing_refuses_in_words(folder: Path) -> None:
    with pytest.raises(WishError, match="context length of 1 "):
        loaded(folder, context=1)
    engine = loaded(folder, context=2)
    for _ in range(2):
        engine.submit(ask("hello"))
        [failed] = [event for event in drain(engine) if isinstance(event, Failed)]
        assert (failed.kind, bool(failed.hint)) == ("context", True)


def test_a_prompt_of_nothing_is_refused_and_the_next_one_is_answered(engine: Engine) -> None:
    engine.submit(ask("", template=TemplateOptions(is_plain=True)))
    [failed] = [event for event in drain(engine) if isinstance(event, Failed)]
    assert (failed.kind, failed.message) == ("context", "The prompt is empty.")
    assert answer(engine, ask("hello", tokens=3)).stats.generated_tokens <= 3
