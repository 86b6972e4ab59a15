"""Reads what a decoder has beside its matrices: norms, biases, factors of a rotation.

Knows a family's order and offsets; not where a layer keeps them. Used on the engine thread.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from engine.models.checkpoint import Checkpoint
from engine.models.families import GROUPS, family, tensor_names
from engine.models.rotary import interleaved
from engine.types import ModelSpec


class VectorReader:
    """Vectors by the decoder's words, float32 and in its order of rows, each on the device that the plan has
    for its word.
    """

    def __init__(
        self, spec: ModelSpec, checkpoint: Checkpoint, device_of: Callable[[str], torch.device]
    ) -> None:
        self._spec = spec
        self._device_of = device_of
        self._checkpoint = checkpoint
        self._names = tensor_names(spec)
        self._family = family(spec)

    def read(self, word: str) -> Tensor:
        """The tensor of a word the model has. Raises ModelFileError as the checkpoint does."""
        values, kind = self._checkpoint.dequantize(self._names[word]), word.rpartition(".")[2]
        if kind.endswith("norm"):
            values += self._family.norm_offset
        if kind in ("q_norm", "k_norm", "q_bias", "k_bias") and not self._family.permuted_qk:
            values = interleaved(values, self._spec.head_dim, self._spec.rotary_dim)
        return values.to(self._device_of(word))

    def find(self, word: str) -> Tensor | None:
        """As `read`; None where the model has no such tensor."""
        return self.read(word) if word in self._names else None

    def bias(self, prefix: str, group: str) -> Tensor | None:
        """The biases of a group of products, one behind the other, where the model has them."""
        if group not in self._spec.options.biases:
            return None
        return torch.cat([self.read(f"{prefix}{word}_bias") for word in GROUPS[group]])

    def rope_factors(self, context: int) -> Tensor | None:
        """What divides the frequencies in a context of this length, where the file has it as a tensor."""
        rope = self._spec.rope
        if rope.scaling != "longrope" or rope.short_factors:
            return self.find("rope_factors")
        return self.find("rope_long" if context > rope.original_context else "rope_short")
