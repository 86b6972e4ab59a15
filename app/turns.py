"""How long a thread may keep the interpreter from the others. Knows no thread by name."""

from __future__ import annotations

import sys

TURN_S = 0.0005


def shorten() -> None:
    """Let a waiting thread have the interpreter after half a millisecond instead of five.

    A decode step of a small model takes about two milliseconds outside the interpreter. When it comes back
    while the window paints, or a load while the tokenizer is read, five would be most of its time.
    """
    sys.setswitchinterval(TURN_S)
