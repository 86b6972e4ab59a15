"""Laws of the lean decoder for every family: transformers as the oracle, both kinds of files, all kernels."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch.nn.functional import cosine_similarity
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

from engine.fit.bytes import weight_bytes
from engine.fit.kv_bits import KV16, KVBits
from engine.fit.kv_pages import kinds_bytes, pool_kinds, whole_kinds
from engine.machine import Hardware
from engine.models.checkpoint import Checkpoint
from engine.models.decoder import Segment
from engine.models.rotary import rope_frequencies
from engine.models.spec import read_spec
from engine.types import RopeSpec
from tests.engine.models.built import EXACT, build, run, some_ids
from tests.engine.models.family_writer import family_metadata, write_family_gguf
from tests.engine.models.writers import quantized, write_gguf
from tests.engine.tiny import FAMILIES, FOLDER_ONLY, oracle_logits, tiny_config, tiny_folder

IN_GGUF = [name for name in FAMILIES if name not in FOLDER_ONLY]
SHORT = 64  # the original context of the tiny model with LongRoPE


def wide(family: str) -> dict[str, Any]:
    """The family's config with sizes that blocks of 32 fit into, and small weights."""
    rope = FAMILIES[family].get("rope_parameters")
    longer = {}
    if rope and "short_factor" in rope:
        longer = {"rope_parameters": rope | {key: rope[key] * 2 for key in ("short_factor", "long_factor")}}
    sizes = {"hidden_size": 128, "intermediate_size": 160, "head_dim": 32, "initializer_range": 0.1}
    return FAMILIES[family] | sizes | longer


@pytest.mark.parametrize("family", FAMILIES)
def test_prefill_pieces_and_decode_give_the_oracles_logits(
    family: str, hardware: Hardware, tmp_path: Path
) -> None:
    folder = tiny_folder(tmp_path / "m", **FAMILIES[family])
    decoder, ids = build(folder, context=SHORT, hardware=hardware), some_ids(40)
    expected = oracle_logits(folder, ids)
    for pieces in ([40], [7, 9, 1, 20], []):
        torch.testing.assert_close(run(decoder, ids, pieces), expected, **EXACT)


@pytest.mark.parametrize("family", IN_GGUF)
def test_both_roads_give_the_same_logits(family: str, hardware: Hardware, tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "m", **FAMILIES[family])
    gguf, ids = write_family_gguf(tmp_path / "m.gguf", folder), some_ids(40)
    expected = run(build(folder), ids, [40])
    torch.testing.assert_close(run(build(gguf, hardware=hardware), ids, [30]), expected, **EXACT)


@pytest.mark.parametrize("length", [6, 7, 8, 9, 20])
def test_windows_and_full_layers_are_right_up_to_at_and_past_the_edge(
    length: int, hardware: Hardware, tmp_path: Path
) -> None:  # B044: five layers with a window of 8, one without; then a second turn
    folder = tiny_folder(tmp_path / "m", **FAMILIES["gemma 3"])
    decoder, ids = build(folder, hardware=hardware), some_ids(length + 20)
    cache, first = decoder.new_cache(128), run(decoder, ids, [length])
    torch.testing.assert_close(first, oracle_logits(folder, ids), **EXACT)
    turn = ids + some_ids(11, seed=7)
    with torch.inference_mode():
        decoder.forward([Segment(cache, ids)])
        second = decoder.forward([Segment(cache, turn[len(ids) :], wants_all_logits=True)])
    torch.testing.assert_close(second, oracle_logits(folder, turn)[len(ids) :], **EXACT)


@pytest.mark.parametrize("family", ["gemma 2", "gemma 3", "smollm 3 with windows", "olmo 3"])
def test_a_batch_gives_what_each_gives_alone(family: str, hardware: Hardware, tmp_path: Path) -> None:
    decoder = build(tiny_folder(tmp_path / "m", **FAMILIES[family]), hardware=hardware)
    texts = [some_ids(n, seed=n) for n in (5, 23, 11)]
    alone = [run(decoder, ids, [len(ids)])[-1] for ids in texts]
    caches = [decoder.new_cache(64) for _ in texts]
    with torch.inference_mode():
        decoder.forward([Segment(c, ids[:-1]) for c, ids in zip(caches, texts, strict=True)])
        together = decoder.forward([Segment(c, ids[-1:]) for c, ids in zip(caches, texts, strict=True)])
    torch.testing.assert_close(together, torch.stack(alone), **EXACT)


@pytest.mark.parametrize("source", ["folder", "gguf"])
def test_long_contexts_of_longrope_have_their_own_factors(source: str, tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "m", **FAMILIES["phi 4 mini"])
    place = folder if source == "folder" else write_family_gguf(tmp_path / "m.gguf", folder)
    ids = some_ids(SHORT + 20)
    logits = run(build(place, context=SHORT + 20), ids, [30, 40])
    torch.testing.assert_close(logits, oracle_logits(folder, ids), **EXACT)


