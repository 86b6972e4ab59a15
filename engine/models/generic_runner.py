"""Runs a model of transformers behind the engine's protocol: segments in, float32 logits out.

Importing this imports transformers. Knows a model and caches; not how it was loaded.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from engine.capabilities import Capabilities
from engine.kv.store import SlotStore
from engine.models import generic_spec
from engine.models.decoder import Segment
from engine.models.generic_cache import GenericCache
from engine.models.generic_disk import DiskLayers
from engine.models.generic_errors import ours
from engine.types import ModelSpec


class GenericRunner:
    """A language model of transformers. Segments are computed one after another, each by one pass of the
    model: their caches differ in length, and the library's masks are for lines of equal length.

    ``disk`` has the layers that are not in memory, if any are not.
    """

    def __init__(self, model: Any, spec: ModelSpec, disk: DiskLayers | None = None) -> None:
        assert spec.generic is not None
        self._model = model
        self._spec = spec
        self._disk = disk
        self._is_stepwise = spec.generic.is_stepwise
        self._device = model.device
        asked = inspect.signature(model.forward).parameters
        self._has_positions = "position_ids" in asked
        self._has_use_cache = "use_cache" in asked
        self._can_keep = "logits_to_keep" in asked

    @property
    def kernels(self) -> str:
        """Names of what computes, for the screen."""
        return f"transformers {self._model.config._attn_implementation}"

    @property
    def capabilities(self) -> Capabilities:
        """What it can do, as its caches show it."""
        return generic_spec.capabilities(self.new_cache(1).can_trim)

    @property
    def disk_gbps(self) -> float | None:
        """At which layers come from the disk, see `DiskLayers.gbps`; None where all are in memory."""
        return self._disk.gbps if self._disk else None

    def new_cache(self, capacity: int) -> GenericCache:
        """An empty cache; its memory is taken with the first token."""
        return GenericCache(self._model.config, capacity)

    def new_store(self, context: int, piece: int, sequences: int) -> SlotStore:
        """A cache for each of so many sequences."""
        caches = [self.new_cache(context) for _ in range(sequences)]
        return SlotStore(caches, self.capabilities.can_trim)

    def forward(self, segments: list[Segment]) -> Tensor:
        """Append the segments to their caches; return float32 logits [rows wanted, vocab], in order.

        Raises UnsupportedModelError where the library fails, ModelFileError where a layer's file does.
        """
        rows = ours(self._spec, lambda: [self._segment(segment) for segment in segments])
        return rows[0] if len(rows) == 1 else torch.cat(rows)

    def bytes_by_part(self) -> tuple[int, int]:
        """Bytes held as weights (those on the disk are not), and as what stays beside them: tables, and the
        memory of a layer from the disk.
        """
        stored = self._model.state_dict(keep_vars=True).values()  # a tied head is in it twice
        held = {id(x): x.nbytes for x in stored if x.device.type != "meta"}
        tables = [x.nbytes for x in self._model.buffers() if id(x) not in held and x.device.type != "meta"]
        return sum(held.values()), sum(tables) + (self._disk.held_bytes if self._disk else 0)

    def _segment(self, segment: Segment) -> Tensor:
        """Logits of a segment's rows, of the last one, or of none: transformers makes one at least."""
        cache = segment.cache
        assert isinstance(cache, GenericCache)
        wants_all, pieces = segment.wants_all_logits, self._pieces(cache, segment.ids)
        logits = [self._pass(cache, ids, wants_all) for ids in pieces]
        return torch.cat(logits) if wants_all else logits[-1][: segment.num_logits]

    def _pieces(self, cache: GenericCache, ids: list[int]) -> Iterator[list[int]]:
        if cache.length and self._is_stepwise:
            yield from ([token] for token in ids)
        else:
            yield ids

    def _pass(self, cache: GenericCache, ids: list[int], wants_all: bool) -> Tensor:
        start, end = cache.length, cache.length + len(ids)
        options: dict[str, Any] = {"cache": cache.held}
        if self._has_positions:  # some count from 0 at every pass unless they are told
            options["position_ids"] = torch.arange(start, end, device=self._device).unsqueeze(0)
        if self._has_use_cache:
            options["use_cache"] = True
        if self._can_keep and not wants_all:
            options["logits_to_keep"] = 1
        inputs = torch.tensor([ids], device=self._device)
        logits: Tensor = self._model(input_ids=inputs, **options).logits[0]
        cache.advance(ids)
        return (logits if wants_all else logits[-1:]).float()
