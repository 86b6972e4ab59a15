"""What `decodeck bench --quality` has measured, as it is kept between runs: figures by the model's content.

Standard library only. Knows the file and the figures that come with the program; not how they are measured
or shown.
"""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from app.atomic_file import StorageError, disk_sentence, read_object, set_aside, write_atomic
from app.fingerprint import fingerprint
from engine.errors import EngineError
from engine.types import LoadPlan, ModelSpec

VERSION = 1
KINDS = ("native", "torch")  # of kernels
MOST_MODELS = 64  # those measured last
MOST_FIGURES = 64  # of one model
_MOST_BYTES = 1 << 20
_MOST_LETTERS = 200  # of a name
_SHIPPED = ("quality", "starter.json")  # in the folder of assets
_log = logging.getLogger(__name__)


class QualityRecordError(EngineError):
    """The file is damaged, or another program's, or a newer version's."""

    kind = "storage"


@dataclass(frozen=True, slots=True)
class QualityFigure:
    """How well one format foretells a text, beside the same file in float32 with 32-bit KV on that text."""

    format: str
    kv_bits: int
    kernels: str  # native | torch: they hold and multiply the same format differently
    tokens: int  # of the text
    perplexity: float
    reference_perplexity: float
    kl: float  # mean KL(reference ‖ format) in nats

    @property
    def change(self) -> float:
        """By what fraction its perplexity is above the reference's."""
        return self.perplexity / self.reference_perplexity - 1

    @property
    def is_reference(self) -> bool:
        """Whether this is what the others are compared with."""
        return (self.format, self.kv_bits) == ("f32", 32)


@dataclass(frozen=True, slots=True)
class MeasuredModel:
    """All that is known of one model; its name is for people who read the file."""

    fingerprint: str
    name: str
    figures: tuple[QualityFigure, ...]


def kind_of(kernels: str) -> str:
    """native | torch: what the kernels of a plan are, whatever their instruction set."""
    return kernels.partition(" ")[0]


def figure_of(made: LoadPlan, figures: Iterable[QualityFigure]) -> QualityFigure | None:
    """The one of ``figures``, all of the plan's model, for the plan's format and KV precision; None: there is
    none. Measured with the same kind of kernels if that was done, else with the other: by their times a
    machine may take either for the same format.
    """
    wanted = (made.format, made.kv_bits)
    same = [each for each in figures if (each.format, each.kv_bits) == wanted]
    return min(same, key=lambda each: each.kernels != kind_of(made.kernels), default=None)


def figures_of(spec: ModelSpec, path: Path) -> tuple[QualityFigure, ...]:
    """All figures of a model: those in the file at ``path`` and those that come with the program.

    Of two measurements of the same the one on more text holds. What cannot be read has no figures, and the
    log says why. Waits for the disk.
    """
    try:
        content = fingerprint(spec)
    except EngineError as error:
        _log.info("no figures of quality: %s", error)
        return ()
    known = [each for each in (*_read_shipped(), *read(path)) if each.fingerprint == content]
    return _joined(each.figures for each in known)


def read(path: Path) -> tuple[MeasuredModel, ...]:
    """What the file holds, the newest last. Nothing where it is missing; nothing and a line in the log where
    it is damaged, foreign or cannot be read.
    """
    try:
        return _load(path)
    except QualityRecordError as error:
        _log.warning("%s", error)
        return ()


def keep(path: Path, measured: MeasuredModel) -> None:
    """Add figures to the file, each in place of an older one of the same on no more text.

    A file that is not ours is set aside, not lost. Raises StorageError where the disk refuses.
    """
    try:
        models = _load(path)
    except QualityRecordError as error:
        models = ()
        _set_aside(path, error)
    same = [each.figures for each in models if each.fingerprint == measured.fingerprint]
    others = [each for each in models if each.fingerprint != measured.fingerprint]
    name = measured.name[:_MOST_LETTERS]
    joined = MeasuredModel(measured.fingerprint, name, _joined([*same, measured.figures]))
    newest = [*others, joined][-MOST_MODELS:]
    held = {"version": VERSION, "models": [asdict(each) for each in newest]}
    write_atomic(path, json.dumps(held, indent=1).encode())


def _key(figure: QualityFigure) -> tuple[str, int, str]:
    return figure.format, figure.kv_bits, figure.kernels


def _joined(lists: Iterable[Sequence[QualityFigure]]) -> tuple[QualityFigure, ...]:
    """Later figures stand in place of earlier ones of the same on no more text."""
    found: dict[tuple[str, int, str], QualityFigure] = {}
    for figure in (each for figures in lists for each in figures):
        older = found.pop(_key(figure), figure)
        found[_key(figure)] = older if older.tokens > figure.tokens else figure
    return tuple(found.values())[-MOST_FIGURES:]


def _read_shipped() -> tuple[MeasuredModel, ...]:
    return _models(json.loads(files("assets").joinpath(*_SHIPPED).read_bytes()))


def _load(path: Path) -> tuple[MeasuredModel, ...]:
    """Raises QualityRecordError for everything that is there and is no record of this version."""
    try:
        held = read_object(path, _MOST_BYTES)
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise QualityRecordError(f"{path} cannot be read: {error.strerror or error}.") from error
    except ValueError:
        raise QualityRecordError(f"{path} is damaged.") from None
    if held.get("version") != VERSION:
        raise QualityRecordError(f"{path} is no record of quality that this version knows.")
    return _models(held)


def _models(held: dict[str, Any]) -> tuple[MeasuredModel, ...]:
    """What of it a measurement could have written; the rest is counted in the log."""
    found, num_wrong = [], 0
    for entry in _objects(held.get("models")):
        content, name = entry.get("fingerprint"), entry.get("name")
        figures = [_figure(each) for each in _objects(entry.get("figures"))]
        good = tuple(each for each in figures if each is not None)
        num_wrong += len(figures) - len(good)
        if isinstance(content, str) and isinstance(name, str):
            found.append(MeasuredModel(content, name[:_MOST_LETTERS], good[-MOST_FIGURES:]))
        else:
            num_wrong += 1
    if num_wrong:
        _log.warning("%d entries of a record of quality are damaged", num_wrong)
    return tuple(found[-MOST_MODELS:])


def _figure(entry: dict[str, Any]) -> QualityFigure | None:
    """The figure of an entry, None for one that no measurement has written."""
    values = [entry.get(field.name) for field in fields(QualityFigure)]
    format, kv_bits, kernels, tokens, *figures = values
    if not isinstance(format, str) or len(format) > _MOST_LETTERS or kernels not in KINDS:
        return None
    if not all(type(count) is int and count > 0 for count in (kv_bits, tokens)):
        return None
    if not all(isinstance(each, float) and math.isfinite(each) for each in figures):
        return None
    found = QualityFigure(*values)  # type: ignore[arg-type]
    return found if min(found.perplexity, found.reference_perplexity) >= 1 else None


def _objects(listed: object) -> list[dict[str, Any]]:
    return [each for each in listed if isinstance(each, dict)] if isinstance(listed, list) else []


def _set_aside(path: Path, why: QualityRecordError) -> None:
    """Raises StorageError where the folder refuses."""
    try:
        _log.warning("%s It was set aside as %s.", why, set_aside(path).name)
    except OSError as error:
        raise StorageError(*disk_sentence(error, path)) from error
