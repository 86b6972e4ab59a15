"""What is predicted for one moment of an answer: context, chats and drafts as they are now. Pure.

Calls `engine.fit.speed`, which has the arithmetic; knows no window and measures nothing.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass

from app.why import StepParts
from engine.events import StepStats
from engine.fit.correction import correction_of
from engine.fit.devices import CPU
from engine.fit.speed import limit_tps, step_bytes, step_s
from engine.fit.speed_defaults import machine_default
from engine.fit.step_parts import step_parts
from engine.types import LoadPlan

PACE_TOKENS = 64  # over which drafts are judged
_FEWEST = 8  # tokens that say something about drafts
_CACHED = 1.3  # times the bandwidth of memory
_COMPUTING = 2.0  # times what reading takes: the kernel's arithmetic is what takes so long


@dataclass(frozen=True, slots=True)
class Pace:
    """What drafts bring: tokens of a step, and rows that it checks for them."""

    tokens_per_step: float = 1.0
    rows: float = 1.0


@dataclass(frozen=True, slots=True)
class Moment:
    """The chats that are being answered: tokens of each, and how one of them is drafted for."""

    tokens: tuple[int, ...]
    pace: Pace = Pace()

    @property
    def num_chats(self) -> int:
        return len(self.tokens)

    @property
    def mean_tokens(self) -> int:
        return max(1, round(sum(self.tokens) / max(1, len(self.tokens))))


class PaceMeter:
    """The pace over the last tokens of one answer; ``start`` is what it had before."""

    def __init__(self, start: Pace = Pace()) -> None:
        self._start = start
        self._seen: deque[tuple[int, int, int]] = deque()  # (generated, drafted, accepted), oldest first

    def take(self, event: StepStats) -> None:
        """Take the newest counts of the answer."""
        self._seen.append((event.generated_tokens, event.drafted_tokens, event.accepted_tokens))
        while len(self._seen) > 2 and self._seen[-1][0] - self._seen[1][0] >= PACE_TOKENS:
            self._seen.popleft()

    @property
    def pace(self) -> Pace:
        if not self._seen:
            return self._start
        (first, drafted, accepted), (last, all_drafted, all_accepted) = self._seen[0], self._seen[-1]
        tokens = last - first
        steps = tokens - (all_accepted - accepted)
        if tokens < _FEWEST or steps <= 0:
            return self._start
        return Pace(tokens / steps, 1.0 + (all_drafted - drafted) / steps)


def step_seconds(made: LoadPlan, now: Moment) -> float:
    """Seconds of a step; a mean of rows that is no whole number lies between those beside it."""
    rows = max(1.0, now.pace.rows)
    low, part = int(rows), rows - int(rows)
    below = step_s(made, now.mean_tokens, low, now.num_chats)
    if not part:
        return below
    return (1 - part) * below + part * step_s(made, now.mean_tokens, low + 1, now.num_chats)


def predicted_tps(made: LoadPlan, now: Moment) -> float:
    """Tokens a second of one of the chats."""
    return now.pace.tokens_per_step / step_seconds(made, now)


def bandwidth_limit_tps(made: LoadPlan, now: Moment) -> float | None:
    """The same where nothing took time but reading; None where the bandwidth was not measured."""
    return limit_tps(made, now.mean_tokens, now.pace.tokens_per_step, now.num_chats)


def measured_gbps(made: LoadPlan, now: Moment, tps: float) -> float:
    """What the steps of an answer of ``tps`` tokens a second read, in 10⁹ bytes a second."""
    steps = tps / now.pace.tokens_per_step
    return steps * step_bytes(made, now.mean_tokens, now.num_chats).total / 1e9


def peak_gbps(made: LoadPlan) -> float | None:
    """The measured read bandwidth of what the weights are in; None where there is no such measurement."""
    known = made.hardware.calibration
    return known.read_gbps if known is not None and made.device == CPU else None


def drafts_gain(made: LoadPlan, now: Moment) -> float | None:
    """Speed with the drafts that are checked, over that without; None where none are."""
    if now.pace.rows <= 1.0:
        return None
    alone = predicted_tps(made, Moment(now.tokens))
    return predicted_tps(made, now) / alone


def parts(made: LoadPlan, now: Moment) -> StepParts:
    """Where the time of a step goes. Time above that of the same step for one row is arithmetic."""
    known = made.hardware.calibration or machine_default(made.hardware)
    correction = correction_of(known, made)
    factors = correction.factors if correction else (1.0,) * 5
    found = step_parts(made, now.mean_tokens, 1, now.num_chats, known)
    memory, cache, kv, fixed, away = (f * value for f, value in zip(factors, found.values, strict=True))
    alone = step_parts(made, now.mean_tokens, 1, 1, known)
    read = step_bytes(made, now.mean_tokens, now.num_chats)
    weights = min(memory + cache, factors[0] * alone.memory + factors[1] * alone.cache)
    limit = limit_tps(made, now.mean_tokens, sequences=now.num_chats)
    gbps = known.read_gbps if limit is None else limit * read.total / 1e9
    pure = read.weights / 1e9 / gbps
    if weights > _COMPUTING * pure and made.device == CPU:
        weights = pure
    share = read.weights / max(1, read.total)
    weights, kv = weights + share * away, kv + (1 - share) * away
    compute = max(0.0, step_seconds(made, now) - weights - kv - fixed)
    is_cached = made.device == CPU and gbps > _CACHED * known.read_gbps
    return StepParts(weights, kv, compute, fixed, read.weights, read.kv, is_cached)
