"""Whether a model of the library fits this computer and how fast it should be, in words. Pure functions."""

from __future__ import annotations

from app.tuning_view import verdict_view
from engine.errors import EngineError
from engine.fit.plan import plan
from engine.fit.speed import Prediction, predict
from engine.machine import Hardware
from engine.types import LoadSpec, ModelSpec
from engine.words import tr
from ui import numbers
from ui.library_values import FitMark


def fit_mark(spec: ModelSpec, hardware: Hardware | None, wish: LoadSpec, held_bytes: int = 0) -> FitMark:
    """The mark of a model for ``wish``; unknown until the machine is known. ``held_bytes`` is what the loaded
    model would give back.
    """
    if hardware is None:
        return FitMark()
    try:
        made = plan(spec, hardware, wish, held_bytes)
        found = predict(made)
    except EngineError as error:
        return FitMark("no", tr("Cannot run here"), tooltip=str(error))
    view = verdict_view(made, found)
    at = tr("With a context of {tokens} tokens, half full.").format(tokens=numbers.count(made.context))
    tooltip = f"{at} {view.tooltip}"
    speed = ("", "") if made.verdict == "no" else _speed(found)
    return FitMark(made.verdict, view.title, *speed, tooltip=tooltip)


def size_mark(size_bytes: int, hardware: Hardware | None, held_bytes: int = 0) -> FitMark:
    """What a file's size alone tells: only that it is larger than all memory there is."""
    free = None if hardware is None or hardware.ram_free_bytes is None else hardware.ram_free_bytes
    gpus = sum(gpu.free_bytes or 0 for gpu in (hardware.gpus or ())) if hardware else 0
    if free is None or size_bytes <= free + held_bytes + gpus:
        return FitMark()
    short = numbers.size(size_bytes - free - held_bytes - gpus)
    return FitMark(
        "no", tr("Does not fit · {size} short").format(size=short), tooltip=tr("By its size alone.")
    )


def _speed(found: Prediction) -> tuple[str, str]:
    """ "41 tok/s" and "±6% predicted": whole from 10 up."""
    speed = tr("{speed}\u00a0tok/s").format(speed=numbers.predicted_tps(found.half))
    return speed, tr("±{share} predicted").format(share=numbers.percent(found.band))
