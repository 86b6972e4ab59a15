"""Matrices held for the library bitsandbytes: NF4 (Dettmers et al., arXiv 2305.14314) and LLM.int8 (arXiv
2208.07339). Written for whatever device the rows are on.

The library is an optional one and is imported only here, when a format or a measurement needs it.
"""

from __future__ import annotations

import functools
import importlib
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from engine.errors import WishError
from engine.fit.kernels import kernel_name
from engine.foreign import one_line
from engine.offline import offline
from engine.quant.formats import WEIGHT_FORMATS
from engine.words import tr

NF4_GROUP = WEIGHT_FORMATS["nf4"].group
_OUTLIER = 6.0  # an input that reaches so far is multiplied in 16 bits: the paper's threshold
_TILE_ROWS = WEIGHT_FORMATS["nf4cpu"].row_multiple


@functools.cache
def functional() -> Any:
    """bitsandbytes.functional. Its import would fetch a kernel from a hub where the library `kernels` is
    installed, and complain where it is not.

    Raises WishError where the import fails, which its libraries for GPUs make it do here and there.
    """
    try:
        with offline(), _silent(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module("bitsandbytes.functional")
    except (ImportError, OSError, RuntimeError, AttributeError) as error:
        sentence = tr("bitsandbytes cannot be used here ({reason}).").format(reason=one_line(str(error)))
        raise WishError(sentence, tr("Choose int4 or int8.")) from None


@contextmanager
def _silent() -> Iterator[None]:
    """The library logs nothing."""
    log = logging.getLogger("bitsandbytes")
    level = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(level)


class Nf4Linear:
    """A matrix of 4-bit indexes into the levels of NF4 in groups of 64 along the input, each with a scale.

    ``values`` [rows, in / 2] uint8. Off the processor ``scales`` are [rows · in / 64] float32. The library's
    CPU kernel has an order of its own: tiles of 32 rows (the last one filled up with zeros) and ``scales``
    [in / 64, rows] bfloat16.
    """

    kernel = kernel_name("nf4", "torch")

    def __init__(self, values: Tensor, scales: Tensor, out_features: int) -> None:
        self.values = values
        self.scales = scales
        self.out_features = out_features
        self._state = functional().QuantState(
            absmax=scales,
            shape=torch.Size((values.shape[0], 2 * values.shape[1])),
            code=functional().get_4bit_type("nf4", device=values.device),
            blocksize=NF4_GROUP,
            quant_type="nf4",
            dtype=torch.bfloat16,
        )
        self._state.packing_format_for_cpu = scales.dim() == 2
        self._multiply = importlib.import_module("bitsandbytes").matmul_4bit

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + self.scales.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        y: Tensor = self._multiply(x.to(torch.bfloat16), self.values, quant_state=self._state)
        return y[:, : self.out_features].to(x.dtype)


class Nf4Packer:
    """Packs a matrix [rows, cols] as its rows come in; ``held`` is nf4, or nf4cpu for the CPU kernel."""

    def __init__(self, held: str, rows: int, cols: int, device: torch.device) -> None:
        self._is_tiled = held == "nf4cpu"
        self._rows = rows
        padded = -(-rows // _TILE_ROWS) * _TILE_ROWS if self._is_tiled else rows
        groups = cols // NF4_GROUP
        self._values = torch.empty(padded, cols // 2, dtype=torch.uint8, device=device)
        shape, dtype = ((groups, padded), torch.bfloat16) if self._is_tiled else ((padded, groups), None)
        self._scales = torch.empty(shape, dtype=dtype or torch.float32, device=device)
        self._done = 0
        self._waiting = torch.empty(0, cols, device=device)  # rows that do not fill a tile yet

    def add(self, values: Tensor) -> None:
        """The next rows, float32 [n, cols]."""
        values = torch.cat((self._waiting, values)) if self._waiting.shape[0] else values
        whole = values.shape[0] // _TILE_ROWS * _TILE_ROWS if self._is_tiled else values.shape[0]
        self._pack(values[:whole])
        self._waiting = values[whole:].clone()

    def finish(self) -> Nf4Linear:
        """The layer, once all rows are in."""
        missing = self._values.shape[0] - self._done - self._waiting.shape[0]
        self._pack(torch.cat((self._waiting, self._waiting.new_zeros(missing, self._waiting.shape[1]))))
        scales = self._scales if self._is_tiled else self._scales.view(-1)
        return Nf4Linear(self._values, scales, self._rows)

    def _pack(self, values: Tensor) -> None:
        if not values.shape[0]:
            return
        rows = slice(self._done, self._done + values.shape[0])
        packed, state = functional().quantize_4bit(
            values.contiguous(), blocksize=NF4_GROUP, quant_type="nf4", compress_statistics=False
        )
        if self._is_tiled:
            packed, state = functional()._convert_weight_packed_for_cpu(packed, state)
            self._scales[:, rows] = state.absmax
        else:
            self._scales[rows] = state.absmax.view(values.shape[0], -1)
        self._values[rows] = packed.view(values.shape[0], -1)
        self._done = rows.stop


class LlmInt8Linear:
    """A matrix of 8-bit values with a scale for each row. Inputs are rounded to 8 bits row by row, but for
    the columns in which one of them is an outlier: these are multiplied in 16 bits.

    ``values`` [out, in] int8, ``scales`` [out] float32: w = q × scale / 127.
    """

    kernel = kernel_name("llm-int8", "torch")

    def __init__(self, values: Tensor, scales: Tensor) -> None:
        self.values = values
        self.scales = scales

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + self.scales.nbytes

    def __call__(self, x: Tensor) -> Tensor:
        inputs = x.to(torch.float16)
        rounded, row_scales, outliers = functional().int8_vectorwise_quant(inputs, threshold=_OUTLIER)
        product = torch.ops.bitsandbytes.int8_mixed_scaled_mm.default
        y: Tensor = product(inputs, rounded, self.values, row_scales, self.scales, outliers)[0]
        return y.to(x.dtype)


class LlmInt8Packer:
    """Rounds a matrix [rows, cols] as its rows come in."""

    def __init__(self, rows: int, cols: int, device: torch.device) -> None:
        self._values = torch.empty(rows, cols, dtype=torch.int8, device=device)
        self._scales = torch.empty(rows, dtype=torch.float32, device=device)
        self._done = 0

    def add(self, values: Tensor) -> None:
        """The next rows, float32 [n, cols]."""
        rows = slice(self._done, self._done + values.shape[0])
        self._values[rows], self._scales[rows], _ = functional().int8_vectorwise_quant(values.half())
        self._done = rows.stop

    def finish(self) -> LlmInt8Linear:
        """The layer, once all rows are in."""
        assert self._done == self._values.shape[0]
        return LlmInt8Linear(self._values, self._scales)
