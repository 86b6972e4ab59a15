"""Weights on their way from a file into memory: every type, native and stock, to the byte."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.nn.functional import cosine_similarity

from engine.fit.bytes import weight_bytes
from engine.fit.held import held_matrices
from engine.fit.plan import plan
from engine.machine import Hardware
from engine.models.checkpoint import Checkpoint
from engine.models.decoder import Decoder, Segment
from engine.models.load import load_decoder
from engine.models.spec import read_spec
from engine.native.library import NativeLibrary
from engine.quant.formats import NATIVE_FORMATS, TENSOR_TYPES
from engine.types import LoadPlan, LoadSpec
from tests.engine.models.writers import (
    RawTensor,
    llama_metadata,
    llama_tensors,
    tiny_state,
    write_folder,
    write_gguf,
)
from tests.engine.quant.test_dequantize import SCALES, random_blocks

CONFIG = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 200,
    "hidden_size": 256,
    "intermediate_size": 512,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
}
ALL_TYPES = [kind.name for kind in TENSOR_TYPES.values() if kind.supported]
TIED = CONFIG | {"tie_word_embeddings": True}
IDS = list(range(3, 23))


def state(config: dict[str, object] = CONFIG) -> dict[str, Tensor]:
    """Random weights small enough that rounding errors do not grow from layer to layer."""
    return {name: w if w.dim() == 1 else w / 5 for name, w in tiny_state(config).items()}


# of each block's half floats: the scale, and the minimum that puts the mean near zero
HALVES: dict[str, tuple[float, ...]] = {
    "Q4_0": (1e-2,),
    "Q4_1": (1e-2, -7.5e-2),
    "Q5_0": (5e-3,),
    "Q5_1": (5e-3, -7.75e-2),
    "Q8_0": (1e-3,),
    "Q2_K": (6e-3, 9e-3),
    "Q3_K": (1e-3,),
    "Q4_K": (3e-4, 2.25e-3),
    "Q5_K": (1.5e-4, 2.33e-3),
    "Q6_K": (4e-5,),
}


def random_matrix(name: str, shape: tuple[int, ...], type_name: str, seed: int) -> RawTensor:
    """Random blocks whose values are about as large as a model's weights."""
    raw = random_blocks(type_name, (shape[0], shape[1]), seed)
    blocks = raw.reshape(-1, TENSOR_TYPES[type_name].block_bytes)
    for at, value in zip(SCALES.get(type_name, (0,)), HALVES[type_name], strict=True):
        blocks[:, at : at + 2] = np.array([value], np.float16).view(np.uint8)
    return RawTensor(name, shape, type_name, blocks.tobytes())


def write_model(path: Path, types: dict[str, str], default: str, config: dict[str, object] = CONFIG) -> Path:
    """A GGUF whose matrices have the type that ``types`` gives for a part of their name, or the default."""
    tensors = []
    for seed, tensor in enumerate(llama_tensors(state(config), config)):
        kind = next((kind for part, kind in types.items() if part in tensor.name), default)
        if len(tensor.shape) == 2 and TENSOR_TYPES[kind].block > 1:
            tensor = random_matrix(tensor.name, tensor.shape, kind, seed)
        elif len(tensor.shape) == 2 and kind != "F32":
            values = torch.from_numpy(np.frombuffer(tensor.data, np.float32).copy())
            half = values.to(torch.float16 if kind == "F16" else torch.bfloat16)
            tensor = RawTensor(tensor.name, tensor.shape, kind, half.view(torch.uint8).numpy().tobytes())
        tensors.append(tensor)
    return write_gguf(path, llama_metadata(config), tensors)


def make_plan(path: Path, format: str, native: str | None) -> LoadPlan:
    wish = LoadSpec(str(path), format=format, context=64)
    return plan(read_spec(str(path)), Hardware("test", 2, None, None, native=native), wish)


def load(made: LoadPlan) -> Decoder:
    with Checkpoint(made.model) as checkpoint:
        steps = load_decoder(made, checkpoint)
        while True:
            try:
                next(steps)
            except StopIteration as done:
                decoder: Decoder = done.value
                return decoder


def logits(decoder: Decoder, piece: int) -> Tensor:
    """Logits of every token, the first ``piece`` at once and the others one by one."""
    cache = decoder.new_cache(len(IDS))
    parts = [IDS[:piece], *([token] for token in IDS[piece:])]
    with torch.inference_mode():
        return torch.cat([decoder.forward([Segment(cache, ids, wants_all_logits=True)]) for ids in parts])


def check(path: Path, format: str, native: str | None, most_apart: float) -> Decoder:
    """Load; compare bytes with the advisor's and logits with those of the float32 load on torch's kernels."""
    made = make_plan(path, format, native)
    assert made.is_native == (native is not None)
    decoder, exact = load(made), logits(load(make_plan(path, "f32", None)), len(IDS))
    assert decoder.bytes_by_part()[0] == made.bytes.weights
    for piece in (len(IDS), 1):
        apart = 1 - cosine_similarity(logits(decoder, piece), exact).min().item()
        assert apart < most_apart, f"{apart} apart with a piece of {piece}"
    return decoder


