"""The settings: their file, and a change that a person typed. What they are is in the table."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from app import paths
from app.atomic_file import StorageError, disk_sentence, read_object, set_aside, write_atomic
from app.setting_table import CARDS, Settings
from engine.errors import WishError
from engine.words import tr

__all__ = ["CARDS", "Settings", "at_start", "load", "save", "with_value"]

VERSION = 1
_MOST_BYTES = paths.MOST_SETTINGS_BYTES
_OURS = ("version", VERSION)  # a newer version's number is kept with what it wrote


def load(path: Path | None = None) -> tuple[Settings, str | None]:
    """The settings and, where something had to be corrected, one notice for the user. Never raises.

    A damaged file is set aside and named; the copy from before the last change stands in for it.
    """
    path = path or paths.settings_file()
    try:
        raw = read_object(path, _MOST_BYTES)
    except FileNotFoundError:
        return Settings(), None
    except OSError as error:
        return Settings(), tr("The settings could not be read: {reason}. Defaults are used.").format(
            reason=error.strerror or error
        )
    except ValueError:
        return _after_damage(path)
    settings, corrections = _checked(raw)
    if not corrections:
        return settings, None
    return settings, tr("Settings corrected: {corrections}.").format(corrections="; ".join(corrections))


def save(settings: Settings, path: Path | None = None) -> None:
    """Write the settings; the file is the old or the new one at every moment, and the old one is kept.

    Waits for the disk. Raises StorageError with a sentence; the old file is then as it was.
    """
    path = path or paths.settings_file()
    known = {name: getattr(settings, name) for name in CARDS}
    data = json.dumps({"version": VERSION} | dict(settings.unknown) | known, indent=2).encode()
    try:
        old = path.read_bytes()
        if old == data:
            return
        read_object(path, _MOST_BYTES)  # a damaged file never replaces the good copy
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
    if not equals or name not in CARDS:
        raise WishError(
            f'There is no setting "{name}".' if equals else f'"{change}" is not of the form NAME=VALUE.',
            f"Settings: {', '.join(CARDS)}.",
        )
    rule = CARDS[name].rule
    try:
        raw = rule.parse(text)
        value: Any = rule.read(raw)
        if value != raw:
            raise ValueError
    except (ValueError, OverflowError) as error:
        raise WishError(
            f'{name} cannot be "{text}".', tr("It must be {words}.").format(words=rule.words)
        ) from error
    return replace(settings, **{name: value})


def at_start(changes: Sequence[str], path: Path | None = None) -> Settings:
    """The settings before there is a window, without a word about a damaged file."""
    saved = Settings()
    with contextlib.suppress(OSError, ValueError):
        saved, _ = _checked(read_object(path or paths.settings_file(), _MOST_BYTES))
    for change in changes:
        saved = with_value(saved, change)
    return saved


def _checked(raw: dict[str, object]) -> tuple[Settings, list[str]]:
    values: dict[str, Any] = {}
    corrections: list[str] = []
    for name, card in CARDS.items():
        if name not in raw:
            continue
        given = raw[name]
        try:
            value = card.rule.read(given)
        except (ValueError, OverflowError):
            value = getattr(Settings(), name)
        if value != given or isinstance(given, bool) != isinstance(value, bool):
            words = tr("{name} was {before}, is now {after}")
            corrections.append(words.format(name=name, before=_short(given), after=_short(value)))
        values[name] = value
    unknown = {key: value for key, value in raw.items() if key not in CARDS and (key, value) != _OURS}
    return Settings(**values, unknown=unknown), corrections


def _short(value: object) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:39]}…"


def _copy_of(path: Path) -> Path:
    return path.with_name(path.name + ".bak")


def _after_damage(path: Path) -> tuple[Settings, str]:
    """What is loaded instead of a damaged file, and the sentence about it."""
    try:
        place = tr('It was set aside as "{name}".').format(name=set_aside(path).name)
    except OSError:
        place = tr("It could not be set aside.")
    try:
        settings, _ = _checked(read_object(_copy_of(path), _MOST_BYTES))
        instead = tr("The settings from before the last change are used.")
    except (OSError, ValueError):
        settings, instead = Settings(), tr("Default settings are used.")
    damaged = tr("The settings file was damaged.")
    return settings, f"{damaged} {place} {instead}"
