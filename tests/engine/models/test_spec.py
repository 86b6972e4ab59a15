"""From GGUF files to specs: values, families, refusals by name, and the scan of a folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from engine.errors import EngineError, ModelFileError, UnsafeModelError, UnsupportedModelError
from engine.models import families
from engine.models.gguf_spec import AdditionError
from engine.models.spec import read_spec, scan_folder
from engine.types import ModelSpec, RopeSpec
from tests.engine.models.writers import (
    TINY,
    RawTensor,
    Typed,
    byte_vocabulary,
    gguf_bytes,
    llama_metadata,
    llama_tensors,
    tiny_state,
    write_folder,
    write_gguf,
    write_llama_gguf,
)

WIDE = TINY | {"hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 1}


def tiny(path: Path, config: dict[str, Any] = TINY, type_name: str = "F32", **options: Any) -> str:
    return str(write_llama_gguf(path, tiny_state(config), config, type_name, **options))


def refused(path: str, kind: type[EngineError], reason: str) -> EngineError:
    with pytest.raises(kind, match=reason) as caught:
        read_spec(path)
    assert type(caught.value) is kind
    return caught.value


def test_a_llama_file_says_what_it_is(tmp_path: Path) -> None:
    path = tiny(tmp_path / "A  name\n-Q4_K_M.gguf", TINY | {"rope_theta": 5e5})
    spec = read_spec(path)
    assert (spec.path, spec.source, spec.name, spec.architecture) == (path, "gguf", "A name", "llama")
    assert (spec.num_layers, spec.hidden_size, spec.intermediate_size) == (2, 64, 96)
    assert (spec.num_heads, spec.num_kv_heads, spec.head_dim) == (4, 2, 16)
    assert (spec.vocab_size, spec.trained_context, spec.sliding_window) == (96, 128, None)
    assert spec.norm_eps == pytest.approx(1e-5)
    assert spec.rope == RopeSpec(theta=500_000.0)
    assert not spec.tied_embeddings
    assert spec.files == (path,)
    assert spec.num_params == sum(weight.numel() for weight in tiny_state().values())
    assert spec.weight_bits == 32


def test_every_word_has_a_tensor_of_its_shape(tmp_path: Path) -> None:
    spec = read_spec(tiny(tmp_path / "a.gguf"))
    names, shapes = families.tensor_names(spec), families.tensor_shapes(spec)
    stored = {tensor.name: tensor.shape for tensor in spec.tensors}
    assert {word: stored[name] for word, name in names.items()} == {word: shapes[word] for word in names}
    assert names["layers.1.gate"] == "blk.1.ffn_gate.weight"
    assert names["head"] == "output.weight"
    assert "rope_factors" not in names
    assert families.family(spec).permuted_qk


def test_the_starter_is_a_tied_llama(starter_path: Path) -> None:
    spec = read_spec(str(starter_path))
    assert (spec.num_layers, spec.hidden_size, spec.num_heads, spec.num_kv_heads) == (30, 576, 9, 3)
    assert (spec.head_dim, spec.vocab_size, spec.trained_context) == (64, 49_152, 8192)
    assert spec.tied_embeddings
    assert spec.num_params == 134_515_008
    assert spec.rope.theta == 100_000.0


def test_without_an_output_tensor_the_embedding_is_the_head(tmp_path: Path) -> None:
    spec = read_spec(tiny(tmp_path / "a.gguf", TINY | {"tie_word_embeddings": True}))
    assert spec.tied_embeddings
    assert "head" not in families.tensor_names(spec)


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("моя model.gguf", "моя model"),
        ("SmolLM2-135M-Instruct.Q4_1.gguf", "SmolLM2-135M-Instruct"),
        ("Phi-3-mini-4k.BF16.gguf", "Phi-3-mini-4k"),
        ("Q4_0.gguf", "Q4_0"),
    ],
)
def test_a_model_is_named_after_its_file_without_the_mark_of_its_bits(
    file: str, name: str, tmp_path: Path
) -> None:
    assert read_spec(tiny(tmp_path / file, metadata={"general.name": "ckpt-final-run7"})).name == name


# -- B043 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", [64, 96])
def test_an_explicit_head_size_need_not_be_hidden_over_heads(tmp_path: Path, hidden: int) -> None:
    spec = read_spec(tiny(tmp_path / "a.gguf", TINY | {"hidden_size": hidden, "head_dim": 32}))
    assert spec.head_dim == 32
    shapes = {tensor.name: tensor.shape for tensor in spec.tensors}
    assert shapes["blk.0.attn_q.weight"] == (128, hidden)


def test_keys_and_values_of_different_length_are_refused_by_name(tmp_path: Path) -> None:
    metadata = {"llama.attention.key_length": 32, "llama.attention.value_length": 16}
    refused(tiny(tmp_path / "a.gguf", metadata=metadata), UnsupportedModelError, "keys have 32 .* values 16")


# -- B028, B031, B033 ------------------------------------------------------------------------------------


def test_an_unknown_architecture_is_named_and_the_file_not_blamed(tmp_path: Path) -> None:
    path = tiny(tmp_path / "a.gguf", metadata={"general.architecture": "qwen3moe-x"})
    error = refused(path, UnsupportedModelError, "architecture not supported: qwen3moe-x")
    assert "corrupt" not in str(error)
    assert "incomplete" not in str(error)
    assert "llama" in error.hint


def test_experts_are_named_by_key_or_by_tensor(tmp_path: Path) -> None:
    path = tiny(tmp_path / "a.gguf", metadata={"llama.expert_count": 8})
    refused(path, UnsupportedModelError, "mixture of experts")
    tensors = [each for each in llama_tensors(tiny_state(), TINY) if "ffn_gate" not in each.name]
    tensors.append(RawTensor("blk.0.ffn_gate_exps.weight", (2, 96, 64), "F32", b"\0" * 2 * 96 * 64 * 4))
    path = str(write_gguf(tmp_path / "b.gguf", llama_metadata(TINY), tensors))
    refused(path, UnsupportedModelError, "mixture of experts")


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("blk.1.attn_q.bias", "biases"),
        ("output.bias", "biases"),
        ("blk.0.attn_q_norm.weight", "does not know"),
        ("odd", "does not know"),
    ],
)
def test_tensors_the_decoder_would_leave_out_are_refused(tmp_path: Path, name: str, what: str) -> None:
    extra = [RawTensor(name, (64,), "F32", b"\0" * 256)]
    error = refused(tiny(tmp_path / "a.gguf", extra=extra), UnsupportedModelError, what)
    assert name in error.message


def test_biases_of_a_part_of_a_product_are_an_incomplete_model(tmp_path: Path) -> None:
    extra = [RawTensor("blk.0.attn_q.bias", (64,), "F32", b"\0" * 256)]
    refused(tiny(tmp_path / "a.gguf", extra=extra), ModelFileError, "attn_k.bias' and 4 more is missing")


@pytest.mark.parametrize(
    ("metadata", "kind", "reason"),
    [
        ({"general.type": "mmproj"}, AdditionError, "mmproj"),
        ({"general.architecture": "clip"}, AdditionError, "image projector"),
        ({"general.type": "adapter"}, AdditionError, "adapter"),
        ({"llama.attention.causal": False}, UnsupportedModelError, "looks ahead"),
        ({"llama.logit_scale": 8.0}, UnsupportedModelError, "scaled logits"),
    ],
)
def test_additions_and_options_are_refused_by_name(
    tmp_path: Path, metadata: dict[str, object], kind: type[EngineError], reason: str
) -> None:
    refused(tiny(tmp_path / "a.gguf", metadata=metadata), kind, reason)


def test_a_piece_cut_by_hand_is_explained(tmp_path: Path) -> None:
    path = tmp_path / "x.gguf.part1of2"
    path.write_bytes(Path(tiny(tmp_path / "a.gguf")).read_bytes()[:-5])
    error = refused(str(path), ModelFileError, "piece of a file")
    assert "Join" in error.hint


def test_one_tensor_of_an_unsupported_type_is_refused_with_its_name(tmp_path: Path) -> None:
    tensors = llama_tensors(tiny_state(WIDE), WIDE, "Q4_0")
    at = next(i for i, each in enumerate(tensors) if each.name == "blk.0.ffn_up.weight")
    tensors[at] = RawTensor("blk.0.ffn_up.weight", (256, 256), "IQ2_XXS", b"\0" * 256 * 66)
    path = str(write_gguf(tmp_path / "a.gguf", llama_metadata(WIDE), tensors))
    error = refused(path, UnsupportedModelError, "'blk.0.ffn_up.weight' has the type IQ2_XXS")
    assert "Q4_K_M" in error.hint


# -- missing and wrong -----------------------------------------------------------------------------------


def test_missing_tensors_are_named(tmp_path: Path) -> None:
    for name in ("token_embd.weight", "blk.1.attn_k.weight", "output_norm.weight"):
        tensors = [each for each in llama_tensors(tiny_state(), TINY) if each.name != name]
        path = str(write_gguf(tmp_path / "a.gguf", llama_metadata(TINY), tensors))
        refused(path, ModelFileError, f"'{name}' is missing")


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        ({"llama.block_count": None}, "block_count is missing"),
        ({"llama.block_count": 1 << 30}, "claims 1,073,741,824 layers"),
        ({"llama.block_count": Typed("u64", 1 << 63)}, "out of any sensible range"),
        ({"llama.block_count": 0}, "out of any sensible range"),
        ({"llama.block_count": "2"}, "not a whole number"),
        ({"llama.block_count": True}, "not a whole number"),
        ({"llama.feed_forward_length": 128}, "needs"),
        ({"llama.feed_forward_length": Typed("array:i32", [96, 97])}, "not a whole number"),
        ({"llama.attention.head_count": 3}, "does not divide"),
        ({"llama.attention.head_count_kv": 3}, "evenly"),
        ({"llama.attention.head_count_kv": 4}, "attn_k.* has the shape"),
        ({"llama.attention.key_length": 15, "llama.attention.value_length": 15}, "in pairs"),
        ({"llama.attention.layer_norm_rms_epsilon": None}, "epsilon is missing"),
        ({"llama.context_length": None}, "context_length is missing"),
        ({"general.architecture": None}, "architecture is missing"),
        ({"general.architecture": 7}, "not text"),
    ],
)
def test_missing_and_impossible_values_are_named(
    tmp_path: Path, metadata: dict[str, object], reason: str
) -> None:
    refused(tiny(tmp_path / "a.gguf", metadata=metadata), ModelFileError, reason)


def test_a_value_stated_once_a_layer_counts_if_all_are_equal(tmp_path: Path) -> None:
    metadata = {"llama.attention.head_count_kv": Typed("array:i32", [2, 2])}
    assert read_spec(tiny(tmp_path / "a.gguf", metadata=metadata)).num_kv_heads == 2


def test_an_embedding_without_dimensions_is_refused(tmp_path: Path) -> None:
    tensors = llama_tensors(tiny_state(), TINY)
    tensors[0] = RawTensor("token_embd.weight", (), "F32", b"\0" * 4)
    path = str(write_gguf(tmp_path / "a.gguf", llama_metadata(TINY), tensors))
    refused(path, ModelFileError, "token_embd.weight.* has the shape")


def test_a_vocabulary_without_weights_is_no_model(cases_dir: Path) -> None:
    for path in (cases_dir / "vocab").glob("*.gguf"):
        refused(str(path), ModelFileError, "no weights")


def test_pickles_are_refused_by_name_alone(tmp_path: Path) -> None:
    path = tmp_path / "pytorch_model.bin"
    path.write_bytes(b"\x80\x02.")
    assert "safetensors" in refused(str(path), UnsafeModelError, "pickle").hint


def test_strange_paths_are_typed_errors(tmp_path: Path) -> None:
    for path in ("", str(tmp_path / "nothing"), str(tmp_path / ("x" * 5000)), "a\0b", str(tmp_path)):
        with pytest.raises(ModelFileError):
            read_spec(path)


# -- the scan --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("data", [b"", b"GGUF", b"\x80\x02x"])
def test_a_message_is_one_line_whatever_the_path_is(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a\x1b]0;pwned\x07\n.gguf"
    path.write_bytes(data)
    with pytest.raises(EngineError, match=r"a \]0;pwned  \.gguf: ") as caught:
        read_spec(str(path))
    assert str(caught.value).isprintable()
    with pytest.raises(EngineError) as caught:
        scan_folder(str(tmp_path / "a\x1bb"))
    assert str(caught.value).isprintable()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"attention.key_length": 1 << 20, "attention.value_length": 1 << 20}, "head_dim is 1,048,576"),
        ({"attention.key_length": 1026, "attention.value_length": 1026}, "head_dim is 1,026; at most 1,024"),
        (
            {"attention.head_count": 1 << 20, "attention.key_length": 2},
            "num_heads is 1,048,576; at most 4,096",
        ),
        ({"attention.head_count": 4096, "attention.key_length": 1024}, "num_heads × head_dim is 4,194,304"),
        ({"embedding_length": (1 << 17) + 4}, "hidden_size is 131,076; at most 131,072"),
        ({"feed_forward_length": (1 << 20) + 1}, "intermediate_size is 1,048,577"),
    ],
)
def test_sizes_beyond_any_model_are_refused_with_name_and_value(
    tmp_path: Path, changes: dict[str, int], words: str
) -> None:
    metadata = {f"llama.{name}": value for name, value in changes.items()}
    refused(tiny(tmp_path / "a.gguf", metadata=metadata), ModelFileError, words)


def test_the_largest_sizes_of_published_models_pass(tmp_path: Path) -> None:
    config = TINY | {"num_hidden_layers": 1, "vocab_size": 1, "intermediate_size": 1, "hidden_size": 1}
    path = tiny(tmp_path / "a.gguf", config | {"num_attention_heads": 128, "head_dim": 512})
    assert read_spec(path).head_dim == 512


def test_a_scan_goes_on_after_broken_models(tmp_path: Path) -> None:
    tiny(tmp_path / "good.gguf", metadata=byte_vocabulary(["<s>"]))
    (tmp_path / "Broken.gguf").write_bytes(bytes.fromhex("474755460300000000000000000000000000000000000080"))
    (tmp_path / "page.GGUF").write_bytes(b"<html>")
    (tmp_path / "mmproj-x.gguf").write_bytes(b"")
    (tmp_path / ".hidden.gguf").write_bytes(b"")
    (tmp_path / "x.gguf.part").write_bytes(b"")
    (tmp_path / "notes.txt").write_bytes(b"")
    write_folder(tmp_path / "hf model", tiny_state())
    (tmp_path / "sub folder").mkdir()
    tiny(tmp_path / "sub folder" / "inner é.gguf")
    (tmp_path / "empty.gguf").mkdir()
    found = scan_folder(str(tmp_path))
    names = [os.path.relpath(path, tmp_path) for path, _ in found]
    inner = os.path.join("sub folder", "inner é.gguf")
    assert names == ["Broken.gguf", "good.gguf", "hf model", "page.GGUF", inner]
    is_good = [isinstance(result, ModelSpec) for _, result in found]
    assert is_good == [False, True, True, False, True]


def test_a_scan_keeps_no_frames_of_errors_alive(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").write_bytes(b"<html>")
    [(_, error)] = scan_folder(str(tmp_path))
    assert isinstance(error, EngineError)
    assert error.__traceback__ is None
    assert error.__context__ is None


def test_a_folder_that_is_not_there_cannot_be_scanned(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="cannot be read"):
        scan_folder(str(tmp_path / "nothing"))


def test_reading_specs_imports_no_heavy_library() -> None:
    code = (
        "import sys, engine.models.spec, engine.models.families, engine.quant.formats\n"
        "heavy = {'torch', 'numpy', 'tokenizers', 'safetensors', 'transformers', 'jinja2', 'psutil'}\n"
        "sys.exit(', '.join(sorted(heavy & set(sys.modules))) or 0)"
    )
    root = Path(__file__).resolve().parents[3]
    done = subprocess.run([sys.executable, "-c", code], cwd=root, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_an_unused_whole_file_is_left_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(gguf_bytes(llama_metadata(TINY), llama_tensors(tiny_state(), TINY)))
    before = (path.read_bytes(), path.stat().st_mtime_ns)
    read_spec(str(path))
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before
