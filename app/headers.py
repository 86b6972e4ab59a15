"""The headers that a load begins with: a model's and that of its draft model. Waits for the disk."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from engine.errors import EngineError
from engine.types import ModelSpec


@dataclass(frozen=True, slots=True)
class Headers:
    """A model's header and that of the draft model it had last, or why that cannot be read."""

    spec: ModelSpec
    draft: ModelSpec | None = None
    no_draft: str = ""


def read_headers(read: Callable[[str], ModelSpec], path: str, draft: str) -> Headers:
    """Headers by ``read``; an empty ``draft`` is none. Raises what ``read`` does, for the model itself."""
    spec = read(path)
    if not draft:
        return Headers(spec)
    try:
        return Headers(spec, read(draft))
    except EngineError as error:
        return Headers(spec, no_draft=str(error))
