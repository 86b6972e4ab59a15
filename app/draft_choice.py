"""Which models of this computer can draft for another. Waits for the disk: not for the window's thread."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from app import readouts
from engine.errors import EngineError
from engine.models.spec import scan_folder
from engine.text import tokenizer as tokenizers
from engine.text.same_vocabulary import difference
from engine.types import ModelSpec
from engine.words import tr
from ui.values import ModelRow


@dataclass(frozen=True, slots=True)
class DraftChoice:
    """A model and why it cannot draft, a sentence; empty: it can."""

    spec: ModelSpec
    reason: str = ""


def draft_choices(target: ModelSpec, folder: Path) -> tuple[DraftChoice, ...]:
    """The models in ``folder`` that can be read, those that can draft for ``target`` first, then by size;
    without ``target``, which is no quicker than itself.
    """
    found = scan_folder(str(folder)) if folder.is_dir() else []
    own = Path(target.path).resolve()
    specs = [spec for _, spec in found if isinstance(spec, ModelSpec) and Path(spec.path).resolve() != own]
    vocabulary = tokenizers.load(target.path)
    choices = [DraftChoice(spec, _reason(vocabulary, spec)) for spec in specs]
    return tuple(sorted(choices, key=lambda each: (bool(each.reason), _file_bytes(each.spec))))


def draft_rows(choices: tuple[DraftChoice, ...], chosen: str, loaded: str) -> list[ModelRow]:
    """Rows of the picker; where one is ``chosen`` the first row is for none. Both are paths, or empty."""
    no_draft = ModelRow("", tr("No draft model"), tr("The chat itself can still be drafted from"))
    none = [no_draft] if chosen else []
    rows = (readouts.model_row(each.spec.path, each.spec, loaded) for each in choices)
    return none + [
        ModelRow(row.path, row.name, row.detail, choice.reason, row.is_loaded)
        for row, choice in zip(rows, choices, strict=True)
    ]


def _reason(vocabulary: tokenizers.Tokenizer, spec: ModelSpec) -> str:
    if spec.capabilities.no_trim:
        return spec.capabilities.no_trim
    try:
        found = difference(vocabulary, tokenizers.load(spec.path))
    except EngineError as error:
        return str(error)
    return f"{found[:1].upper()}{found[1:]}." if found else ""


def _file_bytes(spec: ModelSpec) -> int:
    return sum(tensor.nbytes for tensor in spec.tensors)
