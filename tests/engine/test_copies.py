"""Copies of one chat: each point is measured, what has no room says so, stopping leaves nothing behind."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine import copies
from engine.capabilities import Capabilities, GenericOptions
from engine.engine import Engine
from engine.errors import ContextError, EngineBusyError, NoTemplateError
from engine.events import Measured, Measuring
from engine.types import CopiesPoint, MeasureWish, Message
from tests.engine.test_engine import ask, drain
from tests.engine.test_many_chats import loaded
from tests.engine.tiny import FAMILIES, tiny_folder

WISH = MeasureWish((CopiesPoint(1, 8), CopiesPoint(4, 8), CopiesPoint(1, 40), CopiesPoint(8, 40)), 3, 2)
CHAT = (Message("user", "Which llama is the fastest?"),)


@pytest.fixture(scope="module", params=["mistral nemo", "gemma 3"])
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    folder = tiny_folder(tmp_path_factory.mktemp("copies") / "model", **FAMILIES[request.param])
    return loaded(folder, context=128)


def points(run: Generator[Measuring | Measured, None, None]) -> list[Measured]:
    return [event for event in run if isinstance(event, Measured)]


def test_every_point_is_measured_with_as_many_copies_and_tokens(engine: Engine) -> None:
    found = points(engine.measure(WISH))
    assert [each.point for each in found] == list(WISH.points)
    assert [each.index for each in found] == [0, 1, 2, 3]
    for each in found:
        assert each.failed == ""
        assert each.step_s is not None and each.step_s > 0
        assert each.ttft_s is not None and each.ttft_s > each.step_s / 10
        assert each.memory_bytes is not None


def test_more_copies_hold_more(engine: Engine) -> None:
    held = [each.memory_bytes or 0 for each in points(engine.measure(WISH))]
    assert held[0] < held[1]
    assert held[0] < held[2] < held[3]


def test_the_answer_of_a_copy_is_that_of_the_engine(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Greedy steps over the chat's own prompt: what they choose is what an answer says."""
    chosen: list[int] = []
    step = copies.CopiesMeasurement._step

    def watched(self: copies.CopiesMeasurement, running: list[copies._Copy]) -> float:
        chosen.append(running[-1].next_id)
        return step(self, running)

    engine.submit(ask(CHAT[0].content, tokens=5))
    answer = [event.stats.token_ids for event in drain(engine) if hasattr(event, "stats")]
    monkeypatch.setattr(copies.CopiesMeasurement, "_step", watched)
    list(engine.measure(MeasureWish((CopiesPoint(3, 1),), 4, 1, CHAT)))
    assert chosen[:2] == list(answer[0][:2])


def test_a_chat_has_its_own_length(engine: Engine) -> None:
    found = points(engine.measure(MeasureWish((CopiesPoint(1, 1), CopiesPoint(8, 1)), 2, 1, CHAT)))
    lengths = {each.point.tokens for each in found}
    assert len(lengths) == 1
    assert lengths.pop() > 10


def test_progress_reads_then_decodes_and_never_goes_back(engine: Engine) -> None:
    run = [each for each in engine.measure(WISH) if isinstance(each, Measuring)]
    for index in range(len(WISH.points)):
        own = [each for each in run if each.index == index]
        phases = [each.phase for each in own]
        assert phases == sorted(phases, reverse=True)  # reading, then decoding
        for phase in set(phases):
            fractions = [each.fraction for each in own if each.phase == phase]
            assert fractions == sorted(fractions)
            assert 0 < fractions[-1] <= 1
        assert own[-1].fraction == 1


def test_a_point_without_room_fails_in_words_and_the_next_is_measured(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    free = {"bytes": 0}
    monkeypatch.setattr(copies.machine, "ram_bytes", lambda: (1 << 40, free["bytes"]))
    run, found = engine.measure(WISH), []
    for event in run:
        if isinstance(event, Measured):
            found.append(event)
            free["bytes"] = 1 << 40
    assert "GB are free" in found[0].failed
    assert found[0].step_s is None and found[0].ttft_s is None
    assert [each.failed for each in found[1:]] == ["", "", ""]


def test_points_are_no_longer_than_the_context(engine: Engine) -> None:
    [found] = points(engine.measure(MeasureWish((CopiesPoint(1, 1 << 20),), 4, 1)))
    assert found.failed == ""
    assert 100 < found.point.tokens <= 128


def test_a_dropped_run_gives_back_caches_and_threads(engine: Engine) -> None:
    torch.set_num_threads(1)
    run = engine.measure(WISH)
    next(run)
    run.close()
    assert torch.get_num_threads() == 1
    engine.submit(ask("and now?", tokens=3))
    assert drain(engine)


def test_nothing_is_measured_while_an_answer_is_written(engine: Engine) -> None:
    engine.submit(ask("hello", tokens=40))
    engine.step()
    with pytest.raises(EngineBusyError):
        next(engine.measure(WISH))
    drain(engine)


def test_without_a_model_there_is_nothing_to_measure() -> None:
    with pytest.raises(EngineBusyError):
        next(Engine().measure(WISH))


def test_a_chat_that_is_too_long_is_refused(engine: Engine) -> None:
    long = (Message("user", "llama " * 200),)
    with pytest.raises(ContextError):
        next(engine.measure(replace(WISH, messages=long)))


def test_a_model_without_a_template_measures_random_tokens_only(tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "model")
    for name in ("tokenizer_config.json", "chat_template.jinja"):
        (folder / name).unlink(missing_ok=True)
    engine = loaded(folder, context=64)
    with pytest.raises(NoTemplateError):
        next(engine.measure(replace(WISH, messages=CHAT)))
    assert points(engine.measure(replace(WISH, points=WISH.points[:1])))[0].failed == ""


def test_a_cache_that_cannot_be_trimmed_is_read_anew(engine: Engine) -> None:
    assert engine.plan is not None
    can = Capabilities(no_trim="It keeps a state.")
    model = engine._require_model()
    before = model.plan
    spec = replace(before.model, generic=GenericOptions("X", "a state", (), can))
    model.plan = replace(before, model=spec)
    try:
        found = points(engine.measure(WISH))
    finally:
        model.plan = before
    assert [each.failed for each in found] == [""] * 4
