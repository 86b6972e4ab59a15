"""The probe on recorded machines: what cannot be read is unknown, never wrong."""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from engine.hardware import probe
from engine.hardware.cores import thread_counts
from engine.hardware.kernel_times import KernelTimesFile
from engine.machine import KernelPair, KernelTimes
from engine.native import library

X86 = """processor\t: 0
vendor_id\t: AuthenticAMD
model name\t: AMD EPYC 9B14   96-Core Processor
flags\t\t: fpu sse2 avx avx2 avx512f avx512_vnni avx512_bf16

processor\t: 1
model name\t: Another
flags\t\t: fpu
"""
ARM = """processor\t: 0
BogoMIPS\t: 50.00
Features\t: fp asimd asimddp bf16
CPU implementer\t: 0x41
"""


@pytest.fixture
def cpuinfo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Lets the machine describe its processor so."""

    def describe(text: str) -> None:
        (tmp_path / "cpuinfo").write_text(text)
        monkeypatch.setattr(probe, "_CPUINFO", str(tmp_path / "cpuinfo"))

    return describe


def test_name_and_instruction_sets_are_those_of_the_first_processor(cpuinfo: Callable[[str], None]) -> None:
    cpuinfo(X86)
    found = probe.probe()
    assert found.cpu_name == "AMD EPYC 9B14 96-Core Processor"
    assert found.instruction_sets == ("avx2", "avx512f", "avx512_vnni", "avx512_bf16")


def test_a_processor_without_a_name_has_the_platforms_word(
    cpuinfo: Callable[[str], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "processor", lambda: "")
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    cpuinfo(ARM)
    found = probe.probe()
    assert (found.cpu_name, found.instruction_sets) == ("aarch64", ("asimddp",))


@pytest.mark.parametrize(("word", "expected"), [("arm", "arm"), ("", "Unknown processor")])
def test_a_system_without_cpuinfo_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, word: str, expected: str
) -> None:
    monkeypatch.setattr(probe, "_CPUINFO", str(tmp_path / "none"))
    monkeypatch.setattr(platform, "processor", lambda: word)
    monkeypatch.setattr(platform, "machine", lambda: "")
    found = probe.probe()
    assert (found.cpu_name, found.instruction_sets) == (expected, ())


@pytest.mark.parametrize("error", [OSError("no /proc"), RuntimeError("no MemAvailable")])
def test_memory_that_cannot_be_read_is_unknown_and_not_zero(
    monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(psutil, "virtual_memory", fail)
    found = probe.probe()
    assert (found.ram_total_bytes, found.ram_free_bytes) == (None, None)
    assert found.physical_cores >= 1


def test_free_memory_is_what_programs_can_have_without_swapping(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = psutil.virtual_memory()._replace(total=16_000, available=9_000, free=1_000)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    assert probe.ram_bytes() == (16_000, 9_000)


def test_this_process_holds_some_memory() -> None:
    assert 1_000_000 < probe.rss_bytes() < (probe.ram_bytes()[0] or 1 << 60)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"index0/size": "48K\n", "index2/size": "1024K\n", "index3/size": "32768K\n"}, 32 << 20),
        ({"index0/size": "1M"}, 1 << 20),
        ({"index0/size": "lots"}, None),
        ({}, None),
    ],
)
def test_the_cache_is_the_largest_one_that_the_system_tells_of(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, files: dict[str, str], expected: int | None
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir()
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(probe, "_CACHES", tmp_path)
    assert probe.cache_bytes() == expected


def test_times_of_kernels_are_read_unless_an_instruction_set_was_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = library.NativeLibrary(Path("k.so"), "avx2", ctypes.CDLL(None))
    monkeypatch.setattr(library, "load", lambda: found)
    monkeypatch.delenv(library.VARIABLE, raising=False)
    path, times = tmp_path / "t", KernelTimes(KernelPair("bf16", "bf16", 16, 32, 1), 1.0, 2.0)
    KernelTimesFile(path, probe.probe()).add(times)
    KernelTimesFile(path, probe.probe()).add_best_threads(thread_counts(), 1)
    assert (probe.probe(path).kernel_times, probe.probe(path).best_threads) == ((times,), 1)
    assert (probe.probe().kernel_times, probe.probe().best_threads) == ((), None)
    monkeypatch.setenv(library.VARIABLE, "AVX2 ")
    assert probe.probe(path).kernel_times == ()


@pytest.mark.parametrize("native", ["avx2", None])
def test_native_kernels_are_named_by_their_instruction_set(
    monkeypatch: pytest.MonkeyPatch, native: str | None
) -> None:
    found = library.NativeLibrary(Path("k.so"), native, ctypes.CDLL(None)) if native else None
    monkeypatch.setattr(library, "load", lambda: found)
    monkeypatch.setattr(library, "why_missing", lambda: "" if native else "They are missing.")
    assert probe.probe().native == native
    assert probe.probe().native_missing == ("" if native else "They are missing.")


def test_nobody_has_looked_for_gpus_yet() -> None:
    """That takes torch, which only the engine's thread may load."""
    assert probe.probe().gpus is None
