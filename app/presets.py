"""How one chat is answered: instructions, sampling and length, as values that a chat or a preset keeps.

Knows what each may be, and the small files in which presets are shared; no window and no store.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from app.atomic_file import read_object, write_atomic
from app.settings import CARDS, Settings
from engine.errors import EngineError
from engine.foreign import one_line
from engine.words import mark, tr

FORMAT, VERSION = "decodeck-preset", 1
MOST_BYTES = 200_000  # of a shared file
MOST_FILE_BYTES = 8_000_000  # of those kept here
MOST_PRESETS = 40
MOST_PROMPT_CHARS = 20_000  # of instructions
MOST_NAME = 60  # characters
OF_A_CHAT: tuple[str, ...] = ("system_prompt", "temperature", "top_k", "top_p", "min_p", "repeat_penalty")
OF_A_CHAT += ("presence_penalty", "frequency_penalty", "seed", "max_tokens")
"""What a chat can have of its own, by the names of settings."""
_HINT = mark("A preset is a small JSON file that this program has written.")


class PresetError(EngineError):
    """A file holds no preset."""

    kind = "preset"


def checked(raw: object) -> dict[str, object]:
    """What can be used of values by name, each brought into its range; the rest is left out."""
    found: dict[str, object] = {}
    for name in OF_A_CHAT:
        if isinstance(raw, Mapping) and name in raw:
            with contextlib.suppress(ValueError, OverflowError, TypeError):
                found[name] = CARDS[name].rule.read(raw[name])
    prompt = found.get("system_prompt")
    if isinstance(prompt, str):
        found["system_prompt"] = prompt[:MOST_PROMPT_CHARS]
    return found


def applied(saved: Settings, values: Mapping[str, object]) -> Settings:
    """The settings with what a chat has of its own."""
    known: dict[str, Any] = checked(values)
    return replace(saved, **known)


def of(settings: Settings) -> dict[str, object]:
    """What the settings say of how a chat is answered."""
    return {name: getattr(settings, name) for name in OF_A_CHAT}


def differing(saved: Settings, values: Mapping[str, object]) -> dict[str, object]:
    """What of ``values`` is not what the settings have anyway."""
    return {name: value for name, value in values.items() if value != getattr(saved, name)}


def clean_name(name: str) -> str:
    """A preset's name on one line; "" where nothing of it can be shown."""
    return " ".join(one_line(name).split())[:MOST_NAME].strip()


def to_file(name: str, values: Mapping[str, object]) -> bytes:
    """A preset as a file to share."""
    held = {"format": FORMAT, "version": VERSION, "name": name, "values": checked(values)}
    return json.dumps(held, ensure_ascii=False, indent=1).encode("utf-8", "replace") + b"\n"


def read_shared(path: Path) -> bytes:
    """The bytes of a shared file, and no more than are looked at. Raises PresetError."""
    try:
        if not path.is_file():  # a pipe may never end
            raise PresetError(tr("{file} is not a file.").format(file=path.name), tr(_HINT))
        with path.open("rb") as file:
            return file.read(MOST_BYTES + 1)
    except OSError as error:
        raise PresetError(
            tr("{file} could not be read: {reason}.").format(file=path.name, reason=error.strerror or error)
        ) from error


def from_file(data: bytes, file_name: str) -> tuple[str, dict[str, object]]:
    """The name and the values in a file. Raises PresetError where it holds none."""
    if len(data) > MOST_BYTES:
        raise PresetError(tr("{file} is too large for a preset.").format(file=file_name), tr(_HINT))
    try:
        held = json.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise PresetError(tr("{file} is not a preset.").format(file=file_name), tr(_HINT)) from error
    if not isinstance(held, dict) or held.get("format") != FORMAT:
        raise PresetError(tr("{file} is not a preset.").format(file=file_name), tr(_HINT))
    version = held.get("version")
    if isinstance(version, int) and version > VERSION:
        raise PresetError(
            tr("{file} comes from a newer version.").format(file=file_name),
            tr("Update this program to read it."),
        )
    given = held.get("values")
    prompt = given.get("system_prompt") if isinstance(given, dict) else None
    if isinstance(prompt, str) and len(prompt) > MOST_PROMPT_CHARS:
        raise PresetError(
            tr("The instructions in {file} are too long.").format(file=file_name),
            tr("At most %n character(s) of instructions can be kept.", "", MOST_PROMPT_CHARS),
        )
    values = checked(given)
    if not values:
        raise PresetError(tr("{file} sets nothing.").format(file=file_name), tr(_HINT))
    name = held.get("name")
    return clean_name(name if isinstance(name, str) else "") or tr("Preset"), values


def read(path: Path) -> dict[str, dict[str, object]]:
    """The presets that are kept, by name; what cannot be read is none. Waits for the disk."""
    try:
        held = read_object(path, MOST_FILE_BYTES)
    except (OSError, ValueError):
        return {}
    found = {clean_name(name): checked(values) for name, values in held.items()}
    return dict(
        list({name: values for name, values in found.items() if name and values}.items())[:MOST_PRESETS]
    )


def write(path: Path, presets: Mapping[str, Mapping[str, object]]) -> None:
    """Keep the presets. Raises StorageError; the old ones are then still there."""
    held = {name: dict(values) for name, values in presets.items()}
    write_atomic(path, json.dumps(held, ensure_ascii=False, indent=1).encode("utf-8", "replace"))
