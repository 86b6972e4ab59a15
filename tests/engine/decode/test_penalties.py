"""Bias and penalties on hand-written logits, on the processor and on a device."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from engine.decode.penalties import PENALTY_WINDOW, adjusted, discourage
from engine.decode.sampler import Sampler, distribution
from engine.types import SamplingParams
from tests.engine.toy_device import TOY, ToyDevice

OFF = SamplingParams(repeat_penalty=1.0)
ALL = SamplingParams(
    temperature=0,
    repeat_penalty=2.0,
    presence_penalty=0.5,
    frequency_penalty=0.25,
    logit_bias=((2, 3.0), (0, -1.0)),
)


@pytest.fixture
def toy() -> Iterator[ToyDevice]:
    with ToyDevice() as device:
        yield device


def test_with_all_off_the_very_logits_come_back() -> None:
    logits = torch.randn(10)
    assert adjusted(logits, OFF, [1, 2, 3], [3]) is logits
    assert adjusted(logits, SamplingParams(presence_penalty=1.0), [1, 2, 3], []) is logits


def test_penalties_follow_openais_formula_and_count_the_answer_alone() -> None:
    logits = torch.tensor([1.0, -1.0, 0.5, 2.0])
    params = SamplingParams(presence_penalty=0.5, frequency_penalty=0.25)
    found = adjusted(logits, params, [3, 3, 0, 1, 1], [0, 1, 1])  # the prompt said 3 twice
    assert found.tolist() == pytest.approx([1.0 - 0.75, -1.0 - 1.0, 0.5, 2.0])
    negative = SamplingParams(presence_penalty=-1.0)
    assert adjusted(logits, negative, [1], [1]).tolist() == pytest.approx([1.0, 0.0, 0.5, 2.0])


def test_bias_comes_first_then_the_repeat_penalty_then_the_others() -> None:
    logits = torch.tensor([2.0, 4.0, -1.0, 1.0])
    found = adjusted(logits, ALL, [0, 1, 2], [1, 2, 2])
    assert found.tolist() == pytest.approx(
        [(2.0 - 1.0) / 2, 4.0 / 2 - 0.5 - 0.25, (-1.0 + 3.0) / 2 - 0.5 - 2 * 0.25, 1.0]
    )


def test_nothing_is_changed_in_place() -> None:
    logits = torch.randn(8)
    before = logits.clone()
    history, generated = [1, 2, 2], [2, 2]
    adjusted(logits, ALL, history, generated)
    assert torch.equal(logits, before)
    assert (history, generated) == ([1, 2, 2], [2, 2])


def test_control_tokens_are_spared_by_every_penalty_but_a_bias_is_meant() -> None:  # B063
    logits = torch.tensor([1.0, 1.0, 1.0])
    params = SamplingParams(
        repeat_penalty=2.0, presence_penalty=1.0, frequency_penalty=1.0, logit_bias=((0, -5.0),)
    )
    assert adjusted(logits, params, [0, 1], [0, 1], frozenset({0})).tolist() == [-4.0, -1.5, 1.0]


def test_tokens_without_a_row_are_left_out() -> None:
    logits = torch.zeros(3)
    params = SamplingParams(logit_bias=((7, 5.0), (1, 1.0)))
    assert adjusted(logits, params, []).tolist() == [0.0, 1.0, 0.0]
    assert discourage(logits, [7, 9], 1.0, 1.0) is logits
    assert discourage(logits, [2, 7], 1.0, 0.0).tolist() == [0.0, 0.0, -1.0]


def test_the_repeat_penalty_looks_back_so_far_and_the_others_over_the_whole_answer() -> None:
    generated = [0, *[1] * PENALTY_WINDOW]
    logits = torch.ones(2)
    assert adjusted(logits, SamplingParams(repeat_penalty=2.0), generated, generated).tolist() == [1.0, 0.5]
    assert adjusted(logits, SamplingParams(presence_penalty=1.0), generated, generated).tolist() == [0.0, 0.0]


def test_what_is_excluded_stays_so_and_no_number_stays_none() -> None:
    logits = torch.tensor([-torch.inf, torch.nan, 0.0])
    found = adjusted(logits, ALL, [0, 1, 2], [0, 1, 2])
    assert found[0] == -torch.inf
    assert found[1].isnan()


def test_a_strong_bias_bans_and_forces_a_token() -> None:
    logits = torch.tensor([5.0, 4.0, 3.0])
    for token, bias, chosen in ((0, -100.0, 1), (2, 100.0, 2)):
        sampler = Sampler(SamplingParams(temperature=0, logit_bias=((token, bias),)))
        assert sampler.choose(logits, []) == chosen


def test_a_token_that_came_too_often_gives_way() -> None:
    sampler = Sampler(SamplingParams(temperature=0, frequency_penalty=1.0))
    logits, generated = torch.tensor([2.5, 1.0, 0.0]), []
    for _ in range(6):
        generated.append(sampler.choose(logits, [9, *generated], generated))
    assert generated == [0, 0, 1, 0, 1, 2]


def test_a_drafts_position_is_judged_as_the_token_there_would_be() -> None:
    """One row after another with the draft behind, and plain decoding token by token: the same numbers."""
    rows = torch.randn(4, 20, generator=torch.Generator().manual_seed(5))
    sampler = Sampler(SamplingParams(seed=1, repeat_penalty=1.3, presence_penalty=0.7, frequency_penalty=0.2))
    prompt, generated, draft = [4, 5, 6], [7], [8, 8, 9]
    judged = [
        distribution(
            sampler.adjusted(rows[j], prompt + generated + draft[:j], generated + draft[:j]), sampler.params
        )
        for j in range(4)
    ]
    ids, answer = prompt + generated, list(generated)
    for row, expected, token in zip(rows, judged, [*draft, 0], strict=True):
        assert torch.equal(distribution(sampler.adjusted(row, ids, answer), sampler.params), expected)
        ids.append(token)
        answer.append(token)


def test_a_device_gives_the_processors_numbers_without_being_waited_for(toy: ToyDevice) -> None:
    for seed in range(5):
        generator = torch.Generator().manual_seed(seed)
        logits = 4 * torch.randn(500, generator=generator)
        history = torch.randint(0, 520, (60,), generator=generator).tolist()
        there = logits.to(TOY, non_blocking=True)
        toy.waits = 0
        found = adjusted(there, ALL, history, history[20:], frozenset({3}))
        drawn = Sampler(ALL, frozenset({3})).draw(there, history, history[20:])
        assert toy.waits == 0
        assert toy.holds(found)
        expected = adjusted(logits, ALL, history, history[20:], frozenset({3}))
        assert torch.equal(toy.read(found), expected)
        assert int(toy.read(drawn)) == int(expected.argmax())
