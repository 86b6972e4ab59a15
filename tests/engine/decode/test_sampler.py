"""The sampler's rules on hand-written logits."""

from __future__ import annotations

import math

import pytest
import torch

from engine.decode.limits import checked
from engine.decode.penalties import penalize
from engine.decode.sampler import INVALID, Sampler, candidates, choose_all, distribution
from engine.decode.survivors import largest
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


SIZES = (49_152, 50_257, 49_155, 128_256, 1_000, 64, 5)  # of vocabularies: whole blocks, and a few more


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("k", [1, 40, 200])
def test_the_largest_are_those_of_a_whole_search(size: int, k: int) -> None:
    logits = torch.randn(size, generator=torch.Generator().manual_seed(size))
    expected = logits.topk(min(k, size))
    assert largest(logits.numpy(), min(k, size)).tolist() == expected.indices.tolist()


@pytest.mark.parametrize("size", SIZES[:3])
def test_of_equal_ones_the_first_are_the_largest(size: int) -> None:
    """16-bit products give many equal logits."""
    logits = torch.zeros(size)
    logits[torch.tensor([size - 1, 4_000, 70, 20_000])] = 2.0
    assert largest(logits.numpy(), 4).tolist() == [70, 4_000, 20_000, size - 1]
    assert largest(logits.numpy(), 6).tolist() == [70, 4_000, 20_000, size - 1, 0, 1]
    greedy = Sampler(SamplingParams(temperature=0))
    assert greedy.choose(logits, []) == 70


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("at", [0, 300, 50_250])
@pytest.mark.parametrize("change", [{}, {"top_k": 0}, {"temperature": 0.0}, OFF])
def test_an_invalid_logit_anywhere_is_an_error(bad: float, at: int, change: dict[str, float]) -> None:  # B060
    logits = torch.randn(50_257)
    logits[at] = bad
    params = SamplingParams(**({"seed": 1} | change))  # type: ignore[arg-type]
    with pytest.raises(NumericsError):
        Sampler(params).choose(logits, [])


def test_tokens_that_cannot_be_chosen_are_not_invalid() -> None:
    logits = torch.full((50_257,), -math.inf)
    logits[7] = 1.0
    for change in ({}, {"top_k": 0}, {"temperature": 0.0}):
        assert Sampler(SamplingParams(**change)).choose(logits, []) == 7  # type: ignore[arg-type]


def straight(logits: torch.Tensor, params: SamplingParams) -> torch.Tensor:
    """The distribution as its definition reads, in float64 over the sorted vocabulary."""
    order = logits.argsort(descending=True, stable=True)
    if params.top_k > 0:
        order = order[: params.top_k]
    p = (logits[order].double() / params.temperature).softmax(-1)
    kept = (p.cumsum(-1) - p < params.top_p) & (p >= params.min_p * p[0])
    kept[0] = True
    chosen = torch.where(kept, p, 0.0)
    found = torch.zeros(logits.shape[0], dtype=torch.float64)
    return found.index_put((order,), chosen / chosen.sum())


@pytest.mark.parametrize("size", [259, 5_000])
@pytest.mark.parametrize("top_k", [0, 40])
@pytest.mark.parametrize("top_p", [1.0, 0.95, 0.3])
@pytest.mark.parametrize("min_p", [0.0, 0.05, 0.9])
def test_shortcuts_keep_the_distribution(size: int, top_k: int, top_p: float, min_p: float) -> None:
    for seed, temperature in enumerate((0.3, 0.8, 1.7)):
        logits = 3 * torch.randn(size, generator=torch.Generator().manual_seed(seed))
        params = SamplingParams(temperature, top_k, top_p, min_p)
        expected = straight(logits, params)
        torch.testing.assert_close(distribution(logits, params).double(), expected, atol=1e-6, rtol=1e-4)


def test_what_a_seed_draws_is_what_multinomial_draws() -> None:
    """Of the survivors' probabilities; its checks alone are left out."""
    params = SamplingParams(temperature=1.2, seed=11)
    sampler, generator = Sampler(params), torch.Generator().manual_seed(11)
    for seed in range(50):
        logits = 2 * torch.randn(5_000, generator=torch.Generator().manual_seed(seed))
        ids, probabilities = candidates(logits, params)
        expected = ids[torch.multinomial(probabilities, 1, generator=generator)]
        assert sampler.choose(logits, []) == int(expected)


def test_draws_of_many_answers_come_together_in_their_order() -> None:
    greedy, broken = Sampler(SamplingParams(temperature=0)), torch.full((4,), math.nan)
    rows = [torch.eye(4)[index] for index in (2, 0, 3)]
    assert choose_all([greedy.draw(row, []) for row in (*rows, broken)]) == [2, 0, 3, INVALID]
    assert choose_all([greedy.draw(rows[0], [])]) == [2]
    assert choose_all([]) == []
