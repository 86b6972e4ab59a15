"""Rotary position embedding: frequencies in every scaling, tables of rotations, the turn itself.

Knows rope options and positions; no weights, no caches.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from engine.models.placement import CPU
from engine.types import ModelSpec, RopeSpec

_TABLE_ROWS = 4096


def rope_frequencies(rope: RopeSpec, dim: int, context: int = 0) -> Tensor:
    """Angular frequencies [dim / 2] in float64: theta^(−2i/dim), stretched as the model was trained.

    LongRoPE has other factors for a ``context`` longer than the original one. Sources: RoFormer (arXiv
    2104.09864); linear: arXiv 2306.15595; llama3: Llama 3.1's reference ``apply_scaling``, which leaves short
    waves, divides long ones and blends between; yarn: arXiv 2309.00071; longrope: arXiv 2402.13753.
    """
    inverse = 1.0 / rope.theta ** (torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    if rope.scaling == "linear":
        return inverse / rope.factor
    if rope.scaling == "longrope":
        factors = rope.long_factors if context > rope.original_context else rope.short_factors
        return inverse / torch.tensor(factors, dtype=torch.float64) if factors else inverse
    if rope.scaling == "llama3":
        turns = rope.original_context * inverse / (2 * math.pi)  # in the original context
        kept = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor)
    elif rope.scaling == "yarn":
        kept = 1 - _yarn_ramp(rope, dim)
    else:
        return inverse
    kept = kept.clamp(0.0, 1.0)  # 0: long waves, divided; 1: short waves, kept
    return inverse * ((1 - kept) / rope.factor + kept)


def _yarn_ramp(rope: RopeSpec, dim: int) -> Tensor:
    """How much of each pair is stretched, 0 to 1 and beyond: a line between the pairs that turn beta_fast and
    beta_slow times in the original context.
    """
    low, high = (
        dim * math.log(rope.original_context / (turns * 2 * math.pi)) / (2 * math.log(rope.theta))
        for turns in (rope.beta_fast, rope.beta_slow)
    )
    if rope.is_truncated:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, dim - 1)
    return (torch.arange(dim // 2, dtype=torch.float64) - low) / max(high - low, 0.001)


def rope_table(frequencies: Tensor, context: int, scale: float = 1.0) -> Tensor:
    """Rotations scale · e^{i·position·frequency}, complex64 [context, dim / 2], from angles in float64."""
    table = torch.empty(context, frequencies.shape[0], dtype=torch.complex64)
    for start in range(0, context, _TABLE_ROWS):  # in strips: the angles of a long context are large
        positions = torch.arange(start, min(start + _TABLE_ROWS, context), dtype=torch.float64)
        angles = torch.outer(positions, frequencies.double())
        table[start : start + _TABLE_ROWS] = torch.polar(torch.full_like(angles, scale), angles)
    return table


class Rotary:
    """The tables of a model on one device, one for each kind of rotation its layers have.

    ``factors`` [rotary_dim / 2], where the file brings them as a tensor, divide the frequencies.
    """

    def __init__(
        self, spec: ModelSpec, context: int, factors: Tensor | None = None, device: torch.device = CPU
    ) -> None:
        self.tables: dict[RopeSpec, Tensor] = {}
        for rope in spec.ropes:
            frequencies = rope_frequencies(rope, spec.rotary_dim, context)
            if factors is not None and rope == spec.rope:
                frequencies = frequencies / factors.double()
            # Made on the processor: not every device has float64.
            self.tables[rope] = rope_table(frequencies, context, rope.attention_factor).to(device)

    @property
    def nbytes(self) -> int:
        return sum(table.nbytes for table in self.tables.values())

    def at(self, positions: Sequence[slice]) -> dict[RopeSpec, Tensor]:
        """The rotations of some stretches of positions, one after another: [rows, 1, rotary_dim / 2]."""
        found = {}
        for rope, table in self.tables.items():
            parts = [table[each] for each in positions]
            found[rope] = (parts[0] if len(parts) == 1 else torch.cat(parts)).unsqueeze(1)
        return found

    def at_rows(self, positions: Tensor) -> dict[RopeSpec, Tensor]:
        """The same of positions [rows] that lie on the tables' device: nothing waits for them."""
        return {rope: table[positions].unsqueeze(1) for rope, table in self.tables.items()}


def rotate(x: Tensor, rotations: Tensor) -> Tensor:
    """Turn pairs of [rows, heads, dim], which lie side by side, by [rows, 1, rotary_dim / 2]; the numbers
    behind the first rotary_dim stay as they are.
    """
    dim = 2 * rotations.shape[-1]
    pairs = torch.view_as_complex(x[..., :dim].float().reshape(*x.shape[:-1], -1, 2))
    turned = torch.view_as_real(pairs * rotations).flatten(-2).to(x.dtype)
    return turned if dim == x.shape[-1] else torch.cat((turned, x[..., dim:]), dim=-1)


def interleaved(rows: Tensor, head_dim: int, rotary_dim: int) -> Tensor:
    """Rows [heads · head_dim, ...] whose rotary pairs lie in two halves, with the pairs side by side."""
    heads = rows.view(-1, head_dim, *rows.shape[1:])
    halves = heads[:, :rotary_dim].reshape(-1, 2, rotary_dim // 2, *rows.shape[1:])
    pairs = halves.transpose(1, 2).reshape(-1, rotary_dim, *rows.shape[1:])
    return torch.cat((pairs, heads[:, rotary_dim:]), dim=1).reshape(rows.shape)
