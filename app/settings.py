"""The settings: each declared once, with what it may be. Knows the file, not who uses the values."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Protocol

from app import paths
from app.atomic_file import StorageError, disk_sentence, set_aside, write_atomic
from engine.decode.limits import RANGES, Range
from engine.errors import WishError
from engine.types import SamplingParams

THEMES = ("system", "light", "dark")
FORMATS = ("auto", "file", "f32", "bf16")
_MAX_FILE_BYTES = 1_000_000
_FLAGS = {"true": True, "on": True, "yes": True, "1": True}
_FLAGS |= {"false": False, "off": False, "no": False, "0": False}


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
    """One of some words."""

    choices: tuple[str, ...]

    @property
    def words(self) -> str:
        return f"one of {', '.join(self.choices)}"

    def read(self, raw: object) -> object:
        if raw not in self.choices:
            raise ValueError
        return raw

    def parse(self, text: str) -> object:
        return text.lower()


@dataclass(frozen=True, slots=True)
class Flag:
    """On or off."""

    words: str = "on or off"

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
    """Any text; with ``may_be_none`` also nothing."""

    may_be_none: bool = False
    words: str = "a text"

    def read(self, raw: object) -> object:
        if raw is None and self.may_be_none:
            return None
        if not isinstance(raw, str):
            raise ValueError
        raw.encode()  # half a surrogate pair is no text; its error is a ValueError
        return raw

    def parse(self, text: str) -> object:
        return None if self.may_be_none and not text else text


@dataclass(frozen=True, slots=True)
class Number:
    """A number of a range; with ``may_be_none`` also nothing."""

    range: Range
    may_be_none: bool = False

    @property
    def words(self) -> str:
        return f"{self.range.words}{' or none' if self.may_be_none else ''}"

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


def _setting(default: object, rule: Rule) -> Any:
    """A field with its rule; Any, because the field's own annotation is the type."""
    return field(default=default, metadata={"rule": rule})


