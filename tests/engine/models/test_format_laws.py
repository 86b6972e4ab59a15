"""Laws of every format: how far from float32, cached decode = full forward, bytes as planned, little memory.

Formats of bitsandbytes run on the library's plain implementation where a processor has no kernels for them.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn.functional import cosine_similarity
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from engine.fit import choices, held
from engine.fit.held import held_matrices
from engine.fit.plan import plan
from engine.machine import Hardware
from engine.models import strips
from engine.models.checkpoint import Checkpoint
from engine.models.decoder import Segment
from engine.models.load import load_decoder
from engine.models.spec import read_spec
from engine.types import LoadSpec
from tests.engine.models.built import TORCH, build, run, some_ids
from tests.engine.models.family_writer import write_family_gguf
from tests.engine.models.test_families import wide
from tests.engine.models.writers import tiny_state, write_folder
from tests.engine.tiny import tiny_folder


@dataclass(frozen=True)
class Tolerance:
    """The most that 1 − cosine of a position's logits may be, of a tiny random model: from float32, and
    between reading at once, in pieces and token by token. Cached numbers are bfloat16 but with f32.
    """

    from_exact: float
    from_itself: float


TOLERANCES = {
    "f32": Tolerance(1e-6, 1e-6),
    "bf16": Tolerance(1e-3, 1e-3),
    "f16": Tolerance(3e-4, 3e-4),
    "int8": Tolerance(5e-3, 2e-3),
    "llm-int8": Tolerance(5e-3, 2e-3),
    "int4": Tolerance(1e-1, 2e-3),
    "nf4": Tolerance(1.3e-1, 2e-3),
}
NATIVE = ("f32", "bf16", "int8", "int4")
FAMILIES = ("mistral nemo", "qwen 2 tied", "gemma 3")
IDS = some_ids(30)


@pytest.fixture(autouse=True)
def _one_thread() -> Iterator[None]:
    """Products this small only wait for a team of threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(autouse=True)
def _plain_bitsandbytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choices, "lack", lambda *_: None)
    monkeypatch.setitem(held._STOCK_HOMES, "nf4", "nf4")


def cases() -> Iterator[Any]:
    """(format, whether our kernels run it)."""
    missing = importlib.util.find_spec("bitsandbytes") is None
    for format in TOLERANCES:
        is_theirs = format in ("nf4", "llm-int8")
        marks = [pytest.mark.skipif(missing, reason="bitsandbytes is not installed")] if is_theirs else []
        yield pytest.param((format, False), id=f"{format}-torch", marks=marks)
        if format in NATIVE:
            yield pytest.param((format, True), id=f"{format}-native")


@pytest.fixture(params=list(cases()))
def case(request: pytest.FixtureRequest) -> tuple[str, Hardware]:
    format, is_native = request.param
    if not is_native:
        return format, TORCH
    return format, replace(TORCH, native=request.getfixturevalue("kernels").instruction_set)


@dataclass(frozen=True)
class Model:
    """A tiny model and its float32 logits."""

    path: Path
    exact: Tensor


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Model]:
    """By family, and one of them from GGUF files of two types. Random weights as small as a trained model's,
    so that rounding errors do not grow.
    """
    place, made = tmp_path_factory.mktemp("formats"), {}
    for family in FAMILIES:
        path = tiny_folder(place / family, **(wide(family) | {"initializer_range": 0.05}))
        made[family] = Model(path, run(build(path), IDS, [len(IDS)]))
    for type_name in ("F16", "Q8_0"):
        path = write_family_gguf(place / f"{type_name}.gguf", made["mistral nemo"].path, type_name)
        made[type_name] = Model(path, run(build(path), IDS, [len(IDS)]))
    return made


def apart(one: Tensor, other: Tensor) -> float:
    return 1 - cosine_similarity(one.double(), other.double()).min().item()


@pytest.mark.parametrize("name", ["qwen 2 tied", "gemma 3", "F16", "Q8_0"])
def test_logits_are_near_float32s_however_they_are_read(
    name: str, case: tuple[str, Hardware], models: dict[str, Model]
) -> None:
    format, hardware = case
    model, allowed = models[name], TOLERANCES[format]
    made = plan(read_spec(str(model.path)), hardware, LoadSpec(str(model.path), format=format, context=64))
    decoder = build(model.path, format, 64, hardware)
    assert decoder.bytes_by_part()[0] == made.bytes.weights
    assert ("decodeck" in decoder.kernels) is (hardware.native is not None)
    whole = run(decoder, IDS, [len(IDS)])
    assert apart(whole, model.exact) < allowed.from_exact
    for pieces in ([7, 9, 1, 9], []):
        assert apart(run(decoder, IDS, pieces), whole) < allowed.from_itself


