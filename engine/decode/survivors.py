"""Which tokens may be drawn from a row of logits, and how likely each is: temperature, top-k, top-p, min-p.

Works on numpy's arrays: for the few dozen numbers that survive, one of torch's operations costs as much as
ten of numpy's, and the draw was a tenth of a small model's step.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray

from engine.types import SamplingParams

Floats = NDArray[np.float32]
Ids = NDArray[np.int64]

COLDEST = 1e-6  # temperature
LEAST_P = 1e-30  # of top-p: the best token survives even 0
_BLOCK = 64  # logits whose maximum is looked at first
_SLACK = 0.999  # of a probability: more than what rounding can move


def survivors(row: Floats, params: SamplingParams) -> tuple[Ids, Floats]:
    """Ids and probabilities, best first and at least one, of the tokens of [vocab] that survive temperature,
    top-k, top-p (arXiv 1904.09751) and min-p (arXiv 2407.01082), in that order. Both are empty where the
    logits are no numbers: NaN, +inf or nothing but −inf.
    """
    best = row.max()
    if not math.isfinite(best):
        return np.empty(0, np.int64), np.empty(0, np.float32)
    if params.temperature <= 0:
        return np.array([row.argmax()]), np.ones(1, np.float32)
    ids, weights, total = _ranked(row, best, params)
    p = weights / total
    count = p.shape[0]
    if params.top_p < 1.0:  # as many as reach p together
        count = int(np.count_nonzero(p.cumsum() - p < max(params.top_p, LEAST_P)))
    if params.min_p > 0.0:
        count = min(count, int(np.count_nonzero(p >= params.min_p * p[0])))
    kept = p[: max(1, count)]
    return ids[: kept.shape[0]], kept / kept.sum()


def _ranked(row: Floats, best: np.float32, params: SamplingParams) -> tuple[Ids, Floats, np.float32]:
    """Ids and e^((logit − best) / temperature), best first, of all that top-k leaves and others may keep, and
    the sum over all that top-k leaves.

    Without top-k the vocabulary need not be sorted: what is less likely than min-p allows goes, and so does
    what is so unlikely that all of its kind together are less than top-p leaves out.
    """
    size, temperature = row.shape[0], max(params.temperature, COLDEST)
    if 0 < params.top_k < size:
        ids = largest(row, params.top_k)
        weights = np.exp((row[ids] - best) / temperature)
        return ids, weights, weights.sum()
    everything = np.exp((row - best) / temperature)
    total = everything.sum()
    least = max(params.min_p, float(total) * (1 - params.top_p) / size)
    if least > 0:
        ids = _sorted(row, np.flatnonzero(everything >= _SLACK * min(least, 1.0)))
    else:
        ids = largest(row, size)
    return ids, everything[ids], total


def largest(row: Floats, k: int) -> Ids:
    """Ids of the ``k`` largest of finite [vocab], best first; of few, the first of equal ones come first.

    Maxima of blocks are found quickly, and the k-th largest number is at least the k-th largest maximum.
    """
    size = row.shape[0]
    whole = size // _BLOCK * _BLOCK
    if 4 * k * _BLOCK > whole:
        many: Ids = np.argsort(-row) if k >= size else torch.from_numpy(row).topk(k).indices.numpy()
        return many
    maxima = torch.from_numpy(row[:whole]).view(-1, _BLOCK).amax(-1).numpy()
    return _sorted(row, np.flatnonzero(row >= np.partition(maxima, -k)[-k]))[:k]


def _sorted(row: Floats, ids: Ids) -> Ids:
    found: Ids = ids[np.argsort(-row[ids], kind="stable")]
    return found
