"""Who drafts in a step, and for how many tokens: what a draft model's token costs, and lookups beside it."""

from __future__ import annotations

from collections.abc import Sequence as Many
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.decode.draft_model import Drafted
from engine.decode.goodput import OF_MODEL, REFUSALS, ChatDrafting, StepCosts, share_rows
from engine.decode.lookup import Draft
from engine.decode.speculation import DRAFT_MEMORY, DraftCost, Offer, Speculation
from engine.fit.plan import plan
from engine.types import LoadPlan, LoadSpec
from tests.fakes import HARDWARE, make_spec

FLAT = {1: 1.0, 16: 1.0}


def made(own: float) -> LoadPlan:
    """A plan whose draft model has ``own`` of the target's weights."""
    alone = plan(make_spec(), HARDWARE, LoadSpec("/models/tiny.gguf"))
    weights = round(own * alone.bytes.weights)
    draft = replace(alone, bytes=replace(alone.bytes, weights=weights))
    return replace(
        alone,
        bytes=replace(alone.bytes, weights=alone.bytes.weights + weights),
        draft=draft,
        kernels="native",
    )


class Follows:
    """A draft model that has read everything, or nothing, and drafts as many sevens as it is asked for."""

    def __init__(self, is_ready: bool = True) -> None:
        self.ready = is_ready
        self.asked: list[int] = []
        self.read: list[Any] = []

    def is_ready(self, sequence: Any) -> bool:
        return self.ready

    def read_piece(self, sequences: Any) -> None:
        self.read += sequences

    def draft(self, wanted: Many[tuple[Any, int]]) -> list[Drafted]:
        self.asked = [length for _, length in wanted]
        return [Drafted((7,) * length, length) for length in self.asked]

    def follow(self, sequence: Any) -> None:
        """There is nothing to trim."""


class Chat:
    """What is asked of a sequence here; equal ones are others, as sequences are."""

    def __init__(self, looked_up: Draft = Draft(), speculate: str = "auto") -> None:  # noqa: B008
        self.drafting = ChatDrafting()
        self.request = SimpleNamespace(speculate=speculate)
        self.draft_room, self.can_be_drafted, self.is_prefilling = 30, True, False
        self.draft = looked_up

    def looked_up(self, most: int) -> Draft:
        return Draft(self.draft.ids[:most], self.draft.match)


STRONG = Draft((3, 4, 5, 6), match=8)
WEAK = Draft((3,), match=1)


def offers(chats: list[Chat], own: float = 0.1, model: Follows | None = None) -> list[Offer]:
    chooses = Speculation(made(own), lambda: 0.0, model=model or Follows())  # type: ignore[arg-type]
    return chooses.offers(chats)  # type: ignore[arg-type]


def test_without_a_match_the_draft_model_drafts_and_with_a_strong_one_the_lookup() -> None:
    model = Follows()
    none, strong, weak = offers([Chat(), Chat(STRONG), Chat(WEAK)], model=model)
    assert (none.kind, weak.kind) == (OF_MODEL, OF_MODEL)
    assert none.tokens == (7,) * none.length
    assert none.length > 0
    assert (strong.kind, strong.tokens) == (8, STRONG.ids)
    assert model.asked == [none.length, weak.length]


def test_what_a_request_asks_for_is_what_it_gets() -> None:
    ways = ("off", "ngram", "draft", "auto")
    found = {way: offers([Chat(STRONG, way)])[0].kind for way in ways}
    found["off"] = offers([Chat(Draft(), "off")])[0].kind
    assert found == {"off": None, "ngram": 8, "draft": OF_MODEL, "auto": 8}


def test_a_model_that_has_not_read_all_leaves_the_step_to_the_lookup_and_reads() -> None:
    model = Follows(is_ready=False)
    chats = [Chat(), Chat(WEAK), Chat(STRONG, "ngram"), Chat(Draft(), "off")]
    chooses = Speculation(made(0.1), lambda: 0.0, model=model)  # type: ignore[arg-type]
    chooses.catch_up(chats)  # type: ignore[arg-type]
    assert [offer.kind for offer in chooses.offers(chats)] == [None, 1, 8, None]  # type: ignore[arg-type]
    assert model.read == chats[:2]


