"""The weights of a model that transformers runs: which tensors of the files become which of the model, how.

Importing this imports transformers, whose own rules (`conversion_mapping`) are followed: names change, and
tensors of a file may be stacked into one. Knows tensors and names; not where a model's parts are placed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers.conversion_mapping import get_model_conversion_mapping
from transformers.core_model_loading import (
    Concatenate,
    MergeModulelist,
    SkipParameters,
    WeightConverter,
    WeightRenaming,
    dot_natural_key,
    rename_source_key,
)
from transformers.utils.loading_report import LoadStateDictInfo

from engine.errors import ModelFileError, UnsupportedModelError
from engine.foreign import shown
from engine.models.generic_files import Files
from engine.models.generic_spec import text_tensors
from engine.models.layout import missing_tensors
from engine.quant.dequantize import FLOAT_TYPES
from engine.types import ModelSpec, TensorInfo
from engine.waiting import drained
from engine.words import tr

_NAMES = 500  # that are looked up in one piece, in some tens of milliseconds
_STACKS = ([MergeModulelist], [MergeModulelist, Concatenate])


@dataclass(frozen=True, slots=True)
class _Source:
    """One tensor of the files, and the pattern of the library's rule that its name met."""

    tensor: TensorInfo
    pattern: str


@dataclass(slots=True)
class Target:
    """One tensor of the model, or several that come from the same ones of the files: then ``name`` is the
    first one's. ``rule`` is the library's converter; None: it is the tensor of the file.
    """

    name: str
    shape: tuple[int, ...]
    dtype: torch.dtype
    is_buffer: bool = False
    rule: Any = None
    sources: list[_Source] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        """Bytes to read."""
        return sum(source.tensor.nbytes for source in self.sources)

    @property
    def source_names(self) -> list[str]:
        """The tensors of the files that it is made of."""
        return [source.tensor.name for source in self.sources]

    @property
    def names(self) -> set[str]:
        """All tensors of the model that come of it."""
        patterns = self.rule.target_patterns if self.rule is not None else [self.name]
        return {self.name.replace(patterns[0], pattern) for pattern in patterns}

    @property
    def is_placed(self) -> bool:
        """Whether the bytes of the files are read to where they stay: the library changes nothing of them."""
        return self.rule is None or self.stack() is not None

    def stack(self) -> list[list[_Source]] | None:
        """The sources by pattern, where the rule lays them one behind the other (the experts of a layer),
        each pattern's rows below those of the one before; None: it does something else.
        """
        operations = [] if self.rule is None else self.rule.operations
        if [type(each) for each in operations] not in _STACKS or len(self.shape) != 3:
            return None
        if [each.dim for each in operations] != [0, 1][: len(operations)]:
            return None
        patterns = self.rule.source_patterns
        return [[source for source in self.sources if source.pattern == each] for each in patterns]


