"""NVIDIA's management library (NVML), as far as gauges need it: what a card says of itself, value by value.

Knows the library's calls and errors; not torch. A value that a card does not tell is None, never zero.
https://docs.nvidia.com/deploy/nvml-api/
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from engine.words import mark, tr

_RETRY_S = 30.0
_PREFIXES = ("GPU-", "MIG-")
_NO_LIBRARY = mark("No NVIDIA sensor: the driver's library NVML is not here.")
_UPDATED = mark("NVIDIA's driver was updated while the computer was running. Restart the computer.")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CardFacts:
    """What one card, or one slice of it, tells."""

    total_bytes: int | None = None
    free_bytes: int | None = None
    own_bytes: int | None = None  # of this process, where the driver tells that of each
    power_w: float | None = None
    temperature_c: float | None = None
    energy_j: float | None = None
    utilization: float | None = None
    is_slice: bool = False  # of a card that is cut into several (MIG)


class Nvml:
    """The library, opened when it is first asked. ``clock`` gives seconds and never goes back.

    A machine without it is asked once; after any other failure it is tried again half a minute later.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._library: ModuleType | None = None
        self._retry_at: float | None = 0.0  # None: never
        self.missing = ""  # why there are no values, a sentence; "": there are

    def facts(self, uuid: str) -> CardFacts | None:
        """What the card of ``uuid`` (without GPU- or MIG- before it) tells now; None: there is no such card,
        or no library; ``missing`` says why.
        """
        library = self._opened()
        handle = self._handle(library, uuid) if library else None
        return _facts(library, handle) if library and handle is not None else None

    def driver(self) -> str | None:
        """The driver's version, as "580.65.06"."""
        library = self._opened()
        found = _call(library, "nvmlSystemGetDriverVersion") if library else None
        return found.decode(errors="replace") if isinstance(found, bytes) else found

    def close(self) -> None:
        """Give the cards free, so that they may sleep. It opens again when it is asked."""
        if self._library is not None:
            _call(self._library, "nvmlShutdown")
            self._library = None

    def _opened(self) -> ModuleType | None:
        if self._library is None and self._retry_at is not None and self._clock() >= self._retry_at:
            self._open()
        return self._library

    def _open(self) -> None:
        try:
            import pynvml
        except ImportError:
            self.missing, self._retry_at = tr(_NO_LIBRARY), None
            return
        try:
            pynvml.nvmlInit()
        except pynvml.NVMLError as error:
            _log.info("NVML: %s", error)
            is_here = error.value != pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
            self.missing = _why(pynvml, error)
            self._retry_at = self._clock() + _RETRY_S if is_here else None
            return
        self._library, self.missing = pynvml, ""

    def _handle(self, library: ModuleType, uuid: str) -> Any:
        """The library's own word for a card. Where none can be had any more the library is closed: it would
        not notice a driver that came back.
        """
        refusal: Exception | None = None
        for prefix in _PREFIXES:
            try:
                return library.nvmlDeviceGetHandleByUUID(prefix + uuid)
            except library.NVMLError as error:
                refusal = refusal or error
        is_unknown = getattr(refusal, "value", None) in (
            library.NVML_ERROR_NOT_FOUND,
            library.NVML_ERROR_INVALID_ARGUMENT,
        )
        if not is_unknown:
            self.missing, self._retry_at = _why(library, refusal), self._clock() + _RETRY_S
            self.close()
        return None


def _why(library: ModuleType, error: Any) -> str:
    if error.value == library.NVML_ERROR_LIBRARY_NOT_FOUND:
        return tr(_NO_LIBRARY)
    if error.value == library.NVML_ERROR_LIB_RM_VERSION_MISMATCH:
        return tr(_UPDATED)
    if error.value == library.NVML_ERROR_GPU_IS_LOST:
        return tr("The GPU was lost: it fell off the bus or was reset. Restart the computer.")
    return tr("NVIDIA's sensors tell nothing: {reason}.").format(reason=str(error).rstrip("."))


def _facts(library: ModuleType, handle: Any) -> CardFacts:
    is_slice = bool(_call(library, "nvmlDeviceIsMigDeviceHandle", handle))
    card = _call(library, "nvmlDeviceGetDeviceHandleFromMigDeviceHandle", handle) if is_slice else handle
    total, free = _memory(_call(library, "nvmlDeviceGetMemoryInfo", handle))
    used = _call(library, "nvmlDeviceGetUtilizationRates", handle)
    return CardFacts(
        total_bytes=total,
        free_bytes=free,
        own_bytes=_own_bytes(library, handle),
        power_w=_scaled(_call(library, "nvmlDeviceGetPowerUsage", card), 1e-3),
        temperature_c=_scaled(
            _call(library, "nvmlDeviceGetTemperature", card, library.NVML_TEMPERATURE_GPU), 1.0
        ),
        energy_j=_scaled(_call(library, "nvmlDeviceGetTotalEnergyConsumption", card), 1e-3),
        utilization=_scaled(getattr(used, "gpu", None), 1e-2) if not is_slice else None,
        is_slice=is_slice,
    )


def _call(library: ModuleType, name: str, *arguments: Any) -> Any:
    """What one call gives; None where the card, the driver or this version of the library does not tell."""
    try:
        return getattr(library, name)(*arguments)
    except (library.NVMLError, AttributeError, UnicodeError):
        return None


def _memory(info: Any) -> tuple[int | None, int | None]:
    """(total, free); nothing of numbers that cannot be: a card with unified memory says that it has none."""
    total, free = getattr(info, "total", None), getattr(info, "free", None)
    if not isinstance(total, int) or total <= 0:
        return None, None
    return total, free if isinstance(free, int) and 0 <= free <= total else None


def _own_bytes(library: ModuleType, handle: Any) -> int | None:
    """None where the driver does not tell it of each process (Windows), or calls this one by another number
    (a container).
    """
    listed = _call(library, "nvmlDeviceGetComputeRunningProcesses", handle) or ()
    own = [process.usedGpuMemory for process in listed if process.pid == os.getpid()]
    return own[0] if own and isinstance(own[0], int) else None


def _scaled(value: Any, factor: float) -> float | None:
    return value * factor if isinstance(value, int | float) and value >= 0 else None
