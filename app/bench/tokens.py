"""The text of every measurement: pseudo-random token ids that depend on the position alone.

So both sides of a comparison read the same tokens, and what a cache holds is always a prefix of the stream.
"""

from __future__ import annotations

_MULTIPLIER = 2_654_435_761  # Knuth's: the golden ratio of 2³²


def token_ids(start: int, count: int, vocab_size: int) -> list[int]:
    """The ids at the positions from ``start`` on, each below ``vocab_size``."""
    return [
        ((place + 1) * _MULTIPLIER % (1 << 32)) * vocab_size >> 32 for place in range(start, start + count)
    ]
