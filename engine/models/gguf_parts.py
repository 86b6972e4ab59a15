"""Which GGUF files are one model: the parts of a split one, found by their names and read together.

Parts are called NAME-00001-of-00003.gguf and say the same inside (`split.no` from 0, `split.count`,
`split.tensors.count`). The first part has the metadata, any of them tensors. Standard library only.
Source: https://github.com/ggml-org/llama.cpp/tree/master/tools/gguf-split.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from engine.errors import ModelFileError
from engine.foreign import printable, shown
from engine.models import gguf, hf_folder
from engine.models.fields import Fields
from engine.models.layout import damaged
from engine.words import figure, tr

_PART = re.compile(r"(.+)-([0-9]{5})-of-([0-9]{5})\.gguf", re.IGNORECASE | re.DOTALL)
_CUT_BY_HAND = re.compile(r"\.gguf[.-](part[-_]?\w+|split-\w+|\d{2,3})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class PartName:
    """What the name of a part says: `number` from 1 to `count`."""

    name: str
    stem: str
    number: int
    count: int

    @classmethod
    def parse(cls, name: str) -> PartName | None:
        """None for the name of a model in one file."""
        found = _PART.fullmatch(name)
        if found is None or not 1 <= int(found[2]) <= int(found[3]) or int(found[3]) == 1:
            return None
        return cls(name, found[1], int(found[2]), int(found[3]))

    def other(self, number: int) -> str:
        """The name of another part, spelled like this one."""
        end = len(self.stem)
        return f"{self.name[: end + 1]}{number:05d}{self.name[end + 6 :]}"

    @property
    def model(self) -> tuple[str, int]:
        """The same for all parts of a model, however they are spelled."""
        return self.stem.casefold(), self.count


def is_cut_by_hand(name: str) -> bool:
    """Whether a file is called like a piece of a GGUF file that was cut anywhere: x.gguf.part1of2."""
    return _CUT_BY_HAND.search(name) is not None


def is_projector(name: str) -> bool:
    """Whether a file is called like the image projector that lies beside a model."""
    return "mmproj" in name.casefold()


def models(names: Iterable[str]) -> list[str]:
    """Of the file names in a folder, those of GGUF models to chat with; the first part there is stands for
    all of a split one.
    """
    found: list[str] = []
    split: dict[tuple[str, int], list[PartName]] = defaultdict(list)
    for name in names:
        if not name.casefold().endswith(".gguf") or is_projector(name):
            continue
        part = PartName.parse(name)
        if part is None:
            found.append(name)
        else:
            split[part.model].append(part)
    return found + [min(parts, key=lambda part: (part.number, part.name)).name for parts in split.values()]


def together(name: str, names: Iterable[str]) -> list[str]:
    """Of the file names in a folder, those of the same model as `name`, in order of their parts."""
    part = PartName.parse(name)
    if part is None:
        return [name]
    others = [other for each in names if (other := PartName.parse(each)) and other.model == part.model]
    return [other.name for other in sorted(others, key=lambda other: (other.number, other.name))]


def read_header(path: str) -> gguf.GgufHeader:
    """The header of the whole model that the file at `path` is, or is any part of: the first part's metadata,
    the tensors of all, each with the index of its file in `files`.

    Raises what `gguf.read_header` does, for any part, and ModelFileError naming a part that is missing or
    belongs to another model.
    """
    chosen = gguf.read_header(path)
    count = _split(chosen)[1]
    if count < 2:
        return chosen
    part = _checked_name(path, chosen)
    files = _find(path, part)
    headers = [chosen if file == path else gguf.read_header(file) for file in files]
    for number, header in enumerate(headers):
        if _split(header) != (number, count):
            raise ModelFileError(
                _mistaken(header, number + 1, count),
                tr("Download the parts of one model into a folder of their own."),
            )
    return joined(headers)


def _split(header: gguf.GgufHeader) -> tuple[int, int]:
    """(number from 0, count) as the file says; a count of 0 or 1: it is whole."""
    fields = Fields(header.files[0], header.metadata)
    return fields.integer("split.no", 0, least=0), fields.integer("split.count", 0, least=0)


def _mistaken(header: gguf.GgufHeader, part: int, parts: int) -> str:
    """Said of a file that is not the part its name calls it."""
    number, count = _split(header)
    said = tr("{path}: by its name this is part {part} of {parts}, by its content a whole model.")
    if count > 1:
        said = tr(
            "{path}: by its name this is part {part} of {parts}, by its content part {number} of {count}."
        )
    return said.format(path=header.files[0], part=part, parts=parts, number=number + 1, count=count)


def _checked_name(path: str, header: gguf.GgufHeader) -> PartName:
    """The name of a part; without a right one the others cannot be found."""
    part, (number, count) = PartName.parse(Path(path).name), _split(header)
    if part is not None and (part.number, part.count) == (number + 1, count):
        return part
    said = tr("{path}: this is part {number} of {count} of a split model, but its name does not say so.")
    known = {"path": path, "number": number + 1, "count": count}
    if part is not None:
        said = tr(
            "{path}: this is part {number} of {count} of a split model, but its name says {part} of {parts}."
        )
        known |= {"part": part.number, "parts": part.count}
    hint = tr("Give all parts their names back: {name} is this one's.")
    name = f"NAME-{number + 1:05d}-of-{count:05d}.gguf"
    raise ModelFileError(said.format(**known), hint.format(name=name))


def _find(path: str, part: PartName) -> tuple[str, ...]:
    """The files of all parts, in order; capitals do not matter, but the same spelling comes first."""
    folder = Path(path).parent
    names = hf_folder.file_names(folder)
    others = (PartName.parse(name) for name in sorted(names, reverse=True))
    there = {other.number: other.name for other in others if other and other.model == part.model}
    wanted = [part.other(number) for number in range(1, part.count + 1)]
    found = [name if name in names else there.get(number, "") for number, name in enumerate(wanted, 1)]
    missing = [name for name, file in zip(wanted, found, strict=True) if not file]
    if missing:
        said = tr("{path}: this part of the model is missing ({found} of {count} parts are there).")
        if len(missing) > 1:
            said = tr(
                "{path}: this part of the model is missing, and {others} more"
                " ({found} of {count} parts are there)."
            )
        raise ModelFileError(
            said.format(
                path=folder / printable(missing[0], 300),
                others=len(missing) - 1,
                found=part.count - len(missing),
                count=part.count,
            ),
            tr("Download it into the same folder; the parts that are there are kept."),
        )
    return tuple(path if name == part.name else str(folder / name) for name in found)


def joined(headers: list[gguf.GgufHeader]) -> gguf.GgufHeader:
    """One header of all parts, in order. Raises ModelFileError where they are not of one model."""
    first = headers[0]
    tensors = [
        replace(tensor, file=number) for number, header in enumerate(headers) for tensor in header.tensors
    ]
    part_of: dict[str, int] = {}
    for tensor in tensors:
        if part_of.setdefault(tensor.name, tensor.file) != tensor.file:
            path = headers[tensor.file].files[0]
            said = tr("tensor {tensor} is in another part too").format(tensor=shown(tensor.name))
            raise damaged(path, said)
    stated = Fields(first.files[0], first.metadata).integer("split.tensors.count", len(tensors), least=0)
    if stated != len(tensors):
        raise ModelFileError(
            tr("{path}: the model has {stated} tensors, but its {parts} parts hold {count}.").format(
                path=first.files[0],
                stated=figure(stated),
                parts=len(headers),
                count=figure(len(tensors)),
            ),
            tr("The parts are of different models: download them again into a folder of their own."),
        )
    return replace(
        first,
        tensors=tuple(tensors),
        files=tuple(header.files[0] for header in headers),
        file_bytes=sum(header.file_bytes for header in headers),
    )
