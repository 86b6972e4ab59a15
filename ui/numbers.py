"""How numbers are written in the window: rounding, units, separators; unknown is a dash. Knows no widget."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence

from PySide6.QtCore import QLocale

from engine import words
from engine.words import tr

UNKNOWN = "–"
NBSP = "\u00a0"
_GB = 1_000_000_000
_PLAIN = re.compile(r"[-+]?[0-9]{1,30}(\.[0-9]{0,30})?")
_LEAST_MB = 0.05  # less would be a zero here too


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


def predicted_tps(value: float | None) -> str:
    """A predicted speed without the unit: whole from 10 up; it is not known better."""
    if value is None or not math.isfinite(value) or value < 0:
        return UNKNOWN
    return decimal(value, 1 if value < 9.95 else 0)


def seconds(value: float | None) -> str:
    """Seconds without the unit: two decimals below 10, one above."""
    if value is None or not math.isfinite(value) or value < 0:
        return UNKNOWN
    return decimal(value, 2 if value < 9.995 else 1)


def gbps(value: float | None) -> str:
    """10⁹ bytes a second without the unit: one decimal below 10, none above."""
    return UNKNOWN if value is None else decimal(value, 1 if value < 9.95 else 0)


def milliseconds(value: float) -> str:
    """Milliseconds without the unit: one decimal below 10, none above."""
    return decimal(value, 1 if value < 9.95 else 0)


def time_left(value: float) -> str:
    """ "8 s left", "3 min left", never 0."""
    if value < 90:
        return tr("{seconds}\u00a0s left").format(seconds=max(1, round(value)))
    return tr("{minutes}\u00a0min left").format(minutes=round(value / 60))


def percent(share: float | None, digits: int = 0) -> str:
    """A share as a percentage, a whole one: 71%."""
    return UNKNOWN if share is None else words.percent(decimal(100 * share, digits))


def typed(value: float) -> str:
    """A number as a person types it: with the decimals it has, and nothing between thousands."""
    if isinstance(value, int):
        return str(value)
    locale = QLocale(_locale())
    locale.setNumberOptions(QLocale.NumberOption.OmitGroupSeparator)
    return locale.toString(value, "f", QLocale.FloatingPointPrecisionOption.FloatingPointShortest.value)


def read_typed(text: str) -> float | None:
    """What a person typed as a number, as the language writes it, else with a point or a comma before the
    decimals; None where that is no number.
    """
    text, strict = text.strip(), QLocale(_locale())
    strict.setNumberOptions(QLocale.NumberOption.RejectGroupSeparator)
    value, is_number = strict.toDouble(text)
    if not is_number and not text.startswith("0"):  # "0,125" is no 125 with a separator of thousands
        value, is_number = _locale().toDouble(text)
    plain = text.replace(",", ".")
    if not is_number and _PLAIN.fullmatch(plain):
        value, is_number = float(plain), True
    return value if is_number and math.isfinite(value) else None


def gigabytes(num_bytes: int | None) -> str:
    """Decimal gigabytes without the unit: two decimals below 10, one above."""
    if num_bytes is None:
        return UNKNOWN
    return _hundredths_text(round(num_bytes * 100 / _GB))


def gigabyte_parts(parts: Sequence[int]) -> tuple[tuple[str, ...], str]:
    """The texts of ``parts`` and of their sum, in GB, rounded so that the written parts add up to the sum.

    Largest-remainder rounding to hundredths; a value of 10 GB or more then loses its second decimal. What
    would be a zero is written in MB.
    """
    exact = [part * 100 / _GB for part in parts]
    floors = [math.floor(value) for value in exact]
    missing = round(sum(exact)) - sum(floors)
    by_remainder = sorted(range(len(parts)), key=lambda i: exact[i] - floors[i], reverse=True)
    for index in by_remainder[:missing]:
        floors[index] += 1
    texts = tuple(_part_text(part, value) for part, value in zip(parts, floors, strict=True))
    return texts, _hundredths_text(sum(floors))


def size(num_bytes: int) -> str:
    """Bytes with their unit: MB below 10 MB, else GB."""
    if num_bytes < _GB // 100:
        return f"{_megabytes(num_bytes)}{NBSP}MB"
    return f"{gigabytes(num_bytes)}{NBSP}GB"


def context(num_tokens: int | None) -> str:
    """A context length in short: 512, 8k (8,192), 1M (1,048,576); any other number in full."""
    if num_tokens is None:
        return UNKNOWN
    for unit, suffix in ((1 << 20, "M"), (1 << 10, "k")):
        if num_tokens >= unit and num_tokens % unit == 0:
            return f"{num_tokens // unit}{suffix}"
    return count(num_tokens)


def _part_text(part: int, hundredths: int) -> str:
    is_small = hundredths == 0 and part >= _LEAST_MB * 1e6
    return f"{_megabytes(part)}{NBSP}MB" if is_small else _hundredths_text(hundredths)


def _megabytes(num_bytes: int) -> str:
    return decimal(num_bytes / 1e6, 1)


def _hundredths_text(value: int) -> str:
    return decimal(value / 100, 2 if value < 1000 else 1)


def _locale() -> QLocale:
    system = QLocale()
    if system.language() == QLocale.Language.C:  # no separators at all; the interface is English
        return QLocale(QLocale.Language.English)
    return system
