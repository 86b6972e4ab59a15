"""Laws of many chats on one pool: together as alone, what was read is not read again, room is shared."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.engine import Engine
from engine.errors import WishError
from engine.events import Event, Finished, Prefilled, StepStats
from engine.fit.plan import plan
from engine.hardware.probe import probe
from engine.models.spec import read_spec
from engine.types import GenerateRequest, LoadSpec, Message, SamplingParams
from tests.engine.test_engine import answer, ask, drain
from tests.engine.tiny import FAMILIES, finished, tiny_folder

KINDS = {"all tokens": {}, "windows": FAMILIES["gemma 3"]}


@pytest.fixture(scope="module", params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("many") / "model", **KINDS[request.param])


def loaded(folder: Path, context: int = 512, sequences: int = 4) -> Engine:
    engine = Engine()
    made = plan(read_spec(str(folder)), probe(), LoadSpec(str(folder), format="f32", context=context))
    list(engine.load(replace(made, max_sequences=sequences, prefill_piece=16)))
    return engine


def chat(*texts: str) -> tuple[Message, ...]:
    """User and assistant in turn."""
    return tuple(Message(("user", "assistant")[turn % 2], text) for turn, text in enumerate(texts))


def run_together(engine: Engine, requests: list[GenerateRequest], apart: int = 0) -> dict[str, Finished]:
    """Each joins ``apart`` steps after the one before it."""
    events: list[Event] = []
    for request in requests:
        engine.submit(request)
        for _ in range(apart):
            events += engine.step()
    events += drain(engine)
    ends = {request.request_id: finished(events, request.request_id) for request in requests}
    return {name: end for name, end in ends.items() if end is not None}


@pytest.mark.parametrize("apart", [0, 1, 7])
@pytest.mark.parametrize("sampling", [SamplingParams(temperature=0.0), SamplingParams(seed=3)])
def test_answers_given_together_are_those_given_alone(
    apart: int, sampling: SamplingParams, folder: Path
) -> None:
    texts = ("llamas", "a" * 70, "what is the time?", "b" * 33)
    engine = loaded(folder)
    requests = [ask(text, tokens=10 + 7 * place, sampling=sampling) for place, text in enumerate(texts)]
    together = run_together(engine, requests, apart)
    for request in requests:
        alone = answer(loaded(folder), replace(request, request_id="alone"))
        assert together[request.request_id].stats.token_ids == alone.stats.token_ids


def prompt_ids(engine: Engine, messages: tuple[Message, ...]) -> list[int]:
    assert engine._model is not None
    return engine._model.text.prepare(messages).ids


def test_going_back_to_a_chat_reads_only_what_is_new(folder: Path) -> None:
    engine = loaded(folder)
    first, second = ask("x" * 60, tokens=20), ask("y" * 60, tokens=20)
    said = run_together(engine, [first, second], apart=3)[first.request_id]
    held = [*prompt_ids(engine, first.messages), *said.stats.token_ids]
    messages = chat("x" * 60, said.text, "and then?")
    wanted = prompt_ids(engine, messages)
    could_be = next(n for n, (a, b) in enumerate(zip([*held, -1], wanted, strict=False)) if a != b)
    assert answer(engine, ask(messages)).stats.reused_tokens >= 0.99 * could_be - 1 > 60


def test_an_edit_and_another_answer_resume_where_they_differ(folder: Path) -> None:
    engine = loaded(folder)
    told = answer(engine, ask("x" * 60, tokens=20))
    once_more = answer(engine, ask("x" * 60, tokens=20))
    assert once_more.stats.reused_tokens == told.stats.prompt_tokens - 1
    assert once_more.stats.token_ids == told.stats.token_ids


def test_a_common_beginning_is_read_once(tmp_path: Path) -> None:
    engine = loaded(tiny_folder(tmp_path / "model"))
    system = Message("system", "You answer briefly. " * 5)
    one = answer(engine, ask((system, Message("user", "one"))))
    two = answer(engine, ask((system, Message("user", "two"))))
    common = one.stats.prompt_tokens - len("one<|im_end|>\n<|im_start|>assistant\n") + 2
    assert two.stats.reused_tokens > 0.9 * len(system.content)
    assert two.stats.reused_tokens <= one.stats.prompt_tokens
    assert common > 0


def test_a_running_answer_waits_for_one_piece_of_a_prompt_at_most(folder: Path) -> None:
    engine = loaded(folder)
    running, long = ask("hello", tokens=60, speculate="off"), ask("z" * 200, tokens=2)
    engine.submit(running)
    while not any(isinstance(event, StepStats) for event in engine.step()):
        pass
    engine.submit(long)
    done: int | None = None
    while done is None or done < 200:
        events = engine.step()
        read = [e for e in events if isinstance(e, Prefilled) and e.request_id == long.request_id][-1]
        assert read.done_tokens - (read.reused_tokens if done is None else done) <= 16
        assert any(isinstance(e, StepStats) and e.request_id == running.request_id for e in events)
        done = read.done_tokens


def test_where_the_pool_is_full_the_youngest_answer_waits_and_goes_on(folder: Path) -> None:
    engine = loaded(folder, context=160)
    first, second = ask("m" * 40, tokens=60), ask("n" * 40, tokens=60)
    ends = run_together(engine, [first, second], apart=2)
    for request in (first, second):
        alone = answer(loaded(folder, context=160), replace(request, request_id="alone"))
        assert ends[request.request_id].stats.token_ids == alone.stats.token_ids
        assert ends[request.request_id].reason == alone.reason


def test_the_tokens_of_each_running_answer_are_told_oldest_first(folder: Path) -> None:
    engine = loaded(folder, context=160)
    assert engine.memory().kv_answer_tokens == ()
    first, second = ask("m" * 40, tokens=30), ask("n" * 20, tokens=30)
    engine.submit(first)
    engine.submit(second)
    told = set()
    while engine.is_busy:
        engine.step()
        told.add(engine.memory().kv_answer_tokens)
    longest = max(each for each in told if len(each) == 2)
    assert longest[0] > longest[1] > 20
    assert engine.memory().kv_answer_tokens == ()


def test_idle_chats_give_way_to_a_running_one(folder: Path) -> None:
    engine = loaded(folder, context=160)
    for letter in "abcdef":
        end = answer(engine, ask(letter * 80, tokens=20))
        assert end.stats.generated_tokens == 20 or end.reason == "stop"
    assert engine.memory().kv_used_tokens <= 160


def test_more_requests_than_run_at_once_wait_their_turn(folder: Path) -> None:
    engine = loaded(folder, sequences=2)
    requests = [ask(letter * 20, tokens=8) for letter in "abcde"]
    ends = run_together(engine, requests)
    assert list(ends) == [request.request_id for request in requests]
    assert all(end.reason in ("length", "stop") for end in ends.values())


def test_an_answer_that_is_under_way_keeps_its_id_for_itself(folder: Path) -> None:
    engine = loaded(folder, sequences=1)
    running, waiting = ask("a" * 20, tokens=8), ask("b" * 20, tokens=8)
    for request in (running, waiting):
        engine.submit(request)
        with pytest.raises(WishError, match="its own id"):
            engine.submit(request)
    events = drain(engine)
    assert all(finished(events, request.request_id).stats.generated_tokens for request in (running, waiting))
    engine.submit(running)  # over: its id is free
    drain(engine)


def test_cancelled_answers_leave_what_they_read(folder: Path) -> None:
    engine = loaded(folder)
    endless = SamplingParams(temperature=0.0, logit_bias=((258, -100.0),))
    request = ask("q" * 100, tokens=50, sampling=endless, speculate="off")  # drafts could end it in 12 steps
    other = ask("w" * 30, tokens=20)
    engine.submit(request)
    engine.submit(other)
    for _ in range(12):
        engine.step()
    engine.cancel(request.request_id)
    assert finished(drain(engine), request.request_id) is not None
    assert answer(engine, ask("q" * 100)).stats.reused_tokens > 100
