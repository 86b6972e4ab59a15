"""How the KV pool of a model is cut into pages: the arithmetic that plan and allocator share.

Standard library only. Layers with the same window are of one kind; each kind has a plane of pages of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.fit.kv_bits import KVBits, ring_bytes
from engine.fit.kv_bits import token_bytes as head_token_bytes
from engine.types import LoadPlan, ModelSpec

PAGE_TOKENS = 32
MAX_SEQUENCES = 4  # answers at once; more wait for one of these to end


@dataclass(frozen=True, slots=True)
class LayerKind:
    """Layers that see the same number of tokens. ``window``: None sees all that the context holds."""

    window: int | None
    layers: tuple[int, ...]
    num_pages: int


def pool_kinds(spec: ModelSpec, context: int, piece: int, sequences: int) -> tuple[LayerKind, ...]:
    """The planes of a pool that holds ``context`` tokens of all chats together.

    A layer with a window needs the pages that the next piece of ``piece`` rows sees, for each of so many
    ``sequences`` at once, and as many for ends of turns to resume at; never more than a layer without one.
    """
    return tuple(
        kind
        if kind.window is None
        else replace(kind, num_pages=min(kind.num_pages, sequences * _window_pages(kind.window, piece)))
        for kind in whole_kinds(spec, context)
    )


def whole_kinds(spec: ModelSpec, context: int) -> tuple[LayerKind, ...]:
    """The same planes with every token of ``context`` in every layer."""
    layers: dict[int | None, list[int]] = {}
    for index, options in enumerate(spec.layers):
        layers.setdefault(options.sliding_window, []).append(index)
    pages = _pages(context)
    return tuple(LayerKind(window, tuple(each), pages) for window, each in layers.items())


def planned_bits(made: LoadPlan) -> KVBits:
    """Of keys and of values."""
    return KVBits(made.key_bits or made.kv_bits, made.kv_bits)


def token_bytes(spec: ModelSpec, kv: KVBits) -> int:
    """Bytes of a token's keys and values in one layer, scales included."""
    return spec.num_kv_heads * head_token_bytes(kv, spec.head_dim)


def kinds_bytes(spec: ModelSpec, kinds: tuple[LayerKind, ...], kv: KVBits, sequences: int) -> int:
    """Bytes of all planes, and of the rings that so many ``sequences`` have in every layer where keys or
    values are in 4 bits.
    """
    rings = sequences * spec.num_layers * ring_bytes(kv, spec.num_kv_heads, spec.head_dim)
    tokens = PAGE_TOKENS * sum(len(kind.layers) * kind.num_pages for kind in kinds)
    return token_bytes(spec, kv) * tokens + rings


def _window_pages(window: int, piece: int) -> int:
    """Pages of one sequence in a plane with a window: those it runs on, and those of an end of a turn."""
    return _pages(window - 1 + piece) + 1 + _pages(window) + 1


def _pages(tokens: int) -> int:
    return -(-tokens // PAGE_TOKENS)
