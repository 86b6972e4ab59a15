"""A machine's calibration as it is kept between runs of the program, in a small file beside the kernel times.

Holds for one machine and one version of the program, as those do; a file that cannot be read holds nothing.
"""

from __future__ import annotations

import contextlib
import json
import math
from dataclasses import asdict, fields, is_dataclass
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from engine.calibration import Calibration
from engine.fit.correction import PARTS
from engine.hardware.kernel_times import machine_place, replace_file
from engine.machine import Hardware

NAME = "calibration.json"
MOST_MACHINES = 16
_MOST_BYTES = 1 << 20
_Entry = dict[str, Any]


class CalibrationFile:
    """The entry of ``hardware`` in the file beside ``kernel_times``; others' entries are kept as they are."""

    def __init__(self, kernel_times: Path, hardware: Hardware) -> None:
        self._path = kernel_times.with_name(NAME)
        self._place = machine_place(hardware)

    def read(self) -> Calibration | None:
        """What is known of this machine and version."""
        found = next((entry for entry in self._entries() if self._is_ours(entry)), None)
        if found is None:
            return None
        try:
            calibration: Calibration = _read(Calibration, found.get("calibration"))
        except (TypeError, ValueError):
            return None
        return calibration if _is_sane(calibration) else None

    def keep(self, calibration: Calibration) -> None:
        """Keep it in place of an older one. A file that cannot be written stays away: the next run measures
        again.
        """
        others = [entry for entry in self._entries() if not self._is_ours(entry)]
        entries = [*others, self._place | {"calibration": asdict(calibration)}]
        with contextlib.suppress(OSError):
            replace_file(self._path, json.dumps({"calibrations": entries[-MOST_MACHINES:]}).encode())

    def _is_ours(self, entry: _Entry) -> bool:
        return all(entry.get(name) == value for name, value in self._place.items())

    def _entries(self) -> list[_Entry]:
        try:
            with self._path.open("rb") as file:
                held = json.loads(file.read(_MOST_BYTES))
        except (OSError, ValueError, RecursionError):
            return []
        listed = held.get("calibrations") if isinstance(held, dict) else None
        return [entry for entry in listed if isinstance(entry, dict)] if isinstance(listed, list) else []


def _read(kind: Any, value: object) -> Any:
    """A frozen dataclass of numbers, words and tuples from what JSON made of it. Raises TypeError,
    ValueError.
    """
    if not isinstance(value, dict):
        raise TypeError(kind.__name__)
    hints = get_type_hints(kind)
    names = [each.name for each in fields(kind) if each.name in value]
    return kind(**{name: _value(hints[name], value[name]) for name in names})


def _value(kind: Any, value: Any) -> Any:
    if get_origin(kind) is tuple:
        kinds = get_args(kind)
        if not isinstance(value, list):
            raise TypeError("no list")
        if kinds[-1] is Ellipsis:
            return tuple(_value(kinds[0], each) for each in value)
        return tuple(_value(each, part) for each, part in zip(kinds, value, strict=True))
    if is_dataclass(kind):
        return _read(kind, value)
    options = get_args(kind) or (kind,)
    if value is None and type(None) in options:
        return None
    if float in options:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise ValueError("no number")
        return float(value)
    if type(value) not in options:
        raise TypeError(f"no {kind}")
    return value


def _is_sane(known: Calibration) -> bool:
    """Whether it is what a measurement leaves: what is divided by is above 0."""
    rates = [known.read_gbps, *(rate for _, rate in known.reads)]
    rates += [] if known.disk_gbps is None else [known.disk_gbps]
    curves = [each.cache_ns for each in known.kernels] + [each.cache_ns for each in known.attention]
    squares = all(
        len(each.factors) == len(each.covariance) == PARTS
        and all(len(row) == PARTS for row in each.covariance)
        for each in known.corrections
    )
    return (
        squares
        and all(curves)
        and all(each > 0 for each in (*rates, *(ns for curve in curves for _, ns in curve)))
    )
