"""Which drafted tokens stand, so that the answer is what the model would have given without a draft.

Knows probabilities and one answer's randomness; not who drafted, logits or models.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Generator, Tensor

from engine.errors import NumericsError
from engine.words import tr


@dataclass(frozen=True, slots=True)
class Target:
    """The model's side of one step. Row j follows the first j drafted tokens, the last row all of them.

    ``draw``: the token that plain decoding would choose at a row. It is called for one row after another,
    once each, up to the first that differs from the draft. So with plain decoding's own sampler random
    numbers are used as there, and a seed gives the same answer with drafts and without.
    ``probabilities``: [vocab] at a row, after every step of the sampler. Only sampled drafts ask for them.
    ``generator`` decides about sampled drafts. It may live on another device than the probabilities.
    """

    draw: Callable[[int], int]
    probabilities: Callable[[int], Tensor]
    generator: Generator


@dataclass(frozen=True, slots=True)
class Verdict:
    """The first ``accepted`` drafted tokens stand, and ``token`` comes after them, always one."""

    accepted: int
    token: int


def verify(draft: Sequence[int], target: Target, q: Sequence[Tensor] | None = None) -> Verdict:
    """How much of ``draft`` stands. ``q`` are the distributions [vocab] that its tokens were sampled from,
    one each, on any device; None where they were not sampled: looked up, or a draft model's first choices.

    The tokens' distribution is exactly the target's, whatever the draft. Nothing is changed but the state of
    the generator. Raises NumericsError where a probability is no number, and what ``draw`` raises.
    """
    return _verify_given(draft, target) if q is None else _verify_sampled(draft, target, q)


def _verify_given(draft: Sequence[int], target: Target) -> Verdict:
    """Plain decoding's own token decides: it is the drafted x with probability p(x), and where it is not, it
    is one of the others in proportion to p. That is the rule below for a q that is sure of x; greedy choice
    is the case where p is sure.
    """
    for row, drafted in enumerate(draft):
        token = target.draw(row)
        if token != drafted:
            return Verdict(row, token)
    return Verdict(len(draft), target.draw(len(draft)))


def _verify_sampled(draft: Sequence[int], target: Target, q: Sequence[Tensor]) -> Verdict:
    """Leviathan et al. 2023, arXiv 2211.17192, and Chen et al. 2023, arXiv 2302.01318: x drawn from q stands
    with probability min(1, p(x) / q(x)), else a token is drawn from max(0, p − q).
    """
    for row, drafted in enumerate(draft):
        p = target.probabilities(row)
        chance = torch.rand((), generator=target.generator, device=target.generator.device)
        if float(chance) * _at(q[row], drafted) < _at(p, drafted):
            continue
        return Verdict(row, _draw(_residual(p, q[row].to(p.device)), target.generator))
    return Verdict(len(draft), target.draw(len(draft)))


def _at(probabilities: Tensor, token: int) -> float:
    """The probability of ``token``; a vocabulary padded to fewer rows does not have it."""
    value = float(probabilities[token]) if token < probabilities.shape[0] else 0.0
    if not math.isfinite(value):
        raise NumericsError(
            tr("The model produced invalid numbers."),
            tr("The file may be damaged, or its format unsuited to this model."),
        )
    return value


def _residual(p: Tensor, q: Tensor) -> Tensor:
    """max(0, p − q), not normalised; p where rounding leaves nothing of it."""
    rest = p.clone()
    shared = min(p.shape[0], q.shape[0])
    rest[:shared] = (p[:shared] - q[:shared]).clamp(min=0)
    return rest if bool(rest.any()) else p


def _draw(weights: Tensor, generator: Generator) -> int:
    return int(torch.multinomial(weights.to(generator.device), 1, generator=generator))
