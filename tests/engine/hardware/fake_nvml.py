"""What NVIDIA's library answered on real machines, played back: each card is a table of calls and answers.

An answer that is an error code is raised, as the library does.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pynvml

GIB = 1 << 30
LIBRARY_NOT_FOUND = pynvml.NVML_ERROR_LIBRARY_NOT_FOUND
MISMATCH = pynvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH
NOT_SUPPORTED = pynvml.NVML_ERROR_NOT_SUPPORTED
NOT_FOUND = pynvml.NVML_ERROR_NOT_FOUND
LOST = pynvml.NVML_ERROR_GPU_IS_LOST
UNKNOWN = pynvml.NVML_ERROR_UNKNOWN


@dataclass(frozen=True)
class ErrorCode:
    """The library's return value where it is not 0."""

    value: int


def memory(total: int, free: int) -> SimpleNamespace:
    return SimpleNamespace(total=total, free=free, used=total - free)


def process(nbytes: int | None, pid: int | None = None) -> SimpleNamespace:
    return SimpleNamespace(pid=os.getpid() if pid is None else pid, usedGpuMemory=nbytes)


Card = dict[str, Any]  # name of a call without nvmlDevice: what it gives

RTX_3090: Card = {  # a desktop card at work, Linux, driver 580
    "GetMemoryInfo": memory(24 * GIB, 10 * GIB),
    "GetComputeRunningProcesses": [process(12 * GIB), process(GIB, pid=1)],
    "GetPowerUsage": 287_412,
    "GetTemperature": 67,
    "GetTotalEnergyConsumption": 8_231_004_551,
    "GetUtilizationRates": SimpleNamespace(gpu=93, memory=71),
    "IsMigDeviceHandle": 0,
}
GB10: Card = {  # DGX Spark: its memory is the computer's, and the driver tells none
    "GetMemoryInfo": ErrorCode(NOT_SUPPORTED),
    "GetComputeRunningProcesses": [process(None)],
    "GetPowerUsage": 9_800,
    "GetTemperature": 41,
    "GetTotalEnergyConsumption": ErrorCode(NOT_SUPPORTED),
    "GetUtilizationRates": SimpleNamespace(gpu=0, memory=0),
    "IsMigDeviceHandle": 0,
}
ORIN: Card = GB10 | {  # Jetson, whose driver says that there are no bytes
    "GetMemoryInfo": memory(0, 0),
    "GetPowerUsage": ErrorCode(NOT_SUPPORTED),
}
PASSIVE_T4: Card = RTX_3090 | {  # in a virtual machine that hides power and energy
    "GetPowerUsage": ErrorCode(NOT_SUPPORTED),
    "GetTotalEnergyConsumption": ErrorCode(NOT_SUPPORTED),
}
LAPTOP_WDDM: Card = RTX_3090 | {  # Windows tells no bytes of processes
    "GetMemoryInfo": memory(8 * GIB, 300 << 20),
    "GetComputeRunningProcesses": [process(None), process(None, pid=4)],
    "GetPowerUsage": 65_000,
}
MIG_SLICE: Card = {  # 1g.10gb of an A100 of 80 GB
    "GetMemoryInfo": memory(10 * GIB, 9 * GIB),
    "GetComputeRunningProcesses": [process(GIB // 2)],
    "GetUtilizationRates": ErrorCode(NOT_SUPPORTED),
    "GetPowerUsage": ErrorCode(NOT_SUPPORTED),
    "GetTemperature": ErrorCode(NOT_SUPPORTED),
    "IsMigDeviceHandle": 1,
    "GetDeviceHandleFromMigDeviceHandle": "A100",
}
A100: Card = RTX_3090 | {"GetMemoryInfo": memory(80 * GIB, 44 * GIB), "GetPowerUsage": 118_000}


@dataclass
class FakeNvml:
    """Stands in for the module pynvml. ``cards`` are by UUID with its prefix, or by name behind a slice."""

    cards: dict[str, Card] = field(default_factory=dict)
    init: ErrorCode | None = None
    driver: str = "580.65.06"
    calls: list[str] = field(default_factory=list)

    def nvmlInit(self) -> None:  # noqa: N802
        self.calls.append("nvmlInit")
        self._give(self.init)

    def nvmlShutdown(self) -> None:  # noqa: N802
        self.calls.append("nvmlShutdown")

    def nvmlSystemGetDriverVersion(self) -> str:  # noqa: N802
        return self.driver

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        self.calls.append(uuid)
        if uuid not in self.cards:
            raise pynvml.NVMLError(NOT_FOUND)
        self._give(self.cards[uuid].get("GetHandleByUUID"))
        return uuid

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("nvmlDevice"):
            return getattr(pynvml, name)  # errors and constants are the library's own

        def call(handle: str, *_: object) -> Any:
            self.calls.append(name)
            answers = self.cards[handle]
            if name.removeprefix("nvmlDevice") not in answers:
                raise pynvml.NVMLError(pynvml.NVML_ERROR_FUNCTION_NOT_FOUND)
            return self._give(answers[name.removeprefix("nvmlDevice")])

        return call

    @staticmethod
    def _give(answer: Any) -> Any:
        if isinstance(answer, ErrorCode):
            raise pynvml.NVMLError(answer.value)
        return answer
