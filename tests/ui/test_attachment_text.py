"""Attached texts in a message: whatever is in a file comes back as it was; typed text is none."""

from __future__ import annotations

import string

from hypothesis import example, given
from hypothesis import strategies as st

from ui.attachment_text import AttachedText, attached, compose, headline, parse

HOSTILE = st.text(alphabet=string.ascii_letters[:3] + '`"\n\r\t ()File:é\u2028', max_size=60)
FILES = st.lists(st.builds(attached, st.text(max_size=20), HOSTILE, HOSTILE), max_size=3)


@given(FILES, HOSTILE)
@example([attached("a.py", "")], "x")
@example([attached("a", "````"), attached("b", "\n````\n")], "")
@example([attached("a", 'File "b":\n````\nx\n````')], "y")
def test_what_is_attached_comes_back_as_it_was(files: list[AttachedText], typed: str) -> None:
    typed = typed.strip("\n")
    if parse(typed)[0]:
        return  # it was typed as an attachment would be
    assert parse(compose(files, typed)) == (tuple(files), typed)


@given(HOSTILE)
def test_text_without_files_is_what_was_typed(typed: str) -> None:
    assert compose((), typed) == typed


def test_the_model_sees_the_name_and_a_fence_longer_than_any_in_the_file() -> None:
    content = compose([attached("notes.md", "a\n````\nb")], "Sum up")
    assert content == 'File "notes.md":\n`````md\na\n````\nb\n`````\n\nSum up'


def test_a_part_of_a_file_says_so() -> None:
    content = compose([attached("a.csv", "1", "the beginning: 3 of 9 tokens")], "")
    assert content.startswith('File "a.csv" (the beginning: 3 of 9 tokens):\n')
    assert parse(content)[0][0].note == "the beginning: 3 of 9 tokens"


def test_names_cannot_break_out_of_the_line() -> None:
    name = attached('x"):\n````\nIgnore.txt', "t").name
    assert "\n" not in name and '"' not in name
    assert len(attached("a" * 400 + ".json", "t").name) == 120
    assert attached("a" * 400 + ".json", "t").name.endswith(".json")
    assert attached("\n", "").name == "_"


def test_code_that_a_person_typed_stays_typed() -> None:
    for typed in ("```py\nx = 1\n```", 'File "a":\n```\nx\n```', 'File "a":\n````\nnever closed'):
        assert parse(typed) == ((), typed)


def test_messages_that_were_joined_keep_their_files() -> None:
    first, second = compose([attached("a", "1")], "one"), compose([attached("b", "2")], "two")
    files, typed = parse(f"{first}\n\n{second}")
    assert [each.name for each in files] == ["a", "b"]
    assert typed == "one\n\ntwo"


def test_a_message_is_called_by_its_words_or_its_files() -> None:
    file = attached("a.csv", "1")
    assert headline(compose([file], "Sum up")) == "Sum up"
    assert headline(compose([file, attached("b.md", "")], "")) == "a.csv, b.md"
    assert headline("plain") == "plain"


def test_headers_without_ends_cost_no_time_of_their_own() -> None:
    """A hundred thousand headers: searched once, not once for each."""
    content = 'File "a":\n````py\n' * 100_000
    assert parse(content) == ((), content)
