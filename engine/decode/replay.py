"""What drafting would have done on a recorded answer: steps, rows and their costs, counted. Runs no model.

The lookup finds the same drafts and the recorded tokens accept them as a greedy model would that gives this
answer, so a rule for the draft's length is judged the same way on every machine.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from engine.decode.goodput import MAX_ROWS, ChatDrafting, StepCosts, share_rows
from engine.decode.lookup import Draft, Lookup


@dataclass(frozen=True, slots=True)
class Replayed:
    """The counts of one answer. Costs are in steps of one row."""

    tokens: int  # after the first, which the prompt's own step brings
    rows: tuple[int, ...]  # of every step
    cost: float  # of all steps
    accepted: int

    @property
    def tokens_per_step(self) -> float:
        return self.tokens / max(1, len(self.rows))

    @property
    def mean_cost(self) -> float:
        return self.cost / max(1, len(self.rows))

    @property
    def goodput(self) -> float:
        """Tokens in the time of a step of one row; plain decoding has 1."""
        return self.tokens / self.cost if self.cost else 1.0


class FixedLength:
    """Drafts of the same length wherever the match is long enough: what goodput is compared with."""

    def __init__(self, length: int, least_match: int = 1) -> None:
        self._length = length
        self._least_match = least_match

    def choose(self, draft: Draft) -> int:
        return min(self._length, len(draft.ids)) if draft.match >= self._least_match else 0

    def observe(self, draft: Draft, checked: int, came: Sequence[int], cost: float) -> None:
        """Learns nothing."""


class ByGoodput:
    """The engine's own choice for one chat alone."""

    def __init__(self, chat: ChatDrafting, costs: StepCosts) -> None:
        self.chat = chat
        self.chat.observe(None, (), 0, (0,), 0.0)  # the first token, whichever it is: no step drafts for it
        self._costs = costs

    def choose(self, draft: Draft) -> int:
        return share_rows([self.chat.gains(draft.kind, len(draft.ids))], self._costs)[0]

    def observe(self, draft: Draft, checked: int, came: Sequence[int], cost: float) -> None:
        self._costs.observe(checked + 1, cost)
        self.chat.observe(draft.kind, draft.ids, checked, came, self._costs.of(2) - 1)


def replay(
    prompt: Sequence[int],
    answer: Sequence[int],
    rule: FixedLength | ByGoodput,
    cost: Callable[[int], float],
    ends: frozenset[int] = frozenset(),
) -> Replayed:
    """Decode the recorded ``answer`` (at least one token) with drafts from the chat so far. ``cost`` is what
    a step of some rows really costs, whatever the rule believes.
    """
    lookup = Lookup([*prompt, answer[0]], ends)
    done, rows, spent, accepted = 1, [], 0.0, 0
    while done < len(answer):
        left = len(answer) - done
        draft = lookup.draft(min(MAX_ROWS - 1, left - 1))
        checked = rule.choose(draft)
        right = next((at for at in range(checked) if draft.ids[at] != answer[done + at]), checked)
        came = answer[done : done + right + 1]
        rows.append(checked + 1)
        spent += cost(checked + 1)
        accepted += right
        rule.observe(draft, checked, came, cost(checked + 1))
        for token in came:
            lookup.push(token)
        done += len(came)
    return Replayed(len(answer) - 1, tuple(rows), spent, accepted)
