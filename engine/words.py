"""The words a person reads, in the language they chose. English stands where it is used and is the key.

``tr`` where a text is made or shown; ``mark`` where a constant is made before the language is known, with
``tr`` where it is shown. Only literals: ``python packaging/languages.py`` (lupdate) collects them. What is no
text of the window stays English: logs, JSON, the command line, files.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal

LANGUAGES = {"en": "English", "de": "Deutsch"}
"""Each in its own words, by the code of its file in ``assets/languages``; English has none."""
Lookup = Callable[[str, str, int], str]
"""Source text, what sets it apart from another of the same words, and the number in it (-1: none); "" where
there is no translation."""


def _english(text: str, meaning: str, number: int) -> str:
    return text.replace("(s)", "" if number == 1 else "s") if number >= 0 else text


def _plain(number: int) -> str:
    return f"{number:,}"


def _plain_decimal(value: float, digits: int) -> str:
    return f"{value:.{digits}f}"


_lookup: Lookup = _english
_figure: Callable[[int], str] = _plain
_decimal: Callable[[float, int], str] = _plain_decimal
_MOST = (1 << 63) - 1  # a damaged file may claim more, which is no number of Qt's


def use(
    lookup: Lookup | None,
    figure: Callable[[int], str] = _plain,
    decimal: Callable[[float, int], str] = _plain_decimal,
) -> None:
    """Take the words of a language from here on, and how it writes numbers; None is English."""
    global _lookup, _figure, _decimal
    _lookup, _figure, _decimal = lookup or _english, figure, decimal


def tr(text: str, meaning: str = "", number: int = -1) -> str:
    """``text`` in the chosen language; fill its ``{names}`` afterwards with ``str.format``.

    ``meaning`` tells a translator which sense is meant, and sets two texts of the same words apart. With
    ``number``, ``%n`` in the text is that number and "(s)" behind an English word its plural: "%n chat(s)".
    """
    if not text:
        return ""
    found = _lookup(text, meaning, number) or _english(text, meaning, number)
    return found.replace("%n", figure(number)) if number >= 0 else found


def figure(number: int) -> str:
    """A whole number as the language writes it: 8,192."""
    return _figure(number) if abs(number) <= _MOST else _plain(number)


def decimal(value: float, digits: int) -> str:
    """``value`` with a fixed number of decimals, as the language writes it."""
    return _decimal(value, digits)


def number(value: float) -> str:
    """A number with as many decimals as it has, as the language writes it: 1,000,000,000 and 0.1."""
    if float(value).is_integer():
        return figure(int(value))
    exponent = Decimal(repr(float(value))).as_tuple().exponent
    return decimal(value, -exponent if isinstance(exponent, int) else 0)


def percent(number: str) -> str:
    """A percentage whose number is written already: "24%", and with a space where the language has one."""
    return tr("{number}%", "a share").format(number=number)


def mark(text: str) -> str:
    """``text`` itself: it is collected for translation here, and ``tr`` translates it where it is shown."""
    return text
