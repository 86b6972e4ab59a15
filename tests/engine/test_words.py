"""Tests for the words a person reads: English by itself, a language where one was taken, plurals, figures."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from engine import words
from engine.words import mark, tr

GERMAN = {
    ("Open", "a link", -1): "Öffnen",
    ("Open", "state", -1): "Offen",
    ("%n chat(s)", "", 1): "%n Chat",
    ("%n chat(s)", "", 1234): "%n Chats",
    ("{name} could not be read.", "", -1): "{name} ist nicht lesbar.",
}


@pytest.fixture(autouse=True)
def _english_again() -> Iterator[None]:
    yield
    words.use(None)


def look_up(text: str, meaning: str, number: int) -> str:
    return GERMAN.get((text, meaning, number), "")


def test_english_is_as_it_stands() -> None:
    assert tr("Undo") == "Undo"
    assert tr("Open", "state") == "Open"
    assert tr("{count} of %n") == "{count} of %n"
    assert tr("") == ""


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 chats"), (1, "1 chat"), (2, "2 chats"), (1234, "1,234 chats")]
)
def test_english_plurals(number: int, text: str) -> None:
    assert tr("%n chat(s)", "", number) == text


def test_brackets_stay_where_there_is_no_number() -> None:
    assert tr("chat(s)") == "chat(s)"


def test_a_marked_text_is_translated_where_it_is_shown() -> None:
    constant = mark("Open")
    assert constant == "Open"
    words.use(look_up)
    assert tr(constant, "state") == "Offen"


def test_words_of_a_language() -> None:
    words.use(look_up)
    assert (tr("Open", "a link"), tr("Open", "state")) == ("Öffnen", "Offen")
    assert tr("{name} could not be read.").format(name="a.gguf") == "a.gguf ist nicht lesbar."
    assert tr("%n chat(s)", "", 1) == "1 Chat"


def test_figures_are_written_as_the_language_does() -> None:
    words.use(look_up, lambda number: f"{number:,}".replace(",", "."))
    assert tr("%n chat(s)", "", 1234) == "1.234 Chats"


def test_what_has_no_translation_stays_english() -> None:
    words.use(look_up)
    assert tr("Undo") == "Undo"
    assert tr("%n file(s)", "", 2) == "2 files"
    assert tr("") == ""


def test_english_comes_back() -> None:
    words.use(look_up)
    words.use(None)
    assert tr("Open", "state") == "Open"
