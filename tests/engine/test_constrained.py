"""Whole answers held to a schema or a regex: a tiny random model has no other way to write JSON."""

from __future__ import annotations

import json
import re
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from engine.decode.constraint import Constraint, Grammars
from engine.decode.sequence import Sequence
from engine.decode.speculation import Offer, Speculation
from engine.engine import Engine
from engine.errors import WishError
from engine.events import Event, Failed, Finished
from engine.types import GenerateRequest, Message, SamplingParams
from tests.engine.test_cases_engine import GREEDY, loaded, request, run
from tests.engine.test_replies import OPENED
from tests.engine.tiny import finished, tiny_folder

SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "a": {"type": "integer", "minimum": -9, "maximum": 99},
            "b": {"type": "array", "items": {"type": "string", "maxLength": 3}, "maxItems": 2},
        },
        "required": ["a", "b"],
        "additionalProperties": False,
    }
)
WILD = [SamplingParams(temperature=1.5, top_k=0, top_p=1.0, min_p=0.0, seed=seed) for seed in range(6)]
ALL_STEPS = SamplingParams(
    seed=3, repeat_penalty=1.4, presence_penalty=1.0, logit_bias=((65, 50.0), (258, 90.0))
)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return loaded(tiny_folder(tmp_path_factory.mktemp("held") / "model"))


def events_of(engine: Engine, *requests: GenerateRequest) -> list[Event]:
    for each in requests:
        engine.submit(each)
    events: list[Event] = []
    while engine.is_busy:
        events += engine.step()
    return events


@pytest.mark.parametrize("sampling", [GREEDY, *WILD, ALL_STEPS])
def test_an_answer_is_json_of_the_schema(engine: Engine, sampling: SamplingParams) -> None:
    chunks, end = run(engine, request(tokens=220, sampling=sampling, json_schema=SCHEMA))
    assert end.reason == "stop"
    assert end.text == "".join(chunks)
    value = json.loads(end.text)
    assert value.keys() == {"a", "b"}
    assert -9 <= value["a"] <= 99
    assert all(len(each) <= 3 for each in value["b"])


@pytest.mark.parametrize("sampling", [GREEDY, *WILD, ALL_STEPS])
@pytest.mark.parametrize("regex", ["[a-f]{3,5}-[0-9]{1,4}x", "(yes|no)", r"(ab){0,3}"])
def test_an_answer_matches_the_regex(engine: Engine, sampling: SamplingParams, regex: str) -> None:
    _, end = run(engine, request(tokens=60, sampling=sampling, regex=regex))
    assert end.reason == "stop"
    assert re.fullmatch(regex, end.text)


def test_an_answer_ends_with_its_last_token_where_nothing_can_follow(engine: Engine) -> None:
    _, end = run(engine, request(sampling=GREEDY, regex="abc"))
    assert (end.text, end.reason, end.stats.generated_tokens) == ("abc", "stop", 3)


def test_a_limit_cuts_it_and_says_so(engine: Engine) -> None:
    _, end = run(engine, request(tokens=2, sampling=GREEDY, regex="abc"))
    assert (end.text, end.reason) == ("ab", "length")


def test_a_seed_repeats_and_others_are_not_touched(engine: Engine) -> None:
    held = request(tokens=200, sampling=WILD[0], json_schema=SCHEMA)
    free = GenerateRequest("free", (Message("user", "hi"),), WILD[1], 12)
    alone = [finished(events_of(engine, each), each.request_id) for each in (held, free)]
    together = events_of(engine, held, free)
    for before, each in zip(alone, (held, free), strict=True):
        after = finished(together, each.request_id)
        assert before is not None and after is not None
        assert before.stats.token_ids == after.stats.token_ids


