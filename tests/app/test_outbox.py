"""Few signals: joined events, the first token at once, the end always."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest

from app.outbox import INTERVAL_S, Outbox
from engine.events import (
    AnswerStats,
    Chunk,
    Finished,
    LoadProgress,
    MemoryReport,
    Prefilled,
    StepStats,
    TokenLogprob,
    TokenLogprobs,
)

END = Finished("a", "stop", "", AnswerStats(1, 0, 1, None, None, None, None))


def step(count: int, request: str = "a") -> StepStats:
    logprob = TokenLogprobs(TokenLogprob(count, "x", -0.5), ())
    return StepStats(request, count, None, None, None, (float(count),), (logprob,))


def test_the_first_text_and_the_end_go_out_at_once() -> None:
    outbox = Outbox()
    outbox.add([Chunk("a", "x")])
    assert outbox.is_due(0.0)
    outbox.take(0.0)
    outbox.add([Chunk("a", "y")])
    assert not outbox.is_due(INTERVAL_S / 2)
    assert outbox.is_due(INTERVAL_S * 1.01)
    outbox.add([END])
    assert outbox.is_due(INTERVAL_S / 2)
    assert outbox.take(INTERVAL_S / 2) == (Chunk("a", "y"), END)
    assert not outbox.is_due(99.0)


def test_texts_of_one_answer_are_joined_across_step_figures() -> None:
    outbox = Outbox()
    for count in range(1, 6):
        outbox.add([Chunk("a", str(count)), step(count)])
    chunk, stats = outbox.take(0.0)
    assert chunk == Chunk("a", "12345")
    assert isinstance(stats, StepStats)
    assert stats.generated_tokens == 5
    assert stats.step_ms == (1.0, 2.0, 3.0, 4.0, 5.0)
    assert [each.chosen.id for each in stats.logprobs] == [1, 2, 3, 4, 5]


def test_answers_are_not_mixed_and_kinds_of_text_neither() -> None:
    outbox = Outbox()
    outbox.add([Chunk("a", "1"), Chunk("b", "2"), Chunk("a", "3"), Chunk("a", "t", kind="thought")])
    texts = [(e.request_id, e.kind, e.text) for e in outbox.take(0.0) if isinstance(e, Chunk)]
    assert texts == [("a", "answer", "13"), ("b", "answer", "2"), ("a", "thought", "t")]


def test_nothing_moves_across_an_end() -> None:
    outbox = Outbox()
    outbox.add([Chunk("a", "1"), END, Chunk("b", "2"), Chunk("b", "3")])
    assert outbox.take(0.0) == (Chunk("a", "1"), END, Chunk("b", "23"))


def test_only_the_newest_progress_and_memory_are_sent() -> None:
    outbox = Outbox()
    report = MemoryReport(1, 1, 1, 1, 1, 1, 1, 1, 1)
    outbox.add(
        [
            LoadProgress(0.1, "w"),
            report,
            LoadProgress(0.2, "w"),
            Prefilled("a", 9, 0, 3),
            Prefilled("a", 9, 0, 6),
        ]
    )
    assert set(outbox.take(0.0)) == {LoadProgress(0.2, "w"), report, Prefilled("a", 9, 0, 6)}


def test_a_steady_stream_makes_at_most_fifteen_signals_a_second() -> None:
    outbox, now, sent = Outbox(), 0.0, 0
    while now < 10.0:
        outbox.add([Chunk("a", "x"), step(1)])
        if outbox.is_due(now):
            outbox.take(now)
            sent += 1
        now += 0.004
    assert 120 < sent <= 151


@pytest.mark.parametrize("step_s", [0.002, 0.012, 0.045, 0.066, 0.1, 0.3])
def test_no_burst_is_seen_that_is_longer_than_an_interval(step_s: float) -> None:
    """Accepted drafts come several at once. What the window gets at once never spans more than an interval
    and the step that ran out of it, nothing waits longer, and the end holds nothing back.
    """
    outbox, chance, now = Outbox(), random.Random(5), 0.0
    came: list[tuple[float, str]] = []
    sent: list[tuple[float, str]] = []
    for number in range(400):
        now += step_s * chance.choice((0.5, 1.0, 1.5))
        burst = "x" * chance.randrange(1, 17)
        came.append((now, burst))
        end = [END] if number == 399 else []
        outbox.add([*(Chunk("a", letter) for letter in burst), step(number), *end])
        if outbox.is_due(now):
            texts = [event.text for event in outbox.take(now) if isinstance(event, Chunk)]
            sent.append((now, "".join(texts)))
    assert "".join(text for _, text in sent) == "".join(text for _, text in came)
    longest_step_s = 1.5 * step_s
    for at, text in sent:
        while text:
            came_at, burst = came.pop(0)
            assert at - came_at <= INTERVAL_S + longest_step_s
            assert len(burst) <= len(text)  # a burst is never cut in two pictures
            text = text[len(burst) :]
    times = [at for at, _ in sent]
    assert all(later - earlier >= INTERVAL_S for earlier, later in pairwise(times[:-1]))
