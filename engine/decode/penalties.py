"""What is done to a row of logits before tokens are chosen from it: bias and penalties.

Pure functions of numbers and ids, on any device and without waiting for it: a draft's positions are judged by
the same ones as the next token. They do not know how a token is drawn. On the processor they are numpy's: of
torch's, a mere copy of a vocabulary takes all threads, and where other programs hold a core it waits for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet

import numpy as np
import torch
from torch import Tensor

from engine.types import SamplingParams

PENALTY_WINDOW = 256  # tokens back; a penalty on a whole long chat would end up forbidding common words


def adjusted(
    logits: Tensor,
    params: SamplingParams,
    history: Sequence[int],
    generated: Sequence[int] = (),
    spared: AbstractSet[int] = frozenset(),
) -> Tensor:
    """Float32 logits [vocab] with bias, then repeat penalty, then presence and frequency penalty; the same
    tensor where all are off, and never a changed one.

    ``history`` is all that stands before, prompt and answer, ``generated`` the answer alone: at position j of
    a draft both end with draft[:j]. No penalty falls on ``spared`` tokens.
    """
    if params.logit_bias:
        ids, values = zip(*params.logit_bias, strict=True)
        logits = _added(logits, ids, values)
    if params.repeat_penalty != 1.0:
        logits = penalize(logits, set(history[-PENALTY_WINDOW:]) - spared, params.repeat_penalty)
    if generated and (params.presence_penalty or params.frequency_penalty):
        logits = discourage(logits, generated, params.presence_penalty, params.frequency_penalty, spared)
    return logits


def penalize(logits: Tensor, ids: Iterable[int], penalty: float) -> Tensor:
    """Make tokens that were used less likely: logits [vocab] divided (or, when negative, multiplied) by
    ``penalty``, once per distinct token (CTRL, arXiv 1909.05858). ``logits`` is not changed.
    """
    used = {token for token in ids if 0 <= token < logits.shape[0]}
    if penalty == 1.0 or not used:
        return logits
    places = np.fromiter(used, np.int64, len(used))
    if logits.device.type == "cpu":
        row = logits.numpy().copy()
        row[places] = np.where(row[places] > 0, row[places] / penalty, row[places] * penalty)
        return torch.from_numpy(row)
    index = torch.from_numpy(places).to(logits.device, non_blocking=True)
    scores = logits.index_select(0, index)
    return logits.index_copy(0, index, torch.where(scores > 0, scores / penalty, scores * penalty))


def discourage(
    logits: Tensor,
    generated: Sequence[int],
    presence: float,
    frequency: float,
    spared: AbstractSet[int] = frozenset(),
) -> Tensor:
    """Logits [vocab] less c · ``frequency`` + ``presence`` for every token that was generated c > 0 times.

    OpenAI's definition: https://platform.openai.com/docs/advanced-usage#frequency-and-presence-penalties. A
    token of the prompt counts no more than one that never came.
    """
    counts = [(token, count) for token, count in Counter(generated).items() if token not in spared]
    return _added(
        logits, [token for token, _ in counts], [-(count * frequency + presence) for _, count in counts]
    )


def _added(logits: Tensor, ids: Sequence[int], values: Sequence[float]) -> Tensor:
    """Logits [vocab] with a value added for each of some distinct tokens; those it does not have are left
    out.
    """
    index, amounts = np.asarray(ids, np.int64), np.asarray(values, np.float32)
    inside = (index >= 0) & (index < logits.shape[0])
    if not inside.any():
        return logits
    if logits.device.type == "cpu":
        row = logits.numpy().copy()
        row[index[inside]] += amounts[inside]
        return torch.from_numpy(row)
    places, added = (
        torch.from_numpy(each[inside]).to(logits.device, non_blocking=True) for each in (index, amounts)
    )
    return logits.index_add(0, places, added)
