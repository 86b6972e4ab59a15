"""How numbers are written in the window: rounding, units, separators; unknown is a dash. Knows no widget."""

from __future__ import annotations

import math
from collections.abc import Sequence

from PySide6.QtCore import QLocale

UNKNOWN = "–"
NBSP = "\u00a0"
_GB = 1_000_000_000


def decimal(value: float, digits: int) -> str:
    """``value`` with a fixed number of decimals and the system's separators."""
    return _locale().toString(float(value), "f", digits)


def count(value: int | None) -> str:
    """A whole number with separators: 8,192."""
    return UNKNOWN if value is None else _locale().toString(value)


def tps(value: float | None) -> str:
    """Tokens per second without the unit: one decimal below 100, none above; a dash for what is no speed."""
    if value is None or not math.isfinite(value) or value < 0:
        return UNKNOWN
    return decimal(value, 1 if value < 99.95 else 0)


def seconds(value: float | None) -> str:
    """Seconds without the unit: two decimals below 10, one above."""
    if value is None or not math.isfinite(value) or value < 0:
        return UNKNOWN
    return decimal(value, 2 if value < 9.995 else 1)


def milliseconds(value: float) -> str:
    """Milliseconds without the unit: one decimal below 10, none above."""
    return decimal(value, 1 if value < 9.95 else 0)


def gigabytes(num_bytes: int | None) -> str:
    """Decimal gigabytes without the unit: two decimals below 10, one above."""
    if num_bytes is None:
        return UNKNOWN
    return _hundredths_text(round(num_bytes * 100 / _GB))


def gigabyte_parts(parts: Sequence[int]) -> tuple[tuple[str, ...], str]:
    """The texts of ``parts`` and of their sum, in GB, rounded so that the written parts add up to the sum.

    Largest-remainder rounding to hundredths; a value of 10 GB or more then loses its second decimal.
    """
    exact = [part * 100 / _GB for part in parts]
    floors = [math.floor(value) for value in exact]
    missing = round(sum(exact)) - sum(floors)
    by_remainder = sorted(range(len(parts)), key=lambda i: exact[i] - floors[i], reverse=True)
    for index in by_remainder[:missing]:
        floors[index] += 1
    return tuple(_hundredths_text(value) for value in floors), _hundredths_text(sum(floors))


def context(num_tokens: int | None) -> str:
    """A context length in short: 512, 8k (8,192), 1M (1,048,576); any other number in full."""
    if num_tokens is None:
        return UNKNOWN
    for unit, suffix in ((1 << 20, "M"), (1 << 10, "k")):
        if num_tokens >= unit and num_tokens % unit == 0:
            return f"{num_tokens // unit}{suffix}"
    return count(num_tokens)


def _hundredths_text(value: int) -> str:
    return decimal(value / 100, 2 if value < 1000 else 1)


def _locale() -> QLocale:
    system = QLocale()
    if system.language() == QLocale.Language.C:  # no separators at all; the interface is English
        return QLocale(QLocale.Language.English)
    return system
