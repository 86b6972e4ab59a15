"""Sets rows and columns of a formula in characters: stacks of lines side by side, matrices, cases. No Qt."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

MAX_CHARS = 8_000  # of one grid with its padding
_TALL = {
    "(": "⎛⎜⎝",
    ")": "⎞⎟⎠",
    "[": "⎡⎢⎣",
    "]": "⎤⎥⎦",
    "{": "⎧⎨⎩",
    "}": "⎫⎬⎭",
    "|": "│││",
    "‖": "║║║",
}
_GRID_SIGNS = frozenset("".join(_TALL.values()))
FENCES = {
    "matrix": ("", ""),
    "smallmatrix": ("", ""),
    "array": ("", ""),
    "pmatrix": ("(", ")"),
    "bmatrix": ("[", "]"),
    "Bmatrix": ("{", "}"),
    "vmatrix": ("|", "|"),
    "Vmatrix": ("‖", "‖"),
    "cases": ("{", ""),
    "dcases": ("{", ""),
    "rcases": ("", "}"),
}


class TooLargeError(Exception):
    """The padding of a grid would be far larger than what it holds."""


def is_grid(text: str) -> bool:
    """Whether the lines of a formula belong together column by column."""
    return "\n" in text and not _GRID_SIGNS.isdisjoint(text)


def _width(text: str) -> int:
    return sum(1 for letter in text if not unicodedata.combining(letter))


def _padded(text: str, width: int) -> str:
    return text + " " * (width - _width(text))


def beside(parts: Sequence[str]) -> str:
    """Texts side by side; those with fewer lines stand in the middle of the tallest."""
    if not any("\n" in part for part in parts):
        return "".join(parts)
    stacks = [part.split("\n") for part in parts]
    tallest = max(map(len, stacks))
    widths = [max(map(_width, stack)) for stack in stacks]
    if sum(widths) * tallest > MAX_CHARS:
        raise TooLargeError
    lines = [""] * tallest
    for stack, width in zip(stacks, widths, strict=True):
        above = (tallest - len(stack)) // 2
        for place in range(tallest):
            row = stack[place - above] if 0 <= place - above < len(stack) else ""
            lines[place] += _padded(row, width)
    return "\n".join(line.rstrip() for line in lines)


def matrix(rows: Sequence[Sequence[str]], fences: tuple[str, str], *, is_flat: bool) -> str:
    """Rows of cells between ``fences``: on lines of their own, or all in one line."""
    opening, closing = fences
    if is_flat or len(rows) < 2:
        separator = ", " if opening != "{" else " "
        inside = "; ".join(separator.join(row) for row in rows)
        return f"{opening or '['}{inside}{closing or ('' if opening == '{' else ']')}"
    count = max(map(len, rows))
    widths = [max(_width(row[at]) if at < len(row) else 0 for row in rows) for at in range(count)]
    if (sum(widths) + 2 * count) * len(rows) > MAX_CHARS:
        raise TooLargeError
    lines = []
    for place, row in enumerate(rows):
        cells = [_padded(row[at] if at < len(row) else "", widths[at]) for at in range(count)]
        line = f"{_edge(opening, place, len(rows))} {'  '.join(cells)} {_edge(closing, place, len(rows))}"
        lines.append(line if closing else line.rstrip())
    return "\n".join(lines)


def _edge(fence: str, place: int, count: int) -> str:
    """The part of a tall bracket beside row ``place`` of ``count``."""
    if not fence:
        return ""
    parts = _TALL[fence]
    if place in (0, count - 1):
        return parts[0] if place == 0 else parts[2]
    is_centre = place == count // 2
    return parts[1] if is_centre or fence not in "{}" else "⎪"
