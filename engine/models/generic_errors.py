"""What a foreign library raises about a model, as an error of ours that names the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from engine.errors import EngineError, UnsupportedModelError
from engine.foreign import printable
from engine.types import ModelSpec
from engine.words import tr

T = TypeVar("T")


def ours(spec: ModelSpec, work: Callable[[], T]) -> T:
    """What ``work`` returns. Raises UnsupportedModelError in place of what the library raises, which alone
    understands its models: a configuration that contradicts itself, an option that it lacks.
    """
    try:
        return work()
    except (EngineError, MemoryError):
        raise
    except Exception as error:
        if "memory" in str(error):  # torch's own error where the system gives none
            raise
        text = f"{type(error).__name__}: {printable(str(error), 200)}"
    # made outside: it would keep the other one, whose frames hold the model
    raise UnsupportedModelError(
        tr("{path}: transformers cannot run this {architecture} ({error}).").format(
            path=spec.path, architecture=printable(spec.architecture), error=text
        ),
        tr("Download the model again, or choose another one."),
    )
