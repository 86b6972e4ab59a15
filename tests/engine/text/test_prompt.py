"""Control spellings are found from the left, and typed ones survive a template as literal parts."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from engine.text.prompt import Disguise, Part, Rendered, Spellings

CONTROL = ("<|end|>", "<|end|>x", "<s>")


def test_the_longest_spelling_at_a_place_wins_and_finds_do_not_overlap() -> None:
    text = "a<|end|>x<s><|end|>"
    assert [text[a:b] for a, b in Spellings(CONTROL).find(text)] == ["<|end|>x", "<s>", "<|end|>"]


def test_a_spelling_that_is_not_accepted_leaves_room_for_a_shorter_one() -> None:
    found = Spellings(CONTROL).find("<|end|>x", lambda start, end: end - start < 8)
    assert list(found) == [(0, 7)]


def test_many_thousand_spellings_are_no_slower_to_search_than_few() -> None:
    spellings = Spellings(f"<|reserved_{number}|>" for number in range(50_000))
    assert len(list(spellings.find("<|reserved_7|> and < " * 1000))) == 1000


def test_an_open_end_is_the_longest_beginning_of_a_spelling() -> None:
    spellings = Spellings(CONTROL)
    assert spellings.open_end("text <|en") == 4
    assert spellings.open_end("text <|end|>") == 7  # of "<|end|>x"
    assert spellings.open_end("text") == 0


def test_hidden_text_keeps_its_length_and_comes_back_literal() -> None:
    text = "say <|end|> now"
    disguise = Disguise(Spellings(CONTROL), [text])
    hidden = disguise.hide(text)
    assert len(hidden) == len(text)
    assert "<|end|>" not in hidden
    assert disguise.reveal("<s>" + hidden) == (Part("<s>say "), Part("<|end|>", literal=True), Part(" now"))


def test_a_cut_stand_in_still_comes_back_as_its_letters() -> None:
    disguise = Disguise(Spellings(CONTROL), ["<|end|>"])
    assert disguise.reveal(disguise.hide("<|end|>")[2:5]) == (Part("end", literal=True),)


def test_two_messages_cannot_complete_a_control_token_between_them() -> None:
    disguise = Disguise(Spellings(CONTROL), ["<|en", "d|>"])
    parts = disguise.reveal(disguise.hide("<|en \n").rstrip() + disguise.hide("d|>"))
    assert parts == (Part("<|en", literal=True), Part("d|>"))


def test_private_use_characters_of_a_message_are_left_alone() -> None:
    text = "".join(map(chr, range(0xE000, 0xE100))) + "<s>"
    disguise = Disguise(Spellings(CONTROL), [text])
    assert Rendered(disguise.reveal(disguise.hide(text))).text == text


@given(st.text(alphabet="<|end>xs \ue000", max_size=40))
def test_hide_and_reveal_give_the_same_text_without_open_spellings(text: str) -> None:
    spellings = Spellings(CONTROL)
    disguise = Disguise(spellings, [text])
    parts = disguise.reveal(disguise.hide(text))
    assert "".join(part.text for part in parts) == text
    assert not any(list(spellings.find(part.text)) for part in parts if not part.literal)


def test_spellings_that_begin_with_each_other_are_no_slower_to_find() -> None:
    spellings = Spellings("e" * count + "\x01" for count in range(1, 3000))
    start = time.thread_time()
    assert list(spellings.find("e" * 8000)) == []
    assert time.thread_time() - start < 2  # many seconds where each length is tried at each place


@given(
    st.sets(st.text(alphabet="ab\U00010000", min_size=1, max_size=5), max_size=12),
    st.text(alphabet="abc\U00010000\U00010001", max_size=30),
)
def test_every_spelling_is_found_that_a_plain_search_finds(texts: set[str], text: str) -> None:
    spellings = Spellings(texts)
    want, at = [], 0
    while at < len(text):
        here = max((len(each) for each in texts if text.startswith(each, at)), default=0)
        want += [(at, at + here)] if here else []
        at += here or 1
    assert list(spellings.find(text)) == want
    assert spellings.within(text) == {each for each in texts if each in text}


def test_only_a_part_of_the_spellings_may_begin_at_a_place() -> None:
    every, few = Spellings(["ab", "abc"]), Spellings(["ab"])
    found = every.find("abcabc", among=lambda start: few if start else every)
    assert list(found) == [(0, 3), (3, 5)]
