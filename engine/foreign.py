"""Foreign values (names and settings in files, other libraries' errors) as one short line of a message.

Knows no file and no format. Standard library only.
"""

from __future__ import annotations


def printable(text: str, most: int = 80) -> str:
    """Foreign text on one line of at most `most` characters, without control characters."""
    seen = text[: 4 * most]  # a hostile text may be huge
    line = " ".join("".join(c if c.isprintable() else " " for c in seen).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def shown(value: object, most: int = 80) -> str:
    """A foreign value as Python writes it, on one line; a container or a huge number by its kind alone."""
    if isinstance(value, int) and value.bit_length() > 200:
        return "an enormous number"
    if isinstance(value, list | dict):
        return f"a {type(value).__name__}"
    if isinstance(value, str) and len(value) > most - 2:
        value = value[: most - 3] + "…"
    text = repr(value)
    return text if len(text) <= most else text[: most - 1] + "…"
