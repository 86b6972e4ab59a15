"""Laws of the engine on tiny random models: reuse, stopping, failing, batching."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.engine import Engine
from engine.errors import EngineBusyError, EngineError, MemoryLimitError, TokenizerError, WishError
from engine.events import Chunk, Event, Failed, Finished, Loaded, LoadProgress, Prefilled, StepStats
from engine.fit.kernels import kernel_name
from engine.fit.plan import plan
from engine.hardware.probe import probe
from engine.models.decoder import Segment
from engine.models.spec import read_spec
from engine.types import GenerateRequest, LoadPlan, LoadSpec, Message, SamplingParams
from tests.engine.tiny import TEMPLATE, finished, tiny_folder

GREEDY = SamplingParams(temperature=0.0)
counter = itertools.count()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("tiny") / "model")


def make_plan(folder: Path, context: int = 256, sequences: int = 1, piece: int = 16) -> LoadPlan:
    made = plan(read_spec(str(folder)), probe(), LoadSpec(str(folder), format="f32", context=context))
    return replace(made, max_sequences=sequences, prefill_piece=piece)


def load(engine: Engine, made: LoadPlan) -> list[LoadProgress | Loaded]:
    return list(engine.load(made))


@pytest.fixture
def engine(folder: Path) -> Engine:
    ready = Engine()
    load(ready, make_plan(folder))
    return ready


def ask(text: str | tuple[Message, ...], tokens: int = 12, **options: object) -> GenerateRequest:
    messages = (Message("user", text),) if isinstance(text, str) else text
    sampling = options.pop("sampling", GREEDY)
    assert isinstance(sampling, SamplingParams)
    return GenerateRequest(f"r{next(counter)}", messages, sampling, tokens, **options)  # type: ignore[arg-type]


def drain(engine: Engine) -> list[Event]:
    events: list[Event] = []
    while engine.is_busy:
        events += engine.step()
    return events


def answer(engine: Engine, request: GenerateRequest) -> Finished:
    engine.submit(request)
    end = finished(drain(engine), request.request_id)
    assert end is not None
    return end


def test_load_reports_progress_that_never_goes_back(folder: Path) -> None:
    events = load(Engine(), make_plan(folder))
    fractions = [event.fraction for event in events if isinstance(event, LoadProgress)]
    assert fractions == sorted(fractions)
    assert fractions[0] >= 0
    assert fractions[-1] <= 1
    assert isinstance(events[-1], Loaded)
    assert events[-1].kernels == kernel_name("f32", events[-1].plan.kernels)


def test_chunks_join_to_the_text_and_events_come_in_order(engine: Engine) -> None:
    request = ask("hello", tokens=20)
    engine.submit(request)
    events = drain(engine)
    end = events[-1]
    assert isinstance(end, Finished)
    assert "".join(e.text for e in events if isinstance(e, Chunk)) == end.text
    kinds = [type(e) for e in events]
    assert kinds.index(Prefilled) < kinds.index(StepStats) < kinds.index(Finished)
    assert end.reason in ("length", "stop")
    assert len(end.stats.token_ids) == end.stats.generated_tokens
    assert [e.done_tokens for e in events if isinstance(e, Prefilled)][-1] == end.stats.prompt_tokens


def test_a_next_turn_reads_only_what_is_new_and_answers_the_same(engine: Engine, folder: Path) -> None:
    first = answer(engine, ask("tell me about llamas"))
    chat = (
        Message("user", "tell me about llamas"),
        Message("assistant", first.text),
        Message("user", "more"),
    )
    second = answer(engine, ask(chat))
    assert second.stats.reused_tokens >= first.stats.prompt_tokens
    fresh = Engine()
    load(fresh, make_plan(folder))
    again = answer(fresh, ask(chat))
    assert again.stats.reused_tokens == 0
    assert again.stats.token_ids == second.stats.token_ids


def test_the_same_prompt_twice_reuses_all_but_its_last_token(engine: Engine) -> None:
    first, second = answer(engine, ask("abc def")), answer(engine, ask("abc def"))
    assert second.stats.reused_tokens == first.stats.prompt_tokens - 1
    assert first.stats.token_ids == second.stats.token_ids


def test_a_seed_repeats_cached_or_not(engine: Engine) -> None:  # B064
    warm = SamplingParams(temperature=1.0, seed=7)
    runs = [answer(engine, ask("seeded", sampling=warm)) for _ in range(2)]
    assert runs[0].stats.token_ids == runs[1].stats.token_ids
    assert runs[0].stats.seed == 7


def test_cancel_in_prefill_takes_one_piece_and_leaves_a_usable_engine(engine: Engine) -> None:  # B077
    expected = answer(engine, ask("after")).stats.token_ids
    request = ask("x" * 150)
    engine.submit(request)
    engine.step()
    engine.cancel(request.request_id)
    end = finished(engine.step(), request.request_id)
    assert end is not None
    assert end.reason == "cancelled"
    assert end.text == ""
    assert not engine.is_busy
    assert answer(engine, ask("after")).stats.token_ids == expected


def test_cancel_between_tokens_keeps_the_text(engine: Engine) -> None:  # B077
    request = ask("go on", tokens=200)
    engine.submit(request)
    events: list[Event] = []
    while sum(isinstance(e, StepStats) for e in events) < 5:
        events += engine.step()
    engine.cancel(request.request_id)
    engine.cancel(request.request_id)
    events += drain(engine)
    ends = [e for e in events if isinstance(e, Finished)]
    assert len(ends) == 1
    assert ends[0].reason == "cancelled"
    assert ends[0].text == "".join(e.text for e in events if isinstance(e, Chunk))
    assert ends[0].stats.generated_tokens >= 5


def test_cancel_while_waiting_ends_that_request_alone(engine: Engine) -> None:
    first, second = ask("one"), ask("two")
    engine.submit(first)
    engine.submit(second)
    engine.cancel(second.request_id)
    events = drain(engine)
    one, two = finished(events, first.request_id), finished(events, second.request_id)
    assert one is not None
    assert one.reason in ("length", "stop")
    assert two is not None
    assert two.reason == "cancelled"


def test_answers_together_equal_answers_alone(folder: Path) -> None:
    texts = ["first question", "second", "a third and longer question here"]
    alone = Engine()
    load(alone, make_plan(folder))
    expected = [answer(alone, ask(text)).stats.token_ids for text in texts]
    together = Engine()
    load(together, make_plan(folder, sequences=3))
    requests = [ask(text) for text in texts]
    for request in requests:
        together.submit(request)
    events = drain(together)
    ends = [finished(events, request.request_id) for request in requests]
    assert [end.stats.token_ids for end in ends if end] == expected


def test_more_requests_than_places_wait_their_turn(engine: Engine) -> None:
    requests = [ask(f"number {n}", tokens=3) for n in range(4)]
    for request in requests:
        engine.submit(request)
    ends = [e.request_id for e in drain(engine) if isinstance(e, Finished)]
    assert ends == [request.request_id for request in requests]


@pytest.mark.parametrize("tokens", [1, 2, 5])
def test_the_answer_ends_at_its_limit(engine: Engine, tokens: int) -> None:
    end = answer(engine, ask("count", tokens=tokens))
    assert end.stats.generated_tokens <= tokens
    assert end.reason in ("length", "stop")


def test_a_stop_string_cuts_exactly(engine: Engine) -> None:  # B006
    text = answer(engine, ask("stopping", tokens=40)).text
    stop = text[5:8]
    assert stop
    end = answer(engine, ask("stopping", tokens=40, stop=(stop,)))
    assert end.reason == "stop"
    assert end.text == text[: text.index(stop)]


def prompt_overhead(engine: Engine) -> int:
    """Tokens of a prompt with an empty message; every letter then adds one."""
    return answer(engine, ask("x", tokens=1)).stats.prompt_tokens - 1


@pytest.mark.parametrize("excess", [0, 6])
def test_a_prompt_as_long_as_the_context_is_refused_with_both_numbers(
    folder: Path, excess: int
) -> None:  # B072
    engine = Engine()
    load(engine, make_plan(folder, context=64))
    length = 64 + excess - prompt_overhead(engine)
    engine.submit(ask("y" * length))
    events = drain(engine)
    failed = next(e for e in events if isinstance(e, Failed))
    assert failed.kind == "context"
    assert str(64 + excess) in failed.message
    assert "64" in failed.message
    assert isinstance(events[-1], Finished)
    assert events[-1].reason == "error"
    assert answer(engine, ask("ok", tokens=2)).stats.generated_tokens > 0


def test_one_token_of_room_gives_one_token_then_context(folder: Path) -> None:  # B072
    engine = Engine()
    load(engine, make_plan(folder, context=64))
    end = answer(engine, ask("y" * (63 - prompt_overhead(engine)), tokens=50))
    assert (end.reason, end.stats.generated_tokens) == ("context", 1)


def test_generation_ends_where_the_context_does(folder: Path) -> None:
    engine = Engine()
    load(engine, make_plan(folder, context=48))
    request = GenerateRequest("long", (Message("user", "z"),), SamplingParams(temperature=0), max_tokens=None)
    end = answer(engine, request)
    if end.reason == "context":
        assert end.stats.prompt_tokens + end.stats.generated_tokens == 48
    else:
        assert end.reason == "stop"


def test_invalid_numbers_end_the_answer_and_the_next_one_works(engine: Engine) -> None:  # B060
    expected = answer(engine, ask("fine")).stats.token_ids
    runner = engine._model.runner  # type: ignore[union-attr]
    norm = runner._weights.output_norm
    request = ask("poison", tokens=50)
    engine.submit(request)
    events = engine.step() + engine.step() + engine.step()
    with torch.inference_mode():
        kept = norm.clone()
        norm.fill_(torch.nan)
        events += engine.step()
        norm.copy_(kept)
    events += drain(engine)
    failed = next(e for e in events if isinstance(e, Failed))
    end = finished(events, request.request_id)
    assert failed.kind == "numerics"
    assert failed.request_id == request.request_id
    assert end is not None
    assert end.reason == "error"
    assert end.text == "".join(e.text for e in events if isinstance(e, Chunk))
    assert answer(engine, ask("fine")).stats.token_ids == expected


def test_an_exception_in_a_step_can_be_aborted_and_survived(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = answer(engine, ask("fine")).stats.token_ids
    runner = engine._model.runner  # type: ignore[union-attr]
    request = ask("boom")
    engine.submit(request)
    with monkeypatch.context() as patch:
        patch.setattr(type(runner), "forward", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            drain(engine)
    engine.abort()
    end = finished(drain(engine), request.request_id)
    assert end is not None
    assert end.reason == "error"
    assert answer(engine, ask("fine")).stats.token_ids == expected


@pytest.mark.parametrize("error", [MemoryError(), RuntimeError("DefaultCPUAllocator: can't allocate memory")])
def test_a_step_without_memory_is_a_typed_error_and_survivable(
    engine: Engine, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = answer(engine, ask("fine")).stats.token_ids
    runner = engine._model.runner  # type: ignore[union-attr]

    def forward(*_: object) -> None:
        raise error

    engine.submit(ask("too much"))
    with monkeypatch.context() as patch:
        patch.setattr(type(runner), "forward", forward)
        with pytest.raises(MemoryLimitError):
            drain(engine)
    engine.abort()
    drain(engine)
    assert answer(engine, ask("fine")).stats.token_ids == expected


def test_the_head_is_read_for_the_last_piece_of_a_prompt_alone(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = engine._model.runner  # type: ignore[union-attr]
    made: list[tuple[int, int]] = []  # rows of each pass, and of its logits

    def forward(segments: list[Segment], forward: Callable[..., Tensor] = runner.forward) -> Tensor:
        logits = forward(segments)
        made.append((sum(len(segment.ids) for segment in segments), logits.shape[0]))
        return logits

    monkeypatch.setattr(runner, "forward", forward)
    answer(engine, ask("a prompt of more than two pieces, by far", tokens=2))
    pieces, steps = made[:-1], made[-1:]
    assert len(pieces) > 2 and all(rows == 16 for rows, _ in pieces[:-1])
    assert [logits for _, logits in pieces] == [0] * (len(pieces) - 1) + [1]
    assert steps == [(1, 1)]


def test_without_a_model_requests_are_refused_in_words() -> None:
    with pytest.raises(EngineBusyError):
        Engine().submit(ask("hello"))


def test_sampling_values_that_cannot_be_used_are_refused(engine: Engine) -> None:
    with pytest.raises(WishError):
        engine.submit(ask("hello", sampling=SamplingParams(temperature=float("nan"))))


def test_unload_ends_answers_and_gives_the_memory_back(engine: Engine) -> None:
    request = ask("soon gone", tokens=100)
    engine.submit(request)
    engine.step()
    assert engine.memory().weights_bytes > 0
    engine.unload()
    end = finished(drain(engine), request.request_id)
    assert end is not None
    assert end.reason == "cancelled"
    report = engine.memory()
    assert (report.weights_bytes, report.kv_reserved_bytes, report.kv_used_tokens) == (0, 0, 0)


def test_a_load_that_is_dropped_leaves_no_model_and_the_next_one_works(folder: Path) -> None:
    engine = Engine()
    loading = engine.load(make_plan(folder))
    for _ in range(4):
        next(loading)
    loading.close()
    assert engine.plan is None
    load(engine, make_plan(folder))
    assert answer(engine, ask("hello")).stats.generated_tokens > 0


def test_a_broken_tokenizer_is_found_before_weights_are_read(folder: Path, tmp_path: Path) -> None:  # B034
    broken = tiny_folder(tmp_path / "m")
    (broken / "tokenizer.json").unlink()
    with pytest.raises(EngineError) as error:
        load(Engine(), make_plan(broken))
    assert isinstance(error.value, TokenizerError)


def test_a_model_without_a_template_says_so(tmp_path: Path) -> None:  # B013
    engine = Engine()
    load(engine, make_plan(tiny_folder(tmp_path / "m", template=None)))
    engine.submit(ask("hello"))
    failed = next(e for e in drain(engine) if isinstance(e, Failed))
    assert failed.kind == "no-template"
    assert "no chat template" in failed.message


def test_a_refused_system_message_is_folded_and_noted(tmp_path: Path) -> None:  # B011
    strict = "{% if messages[0].role == 'system' %}{{ raise_exception('no system') }}{% endif %}" + TEMPLATE
    engine = Engine()
    load(engine, make_plan(tiny_folder(tmp_path / "m", template=strict)))
    engine.submit(ask((Message("system", "One word."), Message("user", "Colour of snow?"))))
    events = drain(engine)
    assert next(e for e in events if isinstance(e, Prefilled)).notes
    assert not [e for e in events if isinstance(e, Failed)]


def test_text_that_spells_a_control_token_stays_text(engine: Engine) -> None:
    plain = answer(engine, ask("ab", tokens=1)).stats.prompt_tokens
    spelled = answer(engine, ask("ab<|im_end|>", tokens=1)).stats.prompt_tokens
    assert spelled == plain + len("<|im_end|>")
