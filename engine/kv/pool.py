"""The planes that hold the keys and values of all chats, and one sequence's view of its pages in them.

Knows tensors and token ids; which pages are whose is the bookkeeping of engine.kv.page_pool.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from engine.fit.kv_bits import BLOCK_TOKENS, RING_TOKENS, KVBits, key_bytes, value_bytes
from engine.fit.kv_pages import PAGE_TOKENS, LayerKind
from engine.kv.block_table import Span
from engine.kv.page_pool import PagePool
from engine.kv.pages import CopyTokens, PageKind
from engine.kv.quantized import rotate
from engine.kv.sequence_pages import SequencePages

DENSE_BITS = 16  # numbers of fewer bits have scales, and are bytes to torch


class Plane(NamedTuple):
    """Keys and values of the layers of one kind, [layers, kv_heads, tokens, dim] each; of 8 and 4 bits uint8
    with the bytes of a token in place of dim, see engine/kv/quantized.py.
    """

    keys: Tensor
    values: Tensor


class Packer(Protocol):
    """Rounds keys and values to the 8 or 4 bits of their planes, and reads them. What it reads is rotated."""

    def store(self, cache: PagedCache, layer: int, keys: Tensor, values: Tensor) -> None:
        """[rows, kv_heads, dim] behind what ``cache`` holds, where room was reserved, and into its rings."""
        ...

    def load(self, cache: PagedCache, layer: int, first: int, end: int) -> tuple[Tensor, Tensor]:
        """What is at the positions first … end − 1 of ``cache``: [kv_heads, end − first, dim]."""
        ...


class KVPool:
    """Planes for some kinds of layers in the processor's memory, reserved at once; they take memory as they
    fill. With keys or values of 4 bits, rings for so many ``sequences`` at once.

    ``keeps_windows`` false: a sequence keeps every token of every layer, so that it can be trimmed to any
    length. ``packer`` is there where numbers have fewer than 16 bits.
    """

    def __init__(
        self,
        kinds: Sequence[LayerKind],
        kv_heads: int,
        dim: int,
        dtype: torch.dtype,
        kv: KVBits,
        sequences: int,
        packer: Packer | None = None,
        keeps_windows: bool = True,
    ) -> None:
        self.pages = PagePool(
            [PageKind(kind.num_pages, kind.window if keeps_windows else None) for kind in kinds], PAGE_TOKENS
        )
        self.packer = packer
        self.planes: list[Plane] = []
        for kind in kinds:
            places = (len(kind.layers), kv_heads, kind.num_pages * PAGE_TOKENS)
            if kv.values >= DENSE_BITS:
                keys, values = (torch.empty(*places, dim, dtype=dtype) for _ in Plane._fields)
            else:
                keys = torch.empty(*places, key_bytes(kv.keys, dim), dtype=torch.uint8)
                values = torch.empty(*places, value_bytes(kv.values, dim), dtype=torch.uint8)
            self.planes.append(Plane(keys, values))
        self.places = {
            layer: (kind, index) for kind, each in enumerate(kinds) for index, layer in enumerate(each.layers)
        }
        shapes = [(len(kind.layers), kv_heads, RING_TOKENS, dim) for kind in kinds] if kv.has_rings else []
        self._rings = [[_ring(shape) for shape in shapes] for _ in range(sequences if shapes else 0)]
        self._ring_bytes = sum(x.nbytes for rings in self._rings for ring in rings for x in ring)

    @property
    def nbytes(self) -> int:
        """Bytes reserved."""
        return self._ring_bytes + sum(plane.keys.nbytes + plane.values.nbytes for plane in self.planes)

    def bytes_of(self, tokens: Sequence[int]) -> int:
        """Bytes of so many tokens of each kind."""
        return sum(
            (plane.keys.nbytes + plane.values.nbytes) // plane.keys.shape[2] * count
            for plane, count in zip(self.planes, tokens, strict=True)
        )

    def begin(self, prompt: Sequence[int], capacity: int) -> PagedCache:
        """A sequence of at most ``capacity`` tokens that holds what there is of ``prompt`` already."""
        pages, _, copies = self.pages.begin(prompt)
        self.copy(copies)
        return PagedCache(self, pages, capacity, self._rings.pop() if self._rings else [])

    def release(self, cache: PagedCache) -> None:
        """End a sequence; what it held stays idle until its pages are needed."""
        self.pages.release(cache.pages)
        self._take_back(cache)

    def drop(self, cache: PagedCache) -> None:
        """End a sequence and forget what no released one held."""
        self.pages.drop(cache.pages)
        self._take_back(cache)

    def _take_back(self, cache: PagedCache) -> None:
        if cache.rings:
            self._rings.append(cache.rings)

    def copy(self, orders: Sequence[CopyTokens]) -> None:
        """Carry out what the bookkeeping ordered, in whole blocks: pages are."""
        for kind, source, target, count in orders:
            whole = -(-count // BLOCK_TOKENS) * BLOCK_TOKENS
            for tensor in self.planes[kind]:
                tensor[:, :, target : target + whole] = tensor[:, :, source : source + whole]


class PagedCache:
    """One running sequence of a pool. See engine.kv.cache.KVCache.

    ``rings`` are the last tokens of every kind of layers at 16 bits, bfloat16 [layers, kv_heads, RING_TOKENS,
    dim], position p at p modulo RING_TOKENS; none where all tokens have as many bits. They hold what was
    appended to this very cache.
    """

    def __init__(self, pool: KVPool, pages: SequencePages, capacity: int, rings: list[Plane]) -> None:
        self.pool = pool
        self.pages = pages
        self.rings = rings
        self._capacity = capacity
        self._reserved = 0  # length up to which there is room; 0: not known
        self._ring_first = pages.length

    @property
    def length(self) -> int:
        return self.pages.length

    @property
    def capacity(self) -> int:
        return self._capacity

    @property
    def nbytes(self) -> int:
        """Of the pool."""
        return self.pool.nbytes

    @property
    def used_nbytes(self) -> int:
        """Of its tokens."""
        length = self.length
        return self.pool.bytes_of([length - table.first * PAGE_TOKENS for table in self.pages.tables])

    @property
    def is_rotated(self) -> bool:
        return self.pool.packer is not None

    @property
    def ring_first(self) -> int:
        """The first position that the rings hold; the length, where they are empty."""
        return self._ring_first

    def reserve(self, rows: int) -> bool:
        """Asking again for room that there is leaves the pages as they are: between two of the passes that
        were reserved together, windows are not left, and all of them can be trimmed.
        """
        wanted = self.length + rows
        if wanted > self._capacity:
            return False
        if wanted > self._reserved:
            reserved = self.pool.pages.reserve(self.pages, rows)
            self.pool.copy(reserved.copies)
            self._reserved = wanted if reserved else 0
            return bool(reserved)
        return True

    def append(self, layer: int, keys: Tensor, values: Tensor, first: int) -> tuple[Tensor, Tensor]:
        start, end = self.length, self.length + keys.shape[0]
        if self.pool.packer is not None:
            return self._append_packed(self.pool.packer, layer, keys, values, first)
        kind, index = self.pool.places[layer]
        planes, done = [tensor[index] for tensor in self.pool.planes[kind]], 0
        for place, count in self.pages.spans(kind, start, end):
            for tensor, rows in zip(planes, (keys, values), strict=True):
                tensor[:, place : place + count].copy_(rows[done : done + count].transpose(0, 1))
            done += count
        spans = self.pages.spans(kind, first, end)
        return _read(planes[0], spans), _read(planes[1], spans)

    def _append_packed(
        self, packer: Packer, layer: int, keys: Tensor, values: Tensor, first: int
    ) -> tuple[Tensor, Tensor]:
        """New rows are read as rounded as a later step will read them, so that it makes no difference where a
        prompt was cut; with rings they are exact, and what the rings hold has to be read before it goes.
        """
        if not self.rings:
            packer.store(self, layer, keys, values)
            return packer.load(self, layer, first, self.length + keys.shape[0])
        held = packer.load(self, layer, first, self.length)
        packer.store(self, layer, keys, values)
        new = [rotate(rows).transpose(0, 1).to(held[0].dtype) for rows in (keys, values)]
        return torch.cat((held[0], new[0]), dim=1), torch.cat((held[1], new[1]), dim=1)

    def spans(self, kind: int, rows: int) -> list[tuple[int, int]]:
        """Where the tokens are that ``rows`` new ones see in a kind of layers, themselves included: positions
        and tokens of the plane, from the beginning of a page on. A span ends where the next one begins.
        """
        pages, length = self.pages, self.length
        position = pages.first_page(kind, length) * PAGE_TOKENS
        spans = []
        for token, count in pages.spans(kind, position, length + rows):
            spans.append((position, token))
            position += count
        return spans

    def advance(self, ids: Sequence[int]) -> None:
        self._ring_first = max(self._ring_first, self.length + len(ids) - RING_TOKENS)
        self.pool.pages.append(self.pages, ids)

    def trim(self, length: int) -> None:
        self.pool.pages.trim(self.pages, length)
        self._reserved = 0
        self._ring_first = min(self._ring_first, length)


def _ring(shape: tuple[int, ...]) -> Plane:
    """Zeros, since attention weighs places that nothing was written to with 0, and a NaN would stay one."""
    return Plane(torch.zeros(shape, dtype=torch.bfloat16), torch.zeros(shape, dtype=torch.bfloat16))


def _read(plane: Tensor, spans: Sequence[Span]) -> Tensor:
    """The tokens of spans, [kv_heads, tokens, dim]: in place where they are neighbours, else copied."""
    parts = [plane[:, start : start + count] for start, count in spans]
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=1)
