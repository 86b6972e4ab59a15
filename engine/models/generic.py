"""Models outside of the lean decoder, run as the classes that transformers has for them: slower, but right.

The door to it: importing this imports neither transformers nor accelerate, loading a model does. What is
loaded stands behind the same protocol as the lean decoder, see `engine.models.decoder.Runner`.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Generator
from types import ModuleType
from typing import Protocol, runtime_checkable

from engine.errors import UnsupportedModelError
from engine.events import LoadProgress
from engine.models.checkpoint import Checkpoint
from engine.models.decoder import Runner
from engine.offline import offline
from engine.types import LoadPlan
from engine.waiting import in_background, until_done
from engine.words import tr


@runtime_checkable
class ReadsDisk(Protocol):
    """A runner whose layers may be on the disk."""

    @property
    def disk_gbps(self) -> float | None:
        """10⁹ bytes of the files a second at which they come; None where that is not known."""
        ...


def load_generic(plan: LoadPlan, checkpoint: Checkpoint) -> Generator[LoadProgress, None, Runner]:
    """Make the planned model and read its weights, in pieces of about 100 ms; dropping the generator gives
    everything back.

    Raises UnsupportedModelError where transformers cannot make the model, ModelFileError where the files do
    not hold what it needs: both before a weight is read.
    """
    assert plan.model.generic is not None
    name = plan.model.generic.class_name
    importing = in_background(functools.partial(_import, name), "decodeck-transformers")
    [loading] = yield from until_done([importing], LoadProgress(0.02, "library"))
    runner: Runner = yield from loading.load(plan, checkpoint)
    return runner


def _import(class_name: str) -> ModuleType:
    """The other half of this module and the model's class, on a thread of its own: the import takes seconds,
    and none of it computes.
    """
    with offline():
        try:
            loading = importlib.import_module("engine.models.generic_load")
            loading.silence()
            loading.import_class(class_name)
        except ImportError as error:
            name = error.name or "transformers"
            raise UnsupportedModelError(
                tr("This architecture runs through the library {name}, which cannot be imported.").format(
                    name=name
                ),
                tr("Run pip install {name}, or choose another model.").format(name=name),
            ) from None
    return loading
