"""Colours of code: roles, slices of time, and code that stays plain."""

from __future__ import annotations

from ui.highlight import MAX_LINE_CHARS, Highlighter, language_title


def roles(word: str, text: str) -> dict[str, str]:
    found = Highlighter(word, text)
    while not found.advance(len(text), budget_s=10.0):
        pass
    return {text[run.start : run.end]: run.role for run in found.runs(0, len(text))}


def test_python_has_its_roles() -> None:
    found = roles("python", "def mean(x):\n    return 1.5 # note\n")
    assert found["def"] == found["return"] == "keyword"
    assert (found["mean"], found["1.5"], found["# note"]) == ("name", "number", "comment")


def test_an_unknown_language_stays_plain() -> None:
    assert roles("brainfuzz", "def x") == roles("", "def x") == {}


def test_a_very_long_line_stays_plain() -> None:
    assert roles("python", "def " + "x" * MAX_LINE_CHARS) == {}


def test_work_stops_when_its_time_is_over() -> None:
    text = "x = 1\n" * 5_000
    found = Highlighter("python", text)
    assert not found.advance(len(text), budget_s=0.0)
    while not found.advance(len(text)):
        pass
    assert list(found.runs(0, 6))


def test_only_what_is_asked_for_is_read() -> None:
    found = Highlighter("python", "x = 1\n" * 5_000)
    assert found.advance(100, budget_s=10.0)
    assert not found.is_done


def test_runs_are_cut_to_the_piece_and_counted_from_its_start() -> None:
    text = 'a = """one\ntwo"""\n'
    found = Highlighter("python", text)
    assert found.advance(len(text), budget_s=10.0)
    second = [tuple(run) for run in found.runs(11, len(text))]
    assert second[0] == (0, 3, "string")


def test_titles_are_names_people_know() -> None:
    assert [language_title(word) for word in ("py", "C++", "", "mylang")] == [
        "Python",
        "C++",
        "Text",
        "mylang",
    ]
