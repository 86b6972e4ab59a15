"""StopMatcher: nothing of a stop string is shown, everything else is shown at once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.text.stops import StopMatcher


def run(stops: list[str], tokens: list[str]) -> tuple[str, bool]:
    matcher = StopMatcher(stops)
    text = "".join(matcher.push(token) for token in tokens)
    return text + matcher.flush(), matcher.hit


@pytest.mark.parametrize(
    ("stops", "tokens", "text", "hit"),
    [
        (["red car"], ["A", " bo", "red", " car", " runs"], "A bo", True),
        (["two three"], ["one", " two", " four"], "one two four", False),
        (["aab"], ["a", "a", "a", "b", "c"], "a", True),
        (["XY", "XYZ"], ["1", "X", "Y", "Z"], "1", True),
        (["XY", "XYZ"], ["1XYZ"], "1", True),
        (["END"], ["ENDING"], "", True),
        (["abcd", "bc"], ["abcd"], "a", True),
        (["abcd", "bc"], ["a", "b", "c", "d"], "a", True),
        (["", "x"], ["a"], "a", False),
        ([], ["a", "b"], "ab", False),
    ],
)
def test_text_ends_where_the_first_complete_stop_begins(
    stops: list[str], tokens: list[str], text: str, hit: bool
) -> None:  # B006
    assert run(stops, tokens) == (text, hit)


def test_text_is_released_as_soon_as_it_cannot_begin_a_stop() -> None:  # B007
    matcher = StopMatcher(["#" * 40])
    text = "<think>a</think>b"
    assert [matcher.push(letter) for letter in text] == list(text)
    assert [matcher.push("#"), matcher.push("#"), matcher.push("x")] == ["", "", "##x"]


def test_flush_gives_back_what_was_held() -> None:
    matcher = StopMatcher(["END"])
    assert matcher.push("the EN") == "the "
    assert matcher.flush() == "EN"
    assert not matcher.hit


def test_nothing_comes_after_a_hit() -> None:
    matcher = StopMatcher(["b"])
    assert [matcher.push("ab"), matcher.push("c"), matcher.flush()] == ["a", "", ""]
    assert matcher.hit


def plain_search(stops: list[str], text: str) -> tuple[str, bool]:
    """The rule in its plainest form: at the first place where a stop ends, cut before the longest one."""
    for end in range(1, len(text) + 1):
        ending = [stop for stop in stops if stop and text[:end].endswith(stop)]
        if ending:
            return text[: end - max(map(len, ending))], True
    return text, False


@given(
    st.lists(st.text("ab", max_size=5), max_size=3),
    st.lists(st.text("abc", max_size=4), max_size=12),
)
def test_how_the_text_is_cut_makes_no_difference(stops: list[str], tokens: list[str]) -> None:
    assert run(stops, tokens) == plain_search(stops, "".join(tokens))


@given(st.lists(st.text("ab", min_size=1, max_size=5), min_size=1, max_size=3), st.text("ab", max_size=20))
def test_only_what_could_begin_a_stop_is_held(stops: list[str], text: str) -> None:
    matcher = StopMatcher(stops)
    shown = ""
    for letter in text:
        shown += matcher.push(letter)
    if not matcher.hit:
        held = text[len(shown) :]
        assert held == "" or any(stop.startswith(held) for stop in stops)
