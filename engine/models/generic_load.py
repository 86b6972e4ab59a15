"""Makes the model of a plan as transformers' `from_pretrained` would, in pieces, from files that are read and
never mapped.

Importing this imports transformers. Code comes from the library alone: of a folder only plain values
(config.json) and tensors are read. What the library does to a checkpoint while it loads one (other names,
experts stacked into one tensor) is asked of the library, see generic_weights.py.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Generator
from pathlib import Path
from typing import Any

import torch
import transformers
from torch import Tensor
from torch.nn import Parameter
from transformers import CONFIG_MAPPING
from transformers.core_model_loading import set_param_for_module
from transformers.modeling_utils import LoadStateDictConfig

from engine.events import LoadProgress
from engine.models import hf_folder, hf_spec
from engine.models.checkpoint import Checkpoint
from engine.models.generic_disk import DiskLayers
from engine.models.generic_errors import ours
from engine.models.generic_files import FilesInPieces
from engine.models.generic_placement import DeviceMap, device_map, read_when_run
from engine.models.generic_runner import GenericRunner
from engine.models.generic_weights import GenericWeights, Target
from engine.models.strips import StripReader
from engine.quant.linear import DENSE_TYPES
from engine.types import LoadPlan, ModelSpec

# Of a config.json: which code computes it, what it returns, and code that is not in the library.
_WORDS = """
    auto_map attn_implementation _attn_implementation _attn_implementation_internal experts_implementation
    _experts_implementation fusion_config transformers_weights trust_remote_code torch_dtype dtype
    output_attentions output_hidden_states output_router_logits return_dict use_return_dict use_cache
    tie_encoder_decoder torchscript _name_or_path
"""
_NOT_READ = frozenset(_WORDS.split())
_FLOATS = ("Infinity", "-Infinity", "NaN")  # which JSON has no words for, as the library writes them
_SOFT_CAP = "attn_logit_softcapping"

_HOOKED = ("forward", "_old_forward", "_hf_hook")  # what accelerate gives a module of its own


def silence() -> None:
    """The library says nothing below an error and draws no progress."""
    transformers.logging.set_verbosity_error()
    transformers.logging.disable_progress_bar()


def import_class(name: str) -> None:
    """Import the module of a class, for `load` to find it there."""
    getattr(transformers, name)


def load(plan: LoadPlan, checkpoint: Checkpoint) -> Generator[LoadProgress, None, GenericRunner]:
    """See `engine.models.generic.load_generic`."""
    spec = plan.model
    dtype = DENSE_TYPES[plan.format]
    model = ours(spec, lambda: _make(spec, dtype))
    yield LoadProgress(0.03, "weights")
    weights, places = ours(spec, lambda: GenericWeights(model, spec, dtype)), device_map(model, plan)
    for _ in weights.compare():
        yield LoadProgress(0.03, "weights")
    held, on_disk = _parted(weights, places)
    total, done = max(1, sum(target.nbytes for target in held)), 0
    with StripReader(checkpoint, plan.threads) as reader:
        files = FilesInPieces(reader)
        sources = (source.tensor for target in held for source in target.sources)
        yield from files.read_ahead(sources, LoadProgress(0.03, "weights"))
        for target in held:
            made = yield from _progress(weights.read(target, files), done, total)
            done += target.nbytes
            for name, tensor in made.items():
                set_param_for_module(model, name, tensor.to(places.device), weights.info, None)
            del made
            yield LoadProgress(0.03 + 0.94 * done / total, "weights")
    disk = ours(spec, lambda: _finish(spec, model, weights, places, on_disk))
    runner = GenericRunner(model, spec, disk)
    weakref.finalize(runner, _release, model, disk).atexit = False
    return runner


def _parted(weights: GenericWeights, places: DeviceMap) -> tuple[list[Target], dict[int, list[Target]]]:
    """What is held in memory, and by layer what is read anew for every pass. Buffers are held: they are
    small, and accelerate leaves them alone.
    """
    held: list[Target] = []
    on_disk: dict[int, list[Target]] = {}
    for target in weights.targets:
        layer = places.layer_of(target.name)
        if layer in places.on_disk and not target.is_buffer:
            on_disk.setdefault(layer, []).append(target)
        else:
            held.append(target)
    return held, on_disk


def _progress(
    reading: Generator[int, None, dict[str, Tensor]], done: int, total: int
) -> Generator[LoadProgress, None, dict[str, Tensor]]:
    while True:
        try:
            read = next(reading)
        except StopIteration as end:
            made: dict[str, Tensor] = end.value
            return made
        yield LoadProgress(0.03 + 0.94 * (done + read) / total, "weights")


def _make(spec: ModelSpec, dtype: torch.dtype) -> Any:
    """The model without weights: on the device `meta`, which has no memory."""
    assert spec.generic is not None
    config = read_config(spec)
    config.dtype = dtype
    kind = getattr(transformers, spec.generic.class_name)
    with contextlib.ExitStack() as stack:
        for context in kind.get_init_context(dtype, False, False, None):
            stack.enter_context(context)
        model = kind(config)
    return model.eval().requires_grad_(False)


def read_config(spec: ModelSpec) -> Any:
    """The library's configuration of the language model in a folder. Raises ModelFileError."""
    path = Path(spec.path) / "config.json"
    values = hf_spec.text_config(str(path), hf_folder.read_json(path))
    config = CONFIG_MAPPING[spec.architecture].from_dict(_plain(values))
    config.use_cache = True
    config._experts_implementation = "eager"  # the others want sizes that fit a kernel of GPUs
    if getattr(config, _SOFT_CAP, None) is not None:
        config._attn_implementation = "eager"  # the others leave the cap out
    return config


def _plain(value: object) -> Any:
    """A value of config.json without what would choose other code, its infinite numbers as such."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"__float__"} and value["__float__"] in _FLOATS:
        return float(value["__float__"])
    return {name: _plain(each) for name, each in value.items() if name not in _NOT_READ}


def _finish(
    spec: ModelSpec, model: Any, weights: GenericWeights, places: DeviceMap, on_disk: dict[int, list[Target]]
) -> DiskLayers | None:
    """What the library does behind the last weight: tie the head, compute the tables that no file holds. Then
    the layers on the disk, if there are any.
    """
    for target in (target for layer in on_disk.values() for target in layer):
        weights.info.missing_keys -= target.names
        for name in target.names:
            _expect(model, name, target.dtype)
    settings = LoadStateDictConfig(device_map=places.by_module)
    model._finalize_model_loading(model, settings, weights.info)
    if not on_disk:
        return None
    disk = DiskLayers(spec, weights, list(on_disk.values()))
    for index, targets in on_disk.items():
        layer = model.get_submodule(places.layer_name(index))
        read_when_run(layer, places.device, disk.layer(targets, f"{places.layer_name(index)}."))
    return disk


def _expect(model: Any, name: str, dtype: torch.dtype) -> None:
    """Have a parameter on `meta` in the precision that its tensor will come in: accelerate rounds to it."""
    module, _, own = name.rpartition(".")
    parameters = model.get_submodule(module)._parameters
    parameters[own] = Parameter(parameters[own].to(dtype), requires_grad=False)


def _release(model: Any, disk: DiskLayers | None) -> None:
    """Give a model's memory back: its modules, hooks and the library's functions refer to each other in
    circles.
    """
    for module in model.modules():
        module._parameters.clear()
        module._buffers.clear()
        for name in _HOOKED:
            vars(module).pop(name, None)
    if disk is not None:
        disk.close()
