"""Choosing the next token: small pure functions on one row of logits, and the object that owns the seed."""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable

import torch
from torch import Tensor

from engine.decode.limits import checked
from engine.errors import NumericsError
from engine.types import SamplingParams

PENALTY_WINDOW = 256  # tokens back; a penalty on a whole long chat would end up forbidding common words


def penalize(logits: Tensor, ids: Iterable[int], penalty: float) -> Tensor:
    """Make tokens that were used less likely: logits [vocab] divided (or, when negative, multiplied) by
    ``penalty``, once per distinct token (CTRL, arXiv 1909.05858). ``logits`` is not changed.
    """
    used = sorted({token for token in ids if 0 <= token < logits.shape[0]})
    if penalty == 1.0 or not used:
        return logits
    index = torch.tensor(used)
    scores = logits[index]
    return logits.index_put((index,), torch.where(scores > 0, scores / penalty, scores * penalty))


def candidates(logits: Tensor, params: SamplingParams) -> tuple[Tensor, Tensor]:
    """Ids and probabilities, best first, of the tokens that survive temperature, top-k, top-p and min-p, in
    that order; at least one. Greedy leaves the best token alone.

    With top-k only the k best are ever ordered: sorting a whole vocabulary costs as much as a third of a
    small model's step.
    """
    if params.temperature <= 0:
        best = logits.argmax(dim=0, keepdim=True)
        return best, torch.ones(1)
    k = params.top_k if 0 < params.top_k < logits.shape[0] else logits.shape[0]
    values, ids = logits.topk(k)
    probabilities = ((values - values[0]) / max(params.temperature, 1e-6)).softmax(-1)
    count = min(count_top_p(probabilities, params.top_p), count_min_p(probabilities, params.min_p))
    return ids[:count], probabilities[:count] / probabilities[:count].sum()


def count_top_p(probabilities: Tensor, p: float) -> int:
    """How many of the descending ``probabilities`` reach ``p`` together (arXiv 1904.09751); at least one."""
    if p >= 1.0:
        return probabilities.shape[0]
    before = probabilities.cumsum(-1) - probabilities
    return max(1, int((before < p).sum()))


def count_min_p(probabilities: Tensor, min_p: float) -> int:
    """How many of the descending ``probabilities`` reach ``min_p`` times the first (arXiv 2407.01082)."""
    if min_p <= 0.0:
        return probabilities.shape[0]
    return max(1, int((probabilities >= min_p * probabilities[0]).sum()))


def distribution(logits: Tensor, params: SamplingParams) -> Tensor:
    """The same as probabilities [vocab], zero for what was excluded."""
    ids, probabilities = candidates(logits, params)
    return torch.zeros(logits.shape[0]).index_put((ids,), probabilities)


class Sampler:
    """Draws tokens for one answer. Same seed, logits and history: same tokens, whatever else runs."""

    def __init__(self, params: SamplingParams, never_penalized: frozenset[int] = frozenset()) -> None:
        self.params = checked(params)
        self.seed = secrets.randbits(31) if params.seed is None else params.seed
        self._never_penalized = never_penalized
        self._generator = torch.Generator().manual_seed(self.seed)

    def choose(self, logits: Tensor, history: list[int]) -> int:
        """Next token for float32 logits [vocab] after ``history``. Raises NumericsError on NaN, +inf or
        nothing but −inf.
        """
        if not math.isfinite(float(logits.max())):
            raise NumericsError(
                "The model produced invalid numbers.",
                "The file may be damaged, or its format unsuited to this model.",
            )
        if self.params.repeat_penalty != 1.0:
            recent = set(history[-PENALTY_WINDOW:]) - self._never_penalized
            logits = penalize(logits, recent, self.params.repeat_penalty)
        if self.params.temperature <= 0:
            return int(logits.argmax())
        ids, probabilities = candidates(logits, self.params)
        return int(ids[torch.multinomial(probabilities, 1, generator=self._generator)])
