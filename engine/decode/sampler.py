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
    ``penalty``, once per distinct token (CTRL, arXiv 1909.05858). Returns a new tensor.
    """
    used = sorted({token for token in ids if 0 <= token < logits.shape[0]})
    if penalty == 1.0 or not used:
        return logits
    index = torch.tensor(used)
    scores = logits[index]
    return logits.index_put((index,), torch.where(scores > 0, scores / penalty, scores * penalty))


def keep_top_k(logits: Tensor, k: int) -> Tensor:
    """Exclude all but the ``k`` best; 0 or less is off."""
    if k <= 0 or k >= logits.shape[0]:
        return logits
    worst_kept = logits.topk(k).values[-1]
    return logits.masked_fill(logits < worst_kept, -math.inf)


def keep_top_p(logits: Tensor, p: float) -> Tensor:
    """Keep the fewest best tokens whose probability adds up to ``p`` (arXiv 1904.09751); at least one."""
    if p >= 1.0:
        return logits
    ordered, order = logits.sort(descending=True)
    probabilities = ordered.softmax(-1)
    before = probabilities.cumsum(-1) - probabilities
    excluded = before > p if p > 0 else before >= 0
    excluded[0] = False
    return logits.index_fill(0, order[excluded], -math.inf)


def keep_min_p(logits: Tensor, min_p: float) -> Tensor:
    """Exclude tokens less likely than ``min_p`` times the best one (arXiv 2407.01082)."""
    if min_p <= 0.0:
        return logits
    threshold = logits.max() + math.log(min(min_p, 1.0))
    return logits.masked_fill(logits < threshold, -math.inf)


def distribution(logits: Tensor, params: SamplingParams) -> Tensor:
    """Probabilities [vocab] after temperature, top-k, top-p and min-p. Greedy puts all on the best token."""
    shifted = logits - logits.max()
    if params.temperature <= 0:
        return torch.nn.functional.one_hot(shifted.argmax(), logits.shape[0]).float()
    scaled = shifted / max(params.temperature, 1e-6)
    kept = keep_min_p(keep_top_p(keep_top_k(scaled, params.top_k), params.top_p), params.min_p)
    return kept.softmax(-1)


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
        probabilities = distribution(logits, self.params)
        return int(torch.multinomial(probabilities, 1, generator=self._generator))
