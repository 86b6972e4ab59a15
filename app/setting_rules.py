"""What a setting may be: read from a file, typed by a person, written as a text. Knows no setting."""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from engine.decode.limits import Range
from engine.words import tr

MOST_MODELS = 200  # whose own settings are kept; the oldest go first
_FLAGS = {"true": True, "on": True, "yes": True, "1": True}
_FLAGS |= {"false": False, "off": False, "no": False, "0": False}
_DEVICE = re.compile(r"auto|cpu|mps|(cuda|xpu)(:\d{1,3})?")


class Rule(Protocol):
    """What a setting may be. ``words`` completes the sentence "It must be …"."""

    @property
    def words(self) -> str: ...

    def read(self, raw: object) -> object:
        """The nearest allowed value of ``raw``. Raises ValueError where there is none."""

    def parse(self, text: str) -> object:
        """What a person typed, as a raw value. Raises ValueError."""


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of some words; ``labels`` are what a person sees of them."""

    choices: tuple[str, ...]
    labels: tuple[str, ...] = ()
    is_percent: bool = False  # what a person sees of them is a percentage

    @property
    def words(self) -> str:
        return tr("one of {choices}").format(choices=", ".join(self.choices))

    def read(self, raw: object) -> object:
        if raw not in self.choices:
            raise ValueError
        return raw

    def parse(self, text: str) -> object:
        return text.lower()


@dataclass(frozen=True, slots=True)
class Flag:
    """On or off."""

    @property
    def words(self) -> str:
        return tr("on or off")

    def read(self, raw: object) -> object:
        if not isinstance(raw, bool):
            raise ValueError
        return raw

    def parse(self, text: str) -> object:
        if text.lower() not in _FLAGS:
            raise ValueError
        return _FLAGS[text.lower()]


@dataclass(frozen=True, slots=True)
class Text:
    """Any text, of many lines where ``is_long``; with ``may_be_none`` also nothing. With ``most`` it has no
    more characters than that, and none that cannot be seen.
    """

    may_be_none: bool = False
    is_long: bool = False
    most: int | None = None

    @property
    def words(self) -> str:
        if self.most is None:
            return tr("a text")
        return tr("a text of at most {most} characters that can be seen").format(most=self.most)

    def read(self, raw: object) -> object:
        if raw is None and self.may_be_none:
            return None
        if not isinstance(raw, str):
            raise ValueError
        raw.encode()  # half a surrogate pair is no text; its error is a ValueError
        if self.most is None:
            return raw
        return "".join(letter for letter in raw if letter.isprintable())[: self.most]

    def parse(self, text: str) -> object:
        return None if self.may_be_none and not text else text


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a range; with ``may_be_none`` also nothing."""

    range: Range
    may_be_none: bool = False

    @property
    def words(self) -> str:
        words = self.range.words
        return tr("{number} or none").format(number=words) if self.may_be_none else words

    def read(self, raw: object) -> object:
        if raw is None and self.may_be_none:
            return None
        if isinstance(raw, str):
            raw = float(raw)
        if isinstance(raw, bool) or not isinstance(raw, int | float):
            raise ValueError
        if isinstance(raw, float) and math.isnan(raw):
            raise ValueError
        value = min(max(raw, self.range.low), self.range.high)
        return round(value) if self.range.is_whole else float(value) + 0.0  # −0.0 becomes 0.0

    def parse(self, text: str) -> object:
        if self.may_be_none and text.lower() in ("", "none"):
            return None
        return int(text) if self.range.is_whole else float(text)


@dataclass(frozen=True, slots=True)
class ByModel:
    """Settings of single models: by the model's path, some names with what each may be."""

    rules: Mapping[str, Rule]

    @property
    def words(self) -> str:
        return tr("set in the window")

    def read(self, raw: object) -> object:
        if not isinstance(raw, Mapping):
            raise ValueError
        kept = {path: self._of_one(each) for path, each in raw.items() if isinstance(path, str)}
        return dict([(path, each) for path, each in kept.items() if each][-MOST_MODELS:])

    def _of_one(self, raw: object) -> dict[str, object]:
        """What can be read of one model's; what cannot is left out."""
        found: dict[str, object] = {}
        for name, rule in self.rules.items():
            if isinstance(raw, Mapping) and name in raw:
                with contextlib.suppress(ValueError, OverflowError):
                    found[name] = rule.read(raw[name])
        return found

    def parse(self, text: str) -> object:
        raise ValueError


@dataclass(frozen=True, slots=True)
class Device:
    """What a model runs on: auto, cpu, or the word of a GPU."""

    @property
    def words(self) -> str:
        return tr("auto, cpu, mps, cuda:0 or xpu:0")

    def read(self, raw: object) -> object:
        if not isinstance(raw, str) or _DEVICE.fullmatch(raw) is None:
            raise ValueError
        return raw

    def parse(self, text: str) -> object:
        return text.lower()


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder by its full path, or None: where the program puts it by itself."""

    @property
    def words(self) -> str:
        return tr("the full path of a folder, or none")

    def read(self, raw: object) -> object:
        if raw is None:
            return None
        if not isinstance(raw, str) or "\0" in raw or not Path(raw).is_absolute():
            raise ValueError
        raw.encode()
        return raw

    def parse(self, text: str) -> object:
        return None if text.lower() in ("", "none") else str(Path(text).expanduser())
