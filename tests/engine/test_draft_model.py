"""Laws of a draft model: the answer is the one that would have come without it, and it costs what is said."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from engine.decode import sampler, speculation
from engine.decode.draft_model import DraftModel
from engine.decode.sampler import distribution
from engine.decode.sequence import Sequence
from engine.engine import Engine
from engine.errors import WishError
from engine.events import Finished, Paused
from engine.fit.draft import with_draft
from engine.fit.plan import plan
from engine.hardware.probe import probe
from engine.kv.pool import PagedCache
from engine.kv.store import PagedStore
from engine.models.decoder import Segment
from engine.models.spec import read_spec
from engine.types import GenerateRequest, LoadPlan, LoadSpec, SamplingParams, TemplateOptions
from tests.engine.decode.test_acceptance import chi_square
from tests.engine.test_engine import answer, ask, drain
from tests.engine.test_many_chats import run_together
from tests.engine.tiny import FAMILIES, tiny_folder

PLAIN = TemplateOptions(is_plain=True)
# A window of 28 ends on another page than the pages of 32 tokens do.
TARGETS: dict[str, dict[str, Any]] = {
    "all tokens": {},
    "windows": FAMILIES["gemma 3"],
    "a window": {"sliding_window": 28},
}
DRAFTS = {"itself": 0, "unrelated": 1, "always wrong": 0}  # seeds of their weights
ENDLESS = SamplingParams(temperature=0.0, logit_bias=((258, -100.0),))  # greedy, and never the end token
DRAWN = replace(ENDLESS, temperature=0.9)  # a seed nobody named may end at once: then nothing is drafted
NAMED = SamplingParams(temperature=0.9, seed=11)


LETTERS = (65, 70, 75, 80)  # the whole vocabulary: a bias leaves no other token a chance
FEW = SamplingParams(
    temperature=2.5,
    top_k=3,
    top_p=0.97,
    min_p=0.02,
    repeat_penalty=1.05,
    logit_bias=tuple((each, 100.0) for each in LETTERS),
)


@pytest.fixture(scope="module", params=TARGETS)
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("target") / "model", **TARGETS[request.param])


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("one") / "model")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another model with the same vocabulary: windows, and half the layers."""
    changes = {"sliding_window": 12, "num_hidden_layers": 1}
    return tiny_folder(tmp_path_factory.mktemp("other") / "model", 1, **changes)


def planned(target: Path, draft: Path, context: int = 512, kv: str = "auto") -> LoadPlan:
    """Both in float32, read in pieces of 16 rows, on one thread: they are too small for more. ``kv`` is the
    target's.
    """
    made, own = (
        plan(read_spec(str(folder)), probe(), LoadSpec(str(folder), "f32", context, bits, threads=1))
        for folder, bits in ((target, kv), (draft, "auto"))
    )
    made, own = replace(made, prefill_piece=16), replace(own, prefill_piece=16)
    return with_draft(made, own)


def loaded(target: Path, draft: Path, context: int = 512, kv: str = "auto") -> Engine:
    engine = Engine()
    list(engine.load(planned(target, draft, context, kv)))
    return engine


def model_of(engine: Engine) -> DraftModel:
    assert engine._model is not None and engine._model.draft is not None
    return engine._model.draft


def running(engine: Engine) -> list[Sequence]:
    assert engine._model is not None
    return engine._model.scheduler._running


class Wrong:
    """A runner that puts every logit on the id behind its own."""

    def __init__(self, runner: Any) -> None:
        self._runner = runner

    def forward(self, segments: list[Segment]) -> Tensor:
        return self._runner.forward(segments).roll(1, dims=-1)


