"""Typed reading of values from a model's own description (GGUF metadata or config.json).

Owns the checks of kind and range; does not know which fields there are. Standard library only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from engine.errors import ModelFileError, UnsupportedModelError
from engine.foreign import printable, shown
from engine.words import tr

MOST_INTEGER = 1 << 31
"""No count or size in a model's description reaches this."""

MOST_FACTOR = 1 << 16
"""The largest believable factor of stretching a context."""

Feature = tuple[str, tuple[object, ...], str]
"""A field whose feature the decoder lacks, the values that switch it off, and what the feature is called (a
marked text).
"""

_PART_MARK = re.compile(r"-\d{5}-of-\d{5}$", re.IGNORECASE)
_BITS_MARK = re.compile(r"[-._ ](I?Q\d\w*|BF16|F16|F32|FP16|FP32)$", re.IGNORECASE)


class Fields:
    """A mapping of foreign values with typed access; each error names the file and the field.

    A value of None counts as absent. `prefix` is put before each name.
    """

    def __init__(self, source: str, values: Mapping[str, object], prefix: str = "") -> None:
        self.source = source
        self.values = values
        self._prefix = prefix

    def get(self, name: str) -> object:
        """The raw value, or None."""
        return self.values.get(self._prefix + name)

    def error(self, name: str, sentence: str, **values: object) -> ModelFileError:
        """An error about one field, to be raised by the caller; ``values`` and the {field} go into the
        translated sentence.
        """
        return ModelFileError(f"{self.source}: {sentence.format(field=self._prefix + name, **values)}")

    def integer(self, name: str, default: int | None = None, least: int = 1) -> int:
        """A whole number; a list of equal numbers, one a layer, counts as that number."""
        value = self.get(name)
        if isinstance(value, list) and value and all(each == value[0] for each in value):
            value = value[0]
        if value is None:
            if default is None:
                raise self.error(name, tr("{field} is missing."))
            return default
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise self.error(name, tr("{field} is {value}, not a whole number."), value=shown(value))
        if not least <= value < MOST_INTEGER:
            raise self._wild(name, value)
        return value

    def number(self, name: str, default: float | None = None) -> float:
        """A finite number; text that spells one is refused."""
        value = self.get(name)
        if value is None:
            if default is None:
                raise self.error(name, tr("{field} is missing."))
            return default
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise self.error(name, tr("{field} is {value}, not a number."), value=shown(value))
        if abs(value) > 1e30 or not math.isfinite(value):
            raise self._wild(name, value)
        return float(value)

    def positive(self, name: str, default: float | None = None) -> float:
        """A finite number above 0."""
        value = self.number(name, default)
        if value <= 0:
            raise self.error(name, tr("{field} is {value}, but must be above 0."), value=value)
        return value

    def flag(self, name: str, default: bool = False) -> bool:
        """A true/false value."""
        value = self.get(name)
        if value is None:
            return default
        if not isinstance(value, bool):
            raise self.error(name, tr("{field} is {value}, not true or false."), value=shown(value))
        return value

    def text(self, name: str, default: str | None = None) -> str:
        """A text value."""
        value = self.get(name)
        if value is None and default is not None:
            return default
        if not isinstance(value, str):
            said = tr("{field} is missing.") if value is None else tr("{field} is {value}, not text.")
            raise self.error(name, said, value=shown(value))
        return value

    def refuse(self, features: Iterable[Feature]) -> None:
        """Raise UnsupportedModelError where one of these features is switched on."""
        for name, neutral, title in features:
            value = self.get(name)
            if value is not None and value not in neutral:
                known = {"feature": tr(title), "field": name, "value": shown(value)}
                raise UnsupportedModelError(
                    tr(
                        "{path}: the model uses {feature} ({field} = {value}), which is not supported."
                    ).format(path=self.source, **known),
                    reason=tr("the model uses {feature} ({field} = {value})").format(**known),
                )

    def _wild(self, name: str, value: object) -> ModelFileError:
        return self.error(name, tr("{field} is {value}, out of any sensible range."), value=shown(value))


def display_name(path: str) -> str:
    """A model's name for the screen: its file or folder, without the mark of its bits, on one short line.

    The name inside a file is no better: converters put the name of a training run there.
    """
    place = Path(path)
    is_file = place.suffix.lower() == ".gguf"
    name = _PART_MARK.sub("", place.stem) if is_file else _folder_name(place.resolve())
    name = printable(name, 512)  # no file system has longer names
    return printable(_BITS_MARK.sub("", name).strip() or name, 120)


def _folder_name(folder: Path) -> str:
    """A folder's own name; in a hub's cache (models--owner--name/snapshots/hash) the model's."""
    if folder.parent.name == "snapshots":
        return folder.parent.parent.name.rpartition("--")[2]
    return folder.name
