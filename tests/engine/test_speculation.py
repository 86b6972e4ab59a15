"""Laws of drafts: the answer is the one that would have come without them, whatever was guessed."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.decode.speculation import Offer, Speculation
from engine.engine import Engine
from engine.events import Finished
from engine.fit.plan import plan
from engine.hardware.probe import probe
from engine.models.spec import read_spec
from engine.types import GenerateRequest, LoadSpec, SamplingParams
from tests.engine.test_engine import answer, ask
from tests.engine.test_many_chats import run_together
from tests.engine.tiny import FAMILIES, tiny_folder

LOOP = "one two three four, " * 6
KINDS = {"all tokens": {}, "windows": FAMILIES["gemma 3"], "capped": FAMILIES["gemma 2"]}
SAMPLINGS = {
    "greedy": SamplingParams(temperature=0.0),
    "sampled": SamplingParams(temperature=0.9, seed=11),
    "penalties": SamplingParams(temperature=0.7, seed=5, repeat_penalty=1.2, presence_penalty=0.5),
    "frequency": SamplingParams(temperature=0.0, frequency_penalty=0.3, logit_bias=((10, 2.0),)),
}


@pytest.fixture(scope="module", params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("draft") / "model", **KINDS[request.param])


def loaded(folder: Path, format: str = "f32", context: int = 512) -> Engine:
    engine = Engine()
    made = plan(read_spec(str(folder)), probe(), LoadSpec(str(folder), format=format, context=context))
    list(engine.load(replace(made, prefill_piece=16)))
    return engine


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every draft is checked as far as it goes, whether that pays or not."""

    def offers(self: Speculation, sequences: list[object]) -> list[Offer]:
        most = 15 // len(sequences)
        drafts = [sequence.looked_up(most) for sequence in sequences]  # type: ignore[attr-defined]
        return [Offer(draft.ids, draft.kind, len(draft.ids)) for draft in drafts]

    monkeypatch.setattr(Speculation, "offers", offers)


def plain(folder: Path, request: GenerateRequest, format: str = "f32") -> Finished:
    """The same request without drafts, alone and on a fresh engine."""
    return answer(loaded(folder, format), replace(request, request_id="plain", speculate="off"))


@pytest.mark.parametrize("kind", SAMPLINGS)
def test_with_drafts_comes_what_comes_without(kind: str, folder: Path, always: None) -> None:
    request = ask(LOOP, tokens=80, sampling=SAMPLINGS[kind])
    found, expected = answer(loaded(folder), request), plain(folder, request)
    assert found.stats.token_ids == expected.stats.token_ids
    assert (found.text, found.reason) == (expected.text, expected.reason)
    assert found.stats.drafted_tokens > 0 == expected.stats.drafted_tokens


@pytest.mark.parametrize("format", ["bf16", "int8", "int4"])
def test_kernels_give_a_row_the_same_numbers_alone_and_with_a_draft(
    format: str, folder: Path, always: None
) -> None:
    engine = loaded(folder, format)
    assert engine.plan is not None
    if not engine.plan.is_native:
        pytest.skip("the law is that of the native kernels")
    request = ask(LOOP, tokens=60)
    found, expected = answer(engine, request), plain(folder, request, format)
    assert found.stats.token_ids == expected.stats.token_ids


def test_several_chats_with_drafts_answer_as_each_alone_without(folder: Path, always: None) -> None:
    sampling = SamplingParams(temperature=0.8, seed=4)
    requests = [ask(LOOP + "x" * n, tokens=30 + 10 * n, sampling=sampling) for n in range(4)]
    ends = run_together(loaded(folder), requests, apart=2)
    for request in requests:
        expected = plain(folder, request)
        assert ends[request.request_id].stats.token_ids == expected.stats.token_ids


@given(st.integers(1, 40), st.integers(0, 255))
@settings(max_examples=12, deadline=None)
def test_an_answer_ends_at_the_token_it_would_have_ended_at(limit: int, seed: int) -> None:
    engine = ENGINES.setdefault("engine", _tiny_engine())
    sampling = SamplingParams(temperature=0.8, seed=seed)
    request = ask(LOOP, tokens=limit, sampling=sampling, stop=("a", "e"))
    found = answer(engine, request)
    expected = answer(engine, replace(request, request_id="plain", speculate="off"))
    assert found.stats.token_ids == expected.stats.token_ids
    assert (found.text, found.reason) == (expected.text, expected.reason)


ENGINES: dict[str, Engine] = {}
_FOLDER: list[Path] = []


@pytest.fixture(scope="module", autouse=True)
def _shared(tmp_path_factory: pytest.TempPathFactory) -> None:
    _FOLDER.append(tiny_folder(tmp_path_factory.mktemp("shared") / "model"))


def _tiny_engine() -> Engine:
    return loaded(_FOLDER[-1])


def test_the_context_is_filled_to_the_same_token(folder: Path, always: None) -> None:
    request = ask(LOOP, tokens=None)  # type: ignore[arg-type]
    found = answer(loaded(folder, context=200), request)
    without = answer(loaded(folder, context=200), replace(request, speculate="off"))
    assert found.stats.token_ids == without.stats.token_ids
    assert found.reason == without.reason


def test_log_probabilities_are_those_of_the_tokens_that_came(folder: Path, always: None) -> None:
    request = ask(LOOP, tokens=40, sampling=SamplingParams(temperature=0.0, logprobs=3))
    found, expected = answer(loaded(folder), request), plain(folder, request)
    assert [each.chosen.id for each in found.stats.logprobs] == list(found.stats.token_ids)
    for one, other in zip(found.stats.logprobs, expected.stats.logprobs, strict=True):
        assert one.chosen.logprob == pytest.approx(other.chosen.logprob, abs=1e-4)


def test_what_was_wrongly_guessed_is_not_reused(folder: Path, always: None) -> None:
    engine = loaded(folder)
    first = ask(LOOP, tokens=30, sampling=SamplingParams(temperature=1.0, seed=2))
    answer(engine, first)
    again = answer(engine, replace(first, request_id="again", sampling=SamplingParams(temperature=0.0)))
    fresh = answer(loaded(folder), replace(first, sampling=SamplingParams(temperature=0.0)))
    assert again.stats.token_ids == fresh.stats.token_ids
    assert again.stats.reused_tokens == again.stats.prompt_tokens - 1
