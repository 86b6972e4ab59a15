"""Fixtures of the bench's tests: tiny random models, and what needs llama-cpp-python."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

import pytest

from app.bench import make_model
from app.bench.model_types import SHAPES, parse_mix

needs_llama_cpp = pytest.mark.skipif(
    importlib.util.find_spec("llama_cpp") is None,
    reason='llama-cpp-python is not installed: pip install -e ".[bench]"',
)


@pytest.fixture
def tiny() -> Callable[[str], Path]:
    """Writes the tiny random model of any mix of types into the test's own home."""

    def write(types: str) -> Path:
        return make_model.ensure(SHAPES["tiny"], parse_mix(types), lambda _: None)

    return write
