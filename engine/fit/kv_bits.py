"""How many bytes keys and values of 32, 16, 8 or 4 bits take, for plan and allocator: the arithmetic of
engine/native/cache.h. Standard library only. A test holds both to the same byte.

A cache of 8 or 4 bits holds 16 tokens of a head as one block, so tokens are reserved, copied and addressed in
multiples of 16: a block begins at ``token · bytes`` of its head. Columns are padded to a multiple of 32. Each
token has scales of 16 bits: keys one for 32 columns in 8 bits and for 16 in 4, values one for the head.
"""

from __future__ import annotations

from dataclasses import dataclass

RECENT_TOKENS = 128  # of a running sequence that are read at 16 bits; kRecent of cache.h
RING_TOKENS = RECENT_TOKENS + 32  # and a step's rows, and what is lost where blocks of 16 begin and end
BLOCK_TOKENS = 16
HEAD_MULTIPLE = 16  # of a head's numbers, where they are in 8 or 4 bits
_GROUP = 32  # columns that lie together
_SCALE_BYTES = 2
_RING_ELEMENT_BYTES = 2


@dataclass(frozen=True, slots=True)
class KVBits:
    """Bits of a number of keys and of values, each 32, 16, 8 or 4."""

    keys: int
    values: int

    @property
    def has_rings(self) -> bool:
        """Whether the last tokens of each running sequence are kept at 16 bits too."""
        return 4 in (self.keys, self.values)


KV16 = KVBits(16, 16)


def key_columns(bits: int) -> int:
    """Columns of keys that share a scale, of 8 or 4 bits."""
    return 4 * bits


def key_bytes(bits: int, dim: int) -> int:
    """Bytes of one head's key of one token."""
    padded = -(-dim // _GROUP) * _GROUP
    return dim * bits // 8 if bits >= 16 else padded * bits // 8 + padded // key_columns(bits) * _SCALE_BYTES


def value_bytes(bits: int, dim: int) -> int:
    """Bytes of one head's value of one token."""
    return dim * bits // 8 if bits >= 16 else -(-dim // _GROUP) * _GROUP * bits // 8 + _SCALE_BYTES


def token_bytes(kv: KVBits, dim: int) -> int:
    """Bytes of one head's key and value of one token."""
    return key_bytes(kv.keys, dim) + value_bytes(kv.values, dim)


def ring_bytes(kv: KVBits, kv_heads: int, dim: int) -> int:
    """Bytes of the rings of one layer of one sequence."""
    return 2 * RING_TOKENS * kv_heads * dim * _RING_ELEMENT_BYTES if kv.has_rings else 0
