"""What was predicted of past answers and what they were, as it is kept between runs. Standard library only.

Knows the file and what a drift is; not who predicts, nor how the table is shown.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median
from typing import Any

from app.atomic_file import read_object, set_aside, write_atomic

VERSION = 1
MOST_ROWS = 400  # the newest; about 100 kB
DRIFT = 0.15
DRIFT_ANSWERS = 5  # that are judged together
_FEWEST = 3
_MOST_BYTES = 1 << 20
_MOST_LETTERS = 200
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Judged:
    """One answer. Both speeds are those of the whole answer: tokens after the first, over their time."""

    when_s: float  # since 1970
    model: str
    format: str
    context: int  # that was loaded
    kernels: str
    device: str
    tokens: int  # in the chat's context at its end
    chats: int  # most that were answered at once
    predicted_tps: float
    measured_tps: float
    predicted_ttft_s: float | None
    ttft_s: float | None
    basis: str  # of the prediction: measured | corrected | default
    cause: str = ""  # of its being slower, where something outside the program was to blame

    @property
    def error(self) -> float:
        """Measured over predicted, less one: −0.06 is 6 % slower than predicted."""
        return self.measured_tps / self.predicted_tps - 1

    @property
    def place(self) -> tuple[str, str, str, str]:
        """Answers of the same place are held to the same prediction."""
        return self.model, self.format, self.kernels, self.device


def drift(rows: Sequence[Judged], since_s: float = 0.0) -> float | None:
    """The median error of the newest answers like the last one, oldest first in ``rows``, where it is more
    than 15 % and the last one itself is as far off; None where it is not, and where too few are known.

    Answers from before ``since_s``, when the machine was measured, do not count, nor those that something
    outside the program slowed down.
    """
    if not rows:
        return None
    last = rows[-1]
    same = [row for row in rows if row.place == last.place and row.when_s >= since_s and not row.cause]
    errors = [row.error for row in same[-DRIFT_ANSWERS:]]
    if len(errors) < _FEWEST:
        return None
    found = median(errors)
    is_last_off = last in same and abs(last.error) > DRIFT and (last.error > 0) == (found > 0)
    return found if abs(found) > DRIFT and is_last_off else None


def read(path: Path) -> tuple[Judged, ...]:
    """The rows of the file, the newest last. Nothing where it is missing or cannot be read; one that is
    damaged is set aside, and the log says so. Waits for the disk.
    """
    try:
        held = read_object(path, _MOST_BYTES)
        listed = held.get("rows")
        if held.get("version") != VERSION or not isinstance(listed, list):
            raise ValueError
    except FileNotFoundError:
        return ()
    except OSError as error:
        _log.warning("past predictions cannot be read: %s", error)
        return ()
    except ValueError:
        _put_aside(path)
        return ()
    rows = [_row(entry) for entry in listed if isinstance(entry, dict)]
    return tuple(row for row in rows if row is not None)[-MOST_ROWS:]


def write(path: Path, rows: Sequence[Judged]) -> None:
    """Keep the newest of ``rows``; the file is the old or the new one at every moment. Waits for the disk.

    Raises StorageError where the disk refuses.
    """
    held = {"version": VERSION, "rows": [asdict(row) for row in rows[-MOST_ROWS:]]}
    write_atomic(path, json.dumps(held).encode())


def _row(entry: dict[str, Any]) -> Judged | None:
    """The row of an entry, None for one that no answer has written."""
    values = {each.name: entry.get(each.name) for each in fields(Judged)}
    texts = [values[name] for name in ("model", "format", "kernels", "device", "basis", "cause")]
    counts = [values[name] for name in ("context", "tokens", "chats")]
    speeds = [values[name] for name in ("when_s", "predicted_tps", "measured_tps")]
    seconds = [values[name] for name in ("predicted_ttft_s", "ttft_s") if values[name] is not None]
    if not all(isinstance(each, str) and len(each) <= _MOST_LETTERS for each in texts):
        return None
    if not all(type(each) is int and each > 0 for each in counts):
        return None
    if not all(_is_positive(each) for each in (*speeds, *seconds)):
        return None
    return Judged(**values)  # type: ignore[arg-type]


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and type(value) is not bool and math.isfinite(value) and value > 0


def _put_aside(path: Path) -> None:
    try:
        _log.warning("past predictions are damaged and were set aside as %s", set_aside(path).name)
    except OSError as error:
        _log.warning("past predictions are damaged and stay where they are: %s", error)