@pytest.mark.parametrize("type_name", ALL_TYPES)
def test_every_type_is_run_natively_at_its_own_bits(
    type_name: str, tmp_path: Path, kernels: NativeLibrary
) -> None:
    path = write_model(tmp_path / "m.gguf", {}, type_name)
    decoder = check(path, "file", kernels.instruction_set, 5e-3)
    held = NATIVE_FORMATS.get(type_name, "bf16")
    assert decoder.kernels == f"decodeck {held} {kernels.instruction_set}"
    assert {m.held for m in held_matrices(read_spec(str(path)), "file", True)} == {held}


@pytest.mark.parametrize("type_name", ["F32", "F16", "Q4_0", "Q6_K"])
@pytest.mark.parametrize(("format", "most_apart"), [("f32", 1e-5), ("bf16", 1e-3)])
def test_dense_formats_are_run_natively(
    format: str, most_apart: float, type_name: str, tmp_path: Path, kernels: NativeLibrary
) -> None:
    decoder = check(
        write_model(tmp_path / "m.gguf", {}, type_name), format, kernels.instruction_set, most_apart
    )
    assert decoder.kernels == f"decodeck {format} {kernels.instruction_set}"


@pytest.mark.parametrize("type_name", ALL_TYPES)
def test_every_type_is_run_without_native_kernels(type_name: str, tmp_path: Path) -> None:
    decoder = check(write_model(tmp_path / "m.gguf", {}, type_name), "file", None, 5e-3)
    assert "decodeck" not in decoder.kernels


def test_matrices_of_mixed_types_are_each_held_in_their_own_format(
    tmp_path: Path, kernels: NativeLibrary
) -> None:
    types = {"attn_v": "Q6_K", "ffn_down": "Q5_0", "token_embd": "Q8_0", "attn_q": "Q2_K", "output.": "F16"}
    decoder = check(write_model(tmp_path / "m.gguf", types, "Q4_K"), "file", kernels.instruction_set, 5e-3)
    held = {"int4k", "int6h", "int5", "bf16"}  # of what is multiplied: the embedding is not
    assert {name.split()[1] for name in decoder.kernels.split(" + ")} == held


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("type_name", ["F32", "Q4_0", "Q6_K"])
def test_a_tied_head_is_the_embeddings_matrix_and_counted_once(
    type_name: str, native: bool, tmp_path: Path, kernels: NativeLibrary
) -> None:
    path = write_model(tmp_path / "m.gguf", {}, type_name, TIED)
    decoder = check(path, "file", kernels.instruction_set if native else None, 5e-3)
    assert decoder._weights.head is decoder._weights.embedding
    spec = read_spec(str(path))
    assert not any("head" in matrix.words for matrix in held_matrices(spec, "file", native))
    assert decoder.bytes_by_part()[0] == weight_bytes(spec, "file", native)


@pytest.mark.parametrize("shards", [1, 3])
@pytest.mark.parametrize(("format", "most_apart"), [("f32", 1e-5), ("bf16", 1e-3)])
def test_query_and_key_rows_of_a_folder_are_put_in_pairs(
    format: str, most_apart: float, shards: int, tmp_path: Path, kernels: NativeLibrary
) -> None:
    folder = write_folder(tmp_path / "m", state(), CONFIG, shards)
    native = load(make_plan(folder, format, kernels.instruction_set))
    from_gguf = load(make_plan(write_model(tmp_path / "m.gguf", {}, "F32"), "f32", None))
    apart = 1 - cosine_similarity(logits(native, 7), logits(from_gguf, 20)).min().item()
    assert apart < most_apart


def test_a_model_of_an_odd_geometry_is_left_to_torch(tmp_path: Path, kernels: NativeLibrary) -> None:
    odd = CONFIG | {"hidden_size": 72, "intermediate_size": 100, "head_dim": 18}
    path = write_model(tmp_path / "m.gguf", {}, "F32", odd)
    made = make_plan(path, "file", kernels.instruction_set)
    assert made.kernels == "torch"
    assert load(made).bytes_by_part()[0] == made.bytes.weights


def test_progress_goes_on_to_the_end_and_a_dropped_load_leaves_no_thread(
    tmp_path: Path, kernels: NativeLibrary
) -> None:
    made = make_plan(write_model(tmp_path / "m.gguf", {}, "Q8_0"), "file", kernels.instruction_set)
    before = threading.active_count()
    with Checkpoint(made.model) as checkpoint:
        fractions = [progress.fraction for progress in load_decoder(made, checkpoint)]
        assert fractions == sorted(fractions)
        assert 0.97 < fractions[-1] <= 1
        loading = load_decoder(made, checkpoint)
        next(loading)
        loading.close()
    assert threading.active_count() == before