_SAMPLING = SamplingParams()
_PIXELS = Number(Range(1, 1 << 15, is_whole=True), may_be_none=True)
_TOKENS = Number(Range(1, 1 << 24, is_whole=True), may_be_none=True)


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings. None: not chosen (``context``, ``max_tokens``), drawn anew each time (``seed``)."""

    theme: str = _setting("system", OneOf(THEMES))
    last_model: str | None = _setting(None, Text(may_be_none=True))
    format: str = _setting("auto", OneOf(FORMATS))
    context: int | None = _setting(None, _TOKENS)
    window_width: int | None = _setting(None, _PIXELS)
    window_height: int | None = _setting(None, _PIXELS)
    sidebar_open: bool = _setting(True, Flag())
    tuning_open: bool = _setting(True, Flag())
    temperature: float = _setting(_SAMPLING.temperature, Number(RANGES["temperature"]))
    top_k: int = _setting(_SAMPLING.top_k, Number(RANGES["top_k"]))
    top_p: float = _setting(_SAMPLING.top_p, Number(RANGES["top_p"]))
    min_p: float = _setting(_SAMPLING.min_p, Number(RANGES["min_p"]))
    seed: int | None = _setting(None, Number(RANGES["seed"], may_be_none=True))
    repeat_penalty: float = _setting(_SAMPLING.repeat_penalty, Number(RANGES["repeat_penalty"]))
    max_tokens: int | None = _setting(1024, _TOKENS)
    system_prompt: str = _setting("", Text())
    unknown: Mapping[str, object] = field(default_factory=dict, hash=False)  # of newer versions; kept

    def sampling(self) -> SamplingParams:
        """The sampling settings as the engine takes them."""
        names = [each.name for each in fields(SamplingParams)]
        return SamplingParams(**{name: getattr(self, name) for name in names})


_RULES: dict[str, Rule] = {each.name: each.metadata["rule"] for each in fields(Settings) if each.metadata}


def load(path: Path | None = None) -> tuple[Settings, str | None]:
    """The settings and, where something had to be corrected, one notice for the user. Never raises.

    A damaged file is set aside and named; the copy from before the last change stands in for it.
    """
    path = path or paths.settings_file()
    try:
        raw = _read(path)
    except FileNotFoundError:
        return Settings(), None
    except OSError as error:
        return Settings(), f"The settings could not be read: {error.strerror or error}. Defaults are used."
    except ValueError:
        return _after_damage(path)
    settings, corrections = _checked(raw)
    return settings, f"Settings corrected: {'; '.join(corrections)}." if corrections else None


def save(settings: Settings, path: Path | None = None) -> None:
    """Write the settings; the file is the old or the new one at every moment, and the old one is kept.

    Waits for the disk. Raises StorageError with a sentence; the old file is then as it was.
    """
    path = path or paths.settings_file()
    known = {name: getattr(settings, name) for name in _RULES}
    data = json.dumps(dict(settings.unknown) | known, indent=2).encode()
    try:
        old = path.read_bytes()
        if old == data:
            return
        _read(path)  # a damaged file never replaces the good copy
        write_atomic(_copy_of(path), old)
    except (FileNotFoundError, ValueError):
        pass
    except OSError as error:
        raise StorageError(*disk_sentence(error, path)) from error
    write_atomic(path, data)


def with_value(settings: Settings, change: str) -> Settings:
    """``settings`` with one ``name=value`` that a person typed. Raises WishError with what is allowed."""
    name, equals, text = change.partition("=")
    name, text = name.strip().replace("-", "_"), text.strip()
    if not equals or name not in _RULES:
        raise WishError(
            f'There is no setting "{name}".' if equals else f'"{change}" is not of the form NAME=VALUE.',
            f"Settings: {', '.join(_RULES)}.",
        )
    rule = _RULES[name]
    try:
        raw = rule.parse(text)
        value: Any = rule.read(raw)
        if value != raw:
            raise ValueError
    except (ValueError, OverflowError) as error:
        raise WishError(f'{name} cannot be "{text}".', f"It must be {rule.words}.") from error
    return replace(settings, **{name: value})


def _read(path: Path) -> dict[str, object]:
    """The object in the file. Raises OSError, and ValueError where it holds anything else."""
    with path.open("rb") as file:
        data = file.read(_MAX_FILE_BYTES + 1)
    if len(data) > _MAX_FILE_BYTES:
        raise ValueError("far larger than settings are")
    try:
        raw = json.loads(data.decode())
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(raw, dict):
        raise ValueError("not an object")
    return raw


def _checked(raw: dict[str, object]) -> tuple[Settings, list[str]]:
    values: dict[str, Any] = {}
    corrections: list[str] = []
    for name, rule in _RULES.items():
        if name not in raw:
            continue
        given = raw[name]
        try:
            value = rule.read(given)
        except (ValueError, OverflowError):
            value = getattr(Settings(), name)
        if value != given or isinstance(given, bool) != isinstance(value, bool):
            corrections.append(f"{name} was {_short(given)}, is now {_short(value)}")
        values[name] = value
    unknown = {key: value for key, value in raw.items() if key not in _RULES}
    return Settings(**values, unknown=unknown), corrections


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


def _copy_of(path: Path) -> Path:
    return path.with_name(path.name + ".bak")


def _after_damage(path: Path) -> tuple[Settings, str]:
    """What is loaded instead of a damaged file, and the sentence about it."""
    try:
        place = f'It was set aside as "{set_aside(path).name}".'
    except OSError:
        place = "It could not be set aside."
    try:
        settings, _ = _checked(_read(_copy_of(path)))
        instead = "The settings from before the last change are used."
    except (OSError, ValueError):
        settings, instead = Settings(), "Default settings are used."
    return settings, f"The settings file was damaged. {place} {instead}"