@pytest.mark.parametrize("sampling", [GREEDY, WILD[0], replace(ALL_STEPS, frequency_penalty=0.5)])
def test_drafts_change_no_held_answer(
    engine: Engine, sampling: SamplingParams, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The schema makes the model repeat itself, so that drafts come and stand, whether it pays or not."""

    def offers(_: Speculation, sequences: list[Sequence]) -> list[Offer]:
        drafts = [sequence.looked_up(7) for sequence in sequences]
        return [Offer(draft.ids, draft.kind, len(draft.ids)) for draft in drafts]

    monkeypatch.setattr(Speculation, "offers", offers)
    schema = '{"type": "array", "items": {"const": "the same again"}, "minItems": 5, "maxItems": 5}'
    told = replace(sampling, logprobs=2)
    plain, drafted = (
        run(engine, request(tokens=250, sampling=told, json_schema=schema, speculate=how))[1].stats
        for how in ("off", "ngram")
    )
    assert drafted.token_ids == plain.token_ids
    assert drafted.accepted_tokens > 0
    assert [each.chosen.id for each in drafted.logprobs] == list(drafted.token_ids)
    for one, other in zip(plain.logprobs, drafted.logprobs, strict=True):
        assert one.chosen.logprob == pytest.approx(other.chosen.logprob, abs=1e-3)


def test_a_form_that_cannot_be_used_fails_its_answer_alone(engine: Engine) -> None:
    free = GenerateRequest("free", (Message("user", "hi"),), GREEDY, 4)
    broken = request(regex="a(?=b)")
    events = events_of(engine, broken, free)
    [failed] = [event for event in events if isinstance(event, Failed)]
    assert (failed.request_id, failed.kind) == ("r", "setting")
    assert "regex" in failed.message and failed.hint
    ends = {event.request_id: event.reason for event in events if isinstance(event, Finished)}
    assert ends["r"] == "error"
    assert ends["free"] in ("length", "stop")


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ({"regex": "a(?=b)"}, "looks ahead"),
        ({"regex": r"\bfoo"}, "looks ahead"),
        ({"json_schema": '{"type": "string", "pattern": "(?=a)b"}'}, "looks ahead"),
        ({"json_schema": '{"oneOf": [{"type": "string"}, {"type": "string"}]}'}, "write anyOf"),
    ],
)
def test_what_the_library_refuses_is_said_in_words_of_ours(
    engine: Engine, form: dict[str, str], words: str
) -> None:
    [failed] = [event for event in events_of(engine, request(**form)) if isinstance(event, Failed)]
    assert words in failed.message


def test_a_schema_that_is_nested_too_deeply_is_refused_as_such(engine: Engine) -> None:
    with pytest.raises(WishError, match="too deeply"):
        engine.submit(request(json_schema='{"items":' * 5000 + "{}" + "}" * 5000))


@pytest.mark.parametrize(
    "form", [{"json_schema": "[]"}, {"json_schema": "{}", "regex": "a"}, {"regex": "x" * 100_000}]
)
def test_what_is_no_form_is_refused_at_once(engine: Engine, form: dict[str, str]) -> None:
    with pytest.raises(WishError):
        engine.submit(request(**form))
    assert not engine.is_busy


def test_while_a_form_is_compiled_others_run_and_it_can_be_cancelled(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    never: Future[Constraint] = Future()
    monkeypatch.setattr(Grammars, "start", lambda _self, schema, _regex: never if schema else None)
    engine.submit(request(json_schema=SCHEMA))
    engine.submit(GenerateRequest("free", (Message("user", "hi"),), GREEDY, 4))
    events: list[Event] = []
    while finished(events, "free") is None:
        events += engine.step()
    assert engine.step() == []  # all there is to do is to wait
    engine.cancel("r")
    end = finished(engine.step(), "r")
    assert end is not None and end.reason == "cancelled"
    assert not engine.is_busy


def test_a_thought_is_free_and_its_answer_is_held(tmp_path: Path) -> None:
    engine = loaded(tiny_folder(tmp_path / "m", template=OPENED))
    thought = Message("assistant", "", "let me see")
    turns = (Message("user", "hi"), thought)
    asked = GenerateRequest("r", turns, GREEDY, 40, json_schema=SCHEMA, continues=True)
    _, end = run(engine, asked)
    assert end.thinking and not end.text  # it goes on with its thought, as it likes
    assert end.reason == "length"
    done = Message("assistant", '{"a"', "let me see")
    _, end = run(
        engine,
        GenerateRequest("r", (turns[0], done), GREEDY, 220, json_schema=SCHEMA, continues=True),
    )
    assert json.loads('{"a"' + end.text).keys() == {"a", "b"}
    assert not end.thinking


def test_an_answer_that_cannot_be_continued_in_its_form_is_said(engine: Engine) -> None:
    turns = (Message("user", "hi"), Message("assistant", "Sure! "))
    events = events_of(engine, GenerateRequest("r", turns, GREEDY, 9, json_schema=SCHEMA, continues=True))
    [failed] = [event for event in events if isinstance(event, Failed)]
    assert "did not begin" in failed.message


@pytest.mark.parametrize(
    "regex", ["a{1000000000}", "(((a{100}){100}){100}){100}", "(?:a?){5000}a{5000}", "(a|b|ab)*{1,50000}c"]
)
def test_a_regex_that_takes_too_much_work_is_refused_in_words_and_the_next_answer_comes(
    engine: Engine, regex: str
) -> None:
    engine.submit(request(tokens=40, regex=regex))
    events: list[Event] = []
    while engine.is_busy:
        events += engine.step()
    failed = [event for event in events if isinstance(event, Failed)]
    assert all(event.kind == WishError.kind and event.hint for event in failed)
    [end] = [event for event in events if isinstance(event, Finished)]
    assert end.reason in ("error", "length", "stop")
    assert run(engine, request(tokens=5))[1].reason in ("length", "stop")
