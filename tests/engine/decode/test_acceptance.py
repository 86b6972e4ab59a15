"""Drafts change how fast tokens come, never which: exactly, or in distribution by a chi-square test."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product

import pytest
import torch
from torch import Generator, Tensor

from engine.decode.acceptance import Target, Verdict, verify
from engine.decode.penalties import penalize
from engine.decode.sampler import Sampler, distribution
from engine.errors import NumericsError
from engine.types import SamplingParams

VOCAB, PROMPT = 5, (0,)
Rule = Callable[[Sequence[int], Target, Sequence[Tensor] | None], Verdict]
OFF = {"top_k": 0, "top_p": 1.0, "min_p": 0.0}
PARAMS = {
    "cold": SamplingParams(temperature=0.4, **OFF),  # type: ignore[arg-type]
    "plain": SamplingParams(temperature=1.0, **OFF),  # type: ignore[arg-type]
    "hot": SamplingParams(temperature=2.0, **OFF),  # type: ignore[arg-type]
    "all steps": SamplingParams(temperature=0.9, top_k=4, top_p=0.95, min_p=0.1, repeat_penalty=1.8),
}
LOGITS = 1.5 * torch.randn(VOCAB, VOCAB, generator=Generator().manual_seed(3))  # [last token, next token]
DRAFT_LOGITS = LOGITS + 1.5 * torch.randn(VOCAB, VOCAB, generator=Generator().manual_seed(4))


@dataclass
class Chain:
    """A model whose next token depends on the last one, and through the penalty on all before."""

    params: SamplingParams
    known: dict[tuple[int, ...], Tensor] = field(default_factory=dict)

    def after(self, history: tuple[int, ...]) -> Tensor:
        """Probabilities [vocab] of the next token, after every step of the sampler."""
        if history not in self.known:
            logits = penalize(LOGITS[history[-1]], history, self.params.repeat_penalty)
            self.known[history] = distribution(logits, self.params)
        return self.known[history]

    def outcomes(self, tokens: int) -> dict[tuple[int, ...], float]:
        """The probability of every answer of so many tokens."""
        return {
            answer: math.prod(
                float(self.after(PROMPT + answer[:at])[token]) for at, token in enumerate(answer)
            )
            for answer in product(range(VOCAB), repeat=tokens)
        }


class Looked:
    """A draft of what follows each token most often, and never a distribution: like a looked-up one."""

    def __init__(self) -> None:
        self._best: list[int] = DRAFT_LOGITS.argmax(-1).tolist()

    def __call__(self, last: int, length: int, generator: Generator) -> tuple[list[int], None]:
        ids = [last]
        for _ in range(length):
            ids.append(self._best[ids[-1]])
        return ids[1:], None


class Drawn:
    """A draft model that draws from its own distribution."""

    def __init__(self) -> None:
        self._q = list(DRAFT_LOGITS.softmax(-1))

    def __call__(self, last: int, length: int, generator: Generator) -> tuple[list[int], list[Tensor]]:
        ids = [last]
        for _ in range(length):
            ids.append(int(torch.multinomial(self._q[ids[-1]], 1, generator=generator)))
        return ids[1:], [self._q[token] for token in ids[:-1]]


def target_of(chain: Chain, history: tuple[int, ...], draft: Sequence[int], generator: Generator) -> Target:
    def probabilities(row: int) -> Tensor:
        return chain.after(history + tuple(draft[:row]))

    def draw(row: int) -> int:
        return int(torch.multinomial(probabilities(row), 1, generator=generator))

    return Target(draw, probabilities, generator)


def excess(
    chain: Chain,
    drafter: Looked | Drawn,
    length: int,
    rule: Rule = verify,
    tokens: int = 2,
    trials: int = 800,
) -> float:
    """How far the answers of ``trials`` are from the target's distribution: Pearson's chi-square over the
    value that chance exceeds once in 30,000 times (Wilson and Hilferty 1931). Infinite for an impossible one.
    """
    generator = Generator().manual_seed(11)
    seen: Counter[tuple[int, ...]] = Counter()
    for _ in range(trials):
        history = PROMPT
        while len(history) < len(PROMPT) + tokens:
            draft, q = drafter(history[-1], length, generator)
            verdict = rule(draft, target_of(chain, history, draft, generator), q)
            history += (*draft[: verdict.accepted], verdict.token)
        seen[history[len(PROMPT) : len(PROMPT) + tokens]] += 1
    expected = chain.outcomes(tokens)
    if any(not expected[answer] for answer in seen):
        return math.inf
    return chi_square(seen, {answer: trials * chance for answer, chance in expected.items()})


def chi_square(seen: Counter[tuple[int, ...]], expected: dict[tuple[int, ...], float]) -> float:
    """Outcomes expected fewer than five times are counted as one."""
    common = [outcome for outcome, mean in expected.items() if mean >= 5]
    pairs = [(float(seen[outcome]), expected[outcome]) for outcome in common]
    rest = sum(expected.values()) - sum(mean for _, mean in pairs)
    if rest >= 5:
        pairs.append((seen.total() - sum(count for count, _ in pairs), rest))
    square = sum((count - mean) ** 2 / mean for count, mean in pairs)
    freedom = len(pairs) - 1
    limit = freedom * (1 - 2 / (9 * freedom) + 4 * math.sqrt(2 / (9 * freedom))) ** 3
    return square / limit


@pytest.mark.parametrize("length", [1, 3])
@pytest.mark.parametrize("drafter", [Looked(), Drawn()], ids=["looked up", "drawn"])
@pytest.mark.parametrize("params", PARAMS.values(), ids=PARAMS.keys())
def test_tokens_are_distributed_as_without_a_draft(
    params: SamplingParams, drafter: Looked | Drawn, length: int
) -> None:
    assert excess(Chain(params), drafter, length) < 1


@pytest.mark.slow
@pytest.mark.parametrize("length", [1, 2, 4])
@pytest.mark.parametrize("drafter", [Looked(), Drawn()], ids=["looked up", "drawn"])
@pytest.mark.parametrize("params", PARAMS.values(), ids=PARAMS.keys())
def test_long_answers_are_too(params: SamplingParams, drafter: Looked | Drawn, length: int) -> None:
    assert excess(Chain(params), drafter, length, tokens=3, trials=4000) < 1


def keeps_the_residual_whole(draft: Sequence[int], target: Target, q: Sequence[Tensor] | None) -> Verdict:
    """Wrong: after a refused token it draws from p, the refused token included."""
    for row, token in enumerate(draft):
        chance = float(target.probabilities(row)[token]) / (float(q[row][token]) if q else 1.0)
        if float(torch.rand((), generator=target.generator)) >= chance:
            return Verdict(row, target.draw(row))
    return Verdict(len(draft), target.draw(len(draft)))


def trusts_the_draft(
    draft: Sequence[int], target: Target, q: Sequence[Tensor] | None, least: float
) -> Verdict:
    """Wrong: a drafted token that is likely enough stands (Medusa's typical acceptance)."""
    for row, token in enumerate(draft):
        if float(target.probabilities(row)[token]) < least:
            return Verdict(row, target.draw(row))
    return Verdict(len(draft), target.draw(len(draft)))


def forgets_q(draft: Sequence[int], target: Target, q: Sequence[Tensor] | None) -> Verdict:
    """Wrong for a drawn draft: the rest is p without q, but the token is accepted as if q were sure of it."""
    for row, token in enumerate(draft):
        p = target.probabilities(row)
        if float(torch.rand((), generator=target.generator)) >= float(p[token]):
            rest = (p - q[row]).clamp(min=0) if q else p
            return Verdict(row, int(torch.multinomial(rest, 1, generator=target.generator)))
    return Verdict(len(draft), target.draw(len(draft)))


@pytest.mark.parametrize(
    ("rule", "drafter"),
    [
        (keeps_the_residual_whole, Looked()),
        (keeps_the_residual_whole, Drawn()),
        (partial(trusts_the_draft, least=0.3), Looked()),
        (partial(trusts_the_draft, least=0.3), Drawn()),
        (forgets_q, Drawn()),
    ],
)
def test_the_test_tells_wrong_rules_from_right_ones(rule: Rule, drafter: Looked | Drawn) -> None:
    assert excess(Chain(PARAMS["plain"]), drafter, 2, rule, trials=1600) > 2


def test_rows_without_the_penalty_of_the_drafted_tokens_are_told_too() -> None:
    chain = Chain(SamplingParams(temperature=1.0, repeat_penalty=3.0, **OFF))  # type: ignore[arg-type]

    def blind(draft: Sequence[int], target: Target, q: Sequence[Tensor] | None) -> Verdict:
        row = distribution(LOGITS[draft[0]], chain.params)  # as if the draft were no part of the history
        late = Target(
            lambda at: (
                target.draw(at) if at == 0 else int(torch.multinomial(row, 1, generator=target.generator))
            ),
            target.probabilities,
            target.generator,
        )
        return verify(draft, late, q)

    assert excess(chain, Looked(), 1, blind, trials=1600) > 2


def no_rows(row: int) -> Tensor:
    raise AssertionError("only drawn drafts need probabilities")


@pytest.mark.parametrize("params", PARAMS.values(), ids=PARAMS.keys())
def test_a_seed_gives_the_same_answer_with_given_drafts_and_without(params: SamplingParams) -> None:
    logits = torch.randn(50, 50, generator=Generator().manual_seed(5)) * 3
    seeded = SamplingParams(**{name: getattr(params, name) for name in params.__slots__} | {"seed": 7})

    def plain(count: int) -> list[int]:
        sampler, ids = Sampler(seeded), [0]
        while len(ids) < count:
            ids.append(sampler.choose(logits[ids[-1]], ids))
        return ids

    expected = plain(60)
    sampler, ids, accepted = Sampler(seeded), [0], 0
    while len(ids) < len(expected):
        right = expected[len(ids) : len(ids) + 4]
        draft = right if len(ids) % 3 else [*right[:2], 49, 1]  # right, or wrong after two

        def draw(row: int, before: list[int] = ids, draft: list[int] = draft) -> int:
            history = before + draft[:row]
            return sampler.choose(logits[history[-1]], history)

        verdict = verify(draft, Target(draw, no_rows, Generator()))
        accepted += verdict.accepted
        ids += [*draft[: verdict.accepted], verdict.token]
    assert ids[: len(expected)] == expected
    assert accepted > 20


def test_greedy_accepts_the_longest_beginning_that_equals_the_best_tokens() -> None:  # B065
    best = [4, 2, 7, 1]
    target = Target(best.__getitem__, no_rows, Generator())
    assert verify([4, 2, 7], target) == Verdict(3, 1)
    assert verify([4, 2, 8], target) == Verdict(2, 7)
    assert verify([9, 2, 7], target) == Verdict(0, 4)
    assert verify([], target) == Verdict(0, 4)


def test_no_row_is_asked_for_behind_the_first_refused_token() -> None:
    asked: list[int] = []

    def draw(row: int) -> int:
        asked.append(row)
        return [1, 2, 3, 4, 5][row]

    verify([1, 9, 3, 4], Target(draw, no_rows, Generator()))
    assert asked == [0, 1]


def fixed(p: Tensor, seed: int) -> Target:
    generator = Generator().manual_seed(seed)
    return Target(
        lambda row: int(torch.multinomial(p[row], 1, generator=generator)), lambda row: p[row], generator
    )


def test_a_draft_model_equal_to_the_target_is_always_accepted() -> None:
    p = torch.randn(4, 20, generator=Generator().manual_seed(1)).softmax(-1)
    for seed in range(50):
        draft = torch.multinomial(p[:3], 1, generator=Generator().manual_seed(100 + seed))[:, 0].tolist()
        assert verify(draft, fixed(p, seed), list(p[:3])).accepted == 3


def test_a_token_that_the_target_excludes_never_stands_and_never_follows() -> None:
    p = torch.tensor([[0.5, 0.5, 0.0, 0.0]] * 2)
    q = [torch.tensor([0.0, 0.0, 0.9, 0.1])]
    for seed in range(50):
        for given in (q, None):
            verdict = verify([2], fixed(p, seed), given)
            assert verdict.accepted == 0
            assert verdict.token in (0, 1)


def test_vocabularies_padded_to_different_lengths_agree() -> None:  # B067
    p = torch.tensor([[0.2, 0.8]] * 2)
    longer, shorter = torch.tensor([0.1, 0.4, 0.5]), torch.tensor([1.0])
    assert {verify([2], fixed(p, seed), [longer]).accepted for seed in range(20)} == {0}
    assert {verify([0], fixed(p, seed), [shorter]) for seed in range(40)} >= {Verdict(0, 1)}


def test_rounding_that_leaves_no_residual_is_no_crash() -> None:
    p = torch.tensor([[0.25, 0.75]] * 2)
    q = [torch.tensor([0.9, 0.9])]  # sums to more than one: nothing of p is left
    assert {verify([0], fixed(p, seed), q).token for seed in range(40)} == {0, 1}


def test_probabilities_that_are_no_numbers_are_an_error_of_their_own() -> None:
    p = torch.full((2, 3), math.nan)
    with pytest.raises(NumericsError):
        verify([1], fixed(p, 0), [torch.tensor([0.2, 0.3, 0.5])])


@pytest.mark.gpu
def test_rows_on_a_device_are_judged_with_a_generator_of_the_processor() -> None:
    p = torch.randn(4, 20, generator=Generator().manual_seed(1)).softmax(-1)
    q = torch.randn(3, 20, generator=Generator().manual_seed(2)).softmax(-1)
    for seed in range(20):
        here, there = fixed(p, seed), fixed(p, seed)
        there = Target(there.draw, lambda row: p[row].cuda(), there.generator)
        draft = torch.multinomial(q, 1, generator=Generator().manual_seed(seed))[:, 0].tolist()
        assert verify(draft, here, list(q)) == verify(draft, there, list(q.cuda()))
