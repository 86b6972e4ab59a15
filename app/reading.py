"""How fast people read an answer, in its own tokens. Pure."""

from __future__ import annotations

from engine.fit.preference import READING_TPS, reading_tps

_FEWEST_WORDS = 20
_MOST_TOKENS = 3.0  # a word: more is code, or a script without spaces, where words tell nothing


def reading_of(text: str, tokens: int) -> tuple[float, float]:
    """Tokens a second that a slow and a quick reader take in of ``text``, which is ``tokens`` long.

    Where the text is short, or not made of words, the figure for English prose in a common vocabulary.
    """
    words = len(text.split())
    if words < _FEWEST_WORDS or not 1.0 <= tokens / words <= _MOST_TOKENS:
        return READING_TPS
    return reading_tps(tokens / words)
