"""Fixtures of the engine's tests."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
import torch

from engine.native import library
from engine.native.library import NativeLibrary


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Tiny products gain nothing from a team, which waits for its slowest member on a busy machine."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def kernels() -> NativeLibrary:
    """The native kernels on torch's threads; tests skip where they are missing, unless they must be there."""
    loaded = library.load()
    if loaded is None:
        is_off = os.environ.get(library.VARIABLE) == "off"
        if os.environ.get("DECODECK_REQUIRE_NATIVE") == "1" and not is_off:
            pytest.fail(library.why_missing())
        pytest.skip(library.why_missing())
    library.connect_parallel(loaded)
    return loaded
