"""Bias, penalties and log-probabilities of whole answers, and answers that are continued."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path

import pytest

from engine.engine import Engine
from engine.errors import WishError
from engine.events import Event, Failed, Finished, StepStats, TokenLogprobs
from engine.text.chat import ChatText
from engine.types import GenerateRequest, Message, SamplingParams, TemplateOptions
from tests.engine.test_cases_engine import GREEDY, loaded, request, run
from tests.engine.test_replies import OPENED
from tests.engine.tiny import VOCAB, tiny_folder

WARM = SamplingParams(temperature=1.2, seed=5)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    return loaded(tiny_folder(tmp_path_factory.mktemp("options") / "model"))


def ids(engine: Engine, sampling: SamplingParams, tokens: int = 24) -> tuple[int, ...]:
    return run(engine, request(tokens=tokens, sampling=sampling))[1].stats.token_ids


@pytest.mark.parametrize("sampling", [GREEDY, WARM])
def test_what_is_off_changes_no_token(engine: Engine, sampling: SamplingParams) -> None:
    off = replace(sampling, presence_penalty=0.0, frequency_penalty=0.0, logit_bias=(), logprobs=0)
    neutral = replace(sampling, logit_bias=((7, 0.0),), logprobs=5)
    assert ids(engine, sampling) == ids(engine, off) == ids(engine, neutral)


def test_a_banned_token_never_comes_and_a_wanted_one_always(engine: Engine) -> None:
    common = ids(engine, WARM)
    banned = tuple((token, -100.0) for token in set(common))
    assert not set(ids(engine, replace(WARM, logit_bias=banned))) & set(common)
    assert set(ids(engine, replace(GREEDY, logit_bias=((65, 100.0),)), tokens=5)) == {65}


def test_a_strong_presence_penalty_lets_no_token_come_twice(engine: Engine) -> None:
    forced = tuple((token, 50.0) for token in range(40, 70))  # far above all others, and these close together
    answer = ids(engine, replace(GREEDY, logit_bias=forced), tokens=20)
    varied = ids(engine, replace(GREEDY, logit_bias=forced, frequency_penalty=2.0, presence_penalty=2.0), 20)
    assert len(set(varied)) > len(set(answer))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"logit_bias": ((VOCAB, 1.0),)}, str(VOCAB)),
        ({"logit_bias": ((-1, 1.0),)}, "-1"),
        ({"presence_penalty": math.nan}, "presence-penalty"),
        ({"logprobs": 21}, "logprobs"),
    ],
)
def test_what_cannot_be_used_is_refused_at_once(
    engine: Engine, change: dict[str, object], words: str
) -> None:
    with pytest.raises(WishError, match=words):
        engine.submit(request(sampling=replace(GREEDY, **change)))  # type: ignore[arg-type]
    assert not engine.is_busy


def logprobs(events: list[Event]) -> list[TokenLogprobs]:
    return [each for event in events if isinstance(event, StepStats) for each in event.logprobs]


def test_log_probabilities_are_the_raw_models_one_for_each_token_as_they_come(engine: Engine) -> None:
    asked = request(tokens=6, sampling=replace(WARM, logprobs=3, repeat_penalty=1.5, logit_bias=((3, 2.0),)))
    engine.submit(asked)
    events: list[Event] = []
    while engine.is_busy:
        events += engine.step()
    [end] = [event for event in events if isinstance(event, Finished)]
    assert [each.chosen.id for each in end.stats.logprobs] == list(end.stats.token_ids)
    assert logprobs(events) == list(end.stats.logprobs)
    text = engine_text(engine)
    prompt = text.prompt(asked.messages)[0]
    rows = engine.logits([*prompt, *end.stats.token_ids])[len(prompt) - 1 :].log_softmax(-1)
    for row, each in zip(rows, end.stats.logprobs, strict=False):
        assert each.chosen.logprob == pytest.approx(float(row[each.chosen.id]), abs=1e-3)
        assert [top.logprob for top in each.top] == pytest.approx(row.topk(3).values.tolist(), abs=1e-3)
        assert each.chosen.text == text.tokenizer.token_bytes(each.chosen.id).decode(errors="replace")


def engine_text(engine: Engine) -> ChatText:
    plan = engine.plan
    assert plan is not None
    return ChatText.load(plan.model.path)


# Continued answers


def go_on(engine: Engine, answer: Message, tokens: int = 12, **options: object) -> Finished:
    turns = (Message("user", "hi"), answer)
    asked = GenerateRequest("r", turns, GREEDY, tokens, continues=True, **options)  # type: ignore[arg-type]
    chunks, end = run(engine, asked)
    assert "".join(chunks) == end.thinking + end.text
    return end


def ascii_only(engine: Engine) -> SamplingParams:
    """Letters alone, so that a text's ids are those that it was made of."""
    tokenizer = engine_text(engine).tokenizer
    others = [token for token in range(258) if not tokenizer.token_bytes(token).isalpha()]
    return replace(GREEDY, logit_bias=tuple((token, -100.0) for token in others))


def test_an_interrupted_answer_goes_on_as_if_it_had_not_been(engine: Engine) -> None:
    sampling = ascii_only(engine)
    whole = run(engine, request(tokens=20, sampling=sampling))[1]
    first = run(engine, request(tokens=8, sampling=sampling))[1]
    turns = (Message("user", "hi"), Message("assistant", first.text))
    rest = run(engine, GenerateRequest("r", turns, sampling, 12, continues=True))[1]
    assert first.text + rest.text == whole.text
    assert first.stats.token_ids + rest.stats.token_ids == whole.stats.token_ids
    assert rest.stats.prompt_tokens == first.stats.prompt_tokens + 8
    assert rest.stats.reused_tokens >= first.stats.prompt_tokens


def test_an_interrupted_thought_goes_on_as_a_thought(tmp_path: Path) -> None:
    thinker = loaded(tiny_folder(tmp_path / "m", template=OPENED))
    sampling = ascii_only(thinker)
    whole = run(thinker, request(tokens=20, sampling=sampling))[1]
    first = run(thinker, request(tokens=8, sampling=sampling))[1]
    assert not first.text
    turns = (Message("user", "hi"), Message("assistant", "", first.thinking))
    rest = run(thinker, GenerateRequest("r", turns, sampling, 12, continues=True))[1]
    assert first.thinking + rest.thinking == whole.thinking
    assert not rest.text
    answered = go_on(thinker, Message("assistant", "So", "x"))
    assert answered.text and not answered.thinking


def test_a_plain_text_goes_on(engine: Engine) -> None:
    sampling = ascii_only(engine)
    plain = TemplateOptions(is_plain=True)
    whole = run(engine, request(tokens=10, sampling=sampling, template=plain))[1]
    turns = (Message("user", "hi"), Message("assistant", whole.text[:4]))
    rest = run(engine, GenerateRequest("r", turns, sampling, 6, template=plain, continues=True))[1]
    assert whole.text[:4] + rest.text == whole.text


def test_a_question_cannot_be_continued(engine: Engine) -> None:
    engine.submit(GenerateRequest("r", (Message("user", "hi"),), GREEDY, 3, continues=True))
    events: list[Event] = []
    while engine.is_busy:
        events += engine.step()
    [failed] = [event for event in events if isinstance(event, Failed)]
    assert "no unfinished answer" in failed.message
