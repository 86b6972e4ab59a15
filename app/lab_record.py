"""What the Batch lab has measured, as it is kept between runs: the last results of each model as it was held.

Standard library only. Knows the file; not how it is measured or shown.
"""

from __future__ import annotations

import json
import logging
import math
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from app.atomic_file import StorageError, disk_sentence, read_object, set_aside, write_atomic
from engine.types import CopiesPoint, LoadPlan

VERSION = 1
SWEEP, CHAT = "sweep", "chat"
MOST_RESULTS = 64  # those measured last
_MOST_POINTS = 64
_MOST_BYTES = 1 << 21
_MOST_LETTERS = 400
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class KeptPoint:
    """A measured point beside what was predicted before it was. ``failed`` says why there are no figures."""

    copies: int
    tokens: int
    predicted_s: float  # of a step of all copies
    step_s: float | None = None
    ttft_s: float | None = None
    memory_bytes: int | None = None
    failed: str = ""

    @property
    def point(self) -> CopiesPoint:
        return CopiesPoint(self.copies, self.tokens)

    @property
    def each_tps(self) -> float | None:
        """Tokens a second of one copy."""
        return 1 / self.step_s if self.step_s else None

    @property
    def error(self) -> float | None:
        """Measured speed over predicted speed, less one."""
        return self.predicted_s / self.step_s - 1 if self.step_s else None


@dataclass(frozen=True, slots=True)
class LabRun:
    """One run. ``kind``: sweep | chat; ``ended``: running | done | stopped | failed, and then ``note`` says
    why. One that is running is not kept.
    """

    kind: str
    points: tuple[KeptPoint, ...] = ()
    when_s: float = 0.0  # seconds since 1970, of its end
    took_s: float = 0.0
    steps: int = 0
    repeats: int = 0
    band: float = 0.0  # of the predictions, a fraction
    title: str = ""  # of the chat
    ended: str = "done"
    note: str = ""


@dataclass(frozen=True, slots=True)
class LabResult:
    """The last run of each kind for one ``key``."""

    key: str
    runs: tuple[LabRun, ...] = ()

    def run(self, kind: str) -> LabRun | None:
        """The last run of a kind."""
        return next((run for run in self.runs if run.kind == kind), None)

    def with_run(self, run: LabRun) -> LabResult:
        """The same with ``run`` in place of the last one of its kind."""
        return replace(self, runs=(*(each for each in self.runs if each.kind != run.kind), run))


def key_of(made: LoadPlan, fingerprint: str) -> str:
    """What results belong to: the model's content as it is held, and who computes it."""
    return " ".join((fingerprint, made.format, str(made.kv_bits), made.device, made.kernels))


def read(path: Path, key: str) -> LabResult:
    """The kept result, empty where there is none. What cannot be read is empty too, and the log says why.
    Waits for the disk.
    """
    try:
        found = _load(path)
    except ValueError as error:
        _log.warning("%s: %s", path, error)
        found = ()
    return next((each for each in found if each.key == key), LabResult(key))


def keep(path: Path, result: LabResult) -> None:
    """Write ``result`` in place of an older one. A file that is not ours is set aside, not lost.

    Raises StorageError where the disk refuses. Waits for the disk.
    """
    try:
        found = _load(path)
    except ValueError as error:
        _log.warning("%s: %s", path, error)
        found = ()
        _set_aside(path)
    newest = [*(each for each in found if each.key != result.key), result][-MOST_RESULTS:]
    held = {"version": VERSION, "results": [asdict(each) for each in newest]}
    write_atomic(path, json.dumps(held).encode())


def _set_aside(path: Path) -> None:
    """Raises StorageError where the folder refuses."""
    try:
        if path.exists():
            set_aside(path)
    except OSError as error:
        raise StorageError(*disk_sentence(error, path)) from error


def _load(path: Path) -> tuple[LabResult, ...]:
    """Raises ValueError for everything that is there and is no record of this version."""
    try:
        held = read_object(path, _MOST_BYTES)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise ValueError(f"it cannot be read: {error.strerror or error}") from None
    if held.get("version") != VERSION:
        raise ValueError("it is no record of this version")
    return tuple(filter(None, map(_result, _objects(held.get("results")))))


def _result(entry: dict[str, Any]) -> LabResult | None:
    key = entry.get("key")
    runs = tuple(filter(None, map(_run, _objects(entry.get("runs")))))
    return LabResult(key, runs) if isinstance(key, str) else None


def _run(entry: dict[str, Any]) -> LabRun | None:
    """The run of an entry, None for one that no measurement has written."""
    points = [_point(each) for each in _objects(entry.get("points"))][:_MOST_POINTS]
    values = _checked(LabRun, entry, skip="points")
    if values is None or None in points or values["kind"] not in (SWEEP, CHAT):
        return None
    return LabRun(points=tuple(point for point in points if point is not None), **values)


def _point(entry: dict[str, Any]) -> KeptPoint | None:
    values = _checked(KeptPoint, entry)
    if values is None or min(values["copies"], values["tokens"]) < 1 or values["predicted_s"] <= 0:
        return None
    return KeptPoint(**values)


def _checked(kind: type[KeptPoint | LabRun], entry: dict[str, Any], skip: str = "") -> dict[str, Any] | None:
    """The values of the fields of a kind, where each is of its type, finite and not negative."""
    found = {}
    for field in fields(kind):
        if field.name == skip:
            continue
        value, words = entry.get(field.name), str(field.type)
        if not _fits(value, words):
            return None
        found[field.name] = value
    return found


def _fits(value: object, words: str) -> bool:
    if value is None:
        return words.endswith("| None")
    if isinstance(value, str):
        return words == "str" and len(value) <= _MOST_LETTERS
    if isinstance(value, bool) or not isinstance(value, int | float):
        return False
    is_whole = words.startswith("int")
    return math.isfinite(value) and value >= 0 and (isinstance(value, int) or not is_whole) and words != "str"


def _objects(listed: object) -> list[dict[str, Any]]:
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []
