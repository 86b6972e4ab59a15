"""Laws of the lean decoder on tiny random models, transformers as the oracle, float32; with every kernel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from engine.fit.bytes import weight_bytes
from engine.fit.kv_bits import KV16, KVBits
from engine.fit.kv_pages import kinds_bytes, pool_kinds, whole_kinds
from engine.machine import Hardware
from engine.models.decoder import Segment
from engine.models.rotary import rope_frequencies
from engine.models.spec import read_spec
from engine.types import RopeSpec
from tests.engine.models.built import EXACT, build, run, some_ids
from tests.engine.models.writers import RawTensor, llama_metadata, llama_tensors, write_gguf, write_llama_gguf
from tests.engine.tiny import oracle_logits, tiny_folder

VARIANTS: dict[str, dict[str, Any]] = {
    "llama": {},
    "all heads have keys": {"num_key_value_heads": 4},
    "tied": {"tie_word_embeddings": True},
    "head size of its own": {"head_dim": 24},
    "linear rope": {"rope_parameters": {"rope_type": "linear", "factor": 2.0, "rope_theta": 1000.0}},
    "llama3 rope": {
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 10000.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        }
    },
    "sliding window": {"sliding_window": 8},
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_prefill_pieces_and_decode_give_the_oracles_logits(
    variant: str, hardware: Hardware, tmp_path: Path
) -> None:
    folder = tiny_folder(tmp_path / "m", **VARIANTS[variant])
    decoder, ids = build(folder, hardware=hardware), some_ids(40)
    expected = oracle_logits(folder, ids)
    for pieces in ([40], [7, 9, 1, 20], [], [30]):
        torch.testing.assert_close(run(decoder, ids, pieces), expected, **EXACT)


@pytest.mark.parametrize("length", [6, 7, 8, 9, 20])
def test_a_sliding_window_is_right_up_to_at_and_past_its_edge(
    length: int, hardware: Hardware, tmp_path: Path
) -> None:  # B044
    folder = tiny_folder(tmp_path / "m", sliding_window=8)
    ids = some_ids(length + 20)
    logits = run(build(folder, hardware=hardware), ids, [length])
    torch.testing.assert_close(logits, oracle_logits(folder, ids), **EXACT)


@pytest.mark.parametrize("window", [{}, {"sliding_window": 300}])
def test_long_caches_are_right_where_the_kernels_cut_them(
    window: dict[str, int], hardware: Hardware, tmp_path: Path
) -> None:
    """The native kernels attend to 256 positions at a time."""
    folder = tiny_folder(tmp_path / "m", max_position_embeddings=1024, num_hidden_layers=1, **window)
    decoder, ids = build(folder, hardware=hardware), some_ids(780)
    expected = oracle_logits(folder, ids)
    for start in (250, 505, 765):
        logits = run(decoder, ids[: start + 14], [start, 3, 5])
        torch.testing.assert_close(logits[start:], expected[start : start + 14], **EXACT)


@pytest.mark.parametrize("variant", ["llama", "sliding window"])
def test_a_batch_gives_what_each_gives_alone(variant: str, hardware: Hardware, tmp_path: Path) -> None:
    decoder = build(tiny_folder(tmp_path / "m", **VARIANTS[variant]), hardware=hardware)
    texts = [some_ids(n, seed=n) for n in (5, 23, 11)]
    alone = [run(decoder, ids, [len(ids)])[-1] for ids in texts]
    caches = [decoder.new_cache(64) for _ in texts]
    with torch.inference_mode():
        decoder.forward([Segment(c, ids[:-1]) for c, ids in zip(caches, texts, strict=True)])
        together = decoder.forward([Segment(c, ids[-1:]) for c, ids in zip(caches, texts, strict=True)])
    torch.testing.assert_close(together, torch.stack(alone), **EXACT)


@pytest.mark.parametrize("rows", [1, 5, 20])
def test_a_piece_that_more_follows_gives_no_logits_and_changes_none(
    rows: int, hardware: Hardware, tmp_path: Path
) -> None:
    decoder, ids = build(tiny_folder(tmp_path / "m"), hardware=hardware), some_ids(30)
    silent, other = decoder.new_cache(64), decoder.new_cache(64)
    with torch.inference_mode():
        none = decoder.forward([Segment(silent, ids[:rows], wants_logits=False)])
        one = decoder.forward([Segment(silent, ids[rows:], wants_logits=False), Segment(other, ids[:3])])
        silent.trim(29)
        last = decoder.forward([Segment(silent, ids[29:])])
    assert none.shape == (0, one.shape[1]) and one.shape[0] == 1
    expected = run(decoder, ids, [30])
    torch.testing.assert_close(one[0], expected[2], **EXACT)
    torch.testing.assert_close(last[0], expected[29], **EXACT)


def test_trim_then_decode_equals_a_fresh_decode(hardware: Hardware, tmp_path: Path) -> None:
    decoder = build(tiny_folder(tmp_path / "m"), hardware=hardware)
    ids, other = some_ids(30), some_ids(30, seed=9)
    cache = decoder.new_cache(64)
    with torch.inference_mode():
        decoder.forward([Segment(cache, ids[:12] + other[12:])])
        cache.trim(12)
        logits = decoder.forward([Segment(cache, ids[12:], wants_all_logits=True)])
    torch.testing.assert_close(logits, run(decoder, ids, [30])[12:], **EXACT)


@pytest.mark.parametrize("format", ["f32", "bf16"])
@pytest.mark.parametrize("variant", ["llama", "tied"])
def test_the_advisors_bytes_are_what_is_allocated(format: str, variant: str, tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "m", **VARIANTS[variant])
    decoder, spec = build(folder, format), read_spec(str(folder))
    assert decoder.bytes_by_part()[0] == weight_bytes(spec, format)
    kv = KVBits(32, 32) if format == "f32" else KV16
    assert decoder.new_cache(100).nbytes == kinds_bytes(spec, whole_kinds(spec, 100), kv, 1)
    usage = decoder.new_store(100, 16, 2).usage()
    assert usage.reserved_bytes == kinds_bytes(spec, pool_kinds(spec, 100, 16, 2), kv, 2)


@pytest.mark.parametrize("piece", [100, 0])
def test_bf16_chooses_as_float32_where_the_choice_is_clear(
    piece: int, hardware: Hardware, tmp_path: Path
) -> None:
    folder = tiny_folder(tmp_path / "m", initializer_range=0.1)
    ids = some_ids(100)
    exact = run(build(folder), ids, [100])
    half = run(build(folder, "bf16", hardware=hardware), ids, [piece] if piece else [])
    best, second = exact.topk(2).values.T
    clear = best - second > 0.25
    assert clear.sum() > 20
    assert torch.equal(exact.argmax(-1)[clear], half.argmax(-1)[clear])


def tiny_gguf(folder: Path, tmp_path: Path, type_name: str, name: str = "m.gguf") -> Path:
    """The GGUF of a folder's weights."""
    config = json.loads((folder / "config.json").read_text())
    return write_llama_gguf(tmp_path / name, load_file(folder / "model.safetensors"), config, type_name)


