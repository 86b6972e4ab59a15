"""What a machine has, and what its parts tell of themselves: frozen values, standard library only.

Units are in the names, as in `engine.types`.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.calibration import Calibration

GPU_MARGIN = 0.03  # of a GPU's memory: with less of it free, what is allocated next is likely to spill


@dataclass(frozen=True, slots=True)
class KernelPair:
    """A matrix [rows, cols] in the two homes it could have: which is read quicker has to be measured."""

    native_format: str  # these two are keys of WEIGHT_FORMATS
    stock_format: str
    rows: int
    cols: int
    threads: int


@dataclass(frozen=True, slots=True)
class KernelTimes:
    """Microseconds of one product with one row and of one with four, together."""

    pair: KernelPair
    native_us: float
    stock_us: float


@dataclass(frozen=True, slots=True)
class Gpu:
    """An accelerator that torch can use. ``None`` is unknown, never zero."""

    index: int
    name: str
    kind: str  # cuda | rocm | mps | xpu
    total_bytes: int | None
    free_bytes: int | None  # for a model: what is free, and what this program's own tensors would give back
    formats: tuple[str, ...] = ("f32",)  # keys of WEIGHT_FORMATS whose products it was seen to compute
    uuid: str | None = None  # as NVIDIA's tools write it, without GPU- or MIG- before it
    own_bytes: int | None = None  # what torch keeps there for this program; free_bytes has it already
    is_unified: bool = False  # its memory is a part of the processor's

    @property
    def shares_ram(self) -> bool:
        """Whether what it holds is missing from the processor's memory."""
        return self.is_unified or self.kind == "mps"

    @property
    def device(self) -> str:
        """What torch and the option --device call it: "cuda:0" (of ROCm too), "xpu:1", "mps"."""
        if self.kind == "mps":
            return "mps"
        return f"{'cuda' if self.kind == 'rocm' else self.kind}:{self.index}"


@dataclass(frozen=True, slots=True)
class GpuReading:
    """What a GPU tells of itself at one moment, for gauges. ``None``: it does not tell."""

    device: str  # a Gpu's word
    name: str
    total_bytes: int | None = None
    free_bytes: int | None = None
    used_by_others_bytes: int | None = None  # by other programs
    spilled_bytes: int | None = None  # of this program, in the processor's memory: Windows puts them there
    power_w: float | None = None
    temperature_c: float | None = None
    energy_j: float | None = None  # since the driver was started
    utilization: float | None = None  # of the last moments, 0 to 1
    driver: str | None = None
    note: str = ""  # why it tells nothing, or what to know of it: a sentence


@dataclass(frozen=True, slots=True)
class Hardware:
    """What the machine has. ``None`` is unknown, never zero."""

    cpu_name: str
    physical_cores: int
    ram_total_bytes: int | None
    ram_free_bytes: int | None
    instruction_sets: tuple[str, ...] = ()
    native: str | None = None  # instruction set of the native kernels; None: they are not here
    native_missing: str = ""  # why they are not, a sentence
    kernel_times: tuple[KernelTimes, ...] = ()  # measured here before
    gpus: tuple[Gpu, ...] | None = ()  # None: nobody has looked yet, which takes torch
    best_threads: int | None = None  # that read weights quickest, measured here before
    has_bitsandbytes: bool = False  # the library is installed
    cache_bytes: int | None = None  # of the last cache that a core sees
    calibration: Calibration | None = None  # None: speed was not measured here yet