@pytest.mark.parametrize(
    "rope",
    [
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128},
        {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 128, "truncate": False},
        {
            "rope_type": "yarn",
            "factor": 8.0,
            "original_max_position_embeddings": 64,
            "beta_fast": 16.0,
            "beta_slow": 2.0,
            "mscale": 0.7,
            "mscale_all_dim": 1.0,
        },
        {
            "rope_type": "llama3",
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
        {"rope_type": "linear", "factor": 3.0},
    ],
)
def test_frequencies_are_the_oracles(rope: dict[str, Any], tmp_path: Path) -> None:  # B042
    parameters = rope | {"rope_theta": 5e4}
    config = tiny_config(head_dim=32, rope_parameters=dict(parameters))
    expected, scale = ROPE_INIT_FUNCTIONS[rope["rope_type"]](config, torch.device("cpu"))
    folder = tiny_folder(tmp_path / "m", head_dim=32, rope_parameters=dict(parameters))
    found = read_spec(str(folder)).rope
    torch.testing.assert_close(rope_frequencies(found, 32).float(), expected, rtol=1e-5, atol=1e-8)
    assert found.attention_factor == pytest.approx(scale)


def test_plain_frequencies_by_hand() -> None:
    assert rope_frequencies(RopeSpec(theta=100.0), 4).tolist() == pytest.approx([1.0, 0.1])


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("format", ["f32", "bf16"])
def test_the_advisors_bytes_are_what_is_allocated(
    family: str, format: str, hardware: Hardware, tmp_path: Path
) -> None:
    folder = tiny_folder(tmp_path / "m", **FAMILIES[family])
    decoder, spec = build(folder, format, hardware=hardware), read_spec(str(folder))
    is_native = "decodeck" in decoder.kernels
    weights, tables = decoder.bytes_by_part()
    assert weights == weight_bytes(spec, format, is_native)
    assert tables == len(spec.ropes) * 1024 * spec.rotary_dim * 4
    kv = KVBits(32, 32) if format == "f32" else KV16
    assert decoder.new_cache(100).nbytes == kinds_bytes(spec, whole_kinds(spec, 100), kv, 1)
    usage = decoder.new_store(100, 16, 2).usage()
    assert usage.reserved_bytes == kinds_bytes(spec, pool_kinds(spec, 100, 16, 2), kv, 2)


@pytest.mark.parametrize("type_name", ["Q4_0", "Q8_0"])
@pytest.mark.parametrize("family", ["qwen 2", "qwen 3", "gemma 2", "phi 4 mini", "olmo 2", "granite"])
def test_blocks_of_rows_in_halves_are_run_as_their_values(
    family: str, type_name: str, hardware: Hardware, tmp_path: Path
) -> None:
    folder = tiny_folder(tmp_path / "m", **wide(family))
    gguf, ids = write_family_gguf(tmp_path / "m.gguf", folder, type_name), some_ids(50)
    exact, held = build(gguf), build(gguf, "file", hardware=hardware)
    spec = read_spec(str(gguf))
    is_native = hardware.native is not None
    assert ("decodeck" in held.kernels) == is_native
    assert held.bytes_by_part()[0] == weight_bytes(spec, "file", is_native)
    apart = 1 - cosine_similarity(run(exact, ids, [50]), run(held, ids, [20])).min()
    assert apart < 5e-3


@pytest.mark.parametrize("family", ["llama", "qwen2"])
def test_fused_queries_keys_and_values_of_a_gguf_are_three_matrices(family: str, tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "m", family=family)
    plain, ids = write_family_gguf(tmp_path / "a.gguf", folder), some_ids(20)
    with Checkpoint(read_spec(str(plain))) as checkpoint:
        stored = {tensor.name: checkpoint.tensor(tensor.name) for tensor in checkpoint.spec.tensors}
    for i, end in itertools.product(range(3), ("weight", "bias")):
        names = [f"blk.{i}.attn_{word}.{end}" for word in "qkv"]
        if names[0] in stored:
            stored[f"blk.{i}.attn_qkv.{end}"] = torch.cat([stored.pop(name) for name in names])
    config = json.loads((folder / "config.json").read_text())
    tensors = [quantized(name, weight, "F32") for name, weight in stored.items()]
    fused = write_gguf(tmp_path / "b.gguf", family_metadata(config), tensors)
    assert torch.equal(run(build(fused), ids, [20]), run(build(plain), ids, [20]))


def test_bf16_chooses_as_float32_where_the_choice_is_clear(hardware: Hardware, tmp_path: Path) -> None:
    for family in ("gemma 3", "olmo 2", "phi 4 mini", "qwen 2"):
        folder = tiny_folder(tmp_path / family, **(FAMILIES[family] | {"initializer_range": 0.1}))
        ids = some_ids(60)
        exact, half = build(folder), build(folder, "bf16", hardware=hardware)
        best, second = run(exact, ids, [60]).topk(2).values.T
        clear = best - second > 0.25
        assert clear.sum() > 10, family
        assert torch.equal(run(exact, ids, [60]).argmax(-1)[clear], run(half, ids, [20]).argmax(-1)[clear])


def test_weights_of_a_gemma_gguf_are_the_folders_plus_one(tmp_path: Path) -> None:
    """The offset of norms is the folder's, not the file's: both end in the same decoder."""
    folder = tiny_folder(tmp_path / "m", **FAMILIES["gemma 3"])
    gguf = write_family_gguf(tmp_path / "m.gguf", folder)
    stored = load_file(folder / "model.safetensors")["model.norm.weight"]
    for place in (folder, gguf):
        assert torch.allclose(build(place)._weights.output_norm, stored + 1)
