"""What conversations get from the pool: reuse, room, neighbours, and windows to come back to."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.kv.page_pool import PageKind, PagePool
from tests.engine.kv.page_model import ModelledPool

SIZE = 4


def full(num_pages: int) -> ModelledPool:
    return ModelledPool([PageKind(num_pages)], SIZE)


def sliding(num_pages: int, window_pages: int, window: int) -> ModelledPool:
    return ModelledPool([PageKind(num_pages), PageKind(window_pages, window)], SIZE)


def text(start: int, count: int) -> list[int]:
    """Ids that no other start gives."""
    return [start * 1000 + at for at in range(count)]


# -- reuse


def test_the_next_turn_reuses_all_of_the_one_before_without_a_copy() -> None:
    model = full(16)
    model.say(text(1, 9), answer=text(2, 5))
    chat = model.begin(text(1, 9) + text(2, 5) + text(3, 6))
    assert len(chat.ids) == 14
    assert not model.pool.reserve(chat.pages, 6).copies


def test_an_edit_in_the_middle_of_a_page_reuses_the_tokens_before_it_and_spares_the_old_ones() -> None:
    model = full(16)
    told = text(1, 19)
    model.say(told, answer=[])
    assert model.say(told[:6] + text(2, 5), answer=[]) == 6
    assert model.say(told, answer=[]) == 18
    assert model.say(told[:6] + text(2, 5), answer=[]) == 10


@pytest.mark.parametrize("length", range(1, 14))
def test_the_same_prompt_again_reads_only_its_last_token(length: int) -> None:
    model = full(32)
    model.say(text(1, length), answer=text(2, 7))
    for other in range(3, 6):
        assert model.say(text(1, length), answer=text(other, 7)) == length - 1


def test_every_alternative_answer_stays_reusable() -> None:
    model = full(64)
    prompt = text(1, 10)
    answers = [text(start, 9) for start in range(2, 6)]
    for answer in answers:
        model.say(prompt, answer)
    for answer in answers:
        assert model.say(prompt + answer + text(9, 2), answer=[]) == 19


def test_what_a_running_chat_has_written_is_reused_by_another_down_to_the_token() -> None:
    model = full(16)
    model.run(text(1, 11))
    assert model.begin(text(1, 11) + text(2, 3)).reused == 11
    assert model.begin(text(1, 10) + text(3, 3)).reused == 10
    model.check()


def test_without_a_page_to_copy_to_only_whole_pages_of_a_running_chat_are_reused() -> None:
    model = full(2)
    model.run(text(1, 6))
    assert model.begin([*text(1, 6), 0]).reused == 4
    model.check()


def test_a_page_that_two_chats_read_is_copied_by_the_first_to_write_and_taken_over_by_the_second() -> None:
    model = full(16)
    told = text(1, 6)
    model.say(told, answer=[])
    first, second = model.begin([*told, 1]), model.begin([*told, 2])
    [copy] = model.pool.reserve(first.pages, 1).copies
    assert copy.num_tokens == 2
    assert not model.pool.reserve(second.pages, 1).copies


def test_chats_that_write_the_same_share_its_pages_from_then_on() -> None:
    model = full(16)
    first, second = model.begin(text(1, 8)), model.begin(text(1, 8))
    for chat in (first, second):
        assert model.write(chat, text(1, 8))
        assert model.write(chat, [chat is first])
    model.check()
    assert model.pool.stats()[0].used_pages == 4


def test_ids_with_the_same_hash_are_different_ids() -> None:
    assert hash((-1, -1, -1, -1)) == hash((-2, -2, -2, -2))
    model = full(16)
    model.say([-1] * 9, answer=[])
    assert model.begin([-2] * 9).reused == 0


def test_rejected_drafts_leave_nothing_and_cost_no_page() -> None:
    model = full(16)
    chat = model.run(text(1, 6))
    used = model.pool.stats()[0].used_pages
    for _ in range(5):
        assert model.write(chat, text(2, 5))
        model.trim(chat, 6)
        assert not model.pool.reserve(chat.pages, 1).copies
    model.check()
    assert model.pool.stats()[0].used_pages == used + 1  # the drafts' own room
    assert model.begin(text(1, 6) + text(2, 5)).reused == 6


def test_rejected_drafts_cost_no_copy_although_another_chat_found_them_in_the_meantime() -> None:
    model = full(16)
    chat = model.run(text(1, 6))
    assert model.write(chat, text(2, 3))
    model.release(model.begin(text(3, 2)))
    model.trim(chat, 6)
    model.check()
    assert not model.pool.reserve(chat.pages, 1).copies


def test_tokens_that_another_chat_reads_on_are_not_written_on_after_a_trim() -> None:
    model = full(16)
    chat = model.run(text(1, 9))
    model.begin([*text(1, 9), 0])
    model.trim(chat, 6)
    assert model.write(chat, text(2, 6))
    model.check()


def test_a_dropped_chat_is_forgotten_but_what_a_released_one_held_is_not() -> None:
    model = full(16)
    model.say(text(1, 8), answer=[])
    chat = model.run(text(1, 8) + text(2, 8))
    model.drop(chat)
    model.check()
    assert model.pool.stats()[0].idle_pages == 2
    assert model.begin(text(1, 8) + text(2, 8)).reused == 8


@pytest.mark.parametrize("prompt", [[], [7]])
def test_a_prompt_of_one_token_or_none_reuses_nothing(prompt: list[int]) -> None:
    model = sliding(4, 4, window=3)
    model.say([7], answer=[7, 7])
    chat = model.begin(prompt)
    assert chat.pages.length == 0
    model.release(chat)
    model.check()


# -- room


def test_a_full_pool_says_what_is_missing_and_nothing_changes() -> None:
    model = sliding(4, 6, window=5)
    chat = model.run(text(1, 10))
    spans = chat.pages.spans(0)
    reserved = model.pool.reserve(chat.pages, 9)
    assert not reserved
    assert reserved.missing == (1, 0)
    assert chat.pages.spans(0) == spans
    assert model.pool.reserve(chat.pages, 6)


def test_idle_chats_give_way_the_one_longest_not_used_first_and_from_its_end() -> None:
    model = full(9)
    for start in (1, 2, 3):
        model.say(text(start, 12), answer=[])
    assert model.say(text(1, 12), answer=[]) == 11  # used again: no longer the oldest
    chat = model.begin(text(4, 4))
    assert model.write(chat, text(4, 4))
    model.check()
    assert [model.reusable(text(start, 12)) for start in (1, 2, 3)] == [11, 8, 11]


def test_a_running_chat_is_never_evicted() -> None:
    model = full(6)
    chat = model.run(text(1, 12))
    for start in range(2, 9):
        model.say(text(start, 10), answer=[])
    assert model.reusable(text(1, 13)) == 12
    assert not model.write(chat, text(2, 13))
    assert model.write(chat, text(2, 12))
    model.check()


def test_a_full_pool_gives_a_page_up_rather_than_the_tokens_that_are_wanted_of_it() -> None:
    model = full(3)
    model.say(text(1, 12), answer=[])
    chat = model.begin(text(1, 10) + text(2, 2))
    assert len(chat.ids) == 10
    assert model.write(chat, text(2, 2))
    model.check()


def test_waste_is_less_than_a_page_a_chat() -> None:
    model = full(64)
    chats = [model.run(text(start, 5)) for start in range(1, 5)]
    for step in range(20):
        for chat in chats:
            assert model.write(chat, [step])
        model.check()
        assert model.pool.stats()[0].waste_tokens < SIZE * len(chats)


# -- neighbours


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 9)), min_size=1, max_size=8))
def test_a_single_chat_is_always_one_span(turns: list[tuple[int, int]]) -> None:
    model = full(40)
    told: list[int] = []
    for at, (asked, answered) in enumerate(turns):
        told += text(at, asked)
        chat = model.run(told)
        for token in text(at + 100, answered):
            assert model.write(chat, [token])
            assert len(chat.pages.spans(0)) == 1
        told = list(chat.ids)
        model.release(chat)


def test_chats_that_take_turns_stay_one_span_each_while_there_is_room() -> None:
    model = full(64)
    told = {start: text(start, 6) for start in (1, 2, 3)}
    for turn in range(4):
        for start, ids in told.items():
            chat = model.run(ids + text(start + 10 * turn + 10, 5))
            assert len(chat.pages.spans(0)) == 1
            told[start] = list(chat.ids)
            model.release(chat)


def test_a_chat_that_asked_for_more_room_than_it_used_goes_on_in_place() -> None:
    model = full(32)
    chat = model.run(text(1, 6))
    assert model.pool.reserve(chat.pages, 20)
    model.release(chat)
    model.say(text(2, 6), answer=[])
    chat = model.run(text(1, 6) + text(3, 20))
    assert len(chat.pages.spans(0)) == 1


def test_room_for_a_long_prompt_is_made_at_once_although_it_is_read_in_pieces() -> None:
    model = full(24)
    model.say(text(1, 48), answer=[])
    for start in range(2, 5):
        model.say(text(start, 12), answer=[])
    chat = model.run(text(9, 40))
    assert len(chat.pages.spans(0)) == 2  # the three pages that were free, and the room


# -- windows


def test_a_chat_much_longer_than_its_window_needs_the_pages_of_the_window_only() -> None:
    model = sliding(64, 4, window=9)
    chat = model.run(text(1, 9))
    for token in text(2, 200):
        assert model.write(chat, [token])
    model.check()
    assert model.pool.stats()[1].used_pages <= 4


def test_what_fell_out_of_the_window_stays_while_there_is_room() -> None:
    model = sliding(64, 64, window=5)
    told = text(1, 100)
    model.say(told, answer=[])
    for length in (99, 98, 50, 21, 5):
        assert model.say(told[:length] + text(length, 3), answer=[]) == length


def test_the_end_of_every_turn_can_be_resumed_although_all_between_went() -> None:
    model = sliding(200, 16, window=5)
    told: list[int] = []
    ends = []
    for turn in range(3):
        model.say(told + text(turn, 30), answer=text(turn + 10, 30))
        told += text(turn, 30) + text(turn + 10, 30)
        ends.append(len(told))
    for end in ends:
        assert model.reusable([*told[:end], 0]) == end
    assert model.reusable(told[: ends[0] + 20]) < ends[0] + SIZE


def test_a_chat_with_gaps_in_its_windows_is_resumed_where_a_whole_window_is_left() -> None:
    model = sliding(200, 16, window=10)
    told = text(1, 70)
    model.say(told[:33], answer=[])
    model.say(told, answer=[])
    model.say(text(2, 20), answer=[])
    resumed = set()
    for length in range(1, 71):
        chat = model.begin([*told[:length], 0])
        resumed.add(chat.reused)
        model.check()
        model.drop(chat)
    assert {0, 33, 70} < resumed
    assert len(resumed) < 60


@pytest.mark.parametrize("num_chats", [1, 2])
def test_the_window_of_a_chat_is_in_two_spans_at_most_although_another_grows_too(num_chats: int) -> None:
    model = sliding(400, 32, window=33)
    chats = [model.run(text(start, 9)) for start in range(num_chats)]
    for token in text(9, 300):
        for chat in chats:
            assert model.write(chat, [token])
            assert len(chat.pages.spans(1)) <= 2


def test_a_window_that_is_resumed_again_and_again_outlives_newer_ones() -> None:
    model = sliding(400, 16, window=5)
    prompt = text(1, 21)
    model.say(prompt, answer=[])
    for start in range(2, 12):
        assert model.say([*prompt, start], answer=text(start, 30)) == 21


def test_a_prompt_that_was_marked_as_a_turn_is_resumed_at_its_end() -> None:
    model = sliding(200, 12, window=5)
    prompt = text(1, 42)
    chat = model.run(prompt)
    model.pool.turn_ended(chat.pages)
    for token in text(2, 60):
        assert model.write(chat, [token])
    model.release(chat)
    model.check()
    assert model.begin(prompt).reused == 41


def test_of_windows_the_one_longest_not_used_goes_first_and_only_when_nothing_else_is_left() -> None:
    model = sliding(200, 16, window=5)
    for start in (1, 2, 3, 4):
        model.say(text(start, 30), answer=[])
    ends = [model.reusable([*text(start, 30), 0]) for start in (1, 2, 3, 4)]
    assert ends == [30, 30, 30, 30]
    model.say([*text(1, 30), 0], answer=[])
    model.say(text(5, 30), answer=[])
    model.say(text(6, 30), answer=[])
    ends = [model.reusable([*text(start, 30), 0]) for start in (1, 2, 3, 4, 5, 6)]
    assert ends[0] == ends[4] == ends[5] == 30
    assert ends[1] < 30


def test_a_page_of_a_window_stands_for_no_more_tokens_than_were_written_on_it() -> None:
    model = sliding(200, 8, window=5)
    told = text(1, 30)
    for start in (1, 2, 3, 4):
        model.say(text(start, 30), answer=[])
    assert model.say(told[:26], answer=[]) == 0  # its windows are lost, its full pages are not
    assert model.begin([*told, 0]).reused == 26
    model.check()


def test_windows_of_a_chat_that_went_on_give_way_like_others() -> None:
    model = sliding(200, 8, window=5)
    told = text(1, 6)
    model.say(told, answer=[])
    model.say(told + text(2, 20), answer=[])
    for start in range(3, 9):
        model.say(text(start, 20), answer=[])
    assert model.reusable([*told, 0]) == 0


def test_losing_a_window_loses_no_page_of_full_attention() -> None:
    model = sliding(200, 8, window=5)
    for start in range(1, 9):
        model.say(text(start, 30), answer=[])
    assert model.pool.stats()[0].idle_pages == 8 * 8


def test_where_prompts_part_a_third_one_can_resume() -> None:
    model = sliding(200, 12, window=5)
    system = text(1, 22)
    model.say(system + text(2, 60), answer=[])
    assert (
        model.say(system + text(3, 60), answer=[]) == 0
    )  # the window at the system prompt's end is long gone
    assert model.say(system + text(4, 60), answer=[]) == 22


def test_drafts_are_trimmed_although_the_window_went_on() -> None:
    model = sliding(64, 16, window=3)
    chat = model.run(text(1, 20))
    for _ in range(4):
        length = len(chat.ids)
        assert model.write(chat, text(2, 9))
        model.trim(chat, length)
        model.check()
        assert model.write(chat, [1])
        model.check()
    assert not chat.pages.can_trim(4)


def test_a_handle_that_has_ended_is_a_programming_error() -> None:
    pool = PagePool([PageKind(4)], SIZE)
    pages = pool.begin([1, 2]).pages
    pool.release(pages)
    for use in (lambda: pool.reserve(pages, 1), lambda: pool.append(pages, [1]), lambda: pool.release(pages)):
        with pytest.raises(AssertionError):
            use()
