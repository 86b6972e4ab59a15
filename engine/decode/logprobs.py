"""Log-probabilities of tokens, as the model itself has them. Knows one row of logits and ids."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from engine.events import TokenLogprob, TokenLogprobs


def logprobs_of(logits: Tensor, token: int, count: int, text_of: Callable[[int], str]) -> TokenLogprobs:
    """The log-probability of ``token`` at a row of raw logits [vocab], and the ``count`` largest, best first.

    Tokens that the model excludes are not among these. Waits for the device of the logits.
    """
    rows = logits.log_softmax(-1)
    values, ids = (each.cpu() for each in rows.topk(min(count, rows.shape[0])))
    pairs = zip(ids.tolist(), values.tolist(), strict=True)
    top = [TokenLogprob(each, text_of(each), value) for each, value in pairs if value > float("-inf")]
    return TokenLogprobs(TokenLogprob(token, text_of(token), float(rows[token])), tuple(top))
