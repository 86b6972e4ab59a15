"""The Batch lab's results as files: a table for spreadsheets, and a picture. Knows no window.

Writing waits for the disk; it raises StorageError with a sentence.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from pathlib import Path

from PySide6.QtCore import QBuffer, QByteArray, QIODevice
from PySide6.QtGui import QImage, QImageWriter

from app.atomic_file import write_atomic
from app.lab_view import Spot, limited_by
from engine.types import LoadPlan

COLUMNS = (
    "model",
    "format",
    "kv_bits",
    "device",
    "kernels",
    "copies",
    "tokens",
    "each_tps",
    "total_tps",
    "predicted_each_tps",
    "predicted_total_tps",
    "error",
    "ttft_s",
    "memory_bytes",
    "limited_by",
    "failed",
)


def csv_text(made: LoadPlan, spots: Sequence[Spot]) -> str:
    """A line for every measured point, with points as decimal signs whatever the system writes."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(COLUMNS)
    for spot in spots:
        if spot.kept is not None:
            writer.writerow(_line(made, spot))
    return text.getvalue()


def _line(made: LoadPlan, spot: Spot) -> list[object]:
    kept = spot.kept
    assert kept is not None
    copies = spot.point.copies
    predicted = spot.predicted_each, spot.predicted_each * copies
    plan = [made.model.name, made.format, made.kv_bits, made.device, made.kernels]
    figures = [spot.each, spot.total, *predicted, kept.error, kept.ttft_s, kept.memory_bytes]
    return [*plan, copies, spot.point.tokens, *figures, limited_by(spot), kept.failed]


def write_csv(path: str, text: str) -> str:
    """Write the table; its name."""
    target = _named(path, ".csv")
    write_atomic(target, text.encode())
    return target.name


def write_png(path: str, image: QImage) -> str:
    """Write the picture; its name."""
    target, buffer = _named(path, ".png"), QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    QImageWriter(buffer, QByteArray(b"png")).write(image)
    write_atomic(target, bytes(buffer.data().data()))
    return target.name


def _named(path: str, suffix: str) -> Path:
    """``path`` with an ending, where none was typed."""
    given = Path(path)
    return given if given.suffix else given.with_suffix(suffix)