class GenericWeights:
    """Compares a model on the device `meta` with a spec, then reads its weights.

    ``info`` is the library's record of what is there, ``targets`` what the model wants, in the order of the
    layers; both are complete behind `compare`.
    """

    def __init__(self, model: Any, spec: ModelSpec, dtype: torch.dtype) -> None:
        self._model = model
        self._spec = spec
        self._state = model.state_dict()
        self._buffers = {name for name, _ in model.named_buffers()}
        self._kept: dict[str, torch.dtype] = model._get_dtype_plan(dtype)  # by a part of the name
        rules = get_model_conversion_mapping(model)
        self._renamings = [rule for rule in rules if isinstance(rule, WeightRenaming)]
        self._converters = [rule for rule in rules if isinstance(rule, WeightConverter)]
        self.info = LoadStateDictInfo(set(self._state), set(), set(), [], {}, set())
        self.targets: list[Target] = []

    def compare(self) -> Iterator[None]:
        """Find every tensor of the model in the files; yields every few milliseconds, there may be many.

        Raises ModelFileError where one is missing or has another shape, UnsupportedModelError where there is
        one that the model has no place for: an answer without it would be noise.
        """
        tensors = text_tensors(self._spec.tensors)
        found: dict[str, Target] = {}
        for count, name in enumerate(sorted(tensors, key=dot_natural_key)):
            if count % _NAMES == 0:
                yield
            renamed, pattern = self._renamed(name)
            if renamed not in self._state:
                self.info.unexpected_keys.add(renamed)
                continue
            if renamed not in found:
                found[renamed] = self._target(renamed, pattern)
            found[renamed].sources.append(_Source(tensors[name], pattern or name))
        self.targets = list(found.values())
        self._refuse_differences()

    def read(self, target: Target, files: Files) -> Generator[int, None, dict[str, Tensor]]:
        """The tensors of the model that come of a target, in memory of their own; yields the bytes read.

        Raises ModelFileError where the files cannot be read or hold what does not fit together.
        """
        if not target.is_placed:
            return (yield from self._convert(target, files))
        out = torch.empty(target.shape, dtype=target.dtype)
        done = 0
        for tensor, place in self._places(target, out):
            for read in files.fill(place, tensor):
                yield done + read
            done += tensor.nbytes
        return {target.name: out}

    def read_layer(
        self, targets: Sequence[Target], files: Files, empty: Callable[..., Tensor]
    ) -> dict[str, Tensor]:
        """What `read` gives of some targets, in memory that ``empty`` gives as torch's own does (what the
        library's operations make has its own). Bytes come in the order of the files: a system reads ahead,
        and the experts of a layer lie in another order than in the model.

        Raises ModelFileError as `read` does.
        """
        made: dict[str, Tensor] = {}
        places: list[tuple[TensorInfo, Tensor]] = []
        for target in targets:
            if target.is_placed:
                made[target.name] = empty(target.shape, dtype=target.dtype)
                places += self._places(target, made[target.name])
            else:
                made |= drained(self._convert(target, files))
        for tensor, place in sorted(places, key=lambda each: (each[0].file, each[0].offset)):
            drained(files.fill(place, tensor))
        return made

    def _convert(self, target: Target, files: Files) -> Generator[int, None, dict[str, Tensor]]:
        """What the library's own operations make of the sources."""
        rule, done = deepcopy(target.rule), 0
        for source in target.sources:
            tensor = torch.empty(source.tensor.shape, dtype=target.dtype)
            for read in files.fill(tensor, source.tensor):
                yield done + read
            done += source.tensor.nbytes
            rule.add_tensor(target.name, source.tensor.name, source.pattern, tensor)
            del tensor
        try:
            made = rule.convert(target.name, self._model, self._model.config, None, self.info)
        except SkipParameters:
            made = None  # the error is made outside: it would keep this one, and the tensors in its frames
        if made is None:
            raise self._misfit(target, tr("{path}: tensor {tensor} does not fit the others of its kind."))
        made = {name: each[0] if isinstance(each, list) else each for name, each in made.items()}
        for name, tensor in made.items():
            if tensor.shape != self._state[name].shape:
                said = tr("{path}: tensor {tensor} would have the shape {shape} in the model.")
                raise self._misfit(target, said, shape=list(tensor.shape))
        return made

    def _places(self, target: Target, out: Tensor) -> list[tuple[TensorInfo, Tensor]]:
        """Where each tensor of the files lies in a target's own."""
        stack = target.stack()
        if stack is None:
            return [(target.sources[0].tensor, out)]
        places: list[tuple[TensorInfo, Tensor]] = []
        first = 0
        for sources in stack:
            rows = sources[0].tensor.shape[0] if sources else 0
            shape = (rows, target.shape[2])
            if len(sources) != target.shape[0] or any(each.tensor.shape != shape for each in sources):
                said = tr("{path}: tensor {tensor} is not one of {count} alike.")
                raise self._misfit(target, said, count=target.shape[0])
            places += [(each.tensor, out[index, first : first + rows]) for index, each in enumerate(sources)]
            first += rows
        if first != target.shape[1]:
            said = tr("{path}: tensor {tensor} is of {rows} rows where the model has {needed}.")
            raise self._misfit(target, said, rows=first, needed=target.shape[1])
        return places

    def _misfit(self, target: Target, said: str, **values: object) -> ModelFileError:
        name = shown(target.sources[0].tensor.name)
        return ModelFileError(
            said.format(path=self._spec.path, tensor=name, **values), tr("Download the model again.")
        )

    def _renamed(self, name: str) -> tuple[str, str | None]:
        """The model's name for a tensor of the files, and the pattern of a rule that makes more of it."""
        around = {"base_model_prefix": self._model.base_model_prefix, "meta_state_dict": self._state}
        renamed, pattern = rename_source_key(name, self._renamings, self._converters, **around)
        if renamed not in self._state and name in self._state:  # a rule for older files met it by chance
            renamed, pattern = rename_source_key(name, [], [], **around)
        return renamed, pattern

    def _target(self, name: str, pattern: str | None) -> Target:
        held = self._state[name]
        rule = next((each for each in self._converters if pattern in each.source_patterns), None)
        kept = next((dtype for part, dtype in self._kept.items() if re.search(part, name)), held.dtype)
        return Target(name, tuple(held.shape), kept, name in self._buffers, rule if pattern else None)

    def _refuse_differences(self) -> None:
        """Compare names, types and shapes with the model; a head may be tied to the embedding either way."""
        for target in self.targets:
            self.info.missing_keys -= target.names
        self._model._adjust_missing_and_unexpected_keys(self.info)
        missing = sorted(name for name in self.info.missing_keys if not self._is_tied(name))
        if missing:
            raise missing_tensors(self._spec.path, shown(missing[0]), len(missing))
        if self.info.unexpected_keys:
            name = min(self.info.unexpected_keys)
            raise UnsupportedModelError(
                tr("{path}: the model has tensors that {class_name} does not know ({tensor}).").format(
                    path=self._spec.path, class_name=type(self._model).__name__, tensor=shown(name)
                )
            )
        for target in self.targets:
            self._refuse_source(target)

    def _is_tied(self, name: str) -> bool:
        """Whether a tensor that is missing is another one that is there."""
        tied: dict[str, str] = self._model.all_tied_weights_keys
        others = {tied.get(name), *(one for one, other in tied.items() if other == name)} - {None}
        return bool(others - self.info.missing_keys)

    def _refuse_source(self, target: Target) -> None:
        for source in target.sources:
            tensor = source.tensor
            if tensor.type not in FLOAT_TYPES or not target.dtype.is_floating_point:
                raise UnsupportedModelError(
                    tr(
                        "{path}: tensor {tensor} has the type {type}, which is not"
                        " supported for this architecture."
                    ).format(path=self._spec.path, tensor=shown(tensor.name), type=tensor.type),
                    tr("Choose the weights in 16 or 32 bits."),
                )
            if target.rule is None and tensor.shape != target.shape:
                raise ModelFileError(
                    tr(
                        "{path}: tensor {tensor} has the shape {shape},"
                        " but the model's description needs {needed}."
                    ).format(
                        path=self._spec.path,
                        tensor=shown(tensor.name),
                        shape=list(tensor.shape),
                        needed=list(target.shape),
                    )
                )
