"""What a machine's speed is taken for before anything was measured on it: rough figures by kind of processor.

Predictions from them say that they are estimates. Pure tables and arithmetic, standard library only.
"""

from __future__ import annotations

from functools import lru_cache

from engine.calibration import AttentionSpeed, Calibration, Curve, KernelSpeed, PassSpeed
from engine.fit.kernels import kernel_name
from engine.machine import Hardware
from engine.quant.formats import WEIGHT_FORMATS

DEVICE_GBPS = {"cuda": 300.0, "rocm": 300.0, "xpu": 200.0, "mps": 100.0}  # a modest GPU of the kind
DISK_GBPS = 1.0
DRAW_NS = 2.0  # of each token of the vocabulary
_CORE_GBPS, _MOST_GBPS = 10.0, 40.0  # read from memory by a core, and by all of a common desktop
_CACHE_TIMES = 2.5  # as quick as memory
_COMMON_CACHE = 16 << 20

# By instruction set, in round figures as measured on processors that have it: billions of weights that a core
# multiplies with one row, and additions and products with many rows, a second.
_CORE_WEIGHTS = {"avx512vnni": 40.0, "avx2": 20.0, "neon": 12.0, "scalar": 1.0}
_CORE_OPS = {"avx512vnni": 400e9, "avx2": 150e9, "neon": 100e9, "scalar": 10e9}
_TORCH_WEIGHTS = {"f32": 10.0, "bf16": 12.0, "f16": 6.0, "int8row": 10.0, "int4g32": 15.0, "nf4cpu": 15.0}
_TORCH_OPS = {"f32": 70e9, "bf16": 200e9, "f16": 60e9, "int8row": 100e9, "int4g32": 100e9, "nf4cpu": 100e9}
_ROWS = (1, 2, 4, 8, 16, 64, 256)
_QUERIES = (1, 4, 8)
_KV_GBPS = {"native": 10.0, "torch": 4.0}  # of keys and values that a core attends to with one query
PASSES = (
    PassSpeed("native", 60e-6, 25e-6, 40e-6, 300e-6, 0.5, 0.01),
    PassSpeed("torch", 300e-6, 250e-6, 250e-6, 300e-6, 0.5, 0.01),
    PassSpeed("generic", 2e-3, 1e-3, 1e-3, 1.2e-3, 1.0, 0.02),
)


def machine_default(hardware: Hardware, read_gbps: float | None = None) -> Calibration:
    """What a machine is taken for as long as nothing, or nothing but its bandwidth, was measured on it."""
    return _estimate(hardware.physical_cores, hardware.native, hardware.cache_bytes, read_gbps)


@lru_cache(maxsize=16)
def _estimate(
    cores: int, native: str | None, cache_bytes: int | None, read_gbps: float | None
) -> Calibration:
    gbps, cache = read_gbps or min(_MOST_GBPS, _CORE_GBPS * cores), cache_bytes or _COMMON_CACHE
    kernels = [_torch_speed(name, gbps, cores) for name in _TORCH_WEIGHTS]
    if native:
        kernels += [_native_speed(name, native, gbps, cores) for name in _native_homes()]
    return Calibration(
        read_gbps=gbps,
        threads=cores,
        reads=((cache // 2, _CACHE_TIMES * gbps), (2 * cache, gbps)),
        kernels=tuple(kernels),
        attention=tuple(_attention(runner, cores) for runner in _KV_GBPS),
        passes=PASSES,
        draw_ns=DRAW_NS,
        disk_gbps=DISK_GBPS,
    )


def _native_homes() -> list[str]:
    tiled = [name for name, held in WEIGHT_FORMATS.items() if held.align_bytes > 1]
    return ["f32", "bf16", *tiled]


def _native_speed(held: str, native: str, gbps: float, cores: int) -> KernelSpeed:
    weights, ops = _CORE_WEIGHTS[native], _CORE_OPS[native]
    curve = _curve(held, cores * weights, cores * ops)
    return KernelSpeed(kernel_name(held, f"native {native}"), 1 / gbps, curve)


def _torch_speed(held: str, gbps: float, cores: int) -> KernelSpeed:
    curve = _curve(held, cores * _TORCH_WEIGHTS[held], cores * _TORCH_OPS[held])
    return KernelSpeed(kernel_name(held, "torch"), 1 / gbps, curve)


def _curve(held: str, gigaweights: float, ops: float) -> Curve:
    """Nanoseconds of a byte by rows: unpacking it once, and an addition and a product for each row."""
    weights = 8 / WEIGHT_FORMATS[held].bits  # of a byte
    return tuple((rows, weights * (1 / gigaweights + 2e9 * rows / ops)) for rows in _ROWS)


def _attention(runner: str, cores: int) -> AttentionSpeed:
    gbps = _KV_GBPS[runner] * cores
    curve = tuple((queries, (1 + queries / 4) / gbps) for queries in _QUERIES)
    return AttentionSpeed(runner, 16, 16, curve, 1 / (0.5 * cores))
