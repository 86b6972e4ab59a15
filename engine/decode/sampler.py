"""Choosing the next token: small pure functions on one row of logits, and the object that owns the seed.

Logits may lie on any device, and a draw stays there: only `choose_all` waits for it, once for all rows.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.decode.limits import checked
from engine.decode.penalties import adjusted
from engine.decode.survivors import COLDEST, LEAST_P, survivors
from engine.errors import NumericsError
from engine.types import SamplingParams
from engine.words import tr

INVALID = -1  # drawn from logits that are no numbers


def candidates(logits: Tensor, params: SamplingParams) -> tuple[Tensor, Tensor]:
    """Ids and probabilities, best first, of the tokens of [vocab] that survive; at least one. Logits of a
    device are fetched.
    """
    ids, probabilities = survivors(logits.cpu().numpy(), params)
    return torch.from_numpy(ids), torch.from_numpy(probabilities)


def distribution(logits: Tensor, params: SamplingParams) -> Tensor:
    """The same as probabilities [vocab], zero for what was excluded."""
    ids, probabilities = candidates(logits, params)
    return torch.zeros(logits.shape[0]).index_put((ids,), probabilities)


class Sampler:
    """Draws tokens for one answer. Same seed, logits and history: same tokens, whatever else runs.

    Raises WishError for params that cannot be used, such as a bias for a token outside of ``vocab_size``.
    """

    def __init__(
        self,
        params: SamplingParams,
        never_penalized: frozenset[int] = frozenset(),
        vocab_size: int | None = None,
    ) -> None:
        self.params = checked(params, vocab_size)
        self.seed = secrets.randbits(31) if params.seed is None else params.seed
        self._never_penalized = never_penalized
        self._generator: torch.Generator | None = None

    def adjusted(self, logits: Tensor, history: Sequence[int], generated: Sequence[int] = ()) -> Tensor:
        """Logits [vocab] after every step that comes before temperature and filters: what `distribution`
        takes. See `penalties.adjusted`; changes nothing, the generator's state neither.
        """
        return adjusted(logits, self.params, history, generated, self._never_penalized)

    def draw(self, logits: Tensor, history: Sequence[int], generated: Sequence[int] = ()) -> Tensor:
        """Next token, int64 [], for float32 logits [vocab] after ``history``, which ends with the answer so
        far, ``generated``; on their device and without waiting for it. INVALID for NaN, +inf or nothing but
        −inf.
        """
        logits = self.adjusted(logits, history, generated)
        if logits.device.type == "cpu":
            return torch.tensor(self._drawn_here(logits))
        if self.params.temperature <= 0:
            best = logits.argmax(dim=0, keepdim=True)
            return _checked(best, logits.gather(0, best) * 0.0)
        ids, probabilities = _survivors_on_device(logits, self.params)
        noise = self._noise(probabilities)
        best = torch.div(probabilities, noise, out=noise).argmax(dim=0, keepdim=True)
        return _checked(ids.gather(0, best), probabilities[0])

    def _drawn_here(self, logits: Tensor) -> int:
        """The same on the processor, which has its numbers at hand: no noise for what does not survive."""
        ids, probabilities = survivors(logits.numpy(), self.params)
        if not ids.shape[0]:
            return INVALID
        if self.params.temperature <= 0:
            return int(ids[0])
        noise = self._noise(torch.from_numpy(probabilities)).numpy()
        return int(ids[(probabilities / noise).argmax()])

    def _noise(self, probabilities: Tensor) -> Tensor:
        """Exp(1) for each. The largest of p / Exp(1) is a draw from p: what torch.multinomial does, without
        its checks, which wait for the device and end its context on NaN.
        """
        generator = self.generator(probabilities.device)
        return torch.empty_like(probabilities).exponential_(1.0, generator=generator)

    def generator(self, device: torch.device) -> torch.Generator:
        """Where this answer's randomness comes from, on ``device``."""
        if self._generator is None or self._generator.device.type != device.type:
            self._generator = torch.Generator(device).manual_seed(self.seed)
        return self._generator

    def choose(self, logits: Tensor, history: Sequence[int], generated: Sequence[int] = ()) -> int:
        """Next token after ``history``. Raises NumericsError for logits that are no numbers."""
        return known(choose_all([self.draw(logits, history, generated)])[0])


def choose_all(draws: Sequence[Tensor]) -> list[int]:
    """Tokens of draws, [] each, all on one device, which is waited for once."""
    if len(draws) < 2:
        return [int(draw) for draw in draws]
    tokens: list[int] = torch.stack(list(draws)).cpu().tolist()
    return tokens


def known(token: int) -> int:
    """The drawn ``token``. Raises NumericsError for INVALID."""
    if token == INVALID:
        raise NumericsError(
            tr("The model produced invalid numbers."),
            tr("The file may be damaged, or its format unsuited to this model."),
        )
    return token


def _checked(token: Tensor, number: Tensor) -> Tensor:
    """``token`` [1] as [], or INVALID where ``number`` is NaN: what comes from invalid logits is."""
    return token.masked_fill_(number != number, INVALID).squeeze(0)


def _survivors_on_device(logits: Tensor, params: SamplingParams) -> tuple[Tensor, Tensor]:
    """As `survivors`, with probability 0 for what top-p or min-p leaves out, so that no length depends on
    numbers that lie on a device. They do not add up to 1.
    """
    size = logits.shape[0]
    values, ids = logits.topk(params.top_k if 0 < params.top_k < size else size)
    probabilities = ((values - values[0]) / max(params.temperature, COLDEST)).softmax(-1)
    unlikely = probabilities < params.min_p * probabilities[0]
    if params.top_p < 1.0:
        before = probabilities.cumsum(-1) - probabilities
        probabilities.masked_fill_(before >= max(params.top_p, LEAST_P), 0.0)
    return ids, probabilities.masked_fill_(unlikely, 0.0)