def test_a_draft_model_as_dear_as_its_target_is_not_asked_rests_and_says_why() -> None:
    model = Follows()
    chooses, chat = Speculation(made(1.0), lambda: 0.0, model=model), Chat()  # type: ignore[arg-type]
    for _ in range(REFUSALS):
        chooses.catch_up([chat])  # type: ignore[list-item]
        [offer] = chooses.offers([chat])  # type: ignore[list-item]
        assert offer == Offer((), OF_MODEL)
        chooses.observe_draft(chat, offer, [1])  # type: ignore[arg-type]
    assert model.asked == model.read == []
    assert chat.drafting.reason is not None
    assert "making and checking a drafted token takes 103% longer" in chat.drafting.reason


def test_a_lookup_learns_where_the_model_was_preferred() -> None:
    chooses, chat = Speculation(made(0.05), lambda: 0.0, model=Follows()), Chat(WEAK)  # type: ignore[arg-type]
    before = chat.drafting.gains(1, 1)
    for _ in range(10):
        [offer] = chooses.offers([chat])  # type: ignore[list-item]
        if offer.kind == 1:
            break
        chooses.observe_draft(chat, offer, [3])  # type: ignore[arg-type]
    assert chat.drafting.gains(1, 1) > before
    assert offer.kind == 1


def test_a_target_that_cannot_take_tokens_back_has_no_drafts() -> None:
    chooses = Speculation(made(0.1), lambda: 0.0, False, Follows())  # type: ignore[arg-type]
    assert chooses.offers([Chat(STRONG), Chat()]) == [Offer(), Offer()]  # type: ignore[list-item]


def test_a_drafted_token_costs_what_was_measured_once_that_is_enough() -> None:
    cost = DraftCost(0.2)
    for _ in range(8):
        cost.observe_step(0.010)
    cost.observe_drafts(4, 0.4)  # held up: ten steps' time for each
    assert cost.of() == 0.2
    for _ in range(5):
        cost.observe_drafts(4, 0.012)
    assert cost.of() == pytest.approx(0.3)
    cost.observe_drafts(4, 0.4)
    assert cost.of() == pytest.approx(0.3)


def test_a_cost_that_was_measured_long_ago_is_forgotten() -> None:
    cost = DraftCost(0.2)
    cost.observe_step(0.010)
    for _ in range(5):
        cost.observe_drafts(1, 0.1)
    assert cost.of() == pytest.approx(10.0)
    for _ in range(DRAFT_MEMORY):
        cost.observe_step(0.010)
    assert cost.of() == 0.2


CHANCES = st.lists(st.floats(0, 1), max_size=3).map(lambda each: sorted(each, reverse=True))


@given(st.lists(st.tuples(CHANCES, st.sampled_from([0.0, 0.1, 0.4])), min_size=1, max_size=3))
def test_lookups_and_model_drafts_share_the_rows_nearly_as_well_as_can_be(
    chats: list[tuple[list[float], float]],
) -> None:
    gains, each_cost = [each for each, _ in chats], [cost for _, cost in chats]
    costs = StepCosts({1: 1.0, 4: 1.2, 8: 1.6, 16: 2.5})

    def goodput(lengths: Many[int]) -> float:
        tokens = len(gains) + sum(sum(each[:length]) for each, length in zip(gains, lengths, strict=True))
        made = sum(cost * length for cost, length in zip(each_cost, lengths, strict=True))
        return tokens / (costs.of(len(gains) + sum(lengths)) + made)

    best = max(goodput(lengths) for lengths in product(*(range(len(each) + 1) for each in gains)))
    found = goodput(share_rows(gains, costs, each_cost))
    assert goodput([0] * len(gains)) <= found
    assert found > 0.97 * best
