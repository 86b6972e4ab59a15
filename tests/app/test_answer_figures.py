"""Figures of an answer: of one that was continued, kept, and back on the gauges."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from app.answer_figures import details, joined, kept, speed_view
from engine.events import AnswerStats, StepStats

NBSP = "\u00a0"
FIGURES = AnswerStats(100, 20, 41, 0.25, 200.0, 40.0, 7, drafted_tokens=20, accepted_tokens=10)


def test_a_continued_answer_has_the_speed_of_all_its_tokens() -> None:
    later = replace(FIGURES, generated_tokens=21, decode_tps=10.0, ttft_s=9.0)
    whole = joined(kept(FIGURES), later)
    assert whole.generated_tokens == 62
    assert whole.decode_tps == pytest.approx(60 / (40 / 40.0 + 20 / 10.0))
    assert whole.ttft_s == 0.25  # of the answer's first token
    assert (whole.drafted_tokens, whole.accepted_tokens) == (40, 20)


def test_parts_without_a_speed_leave_that_of_the_other() -> None:
    none = AnswerStats(9, 0, 0, None, None, None, None)
    assert joined({}, FIGURES) == FIGURES
    assert joined(kept(FIGURES), none).decode_tps == pytest.approx(40.0)
    assert joined(kept(none), FIGURES).ttft_s == 0.25
    assert joined(kept(none), none).decode_tps is None


def test_what_is_kept_of_a_growing_answer_is_of_use_when_it_is_cut_off() -> None:
    step = StepStats("a", 9, 41.0, 42.0, 0.2)
    assert kept(step)["line"] == f"9 tokens · 41.0{NBSP}tok/s · first token 0.20{NBSP}s"
    assert speed_view(kept(step)).decode_tps == 41.0


def test_figures_come_back_from_the_store_as_they_went() -> None:
    view = speed_view(json.loads(json.dumps(kept(FIGURES))))
    assert (view.decode_tps, view.is_live, view.ttft_s, view.prefill_tps) == (40.0, False, 0.25, 200.0)
    assert view.drafts_accepted == 0.5


def test_the_details_say_how_it_ended_what_was_predicted_and_what_was_read() -> None:
    stats = {"tokens": 9, "predicted_tps": 88.2, "prompt": 1204, "reused": 1100, "prompt_tps": 1830.0}
    assert details(stats, "length").split("\n") == [
        "Ended by the longest answer length",
        f"Predicted: ≈ 88.2{NBSP}tok/s",
        f"Prompt: 1,204 tokens, 1,100 of them reused, read at 1,830{NBSP}tok/s",
    ]
    assert details({"tokens": 9}, "done") == "Ended by the model"
    assert details({}, "done") == details(stats, "reading") == ""


@pytest.mark.parametrize("stats", [{}, {"decode_tps": "x", "tokens": None}, {"accepted": 4, "drafted": 0}])
def test_what_is_not_known_stays_unknown(stats: dict[str, object]) -> None:
    view = speed_view(stats)
    assert (view.decode_tps, view.ttft_s, view.drafts_accepted) == (None, None, None)
    assert joined(stats, FIGURES).decode_tps == pytest.approx(40.0)
