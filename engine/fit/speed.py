"""How fast a plan will be: seconds of a decode step and of reading a prompt, before anything is loaded.

Seconds of a step = what is fixed + each byte that it reads / the speed of what reads it, weights and the
cache at its present length; corrected by what real answers on this machine showed. Pure arithmetic, standard
library only; a call takes far less than a millisecond once a model's matrices are known.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.calibration import Calibration
from engine.fit.correction import correction_of
from engine.fit.devices import CPU
from engine.fit.piece_parts import attention_s, head_parts, piece_parts
from engine.fit.reads import StepBytes, kv_read_bytes, reads_of
from engine.fit.speed_defaults import machine_default
from engine.fit.step_parts import Speeds, StepParts, step_parts
from engine.types import LoadPlan

DEFAULT_BAND = 0.5
MEASURED_BAND = 0.12
LEAST_BAND = 0.04
_SPREADS = 2.0  # a band holds two standard deviations
_PROMPT_TOKENS = 1024  # of the prediction of a first token


@dataclass(frozen=True, slots=True)
class Prediction:
    """Tokens a second of one chat at three fills of the context, and how a prompt is read.

    ``band`` is a fraction: 0.06 is ±6 %. ``basis``: measured on this machine | corrected by real answers too
    | default: nothing was measured here, or not what this plan computes with.
    """

    empty: float
    half: float
    full: float
    ttft_1k_s: float  # of a prompt of 1,024 tokens, or of a full context where that is shorter
    prefill_tps: float
    band: float
    basis: str


def step_s(made: LoadPlan, tokens: int, rows: int = 1, sequences: int = 1) -> float:
    """Seconds of one decode step of ``sequences`` chats that hold ``tokens`` tokens each, with ``rows`` new
    ones each: one, and those drafted. A plan's draft model makes the drafts.
    """
    drafting = 0.0
    if made.draft is not None and rows > 1:
        drafting = (rows - 1) * step_s(made.draft, tokens, 1, sequences)
    known = _known(made)
    return _corrected(made, known, step_parts(made, tokens, rows, sequences, known)) + drafting


def prefill_s(made: LoadPlan, tokens: int, cached: int = 0) -> float:
    """Seconds to read a prompt of ``tokens`` up to its first new token, when ``cached`` of them are known."""
    known, piece = _known(made), max(1, made.prefill_piece)
    first = min(max(0, cached), max(0, tokens - 1))
    whole, rest = divmod(tokens - first, piece)
    seconds = sum(
        count * _corrected(made, known, piece_parts(made, rows, known))
        for count, rows in ((whole, piece), (1, rest))
        if count and rows
    )
    seconds += _corrected(made, known, head_parts(made, known))
    return seconds + attention_s(made, first, tokens, known)


def step_bytes(made: LoadPlan, tokens: int, sequences: int = 1) -> StepBytes:
    """Bytes that one step reads: the weights once, keys and values of each chat."""
    return StepBytes(reads_of(made).total, sequences * kv_read_bytes(made, tokens))


def limit_tps(made: LoadPlan, tokens: int, tokens_per_step: float = 1.0, sequences: int = 1) -> float | None:
    """Tokens a second of one chat that the read bandwidth allows; None where it was not measured, or where
    other devices read too.
    """
    known = made.hardware.calibration
    if known is None or made.device != CPU or made.disk_layers:
        return None
    nbytes = step_bytes(made, tokens, sequences).total
    return tokens_per_step * 1e9 * known.limit_gbps(nbytes) / max(1, nbytes)


def tokens_per_step(agrees: float, drafted: int) -> float:
    """Tokens that a step brings which checks ``drafted`` guesses, each right with the chance ``agrees`` where
    those before it were: (1 − αᵏ⁺¹) / (1 − α), Leviathan et al. 2023, arXiv 2211.17192, equation 1.
    """
    if agrees >= 1.0:
        return drafted + 1.0
    return (1 - agrees ** (drafted + 1)) / (1 - agrees)


def predict(made: LoadPlan) -> Prediction:
    """What to expect of one chat with this plan."""
    prompt = min(_PROMPT_TOKENS, made.context)
    prompt_s = prefill_s(made, prompt)
    band, basis = _trust(made)
    return Prediction(
        empty=1 / step_s(made, 1),
        half=1 / step_s(made, max(1, made.context // 2)),
        full=1 / step_s(made, made.context),
        ttft_1k_s=prompt_s,
        prefill_tps=prompt / prompt_s,
        band=band,
        basis=basis,
    )


def _known(made: LoadPlan) -> Calibration:
    return made.hardware.calibration or machine_default(made.hardware)


def _corrected(made: LoadPlan, known: Calibration, parts: StepParts) -> float:
    found = correction_of(known, made)
    if found is None:
        return parts.total
    return sum(factor * part for factor, part in zip(found.factors, parts.values, strict=True))


def _trust(made: LoadPlan) -> tuple[float, str]:
    """How far off a prediction may be, and what it rests on."""
    known = made.hardware.calibration
    if known is None or made.device != CPU:
        return DEFAULT_BAND, "default"
    found = correction_of(known, made)
    if found is not None:
        return max(LEAST_BAND, min(DEFAULT_BAND, _SPREADS * found.spread)), "corrected"
    if not Speeds(made, known).are_measured(reads_of(made)):
        return DEFAULT_BAND, "default"
    return MEASURED_BAND * (2 if known.threads not in (0, made.threads) else 1), "measured"