def test_a_batch_and_a_trimmed_cache_give_what_a_fresh_one_does(
    case: tuple[str, Hardware], models: dict[str, Model]
) -> None:
    format, hardware = case
    decoder, allowed = build(models["qwen 2 tied"].path, format, 64, hardware), TOLERANCES[format]
    texts = [some_ids(n, seed=n) for n in (5, 23, 11)]
    alone = [run(decoder, ids, [len(ids)])[-1:] for ids in texts]
    caches = [decoder.new_cache(64) for _ in texts]
    with torch.inference_mode():
        together = decoder.forward([Segment(c, ids) for c, ids in zip(caches, texts, strict=True)])
        caches[1].trim(9)
        again = decoder.forward([Segment(caches[1], texts[1][9:])])
    assert apart(together, torch.cat(alone)) < allowed.from_itself
    assert apart(again, alone[1]) < allowed.from_itself


# Memory of a load

STRIP = 1 << 14  # elements
MOST_BYTES = 2 * 4 * STRIP  # two strips as float32: rows that fill no tile yet are joined with the next ones
SIZES = {"hidden_size": 256, "intermediate_size": 512, "head_dim": 64, "num_attention_heads": 8}


class Largest(TorchDispatchMode):
    """Notes the bytes of the largest tensor with memory of its own that each operation gave."""

    def __init__(self) -> None:
        super().__init__()
        self.nbytes: dict[str, int] = {}

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        given = {_memory(each) for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)}
        result = function(*args, **(kwargs or {}))
        for each in tree_leaves(result):
            if isinstance(each, Tensor) and _memory(each) not in given:
                self.nbytes[str(function)] = max(self.nbytes.get(str(function), 0), each.nbytes)
        return result


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


@pytest.mark.parametrize("source", ["folder", "Q8_0"])
def test_a_load_takes_no_more_than_a_strip_beside_what_it_holds(
    source: str, case: tuple[str, Hardware], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    format, hardware = case
    monkeypatch.setattr(strips, "STRIP_ELEMENTS", STRIP)
    monkeypatch.setattr(strips, "_STRIP_BYTES", 2 * STRIP)
    path = tiny_folder(tmp_path / "m", **(wide("mistral nemo") | SIZES))
    if source == "folder":
        state = {name: w.bfloat16() for name, w in load_file(path / "model.safetensors").items()}
        config = json.loads((path / "config.json").read_text())
        path = write_folder(tmp_path / "shards", state, config, shards=3)
    else:
        path = write_family_gguf(tmp_path / "m.gguf", path, source)
    spec = read_spec(str(path))
    made = plan(spec, hardware, LoadSpec(str(path), format=format, context=64))
    matrices = held_matrices(spec, made.format, made.is_native)
    assert max(4 * matrix.rows * matrix.cols for matrix in matrices) > 3 * MOST_BYTES
    with Checkpoint(made.model) as checkpoint, Largest() as largest:
        for _ in load_decoder(made, checkpoint):
            pass
    beside = {name: nbytes for name, nbytes in largest.nbytes.items() if nbytes > MOST_BYTES}
    beside.pop("aten.empty.memory_format", None)  # what stays
    assert beside == {}
    assert largest.nbytes["aten.empty.memory_format"] <= max(matrix.nbytes for matrix in matrices)


LARGE = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 16_384,
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 2,
    "num_attention_heads": 16,
    "num_key_value_heads": 16,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": True,
}
ROOM_BYTES = 48_000_000  # strips, and what an allocator keeps of them: far less than the file


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of 101 MB in three shards."""
    state = {name: weight.bfloat16() for name, weight in tiny_state(LARGE).items()}
    return write_folder(tmp_path_factory.mktemp("large"), state, LARGE, shards=3)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the system keeps no peak")
@pytest.mark.parametrize(("format", "native"), [("int4", "auto"), ("int8", "auto"), ("int8", "off")])
def test_the_peak_of_a_load_is_little_more_than_what_is_held(format: str, native: str, large: Path) -> None:
    child = [sys.executable, "-m", "tests.engine.load_growth", str(large), format]
    environment = os.environ | {"DECODECK_NATIVE": native}
    done = subprocess.run(child, capture_output=True, text=True, env=environment, check=True)
    held_bytes, peak_bytes = map(int, done.stdout.split())
    assert held_bytes <= peak_bytes + 1_000_000
    assert peak_bytes < held_bytes + ROOM_BYTES