@pytest.fixture
def length(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Drafts of so many tokens, whether that pays or not."""

    def fix(tokens: int) -> None:
        monkeypatch.setattr(
            speculation, "share_rows", lambda gains, *_: [min(tokens, len(each)) for each in gains]
        )

    return fix


def plain(engine: Engine, request: GenerateRequest) -> Finished:
    """The same request without drafts."""
    return answer(engine, replace(request, request_id=f"plain {request.request_id}", speculate="off"))


def held_ids(cache: object) -> list[int]:
    assert isinstance(cache, PagedCache)
    return [token for node in cache.pages.nodes for token in node.tokens] + cache.pages.tail


def watched(engine: Engine, request: GenerateRequest) -> Finished:
    """The answer; after every step both caches hold what came and nothing else."""
    engine.submit(request)
    end = None
    while engine.is_busy:
        events = engine.step()
        end = next((event for event in events if isinstance(event, Finished)), end)
        for sequence in running(engine):
            follower = model_of(engine)._followers.get(sequence)
            if not sequence.is_prefilling:
                assert sequence.cache.length == len(sequence.ids) - 1
            if follower is not None:
                held = follower.cache.length
                assert held < len(sequence.ids)
                assert not follower.guessed
                if follower.cache.pool.pages.kinds[0].window is None:  # type: ignore[attr-defined]
                    assert held_ids(follower.cache)[-32:] == sequence.ids[:held][-32:]
    assert end is not None
    assert not model_of(engine)._followers
    return end


# -- greedy answers (B065)


@pytest.fixture(scope="module", params=DRAFTS)
def pair(
    request: pytest.FixtureRequest, target: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Engine]:
    kind: str = request.param
    draft = target
    if DRAFTS[kind]:
        draft = tiny_folder(tmp_path_factory.mktemp("draft") / "model", DRAFTS[kind], sliding_window=28)
    engine = loaded(target, draft)
    if kind == "always wrong":
        model = model_of(engine)
        model._runner = Wrong(model._runner)  # type: ignore[assignment]
    return kind, engine


@pytest.mark.parametrize("tokens", range(1, 9))
def test_greedy_ids_are_those_without_a_draft_model(
    tokens: int, pair: tuple[str, Engine], length: Callable[[int], None]
) -> None:
    kind, engine = pair
    length(tokens)
    for prompt in ("x", "fifty letters are the whole of what this prompt has"[:50]):
        request = ask(prompt, tokens=64, sampling=ENDLESS, template=PLAIN, speculate="draft")
        found, expected = watched(engine, request), plain(engine, request)
        assert found.stats.prompt_tokens == len(prompt)
        assert found.stats.token_ids == expected.stats.token_ids
        assert (found.text, found.reason) == (expected.text, expected.reason)
        drafted, accepted = found.stats.drafted_tokens, found.stats.accepted_tokens
        assert drafted > 0 == expected.stats.drafted_tokens
        if kind == "itself":
            assert accepted == drafted
        elif kind == "always wrong":
            assert accepted == 0


@pytest.mark.parametrize("kv", ["8", "4"])
def test_greedy_ids_are_those_without_a_draft_model_where_keys_and_values_are_packed(
    kv: str, target: Path, other: Path, length: Callable[[int], None]
) -> None:
    """On fresh engines: what is taken up again is read with fewer bits than it was the first time."""
    request = ask("packed", tokens=64, sampling=ENDLESS, speculate="draft")
    engine = loaded(target, other, kv=kv)
    if engine.plan is not None and not engine.plan.is_native:
        pytest.skip("a row has the same numbers alone and among others with the native kernels")
    expected = plain(engine, request).stats.token_ids
    for tokens in (1, 4, 8):
        length(tokens)
        found = watched(loaded(target, other, kv=kv), request)
        assert found.stats.token_ids == expected
        assert found.stats.drafted_tokens > 0


def test_an_end_token_within_a_draft_ends_the_answer(one: Path, length: Callable[[int], None]) -> None:
    length(8)
    engine, reasons = loaded(one, one), set()
    for bias in range(0, 20, 2):
        sampling = SamplingParams(temperature=0.0, logit_bias=((258, float(bias)),))
        request = ask("the end", tokens=40, sampling=sampling, speculate="draft")
        found, expected = watched(engine, request), plain(engine, request)
        assert (found.stats.token_ids, found.reason) == (expected.stats.token_ids, expected.reason)
        reasons |= {found.reason} if found.stats.drafted_tokens else set()
    assert "stop" in reasons


@pytest.mark.parametrize("speculate", ["draft", "auto"])
def test_drafts_by_goodput_leave_the_answer_as_it_is(speculate: str, target: Path, other: Path) -> None:
    engine = loaded(target, other)
    request = ask("one two three four, " * 4, tokens=80, speculate=speculate)
    found = watched(engine, request)
    assert found.stats.token_ids == plain(engine, request).stats.token_ids


def test_several_chats_answer_as_each_alone_without(
    target: Path, other: Path, length: Callable[[int], None]
) -> None:
    length(3)
    engine = loaded(target, other)
    modes = ("draft", "auto", "off", "draft")
    samplings = (SamplingParams(temperature=0.0), NAMED)
    requests = [
        ask("x" * (20 * n + 1), tokens=20 + 9 * n, speculate=modes[n], sampling=samplings[n % 2])
        for n in range(4)
    ]
    ends = run_together(engine, requests, apart=2)
    for request in requests:
        assert ends[request.request_id].stats.token_ids == plain(engine, request).stats.token_ids
    assert ends[requests[0].request_id].stats.drafted_tokens > 0
    assert ends[requests[2].request_id].stats.drafted_tokens == 0


def test_an_answer_held_to_a_form_is_drafted_as_far_as_the_form_allows(
    one: Path, length: Callable[[int], None]
) -> None:
    pytest.importorskip("llguidance")
    length(4)
    engine = loaded(one, one)
    request = ask("letters", tokens=60, regex="([a-f]{3},){6}", speculate="draft")
    found, expected = watched(engine, request), plain(engine, request)
    assert found.text == expected.text
    assert found.stats.token_ids == expected.stats.token_ids


def test_where_the_context_is_full_the_draft_model_goes_on_too(
    one: Path, other: Path, length: Callable[[int], None]
) -> None:
    length(4)
    engine = loaded(one, other, context=160)
    request = ask("m" * 60, tokens=200, sampling=ENDLESS, speculate="draft")
    found, expected = watched(engine, request), plain(loaded(one, other, context=160), request)
    assert found.stats.token_ids == expected.stats.token_ids
    assert found.reason == expected.reason


# -- sampled answers


def test_a_seed_gives_the_answer_that_it_gives_without_a_draft_model(
    target: Path, other: Path, length: Callable[[int], None]
) -> None:
    """Whatever the lengths, which go by measured times, and whatever was read before."""
    engine = loaded(target, other)
    sampling = replace(NAMED, repeat_penalty=1.2, presence_penalty=0.4)
    request = ask("seeded", tokens=50, sampling=sampling, speculate="draft")
    expected = plain(engine, request).stats.token_ids
    for tokens in (1, 4, 8):
        length(tokens)
        again = watched(engine, replace(request, request_id=f"again {tokens}"))
        assert again.stats.token_ids == expected
        assert again.stats.drafted_tokens > 0


def test_drawn_drafts_repeat_where_the_drawn_seed_and_the_lengths_do(
    one: Path, other: Path, length: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    length(3)
    monkeypatch.setattr(sampler.secrets, "randbits", lambda bits: 5)
    request = ask("drawn", tokens=40, sampling=FEW, speculate="draft")
    ends = [watched(loaded(one, other), replace(request, request_id=str(n))) for n in range(2)]
    assert ends[0].stats.token_ids == ends[1].stats.token_ids
    assert ends[0].stats.drafted_tokens > ends[0].stats.accepted_tokens > 0


def test_a_model_that_drafts_for_itself_is_nearly_always_right(
    one: Path, length: Callable[[int], None]
) -> None:
    """p = q but for rounding: min(1, p / q) is 1. First choices would stand much less often."""
    length(5)
    end = watched(loaded(one, one), ask("drawn", tokens=100, sampling=DRAWN, speculate="draft"))
    assert end.stats.accepted_tokens > 0.95 * end.stats.drafted_tokens > 0


def outcomes(engine: Engine, request: GenerateRequest, tokens: int) -> dict[tuple[int, ...], float]:
    """The probability of every answer, from the target's own logits."""
    assert engine._model is not None
    prompt = engine._model.scheduler._prompts.of(request).prompt.ids
    control = engine._model.text.tokenizer.control_ids
    known: dict[tuple[int, ...], float] = {(): 1.0}
    rule = sampler.Sampler(request.sampling, control)
    for _ in range(tokens):
        longer: dict[tuple[int, ...], float] = {}
        for before, chance in known.items():
            ids = [*prompt, *before]
            p = distribution(rule.adjusted(engine.logits(ids)[-1], ids, before), request.sampling)
            longer |= {(*before, int(token)): chance * float(p[token]) for token in p.nonzero()}
        known = longer
    return known


@pytest.mark.parametrize("seeded", [False, True], ids=["drawn", "first choices"])
def test_tokens_are_distributed_as_without_a_draft_model(
    seeded: bool, one: Path, other: Path, length: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    length(2)
    trials, tokens, seeds = 400, 4, itertools.count(100)
    monkeypatch.setattr(sampler.secrets, "randbits", lambda bits: next(seeds))
    engine = loaded(one, other)
    request = ask("few", tokens=tokens, sampling=FEW, template=PLAIN, speculate="draft")
    seen: Counter[tuple[int, ...]] = Counter()
    drafted = accepted = 0
    for trial in range(trials):
        sampling = replace(FEW, seed=next(seeds)) if seeded else FEW
        stats = answer(engine, replace(request, request_id=f"{trial}", sampling=sampling)).stats
        seen[stats.token_ids] += 1
        drafted, accepted = drafted + stats.drafted_tokens, accepted + stats.accepted_tokens
    assert 0.05 * drafted < accepted < 0.95 * drafted
    chances = outcomes(engine, request, tokens)
    assert set(seen) <= set(chances)
    assert chi_square(seen, {each: trials * chance for each, chance in chances.items()}) < 1


# -- what runs beside, ends and fails


def step_until(engine: Engine, is_reached: Callable[[], bool]) -> None:
    engine.step()
    while not is_reached():
        engine.step()
        assert running(engine), "the answers ended before"


def used_pages(store: object) -> int:
    assert isinstance(store, PagedStore)
    return sum(each.used_pages for each in store._pool.pages.stats())


def stores(engine: Engine) -> tuple[object, object]:
    assert engine._model is not None
    return engine._model.store, model_of(engine)._store


def test_a_cancelled_answer_leaves_both_stores_to_the_others(
    target: Path, other: Path, length: Callable[[int], None]
) -> None:
    length(5)
    engine = loaded(target, other)
    first, second = (
        ask(letter * 60, tokens=90, sampling=ENDLESS, speculate="draft") for letter in ("q", "w")
    )
    engine.submit(first)
    engine.submit(second)
    step_until(engine, lambda: all(each.drafting.drafted for each in running(engine)))
    assert len(model_of(engine)._followers) == 2
    engine.cancel(first.request_id)
    assert [each.request for each in model_of(engine)._followers] == [second]
    ends = {event.request_id: event for event in drain(engine) if isinstance(event, Finished)}
    assert ends[first.request_id].reason == "cancelled"
    assert ends[second.request_id].stats.token_ids == plain(engine, second).stats.token_ids
    assert [used_pages(store) for store in stores(engine)] == [0, 0]
    again = answer(engine, replace(first, request_id="again"))
    assert again.stats.token_ids == plain(engine, first).stats.token_ids


def test_a_paused_answer_gives_its_draft_up_and_goes_on(
    target: Path, other: Path, length: Callable[[int], None]
) -> None:
    length(4)
    engine = loaded(target, other, context=160)
    requests = [ask(letter * 40, tokens=60, sampling=ENDLESS, speculate="draft") for letter in "mn"]
    for request in requests:
        engine.submit(request)
    events = []
    while engine.is_busy:
        events += engine.step()
        assert set(model_of(engine)._followers) <= set(running(engine))
    has_full_layers = any(each.sliding_window is None for each in read_spec(str(target)).layers)
    assert any(isinstance(event, Paused) for event in events) == has_full_layers
    ends = {event.request_id: event for event in events if isinstance(event, Finished)}
    for request in requests:
        assert ends[request.request_id].stats.token_ids == plain(engine, request).stats.token_ids
    assert [used_pages(store) for store in stores(engine)] == [0, 0]


def test_after_an_error_nothing_is_held_and_the_next_answer_is_right(
    one: Path, other: Path, length: Callable[[int], None]
) -> None:
    length(3)
    engine = loaded(one, other)
    request = ask("broken", tokens=40, sampling=ENDLESS, speculate="draft")
    engine.submit(request)
    step_until(engine, lambda: bool(running(engine)[0].drafting.drafted))
    engine.abort()
    drain(engine)
    assert not model_of(engine)._followers
    assert [used_pages(store) for store in stores(engine)] == [0, 0]
    again = watched(engine, replace(request, request_id="again"))
    assert again.stats.token_ids == plain(engine, request).stats.token_ids


def test_drafts_from_numbers_that_are_none_are_no_drafts(
    one: Path, length: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    length(3)
    engine = loaded(one, one)
    model = model_of(engine)
    forward = model._runner.forward
    monkeypatch.setattr(model, "_runner", model._runner)
    monkeypatch.setattr(model._runner, "forward", lambda segments: forward(segments) * torch.nan)
    for sampling in (ENDLESS, replace(ENDLESS, temperature=0.9)):
        end = answer(engine, ask("nan", tokens=12, sampling=sampling, speculate="draft"))
        assert (end.reason, end.stats.drafted_tokens) == ("length", 0)


def test_a_step_reads_one_piece_at_most_and_drafts_begin_once_all_is_read(
    one: Path, length: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    length(4)
    engine = loaded(one, one)
    assert engine._model is not None
    read: list[int] = []  # rows of the pieces of a step
    for runner in (engine._model.runner, model_of(engine)._runner):

        def forward(
            segments: list[Segment], forward: Callable[[list[Segment]], Tensor] = runner.forward
        ) -> Tensor:
            if not segments[0].wants_all_logits and len(segments[0].ids) > 5:
                read.append(len(segments[0].ids))
            return forward(segments)

        monkeypatch.setattr(runner, "forward", forward)
    running_one = ask("hello", tokens=90, sampling=ENDLESS, speculate="off")
    long = ask("z" * 150, tokens=30, sampling=ENDLESS, speculate="draft")
    engine.submit(running_one)
    engine.step()
    engine.submit(long)
    pieces = 0
    while engine.is_busy:
        read.clear()
        engine.step()
        assert len(read) <= 2 and all(rows <= 16 for rows in read)  # a draft's first pass, beside a piece
        assert len(read) < 2 or model_of(engine)._followers
        pieces += len(read)
        for sequence in running(engine):
            if sequence.request is long and sequence.drafting.drafted:
                assert model_of(engine).is_ready(sequence)
    assert pieces >= 2 * (150 // 16)


# -- vocabularies (B067)


def changed_vocabulary(folder: Path, change: str) -> Path:
    """The same model with a change to its files."""
    path = folder / "tokenizer.json"
    text = path.read_text()
    if change == "two tokens swapped":
        path.write_text(text.replace('"a":', '"\x00":').replace('"b":', '"a":').replace('"\x00":', '"b":'))
    else:
        config = folder / "tokenizer_config.json"
        name, old, new = {
            "another BOS": ("bos_token", "<s>", "<|im_start|>"),
            "another EOS": ("eos_token", "<|im_end|>", "<s>"),
        }[change]
        config.write_text(config.read_text().replace(f'"{name}": "{old}"', f'"{name}": "{new}"'))
    return folder


REFUSED = {
    "two tokens swapped": "2 tokens, such as",
    "another BOS": "begins with token 257, the model's with 256",
    "another EOS": "end with",
}


@pytest.mark.parametrize("change", REFUSED)
def test_a_draft_model_with_another_vocabulary_is_refused_and_answers_go_on(
    change: str, one: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = changed_vocabulary(tiny_folder(tmp_path / "draft"), change)
    refuse(one, draft, REFUSED[change], monkeypatch)


def refuse(target: Path, draft: Path, words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from engine import loading

    read: list[str] = []
    load = loading.load_decoder
    monkeypatch.setattr(
        loading, "load_decoder", lambda made, files: (read.append(made.model.path), load(made, files))[1]
    )
    engine, made = Engine(), planned(target, draft)
    *_, event = engine.load(made)
    assert read == [str(target)]  # no weight of the draft model was
    assert words in event.no_draft  # type: ignore[union-attr]
    assert event.warnings[-1] == event.no_draft  # type: ignore[union-attr]
    assert engine.plan is not None and engine.plan.draft is None
    assert engine.plan.bytes == plan(made.model, made.hardware, made.wish).bytes
    assert engine.memory().weights_bytes == engine.plan.bytes.weights
    request = ask("still here", tokens=10, sampling=ENDLESS, speculate="draft")
    end = answer(engine, request)
    assert (end.stats.generated_tokens, end.stats.drafted_tokens) == (10, 0)


def test_a_draft_model_of_another_family_is_refused(
    one: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    draft = tiny_folder(tmp_path / "draft", **FAMILIES["qwen 3"])
    path = draft / "tokenizer.json"
    path.write_text(path.read_text().replace("<|im_start|>", "<|user|>"))
    refuse(one, draft, "such as 257: '<|im_start|>' in the model, '<|user|>' in the draft", monkeypatch)


@pytest.mark.parametrize("padded", ["draft", "target"])
def test_rows_that_no_token_has_are_no_difference(
    padded: str, one: Path, tmp_path: Path, length: Callable[[int], None]
) -> None:
    """A target with more rows gives tokens here that the draft model cannot read: then it does not draft."""
    length(3)
    padding = tiny_folder(tmp_path / "padded", vocab_size=259 + 32)
    engine = loaded(one, padding) if padded == "draft" else loaded(padding, one)
    assert engine.plan is not None and engine.plan.draft is not None
    for sampling in (SamplingParams(temperature=0.0), DRAWN, NAMED):
        request = ask("padding", tokens=60, sampling=sampling, speculate="draft")
        found = watched(engine, request)
        if sampling is not DRAWN:
            assert found.stats.token_ids == plain(engine, request).stats.token_ids
        assert found.stats.drafted_tokens > 0 or padded == "target"


def test_a_way_of_drafting_that_does_not_exist_is_refused(one: Path) -> None:
    engine = loaded(one, one)
    with pytest.raises(WishError, match="ngram"):
        engine.submit(ask("hi", speculate="guess"))


# -- memory


def test_a_draft_models_memory_is_counted_to_the_byte_and_given_back(target: Path, other: Path) -> None:
    made = planned(target, other)
    assert made.draft is not None
    alone = plan(made.model, made.hardware, made.wish)
    engine = loaded(target, other)
    report = engine.memory()
    assert report.weights_bytes == made.bytes.weights == alone.bytes.weights + made.draft.bytes.weights
    assert report.kv_reserved_bytes == made.bytes.kv_reserved
    assert made.bytes.kv_reserved == alone.bytes.kv_reserved + made.draft.bytes.kv_reserved
    assert made.bytes.overhead == alone.bytes.overhead
    assert made.bytes.total == alone.bytes.total + made.draft.bytes.total
    assert report.working_bytes <= made.bytes.working
    engine.unload()
    assert engine.memory().weights_bytes == engine.memory().kv_reserved_bytes == 0


def test_progress_of_both_loads_never_goes_back(one: Path, other: Path) -> None:
    fractions = [event.fraction for event in list(Engine().load(planned(one, other)))[:-1]]  # type: ignore[union-attr]
    assert fractions == sorted(fractions)
    assert fractions[0] >= 0 and fractions[-1] <= 1


# -- the real model


@pytest.mark.starter
def test_the_starter_at_4_bits_drafts_for_itself_at_16(
    starter_path: Path, length: Callable[[int], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    from engine.native import library

    length(4)
    hardware = probe()
    if hardware.native is None:
        pytest.skip(hardware.native_missing)
    monkeypatch.setenv(
        library.VARIABLE, hardware.native
    )  # these give a row its numbers alone and with others
    spec = read_spec(str(starter_path))
    wish = LoadSpec(str(starter_path), "bf16", context=1024, draft=str(starter_path))
    engine = Engine()
    list(engine.load(plan(spec, hardware, wish, draft=spec)))
    assert engine.plan is not None and engine.plan.draft is not None
    assert (engine.plan.format, engine.plan.draft.format) == ("bf16", "file")
    request = ask("Write a long story about a lighthouse keeper and the sea.", tokens=128, speculate="draft")
    found, expected = answer(engine, request), plain(engine, request)
    assert found.stats.token_ids == expected.stats.token_ids
    assert found.stats.drafted_tokens > 20
    assert found.stats.accepted_tokens > 0.7 * found.stats.drafted_tokens
