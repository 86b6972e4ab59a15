"""Drafts of the running answers: who makes them, how many tokens of each are checked, what is learnt of it.

Knows sequences, costs and the draft model; verifies nothing and runs no target model.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from collections.abc import Sequence as Many
from dataclasses import dataclass, replace
from statistics import median, median_low

from torch import Tensor

from engine.decode.draft_model import DraftModel
from engine.decode.goodput import (
    MAX_ROWS,
    MEASURED,
    OF_MODEL,
    RECENT_STEPS,
    StepCosts,
    cost_prior,
    share_rows,
)
from engine.decode.lookup import Draft
from engine.decode.sequence import Sequence
from engine.types import LoadPlan

DRAFT_MEMORY = 512  # steps until a measured cost of drafts is forgotten: none is learnt while none are made


@dataclass(frozen=True, slots=True)
class Offer:
    """Proposed next tokens of one answer; the first ``length`` of them are checked. ``q`` as in
    `acceptance.verify`. ``instead`` was looked up, and a draft model's draft preferred to it.
    """

    tokens: tuple[int, ...] = ()
    kind: int | None = None
    length: int = 0
    q: tuple[Tensor, ...] | None = None
    instead: Draft | None = None

    @property
    def checked(self) -> tuple[int, ...]:
        """The tokens that the model is asked about."""
        return self.tokens[: self.length]


@dataclass(frozen=True, slots=True)
class _Option:
    """One way to draft for an answer. ``gains`` as in `share_rows`, ``cost`` of making one token."""

    kind: int | None = None
    gains: tuple[float, ...] = ()
    cost: float = 0.0


class DraftCost:
    """What a draft model's token costs, in steps of one row of its target: a prior, then what was measured of
    late.
    """

    def __init__(self, prior: float) -> None:
        self._prior = prior
        self._steps = 0
        self._step_s: deque[float] = deque(maxlen=RECENT_STEPS)
        self._measured: deque[tuple[int, float]] = deque(maxlen=MEASURED)  # (step, cost)

    def of(self) -> float:
        """The prior stands for what was not measured yet: a single draft may have been held up."""
        missing = MEASURED - len(self._measured)
        return median_low([self._prior] * missing + [cost for _, cost in self._measured])

    def observe_step(self, seconds: float) -> None:
        """Take the duration of a step of the target, as if of one row. What was measured long ago is
        forgotten, so that drafts that were too dear are tried again.
        """
        self._steps += 1
        self._step_s.append(seconds)
        while self._measured and self._measured[0][0] <= self._steps - DRAFT_MEMORY:
            self._measured.popleft()

    def observe_drafts(self, tokens: int, seconds: float) -> None:
        """Take how long it took to make so many tokens, of all answers together."""
        if tokens and self._step_s:
            self._measured.append((self._steps, seconds / tokens / max(median(self._step_s), 1e-9)))


class Speculation:
    """Chooses drafts by goodput, for all answers of a step together."""

    def __init__(
        self,
        plan: LoadPlan,
        clock: Callable[[], float],
        can_trim: bool = True,
        model: DraftModel | None = None,
    ) -> None:
        """``can_trim``: whether the target can take tokens back, without which nothing is drafted. ``model``
        is the one of ``plan.draft``.
        """
        self._costs = StepCosts(cost_prior(plan.is_native))
        self._clock = clock
        self._can_trim = can_trim
        self._model = model
        self._draft_cost = DraftCost(_weights_fraction(plan))

    def catch_up(self, sequences: Many[Sequence]) -> None:
        """Let the draft model read one piece of an answer that it could serve and does not know yet."""
        if self._model is None:
            return
        most = MAX_ROWS - len(sequences)
        self._model.read_piece(
            each for each in sequences if not each.is_prefilling and self._length(self._of_model(each, most))
        )

    def offers(self, sequences: Many[Sequence]) -> list[Offer]:
        """For each sequence what to check in this step, often nothing."""
        if not self._can_trim:
            return [Offer()] * len(sequences)
        most = MAX_ROWS - len(sequences)
        looked = [self._looked_up(sequence, most) for sequence in sequences]
        options = [
            self._best(sequence, draft, most) for sequence, draft in zip(sequences, looked, strict=True)
        ]
        lengths = share_rows(
            [option.gains for option in options], self._costs, [option.cost for option in options]
        )
        modelled = self._drafted(
            [
                (sequence, length)
                for sequence, option, length in zip(sequences, options, lengths, strict=True)
                if option.kind == OF_MODEL and length
            ]
        )
        offers = []
        for sequence, option, draft, length in zip(sequences, options, looked, lengths, strict=True):
            if option.kind == OF_MODEL:
                offer = modelled.get(sequence, Offer((), OF_MODEL))
                offers.append(replace(offer, instead=draft if draft.ids else None))
            else:
                offers.append(Offer(draft.ids, draft.kind, length))
        return offers

    def observe_step(self, offers: Many[Offer], seconds: float) -> None:
        """Take the duration of a step that decoded only, without that of making drafts."""
        rows = len(offers) + sum(offer.length for offer in offers)
        self._costs.observe(rows, seconds)
        self._draft_cost.observe_step(seconds / self._costs.of(rows))

    def observe_draft(self, sequence: Sequence, offer: Offer, came: Many[int]) -> None:
        """The tokens ``came`` of a step to which ``offer`` was brought."""
        extra = self._costs.of(2) - 1 + (self._draft_cost.of() if offer.kind == OF_MODEL else 0.0)
        sequence.drafting.observe(offer.kind, offer.tokens, offer.length, came, extra)
        if offer.instead is not None and offer.instead.kind is not None:
            sequence.drafting.compare(offer.instead.kind, offer.instead.ids, came)
        if self._model is not None:
            self._model.follow(sequence)

    def leave(self, sequence: Sequence, is_sound: bool = True) -> None:
        """``sequence`` gives its cache back, whose numbers are or are not to be trusted."""
        if self._model is not None:
            self._model.leave(sequence, is_sound)

    def forget(self) -> None:
        """Give up everything, after an error."""
        if self._model is not None:
            self._model.forget()

    def _looked_up(self, sequence: Sequence, most: int) -> Draft:
        return sequence.looked_up(most) if sequence.request.speculate in ("ngram", "auto") else Draft()

    def _of_model(self, sequence: Sequence, most: int) -> _Option:
        """What a draft of the model promises, whether it can begin one by now or not."""
        is_asked = self._can_trim and sequence.request.speculate in ("draft", "auto")
        room = min(most, sequence.draft_room)
        if self._model is None or not is_asked or room <= 0 or not sequence.can_be_drafted:
            return _Option()
        return _Option(OF_MODEL, sequence.drafting.gains(OF_MODEL, room), self._draft_cost.of())

    def _best(self, sequence: Sequence, looked_up: Draft, most: int) -> _Option:
        """The option with the better goodput, were the answer alone; one that costs nothing comes first.

        A model that has to read first is offered once it has. Where it would not pay, it offers nothing,
        which is noted: drafting then rests, and is tried again later.
        """
        found = _Option(looked_up.kind, sequence.drafting.gains(looked_up.kind, len(looked_up.ids)))
        modelled = self._of_model(sequence, most)
        if self._model is None or modelled.kind is None:
            return found
        if not self._length(modelled):
            return _Option(OF_MODEL) if found.kind is None else found
        if not self._model.is_ready(sequence):
            return found
        return modelled if found.kind is None else max(found, modelled, key=self._goodput)

    def _length(self, option: _Option) -> int:
        """The draft's best length, were the answer alone."""
        return share_rows([option.gains], self._costs, [option.cost])[0]

    def _goodput(self, option: _Option) -> float:
        """Tokens in the time of a step of one row, with the best length."""
        length = self._length(option)
        return (1 + sum(option.gains[:length])) / (self._costs.of(1 + length) + length * option.cost)

    def _drafted(self, wanted: Many[tuple[Sequence, int]]) -> dict[Sequence, Offer]:
        """The draft model's drafts of so many tokens; nothing for those that it has no room for."""
        if self._model is None or not wanted:
            return {}
        started = self._clock()
        drafts = self._model.draft(wanted)
        self._draft_cost.observe_drafts(sum(len(draft.ids) for draft in drafts), self._clock() - started)
        return {
            sequence: Offer(draft.ids, OF_MODEL, draft.standing, draft.q) if draft.ids else Offer()
            for (sequence, _), draft in zip(wanted, drafts, strict=True)
        }


def without(offer: Offer) -> Offer:
    """The same with nothing to check: there is no room for it."""
    return replace(offer, length=0)


def _weights_fraction(plan: LoadPlan) -> float:
    """The draft model's weights over its target's: what decoding with them takes, by the bytes read."""
    own = plan.draft.bytes.weights if plan.draft else 0
    return own / max(1, plan.bytes.weights - own)