@pytest.mark.parametrize("variant", ["llama", "tied", "head size of its own"])
def test_both_roads_give_the_same_logits(variant: str, tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "m", **VARIANTS[variant])
    ids = some_ids(30)
    gguf = tiny_gguf(folder, tmp_path, "F32")
    torch.testing.assert_close(run(build(gguf), ids, [30]), run(build(folder), ids, [30]), **EXACT)


def test_rope_factors_of_a_gguf_divide_the_frequencies(tmp_path: Path) -> None:
    """Llama 3.1's converter writes its scaling as a tensor of factors."""
    folder = tiny_folder(tmp_path / "m", **VARIANTS["llama3 rope"])
    plain = rope_frequencies(RopeSpec(theta=10000.0), 16)
    factors = (plain / rope_frequencies(read_spec(str(folder)).rope, 16)).float()
    assert factors.max() > 2
    config = json.loads((folder / "config.json").read_text())
    state = load_file(folder / "model.safetensors")
    extra = [RawTensor("rope_freqs.weight", (8,), "F32", factors.numpy().tobytes())]
    gguf = write_llama_gguf(
        tmp_path / "m.gguf", state, config, "F32", {"llama.rope.scaling.type": None}, extra
    )
    ids = some_ids(30)
    torch.testing.assert_close(run(build(gguf), ids, [30]), oracle_logits(folder, ids), **EXACT)


@pytest.mark.parametrize("type_name", ["Q4_0", "Q4_1", "Q8_0"])
def test_the_files_own_bits_choose_as_their_dequantized_weights_do(type_name: str, tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "m", hidden_size=128, intermediate_size=160, initializer_range=0.1)
    gguf, ids = tiny_gguf(folder, tmp_path, type_name), some_ids(100)
    decoder = build(gguf, "file")
    exact, held = run(build(gguf), ids, [100]), run(decoder, ids, [100])
    best, second = exact.topk(2).values.T
    clear = best - second > 0.25
    assert clear.sum() > 20
    assert torch.equal(exact.argmax(-1)[clear], held.argmax(-1)[clear])
    assert decoder.bytes_by_part()[0] == weight_bytes(read_spec(str(gguf)), "file")
    assert ("int4pack" in decoder.kernels) == type_name.startswith("Q4")


def test_layers_of_mixed_types_are_each_held_in_their_own_format(tmp_path: Path) -> None:
    """A Q4 file often keeps some matrices at more bits: q and k at 4, v at 8."""
    folder = tiny_folder(tmp_path / "m")
    config = json.loads((folder / "config.json").read_text())
    state = load_file(folder / "model.safetensors")
    at_4, at_8 = (llama_tensors(state, config, type_name) for type_name in ("Q4_0", "Q8_0"))
    tensors = [b if "attn_v" in b.name else a for a, b in zip(at_4, at_8, strict=True)]
    gguf = write_gguf(tmp_path / "m.gguf", llama_metadata(config), tensors)
    decoder, ids = build(gguf, "file"), some_ids(50)
    assert decoder.bytes_by_part()[0] == weight_bytes(read_spec(str(gguf)), "file")
    exact, held = run(build(gguf), ids, [50]), run(decoder, ids, [20])
    assert torch.nn.functional.cosine_similarity(exact, held).min() > 0.99
