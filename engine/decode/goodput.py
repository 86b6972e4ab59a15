"""How many drafted tokens a step checks: as many as bring the most tokens per second, often none.

Owns what rows cost, how often drafts are agreed with, and when a chat's drafting rests. Knows counts and
seconds; no models, clocks or threads. Costs are in steps of one row; the same calls give the same choices.
The expected tokens of a step and their price: Leviathan et al. 2023, arXiv 2211.17192, section 3.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from statistics import median, median_low

from engine.words import decimal, percent, tr

MAX_ROWS = 16  # of one step; beyond, a processor is busy and no row is cheap any more
RECENT_STEPS = 8  # a step is compared with the cheapest of these: the machine's own drift cancels out
MEASURED = 5  # last steps of some rows whose median counts: one that was held up does not
COST_MEMORY = 2048  # steps after which a measured one is forgotten, so that its rows are tried again

# Cost of a step by its rows, as measured on processors with AVX-512 and AVX2; corrected while answers run.
_NATIVE_COSTS = {1: 1.0, 4: 1.1, 8: 1.4, 16: 2.2}
_STOCK_COSTS = {1: 1.0, 4: 1.8, 5: 3.4, 8: 3.5, 16: 6.0}

HORIZON = 32  # drafts of a kind that count; older ones fade
OF_MODEL = 0  # the kind of a draft model's drafts; looked up ones go by the length of their match
# By kind: the chance of a first drafted token before anything was seen, and how many drafts that is worth. A
# model's drafts say nothing where they are not made, so a few bad ones must not be the end of them.
FIRST_AGREES = {OF_MODEL: (0.7, 4.0), 1: (0.2, 1.0), 2: (0.4, 1.0), 3: (0.5, 1.0), 8: (0.7, 1.0)}
NEXT_AGREES = (0.7, 5.0)  # the same of one whose predecessor was right, at all positions together
NEXT_TRUST = 2.0  # drafts that their mean is worth at one position
REFUSALS = 8  # drafts in a row not worth checking: drafting is off
TRIAL = 24  # tokens of which no draft foretold one: it is off too
FIRST_WAIT, LAST_WAIT = 64, 1024  # tokens until it begins anew


def cost_prior(is_native: bool) -> Mapping[int, float]:
    """What rows cost before any step was measured, for `StepCosts`."""
    return _NATIVE_COSTS if is_native else _STOCK_COSTS


class StepCosts:
    """What a step of some rows costs, in steps of one row: a prior, corrected by measured steps."""

    def __init__(self, prior: Mapping[int, float]) -> None:
        """``prior``: cost by rows, as kernels were timed; 1 is there. What lies between is interpolated,
        what lies beyond costs in proportion.
        """
        self._prior = [cost / prior[1] for cost in _filled(prior)]
        self._steps = 0
        self._recent: deque[tuple[int, float]] = deque(maxlen=RECENT_STEPS)
        self._measured: dict[int, deque[tuple[int, float]]] = {}  # rows → (step, measured over prior)
        self._table = self._corrected()

    def of(self, rows: int) -> float:
        """Cost of a step of ``rows`` rows, at least one."""
        if rows <= MAX_ROWS:
            return self._table[rows - 1]
        return self._table[-1] * rows / MAX_ROWS

    def observe(self, rows: int, seconds: float) -> None:
        """Take the duration of one decode step. What more rows cost is learnt from steps that lie close."""
        self._steps += 1
        self._recent.append((rows, seconds))
        fewest = min(held for held, _ in self._recent)
        if fewest < rows <= MAX_ROWS:
            base_s = median(taken for held, taken in self._recent if held == fewest)
            if seconds > 0 and base_s > 0:
                over_prior = self.of(fewest) * seconds / base_s / self._prior[rows - 1]
                self._measured.setdefault(rows, deque(maxlen=MEASURED)).append((self._steps, over_prior))
                self._table = self._corrected()
        elif self._forget():
            self._table = self._corrected()

    def _forget(self) -> bool:
        """Drop what was measured too long ago; whether there was any."""
        old = [each for each in self._measured.values() if each and each[0][0] <= self._steps - COST_MEMORY]
        for each in old:
            each.popleft()
        return bool(old)

    def _corrected(self) -> tuple[float, ...]:
        """Costs of 1 … MAX_ROWS rows: more rows never cost less. Rows that were not measured are corrected
        like the next fewer that were.
        """
        table: list[float] = []
        correction = 1.0
        for rows, prior in enumerate(self._prior, 1):
            measured = [over_prior for _, over_prior in self._measured.get(rows, ())]
            if measured:  # while there are few, the prior is one of them: a single step may have been held up
                correction = median_low(measured if len(measured) == MEASURED else [1.0, *measured])
            table.append(max(prior * correction, table[-1]) if table else prior * correction)
        return tuple(table)


def share_rows(
    gains: Sequence[Sequence[float]],
    costs: StepCosts,
    draft_cost: float | Sequence[float] = 0.0,
    other_rows: int = 0,
) -> list[int]:
    """Draft length of each chat that makes the step's tokens per cost the most; the shortest of equal ones.

    ``gains``: by chat, how many tokens each drafted position is expected to add, never rising, so that the
    best positions of all chats taken together are always beginnings of drafts. ``draft_cost``: of making one
    drafted token, of all chats or of each; what it would have brought in a plain step is taken off a gain
    where they are put in order. ``other_rows``: rows of the step that belong to none of these chats.
    """
    rows = len(gains) + other_rows
    plain = len(gains) / costs.of(max(1, rows))
    each_cost = [draft_cost] * len(gains) if isinstance(draft_cost, float | int) else draft_cost
    positions = [(gain, chat) for chat, each in enumerate(gains) for gain in each]
    best_first = sorted(positions, key=lambda each: each_cost[each[1]] * plain - each[0])
    tokens, spent, best, count = float(len(gains)), 0.0, plain, 0
    for taken, (gain, chat) in enumerate(best_first[: max(0, MAX_ROWS - rows)], 1):
        tokens += gain
        spent += each_cost[chat]
        goodput = tokens / (costs.of(rows + taken) + spent)
        if goodput > best:
            best, count = goodput, taken
    lengths = [0] * len(gains)
    for _, chat in best_first[:count]:
        lengths[chat] += 1
    return lengths


class Agreement:
    """How often drafts are right, by kind and position, from those seen; older ones fade."""

    def __init__(self) -> None:
        self._seen: dict[int, list[list[float]]] = {}  # kind → position → [right, compared]
        self._right, self._expected = 0.0, 0.0  # first positions of all kinds

    def chances(self, kind: int, length: int) -> tuple[float, ...]:
        """For each of ``length`` positions, the chance that it and all before it are right."""
        # Where all kinds fail, one seen for the first time will too.
        mood = min(1.0, (1 + self._right) / (1 + self._expected))
        first, trust = FIRST_AGREES[kind]
        seen = self._seen.get(kind, [])
        prior, weight = mood * first, trust
        chance, chances = 1.0, []
        for position in range(length):
            right, compared = seen[position] if position < len(seen) else (0.0, 0.0)
            chance *= (right + weight * prior) / (compared + weight)
            chances.append(chance)
            if position == 0:  # a model is as good at every position; a match that held goes on holding
                prior, weight = _mean(seen if kind == OF_MODEL else seen[1:], *NEXT_AGREES), NEXT_TRUST
        return tuple(chances)

    def observe(self, kind: int, agreed: int, compared: int) -> None:
        """Of ``compared`` drafted tokens the first ``agreed`` were right; those behind a wrong one say
        nothing.
        """
        if not compared:
            return
        self._right += (agreed > 0) - self._right / HORIZON
        self._expected += FIRST_AGREES[kind][0] - self._expected / HORIZON
        # Positions that no draft reaches fade too, else one bad draft would keep the later ones short.
        seen = [[count - count / HORIZON for count in counts] for counts in self._seen.get(kind, [])]
        for position in range(min(agreed + 1, compared)):
            if position == len(seen):
                seen.append([0.0, 0.0])
            seen[position][0] += position < agreed
            seen[position][1] += 1
        self._seen[kind] = seen


class ChatDrafting:
    """One chat's drafting: what drafts are expected to gain, and whether it is off.

    A draft that is not checked is still compared with the token that came, so drafting comes back as soon as
    it would pay. A draft that was not even made says nothing; so after a while all is forgotten and tried
    anew, at longer and longer intervals while it goes on losing.
    """

    def __init__(self) -> None:
        self.reason: str | None = None  # why drafting is off, a sentence; None: it is on
        self.drafted = 0  # tokens checked so far
        self.accepted = 0
        self._agreement = Agreement()
        self._refusals = 0  # in a row
        self._foretold = 0  # tokens since drafting was turned on
        self._tokens = 0  # since drafting was turned on or off
        self._wait = 0  # tokens until it begins anew

    def gains(self, kind: int | None, length: int) -> tuple[float, ...]:
        """Tokens that each position of a draft of ``length`` tokens is expected to add to a step. ``kind`` is
        None where there is nothing to draft.
        """
        return () if kind is None else self._agreement.chances(kind, length)

    def observe(
        self, kind: int | None, offered: Sequence[int], checked: int, came: Sequence[int], extra: float
    ) -> None:
        """After a step: of the draft ``offered`` the first ``checked`` tokens were rows of it, and ``came``
        are the tokens it brought, accepted ones and the one after them. ``extra`` is the part of a step's
        time that checking one drafted token adds.
        """
        agreed, compared = _agreed(offered, came)
        self.drafted += checked
        self.accepted += min(agreed, checked)
        self._foretold += agreed
        self._tokens += len(came)
        if kind is None:
            return
        self._agreement.observe(kind, agreed, compared)
        self._refusals = 0 if checked else self._refusals + 1
        if checked and self.reason:
            self._turn_on()
        elif self._loses and not self.reason:
            self._turn_off(_why_off(kind, extra, self._agreement.chances(kind, 1)[0]))
        elif self.reason and self._tokens >= self._wait:
            self._agreement = Agreement()
            self._turn_on()

    def compare(self, kind: int, offered: Sequence[int], came: Sequence[int]) -> None:
        """Learn from a draft to which another one was preferred."""
        self._agreement.observe(kind, *_agreed(offered, came))

    @property
    def _loses(self) -> bool:
        return self._refusals >= REFUSALS or (self._tokens >= TRIAL and not self._foretold)

    def _turn_on(self) -> None:
        self.reason, self._refusals, self._foretold, self._tokens = None, 0, 0, 0

    def _turn_off(self, reason: str) -> None:
        was_short = self._tokens < FIRST_WAIT
        self._wait = max(FIRST_WAIT, min(LAST_WAIT, 2 * self._wait if was_short else 0))
        self.reason, self._tokens = reason, 0


def _mean(seen: Iterable[Sequence[float]], prior: float, weight: float) -> float:
    """Right ones among those compared, ``prior`` counting as ``weight`` of them."""
    counts = list(seen)
    right, compared = (sum(each[at] for each in counts) for at in (0, 1))
    return (right + weight * prior) / (compared + weight)


def _why_off(kind: int, extra: float, chance: float) -> str:
    said = tr(
        "Drafting is off: checking a drafted token takes {extra} longer, and {chance} of them are right here."
    )
    if kind == OF_MODEL:
        said = tr(
            "Drafting is off: making and checking a drafted token takes {extra} longer, "
            "and {chance} of them are right here."
        )
    return said.format(extra=_percent(extra), chance=_percent(chance))


def _percent(share: float) -> str:
    return percent(decimal(100 * share, 0))


def _agreed(offered: Sequence[int], came: Sequence[int]) -> tuple[int, int]:
    """(right ones before the first wrong one, tokens compared)."""
    compared = min(len(offered), len(came))
    return next((at for at in range(compared) if offered[at] != came[at]), compared), compared


def _filled(prior: Mapping[int, float]) -> Iterable[float]:
    """Costs of 1 … MAX_ROWS rows: lines between those given, in proportion to the last beyond it."""
    given = sorted(prior)
    for rows in range(1, MAX_ROWS + 1):
        above = next((held for held in given if held >= rows), None)
        if above is None:
            yield prior[given[-1]] * rows / given[-1]
        else:
            below = max(held for held in given if held <= rows)
            share = (rows - below) / (above - below) if above > below else 0.0
            yield prior[below] + share * (prior[above] - prior[below])
