"""A setting as a person reads and types it in a field: numbers as the language writes them."""

from __future__ import annotations

from app.setting_rules import Number
from app.setting_table import CARDS, Settings
from app.settings import with_value
from engine.errors import WishError
from engine.words import tr
from ui import numbers


def shown(value: object) -> str:
    """A value as a person would type it; ``read`` understands it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "on" if value else "off"
    return numbers.typed(value) if isinstance(value, int | float) else str(value)


def read(name: str, text: str) -> object:
    """The value of the setting ``name`` that was typed. Raises WishError, whose hint says what it may be."""
    try:
        return getattr(with_value(Settings(), f"{name}={_plain(name, text)}"), name)
    except WishError as error:
        words = tr("{value} cannot be used.") if text.strip() else tr("Nothing cannot be used.")
        raise WishError(words.format(value=text.strip()), error.hint) from error


def _plain(name: str, text: str) -> str:
    """A number as a program writes it; other texts, and whole numbers, which may be long, as they are."""
    value = numbers.read_typed(text)
    is_number = isinstance(CARDS[name].rule, Number)
    if value is None or not is_number or text.strip().removeprefix("-").isdecimal():
        return text
    return str(int(value)) if value.is_integer() else repr(value)
