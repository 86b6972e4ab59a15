"""Attached texts inside a message: how they are written for the model, and found again. Knows no window.

A message is one text everywhere: in drafts, in the store, in searches, exports and prompts. Each attached
text stands in it as a fenced block under a line with the file's name, before what was typed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

MOST_NAME, MOST_NOTE = 120, 80  # characters
_LEAST_FENCE = 4  # people type three
_HEADER = re.compile(
    rf'^File "(?P<name>[^"\n]{{1,{MOST_NAME}}})"(?: \((?P<note>[^()\n]{{1,{MOST_NOTE}}})\))?:\n'
    rf"(?P<fence>`{{{_LEAST_FENCE},}})(?P<language>[\w+#-]{{0,16}})\n",
    re.MULTILINE,
)
_TICKS = re.compile(r"`+")


@dataclass(frozen=True, slots=True)
class AttachedText:
    """A text that goes with a message. ``note`` says what of the file it is, "" for all of it."""

    name: str
    text: str
    note: str = ""


def attached(name: str, text: str, note: str = "") -> AttachedText:
    """A text under a name that any file may have: what a header cannot hold is replaced."""
    shown = "".join(char if char.isprintable() and char != '"' else "_" for char in name)
    clean_note = "".join(char for char in note if char.isprintable() and char not in "()")
    return AttachedText(_cut_name(shown.strip() or "file"), text, clean_note[:MOST_NOTE])


def compose(files: Sequence[AttachedText], typed: str) -> str:
    """One message of attached texts and what was typed."""
    parts = [_block(each) for each in files]
    return "\n\n".join([*parts, typed] if typed or not parts else parts)


def parse(content: str) -> tuple[tuple[AttachedText, ...], str]:
    """The attached texts of a message, and what was typed: the inverse of ``compose``.

    A block that has no end is typed text. Takes time in proportion to the text, whatever is in it.
    """
    files: list[AttachedText] = []
    typed: list[str] = []
    without_end: set[str] = set()  # fences that do not come again
    start = place = 0
    while (found := _HEADER.search(content, place)) is not None:
        fence = found["fence"]
        end = -1 if fence in without_end else _end_of(content, fence, found.end())
        if end < 0:
            without_end.add(fence)
            place = found.end()
            continue
        text = content[found.end() : end]
        files.append(AttachedText(found["name"], text, found["note"] or ""))
        typed.append(content[start : found.start()])
        start = place = min(len(content), end + len(fence) + 2)
    typed.append(content[start:])
    if not files:
        return (), content
    return tuple(files), "\n\n".join(each for each in (part.strip("\n") for part in typed) if each)


def headline(content: str) -> str:
    """What a message is called by: what was typed, else the names of its files."""
    files, typed = parse(content)
    return typed if typed.strip() or not files else ", ".join(each.name for each in files)


@lru_cache(maxsize=16)  # asked for at every pause of typing, of files that stay as they are
def _block(file: AttachedText) -> str:
    longest = max((len(ticks) for ticks in _TICKS.findall(file.text)), default=0)
    fence = "`" * max(_LEAST_FENCE, longest + 1)
    note = f" ({file.note})" if file.note else ""
    return f'File "{file.name}"{note}:\n{fence}{_language(file.name)}\n{file.text}\n{fence}'


def _end_of(content: str, fence: str, start: int) -> int:
    """Where the line break before the closing fence stands; -1 where there is none."""
    place = start - 1  # an empty text ends at once
    while (place := content.find(f"\n{fence}", place)) >= 0:
        after = place + 1 + len(fence)
        if after == len(content) or content[after] == "\n":
            return max(place, start)
        place += 1
    return -1


def _language(name: str) -> str:
    """The file's ending, which is what blocks of code are called by, where it has one."""
    _, dot, ending = name.rpartition(".")
    return ending.lower() if dot and re.fullmatch(r"[\w+#-]{1,16}", ending) else ""


def _cut_name(name: str) -> str:
    """A long name loses its middle; its ending says what it is."""
    if len(name) <= MOST_NAME:
        return name
    return f"{name[: MOST_NAME - 21]}…{name[-20:]}"
