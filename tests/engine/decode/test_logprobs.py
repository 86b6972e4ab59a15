"""Log-probabilities of hand-written logits."""

from __future__ import annotations

import math

import pytest
import torch

from engine.decode.logprobs import logprobs_of
from engine.events import TokenLogprob


def test_they_are_those_of_the_raw_logits_best_first() -> None:
    logits = torch.tensor([0.1, 0.6, 0.3]).log() + 7.0  # a constant changes nothing
    found = logprobs_of(logits, 0, 2, str)
    assert found.chosen.id == 0
    assert found.chosen.logprob == pytest.approx(math.log(0.1), abs=1e-5)
    assert [(each.id, each.text) for each in found.top] == [(1, "1"), (2, "2")]
    assert [each.logprob for each in found.top] == pytest.approx([math.log(0.6), math.log(0.3)], abs=1e-5)


def test_more_than_there_are_and_what_a_model_excludes_are_left_out() -> None:
    logits = torch.tensor([0.0, -math.inf, 0.0])
    found = logprobs_of(logits, 2, 20, lambda _: "")
    assert {each.id for each in found.top} == {0, 2}
    assert found.top[0] == TokenLogprob(found.top[0].id, "", pytest.approx(math.log(0.5)))


def test_the_logits_stay_as_they_are() -> None:
    logits = torch.randn(50)
    before = logits.clone()
    logprobs_of(logits, 3, 5, str)
    assert torch.equal(logits, before)
