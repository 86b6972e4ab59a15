"""Draft lengths by measured goodput: on recorded answers, and the rules one by one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import pairwise, product
from pathlib import Path
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.bench.streams import KINDS, Stream, read_streams
from engine.decode.goodput import (
    COST_MEMORY,
    FIRST_WAIT,
    MAX_ROWS,
    OF_MODEL,
    REFUSALS,
    TRIAL,
    Agreement,
    ChatDrafting,
    StepCosts,
    share_rows,
)
from engine.decode.replay import ByGoodput, FixedLength, Replayed, replay
from engine.text.chat import ChatText

FLAT = {1: 1.0, 2: 1.02, 3: 1.04, 4: 1.06, 5: 1.15, 6: 1.2, 7: 1.25, 8: 1.3}
CLIFF = {1: 1.0, 4: 1.75, 5: 3.46, 8: 3.47}
PRIORS = {"flat": FLAT, "cliff": CLIFF}


@pytest.fixture(scope="module")
def streams(starter_path: Path) -> dict[str, Stream]:
    return read_streams(ChatText.load(str(starter_path)))


def fixed(stream: Stream, prior: Mapping[int, float], length: int) -> Replayed:
    return replay(stream.prompt, stream.answer, FixedLength(length), StepCosts(prior).of)


def best_fixed(stream: Stream, prior: Mapping[int, float]) -> float:
    return max(fixed(stream, prior, length).goodput for length in range(MAX_ROWS))


def by_goodput(stream: Stream, prior: Mapping[int, float], true: Mapping[int, float]) -> Replayed:
    rule = ByGoodput(ChatDrafting(), StepCosts(prior))
    return replay(stream.prompt, stream.answer, rule, StepCosts(true).of)


@pytest.mark.starter
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS.keys())
def test_goodput_is_within_3_percent_of_the_best_fixed_length(
    kind: str, prior: dict[int, float], streams: dict[str, Stream]
) -> None:
    assert by_goodput(streams[kind], prior, prior).goodput > 0.97 * best_fixed(streams[kind], prior)


@pytest.mark.starter
def test_repeating_texts_gain_what_long_cheap_drafts_can_give(streams: dict[str, Stream]) -> None:
    assert by_goodput(streams["edit"], FLAT, FLAT).goodput > 2.1
    assert by_goodput(streams["summary"], FLAT, FLAT).goodput > 2.2
    assert by_goodput(streams["edit"], CLIFF, CLIFF).goodput > 1.4
    assert by_goodput(streams["summary"], CLIFF, CLIFF).goodput > 1.4


@pytest.mark.starter
@pytest.mark.parametrize("true", PRIORS.values(), ids=["truly flat", "truly a cliff"])
@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS.keys())
def test_free_text_costs_at_most_2_percent_even_where_the_prior_is_wrong(
    prior: dict[int, float], true: dict[int, float], streams: dict[str, Stream]
) -> None:
    assert by_goodput(streams["free"], prior, true).goodput > 0.98


@pytest.mark.starter
def test_long_drafts_are_left_where_more_rows_turn_out_dear(streams: dict[str, Stream]) -> None:
    for kind in ("edit", "summary"):
        learnt = by_goodput(streams[kind], FLAT, CLIFF).goodput
        assert learnt > 0.97 * best_fixed(streams[kind], CLIFF)
        assert learnt > 1.1 * fixed(streams[kind], CLIFF, 7).goodput


@pytest.mark.starter
def test_a_chat_that_changes_its_kind_of_text_is_followed(streams: dict[str, Stream]) -> None:
    edit, free = streams["edit"], streams["free"]
    mixed = replace(edit, answer=free.answer + edit.answer + free.answer)
    for prior in PRIORS.values():
        assert by_goodput(mixed, prior, prior).goodput > best_fixed(mixed, prior)


@pytest.mark.starter
def test_the_same_calls_give_the_same_choices(streams: dict[str, Stream]) -> None:
    assert by_goodput(streams["edit"], FLAT, CLIFF) == by_goodput(streams["edit"], FLAT, CLIFF)


def test_a_replay_counts_steps_rows_costs_and_accepted_tokens() -> None:
    prompt, answer = [1, 2, 3, 4, 5, 9], [1, 2, 3, 4, 5, 7]
    replayed = replay(prompt, answer, FixedLength(3), lambda rows: 1 + (rows - 1) / 2)
    # after 1: 2 3 4 right and 5 comes; then 9 is proposed and wrong, 7 is the last token
    assert replayed == Replayed(tokens=5, rows=(4, 1), cost=3.5, accepted=3)
    assert replayed.tokens_per_step == 2.5
    assert replayed.mean_cost == 1.75
    assert replayed.goodput == pytest.approx(5 / 3.5)


def test_a_replay_ends_at_the_end_token_inside_a_copied_stretch() -> None:  # B068
    replayed = replay([1, 2, 3, 0, 8, 8], [1, 2, 3, 0], FixedLength(5), float, frozenset({0}))
    assert replayed.tokens == 3
    assert max(replayed.rows) <= 3


def test_a_replay_of_one_token_is_no_step() -> None:
    assert replay([1, 2], [3], FixedLength(2), float) == Replayed(0, (), 0.0, 0)


def never_right(count: int) -> list[int]:
    """Tokens that all stood before and are never followed by what followed them the last time."""
    random, ids, last = Random(2), [0], {}
    while len(ids) < count:
        token = random.choice([each for each in range(60) if each != last.get(ids[-1])])
        last[ids[-1]] = token
        ids.append(token)
    return ids


class Watched(ByGoodput):
    """The same choices, noted."""

    def __init__(self, prior: Mapping[int, float]) -> None:
        super().__init__(ChatDrafting(), StepCosts(prior))
        self.checked: list[int] = []  # by step
        self.reasons: list[str | None] = []

    def observe(self, draft, checked, came, cost) -> None:  # type: ignore[no-untyped-def]
        super().observe(draft, checked, came, cost)
        self.checked.append(checked)
        self.reasons.append(self.chat.reason)


@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS.keys())
def test_drafting_that_loses_is_off_within_32_tokens_and_says_why(prior: dict[int, float]) -> None:
    ids, rule = never_right(500), Watched(prior)
    replayed = replay(ids[:200], ids[200:], rule, StepCosts(prior).of)
    off = next(at for at, reason in enumerate(rule.reasons) if reason)
    assert off < 32
    assert sum(rule.checked[32:96]) <= 4
    assert replayed.goodput > 0.99
    reason = rule.reasons[off]
    assert reason is not None
    assert reason.startswith("Drafting is off: checking a drafted token takes ")
    assert ("2%" if prior is FLAT else "25%") in reason


@pytest.mark.starter
@pytest.mark.parametrize("prior", PRIORS.values(), ids=PRIORS.keys())
def test_free_text_that_is_seldom_drafted_for_turns_drafting_off_within_32_tokens(
    prior: dict[int, float], streams: dict[str, Stream]
) -> None:
    rule, free = Watched(prior), streams["free"]
    replay(free.prompt, free.answer[:33], rule, StepCosts(prior).of)
    assert rule.chat.reason


def test_a_draft_that_was_right_keeps_drafting_on_though_it_is_rare() -> None:
    chat = ChatDrafting()
    chat.observe(3, (5,), 1, [5, 6], 0.02)
    for _ in range(2 * TRIAL):
        chat.observe(None, (), 0, [7], 0.02)
    chat.observe(1, (8,), 1, [9], 0.02)
    assert chat.reason is None


def model_steps(chat: ChatDrafting, costs: StepCosts, rates: Iterator[float]) -> Iterator[tuple[int, int]]:
    """(checked, accepted) of endless steps with a draft model that is right at the rate of the moment."""
    random = Random(5)
    for rate in rates:
        checked = share_rows([chat.gains(OF_MODEL, 7)], costs, draft_cost=0.15)[0]
        right = next((at for at in range(checked) if random.random() >= rate), checked)
        offered = [1] * checked
        chat.observe(OF_MODEL, offered, checked, [1] * right + [0], costs.of(2) - 1 + 0.15)
        yield checked, right


def test_a_model_that_drafts_badly_is_tried_again_at_longer_and_longer_intervals() -> None:
    steps = list(model_steps(ChatDrafting(), StepCosts(FLAT), iter([0.0] * 1500)))
    tried = [at for at, (checked, _) in enumerate(steps) if checked]
    begins = [at for before, at in pairwise(tried) if at - before > REFUSALS]
    waits = [later - at for at, later in pairwise(begins)]
    assert tried[0] == 0
    assert FIRST_WAIT <= begins[0] < 2 * FIRST_WAIT
    assert len(waits) >= 2
    assert all(later > 1.5 * wait for wait, later in pairwise(waits))
    assert len(tried) < 60


def test_a_draft_model_that_becomes_good_comes_back() -> None:
    chat = ChatDrafting()
    steps = list(model_steps(chat, StepCosts(FLAT), iter([0.0] * 100 + [0.9] * 200)))
    assert sum(checked for checked, _ in steps[:100]) < 30
    assert chat.reason is None
    assert sum(right for _, right in steps[-50:]) > 100
    assert (chat.drafted, chat.accepted) == tuple(map(sum, zip(*steps, strict=True)))


@pytest.mark.parametrize("rate", [0.2, 0.5, 0.8])
def test_a_draft_models_length_comes_near_the_best_of_the_closed_form(rate: float) -> None:
    """Leviathan et al. 2023, theorem 3.8: (1 − a^(k+1)) / (1 − a) tokens a step of k drafted ones."""
    costs = StepCosts(FLAT)
    steps = list(model_steps(ChatDrafting(), costs, iter([rate] * 3000)))
    tokens = sum(right + 1 for _, right in steps)
    spent = sum(costs.of(checked + 1) + 0.15 * checked for checked, _ in steps)
    best = max((1 - rate ** (k + 1)) / (1 - rate) / (costs.of(k + 1) + 0.15 * k) for k in range(8))
    assert tokens / spent > 0.95 * best


CHANCES = st.lists(st.floats(0, 1), max_size=3).map(lambda each: sorted(each, reverse=True))


@given(st.lists(CHANCES, min_size=1, max_size=3), st.sampled_from([FLAT, CLIFF]), st.sampled_from([0.0, 0.2]))
def test_several_chats_share_the_rows_so_that_the_whole_step_gains_most(
    gains: list[list[float]], prior: dict[int, float], draft_cost: float
) -> None:
    costs = StepCosts(prior)

    def goodput(lengths: tuple[int, ...]) -> float:
        tokens = len(gains) + sum(sum(each[:length]) for each, length in zip(gains, lengths, strict=True))
        return tokens / (costs.of(len(gains) + sum(lengths)) + draft_cost * sum(lengths))

    best = max(goodput(lengths) for lengths in product(*(range(len(each) + 1) for each in gains)))
    assert goodput(tuple(share_rows(gains, costs, draft_cost))) == pytest.approx(best)


def test_a_draft_that_pays_for_one_chat_need_not_pay_among_eight() -> None:
    costs = StepCosts({1: 1.0, 8: 1.05, 16: 4.0})
    assert share_rows([[0.5]], costs) == [1]
    assert share_rows([[0.5]] + [[]] * 7, costs) == [0] * 8


def test_no_step_has_more_rows_than_are_known() -> None:
    costs = StepCosts({1: 1.0, 16: 1.0})
    assert sum(share_rows([[1.0] * 15] * 3, costs)) == MAX_ROWS - 3
    assert share_rows([[1.0]] * 20, costs) == [0] * 20
    assert sum(share_rows([[1.0] * 15], costs, other_rows=10)) == MAX_ROWS - 11
    assert share_rows([], costs) == []


def test_costs_between_those_timed_lie_on_a_line_and_beyond_grow_in_proportion() -> None:
    costs = StepCosts({1: 2.0, 4: 3.5, 8: 6.0})
    assert [costs.of(rows) for rows in (1, 2, 4, 6)] == pytest.approx([1.0, 1.25, 1.75, 2.375])
    assert costs.of(16) == pytest.approx(6.0)
    assert costs.of(32) == pytest.approx(12.0)


def measured(costs: StepCosts, true: Mapping[int, float], steps: int, slow: float = 1.0) -> None:
    for _ in range(steps):
        for rows, cost in true.items():
            costs.observe(rows, 0.01 * slow * cost)


def test_measured_steps_correct_the_prior_and_the_rows_behind_them() -> None:
    costs = StepCosts(FLAT)
    measured(costs, {1: 1.0, 5: 3.46}, 5)
    assert costs.of(5) == pytest.approx(3.46)
    assert costs.of(6) > 3.46
    assert costs.of(4) == pytest.approx(FLAT[4])


def test_a_machine_that_becomes_slower_changes_no_cost() -> None:
    costs = StepCosts(FLAT)
    for slow in (1, 2, 1, 3):
        measured(costs, FLAT, 8, slow)
        assert costs.of(4) == pytest.approx(FLAT[4], rel=0.03)


def test_one_step_that_was_held_up_changes_no_cost() -> None:
    costs = StepCosts(FLAT)
    costs.observe(1, 0.01)
    costs.observe(4, 0.2)
    assert costs.of(4) == pytest.approx(FLAT[4])
    measured(costs, FLAT, 5)
    costs.observe(4, 0.2)
    assert costs.of(4) == pytest.approx(FLAT[4], rel=0.03)


def test_more_rows_never_cost_less() -> None:
    costs = StepCosts(FLAT)
    measured(costs, {1: 1.0, 3: 2.0, 4: 1.1}, 5)
    table = [costs.of(rows) for rows in range(1, 20)]
    assert table == sorted(table)


def test_what_was_measured_long_ago_is_forgotten() -> None:
    costs = StepCosts(FLAT)
    measured(costs, {1: 1.0, 4: 3.0}, 5)
    assert costs.of(4) == pytest.approx(3.0)
    measured(costs, {1: 1.0}, COST_MEMORY)
    assert costs.of(4) == pytest.approx(FLAT[4])


def test_steps_without_a_cheaper_one_near_teach_nothing() -> None:
    costs = StepCosts(CLIFF)
    measured(costs, {4: 9.0}, 50)
    assert costs.of(4) == pytest.approx(CLIFF[4])


@given(
    st.lists(st.tuples(st.sampled_from([0, 1, 2, 3, 8]), st.integers(0, 7), st.integers(0, 7)), max_size=60)
)
def test_chances_are_chances_and_never_rise_along_a_draft(seen: list[tuple[int, int, int]]) -> None:
    agreement = Agreement()
    for kind, agreed, compared in seen:
        agreement.observe(kind, min(agreed, compared), compared)
    for kind in (0, 1, 2, 3, 8):
        chances = agreement.chances(kind, 15)
        assert list(chances) == sorted(chances, reverse=True)
        assert all(0 <= chance <= 1 for chance in chances)


def test_a_draft_that_was_not_checked_still_teaches() -> None:
    chat = ChatDrafting()
    before = chat.gains(2, 1)[0]
    for _ in range(10):
        chat.observe(2, (5, 6), 0, [5], 0.02)
    assert chat.gains(2, 1)[0] > max(before, 0.9)
    assert (chat.drafted, chat.accepted) == (0, 0)


def test_tokens_behind_a_wrong_one_and_unknown_ones_are_not_counted() -> None:
    seen, unseen = Agreement(), Agreement()
    for _ in range(20):
        seen.observe(3, 1, 5)  # the second is wrong
        unseen.observe(3, 1, 1)  # the second is unknown
    assert seen.chances(3, 1) == unseen.chances(3, 1)
    assert seen.chances(3, 2)[1] < 0.1 < 0.5 < unseen.chances(3, 2)[1]
