"""The sampler's rules on hand-written logits."""

from __future__ import annotations

import math

import pytest
import torch

from engine.decode.limits import checked
from engine.decode.sampler import Sampler, candidates, distribution, penalize
from engine.errors import NumericsError, WishError
from engine.types import SamplingParams

OFF = {"top_k": 0, "top_p": 1.0, "min_p": 0.0}


def kept(logits: torch.Tensor, **params: float) -> list[int]:
    """Ids that survive, in the vocabulary's order."""
    ids, probabilities = candidates(logits, SamplingParams(**({"temperature": 1.0} | OFF | params)))  # type: ignore[arg-type]
    assert probabilities.sum().item() == pytest.approx(1.0)
    return sorted(ids.tolist())


@pytest.mark.parametrize("temperature", [0, 0.0, -0.0, 1e-9])
def test_temperature_zero_and_almost_zero_are_greedy(temperature: float) -> None:  # B059
    logits = torch.tensor([0.1, 3.0, 2.9, -4.0])
    for seed in range(20):
        assert Sampler(SamplingParams(temperature=temperature, seed=seed, **OFF)).choose(logits, []) == 1


@pytest.mark.parametrize("temperature", [1, 2])
def test_whole_number_temperatures_are_accepted(temperature: int) -> None:  # B059
    assert 0 <= Sampler(SamplingParams(temperature=temperature, seed=1)).choose(torch.randn(50), []) < 50


@pytest.mark.parametrize(
    "change",
    [
        {"temperature": math.nan},
        {"temperature": -1.0},
        {"temperature": math.inf},
        {"temperature": "0.7"},
        {"top_p": 1.5},
        {"min_p": -0.1},
        {"repeat_penalty": 0.0},
        {"seed": -1},
    ],
)
def test_values_that_cannot_be_used_are_named(change: dict[str, float]) -> None:  # B059
    with pytest.raises(WishError) as error:
        checked(SamplingParams(**change))
    assert str(next(iter(change.values()))) in str(error.value)


def test_half_precision_logits_at_tiny_temperature_pick_the_best() -> None:  # B060
    logits = torch.tensor([10, 9.9, -50], dtype=torch.float16).float()
    params = SamplingParams(temperature=1e-4, seed=3, **OFF)
    assert {Sampler(params).choose(logits, []) for _ in range(20)} == {0}


@pytest.mark.parametrize("top_p", [1e-4, 0.0])
def test_the_smallest_top_p_keeps_one_token(top_p: float) -> None:  # B060
    assert kept(torch.tensor([1.0, 3.0, 2.0]), top_p=top_p) == [1]


@pytest.mark.parametrize(
    "logits",
    [
        [1.0, math.nan, 2.0],
        [-math.inf] * 3,
        [math.inf, math.inf, 0.0],
    ],
)
@pytest.mark.parametrize("temperature", [0.0, 0.8])
def test_invalid_logits_are_an_error_and_not_a_token(logits: list[float], temperature: float) -> None:  # B060
    with pytest.raises(NumericsError):
        Sampler(SamplingParams(temperature=temperature)).choose(torch.tensor(logits), [])


@pytest.mark.parametrize(("k", "count"), [(0, 5), (-1, 5), (1, 1), (3, 3), (5, 5), (6, 5), (100_000, 5)])
def test_top_k_limits(k: int, count: int) -> None:  # B061
    assert len(kept(torch.tensor([0.0, 4.0, 1.0, 3.0, 2.0]), top_k=k)) == count


def test_min_p_of_one_keeps_the_best_and_all_filters_keep_at_least_one() -> None:  # B061
    logits = torch.tensor([0.0, 4.0, 1.0])
    assert kept(logits, min_p=1.0) == [1]
    strict = SamplingParams(temperature=0.01, top_k=1, top_p=0.0, min_p=1.0)
    assert distribution(logits, strict).tolist() == [0.0, 1.0, 0.0]


def test_top_p_keeps_the_fewest_tokens_that_reach_the_mass() -> None:
    logits = torch.tensor([0.5, 0.3, 0.15, 0.05]).log()
    assert kept(logits, top_p=0.7) == [0, 1]
    assert kept(logits, top_p=0.96) == [0, 1, 2, 3]
    assert kept(logits, top_p=1.0) == [0, 1, 2, 3]


def test_top_k_comes_before_top_p_and_the_rest_adds_up_to_one() -> None:
    logits = torch.tensor([0.4, 0.3, 0.2, 0.1]).log()
    # of the two best 0.4 makes 4/7: enough for 0.5, but not for 0.6
    assert kept(logits, top_k=2, top_p=0.5) == [0]
    assert kept(logits, top_k=2, top_p=0.6) == [0, 1]
    spread = distribution(logits, SamplingParams(temperature=1.0, top_k=2, top_p=1.0, min_p=0.0))
    torch.testing.assert_close(spread, torch.tensor([4 / 7, 3 / 7, 0.0, 0.0]))


def test_repetition_penalty_works_on_negative_logits_and_once_per_token() -> None:  # B062
    logits = torch.tensor([1.0, -1.0, 0.0])
    before = logits.clone()
    assert math.isclose(penalize(logits, [1, 1, 1], 1.5).softmax(-1)[1].item(), 0.0566, abs_tol=5e-5)
    assert penalize(logits, [0], 1.5)[0].item() == pytest.approx(1 / 1.5)
    assert penalize(logits, [0, 1, 2], 1.0) is logits
    assert torch.equal(logits, before)
    assert torch.equal(penalize(logits, [99, -1], 1.5), before)


def test_control_tokens_are_never_penalized() -> None:  # B063
    sampler = Sampler(SamplingParams(temperature=0, repeat_penalty=2.0), never_penalized=frozenset({0}))
    assert sampler.choose(torch.tensor([2.0, 1.9]), [0, 0, 1]) == 0


def test_a_seed_repeats_whatever_the_global_generator_does() -> None:  # B064
    logits = [torch.randn(100) for _ in range(30)]

    def run() -> list[int]:
        sampler = Sampler(SamplingParams(temperature=1.0, seed=7, **OFF))
        return [sampler.choose(row, []) for row in logits]

    first = run()
    torch.manual_seed(1)
    torch.rand(10)
    assert run() == first
    assert Sampler(SamplingParams()).seed != Sampler(SamplingParams()).seed


def test_draws_follow_the_distribution() -> None:
    probabilities = torch.tensor([0.6, 0.3, 0.1])
    sampler = Sampler(SamplingParams(temperature=1.0, seed=5, **OFF))
    draws = torch.tensor([sampler.choose(probabilities.log(), []) for _ in range(3000)])
    expected = 3000 * probabilities
    chi_square = ((torch.bincount(draws, minlength=3) - expected) ** 2 / expected).sum().item()
    assert chi_square < 13.8  # 0.1 % of honest samplers exceed this with 2 degrees of freedom
