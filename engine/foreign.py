"""Foreign values (names and settings in files, other libraries' errors) as one short line of a message.

Knows no file and no format. Standard library only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from engine.errors import EngineError
from engine.words import tr


def printable(text: str, most: int = 80) -> str:
    """Foreign text on one line of at most `most` characters, without control characters."""
    seen = text[: 4 * most]  # a hostile text may be huge
    line = " ".join("".join(c if c.isprintable() else " " for c in seen).split())
    return line if len(line) <= most else line[: most - 1] + "…"


def one_line(text: str) -> str:
    """Text with a space for each character that ends a line or commands a terminal; its length stays."""
    return text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)


@contextlib.contextmanager
def plain_errors() -> Iterator[None]:
    """Messages of EngineErrors out of the block are one line of printable characters, paths in them too.

    It stands at the doors through which a path comes in; names from inside a file are short as well
    (`printable`, `shown`) where a message is made.
    """
    try:
        yield
    except EngineError as error:
        error.message, error.hint = one_line(error.message), one_line(error.hint)
        error.args = (error.message,)
        raise


def shown(value: object, most: int = 80) -> str:
    """A foreign value as Python writes it, on one line; a container or a huge number by its kind alone."""
    if isinstance(value, int) and value.bit_length() > 200:
        return tr("an enormous number")
    if isinstance(value, list | dict):
        return tr("a list") if isinstance(value, list) else tr("a dict")
    if isinstance(value, str) and len(value) > most - 2:
        value = value[: most - 3] + "…"
    text = repr(value)
    return text if len(text) <= most else text[: most - 1] + "…"
