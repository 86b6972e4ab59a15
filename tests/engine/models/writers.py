"""Writers of tiny model files for tests: GGUF with any metadata and tensors, Hugging Face folders.

They write what they are told, wrong values too; `RawTensor` and `Typed` are the places to lie.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from torch import Tensor

from engine.quant.formats import TENSOR_TYPES

_TYPE_NUMBERS = {"u8": 0, "i8": 1, "u16": 2, "i16": 3, "u32": 4, "i32": 5, "f32": 6, "bool": 7, "str": 8}
_TYPE_NUMBERS |= {"array": 9, "u64": 10, "i64": 11, "f64": 12}
_LETTERS = {"u8": "B", "i8": "b", "u16": "H", "i16": "h", "u32": "I", "i32": "i", "f32": "f", "bool": "B"}
_LETTERS |= {"u64": "Q", "i64": "q", "f64": "d"}


@dataclass(frozen=True)
class Typed:
    """A metadata value of a stated type: `Typed("u64", 3)`, `Typed("array:i32", [1, 2])`."""

    kind: str
    value: Any


@dataclass(frozen=True)
class RawTensor:
    """One tensor as it goes into the file. `shape` in torch order; `offset` None: behind the one before."""

    name: str
    shape: tuple[int, ...]
    type: str | int
    data: bytes
    offset: int | None = None


def text(value: str | bytes) -> bytes:
    """A GGUF string: length in 8 bytes, then the bytes."""
    raw = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(raw)) + raw


def _typed(value: object) -> Typed:
    match value:
        case Typed():
            return value
        case bool():
            return Typed("bool", value)
        case int():
            return Typed("u32" if 0 <= value < 1 << 32 else "i32" if value < 0 else "u64", value)
        case float():
            return Typed("f32", value)
        case str() | bytes():
            return Typed("str", value)
        case list() | tuple():
            kinds = {_typed(each).kind for each in value} or {"u32"}
            return Typed("array:" + ("i32" if kinds == {"u32", "i32"} else kinds.pop()), list(value))
    raise TypeError(f"no GGUF type for {value!r}")


def value_bytes(value: object) -> bytes:
    """A metadata value with its type number before it."""
    typed = _typed(value)
    kind, _, element = typed.kind.partition(":")
    number = struct.pack("<I", _TYPE_NUMBERS[kind])
    if kind != "array":
        return number + _plain(kind, typed.value)
    parts = [struct.pack("<IQ", _TYPE_NUMBERS[element], len(typed.value))]
    return number + b"".join(parts + [_plain(element, each) for each in typed.value])


def _plain(kind: str, value: Any) -> bytes:
    return text(value) if kind == "str" else struct.pack("<" + _LETTERS[kind], value)


def gguf_bytes(
    metadata: Mapping[str, object] | Sequence[tuple[str | bytes, object]],
    tensors: Sequence[RawTensor] = (),
    *,
    version: int = 3,
    alignment: int = 32,
    num_keys: int | None = None,
    num_tensors: int | None = None,
) -> bytes:
    """A whole GGUF file. `alignment` is what the layout uses; a key that states it is up to `metadata`."""
    pairs = list(metadata.items()) if isinstance(metadata, Mapping) else list(metadata)
    counts = (num_tensors if num_tensors is not None else len(tensors), num_keys or len(pairs))
    parts = [b"GGUF", struct.pack("<IQQ", version, *counts)]
    parts += [text(key) + value_bytes(value) for key, value in pairs]
    data = b""
    for tensor in tensors:
        offset = len(data) if tensor.offset is None else tensor.offset
        number = tensor.type if isinstance(tensor.type, int) else TENSOR_TYPES[tensor.type].ggml_id
        sizes = tensor.shape[::-1]
        parts.append(
            text(tensor.name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, number, offset)
        )
        data += tensor.data + b"\0" * (-len(tensor.data) % alignment)
    header = b"".join(parts)
    return header + b"\0" * (-len(header) % alignment) + data


def write_gguf(path: Path, *args: Any, **options: Any) -> Path:
    """`gguf_bytes` into a file; returns the path."""
    path.write_bytes(gguf_bytes(*args, **options))
    return path


def part_name(stem: str, number: int, count: int) -> str:
    """The name of a part of a split GGUF model; ``number`` counts from 1."""
    return f"{stem}-{number:05d}-of-{count:05d}.gguf"


def write_split(
    folder: Path,
    stem: str,
    metadata: Mapping[str, object],
    tensors: Sequence[RawTensor],
    count: int = 3,
    *,
    first_has_tensors: bool = True,
) -> list[Path]:
    """A model in ``count`` GGUF files as `llama-gguf-split` makes them: all metadata in the first, every part
    with its number and its own tensors.
    """
    folder.mkdir(parents=True, exist_ok=True)
    holders = count if first_has_tensors else count - 1
    share = -(-len(tensors) // holders)
    paths = []
    for number in range(count):
        keys: dict[str, object] = {"split.no": Typed("u16", number), "split.count": Typed("u16", count)}
        keys["split.tensors.count"] = Typed("i32", len(tensors))
        at = (number if first_has_tensors else number - 1) * share
        own = tensors[at : at + share] if at >= 0 else []
        path = folder / part_name(stem, number + 1, count)
        paths.append(write_gguf(path, dict(metadata) | keys if number == 0 else keys, own))
    return paths


def quantized(name: str, weight: Tensor, type_name: str) -> RawTensor:
    """A tensor in a type the `gguf` package can quantize to (floats, Q4_0 … Q8_0, not the K types)."""
    values = weight.detach().float().contiguous().numpy()
    if type_name == "BF16":
        raw = weight.detach().bfloat16().contiguous().view(torch.int16).numpy().tobytes()
    elif type_name in ("F32", "F16"):
        raw = values.astype(np.float32 if type_name == "F32" else np.float16).tobytes()
    else:
        raw = gguf.quants.quantize(values, gguf.GGMLQuantizationType[type_name]).tobytes()
    return RawTensor(name, tuple(weight.shape), type_name, raw)


def permuted(weight: Tensor, num_heads: int) -> Tensor:
    """Rows of q or k from halves (Hugging Face) to pairs side by side, the order GGUF keeps for Llama."""
    rows, cols = weight.shape
    return weight.view(num_heads, 2, rows // num_heads // 2, cols).transpose(1, 2).reshape(rows, cols)


_GGUF_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}
_GGUF_OUTER = {
    "model.embed_tokens.weight": "token_embd.weight",
    "model.norm.weight": "output_norm.weight",
    "lm_head.weight": "output.weight",
}


def gguf_name(name: str) -> str:
    """The name a Llama tensor of a Hugging Face state dict has in GGUF."""
    if name in _GGUF_OUTER:
        return _GGUF_OUTER[name]
    _, _, layer, rest = name.split(".", 3)
    return f"blk.{layer}.{_GGUF_NAMES[rest.removesuffix('.weight')]}.weight"


def llama_metadata(config: Mapping[str, Any]) -> dict[str, object]:
    """The metadata keys of a Llama GGUF, from the values of a config.json."""
    heads = config["num_attention_heads"]
    keys: dict[str, object] = {
        "general.architecture": "llama",
        "general.name": "tiny",
        "llama.block_count": config["num_hidden_layers"],
        "llama.context_length": config.get("max_position_embeddings", 512),
        "llama.embedding_length": config["hidden_size"],
        "llama.feed_forward_length": config["intermediate_size"],
        "llama.attention.head_count": heads,
        "llama.attention.head_count_kv": config.get("num_key_value_heads", heads),
        "llama.attention.layer_norm_rms_epsilon": float(config.get("rms_norm_eps", 1e-5)),
        "llama.rope.freq_base": float(config.get("rope_theta", 10_000.0)),
    }
    if config.get("head_dim"):
        keys["llama.attention.key_length"] = config["head_dim"]
        keys["llama.attention.value_length"] = config["head_dim"]
    return keys


def llama_tensors(
    state: Mapping[str, Tensor], config: Mapping[str, Any], type_name: str = "F32"
) -> list[RawTensor]:
    """All tensors of a Llama state dict as GGUF holds them: matrices in `type_name`, norms in F32."""
    heads = config["num_attention_heads"]
    kv_heads = config.get("num_key_value_heads", heads)
    tensors = []
    for name, weight in state.items():
        if config.get("tie_word_embeddings") and name == "lm_head.weight":
            continue
        if name.endswith("q_proj.weight"):
            weight = permuted(weight, heads)
        elif name.endswith("k_proj.weight"):
            weight = permuted(weight, kv_heads)
        tensors.append(quantized(gguf_name(name), weight, type_name if weight.dim() > 1 else "F32"))
    return tensors


def write_llama_gguf(
    path: Path,
    state: Mapping[str, Tensor],
    config: Mapping[str, Any],
    type_name: str = "F32",
    metadata: Mapping[str, object] | None = None,
    extra: Sequence[RawTensor] = (),
) -> Path:
    """A whole Llama GGUF from a Hugging Face state dict and config; `metadata` is added or replaces.

    A metadata value of None takes the key out. Add `byte_vocabulary()` for a tokenizer.
    """
    keys = llama_metadata(config) | dict(metadata or {})
    keys = {key: value for key, value in keys.items() if value is not None}
    return write_gguf(path, keys, [*llama_tensors(state, config, type_name), *extra])


def byte_vocabulary(control: Sequence[str], template: str | None = None) -> dict[str, object]:
    """tokenizer.* keys of a vocabulary of one token per byte, in GPT-2's letters, then the control tokens.

    BOS is the first control token, EOS the last; no BOS is added to prompts.
    """
    letters = sorted(_byte_letters())
    keys: dict[str, object] = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "gpt-2",
        "tokenizer.ggml.tokens": letters + list(control),
        "tokenizer.ggml.token_type": Typed("array:i32", [1] * 256 + [3] * len(control)),
        "tokenizer.ggml.merges": Typed("array:str", []),
        "tokenizer.ggml.bos_token_id": 256,
        "tokenizer.ggml.eos_token_id": 255 + len(control),
        "tokenizer.ggml.add_bos_token": False,
    }
    return keys | ({} if template is None else {"tokenizer.chat_template": template})


def _byte_letters() -> list[str]:
    """GPT-2's letter of each byte: itself where it can be printed, else one from U+0100 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return [chr(byte) for byte in printable] + [chr(256 + index) for index in range(len(others))]


# -- safetensors ----------------------------------------------------------------------------------------

TINY: dict[str, Any] = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "vocab_size": 96,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "tie_word_embeddings": False,
}
"""A config.json of a Llama that random weights fit into a few hundred kilobytes."""

_DTYPES = {torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64"}


def tiny_state(config: Mapping[str, Any] = TINY, seed: int = 0) -> dict[str, Tensor]:
    """Random weights of a Llama by Hugging Face's names, for any config like TINY."""
    generator = torch.Generator().manual_seed(seed)
    hidden, inner, heads = config["hidden_size"], config["intermediate_size"], config["num_attention_heads"]
    dim = config.get("head_dim") or hidden // heads
    keys = (config.get("num_key_value_heads") or heads) * dim
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (config["vocab_size"], hidden)}
    for i in range(config["num_hidden_layers"]):
        layer = f"model.layers.{i}."
        shapes[layer + "input_layernorm.weight"] = (hidden,)
        shapes[layer + "self_attn.q_proj.weight"] = (heads * dim, hidden)
        shapes[layer + "self_attn.k_proj.weight"] = (keys, hidden)
        shapes[layer + "self_attn.v_proj.weight"] = (keys, hidden)
        shapes[layer + "self_attn.o_proj.weight"] = (hidden, heads * dim)
        shapes[layer + "post_attention_layernorm.weight"] = (hidden,)
        shapes[layer + "mlp.gate_proj.weight"] = (inner, hidden)
        shapes[layer + "mlp.up_proj.weight"] = (inner, hidden)
        shapes[layer + "mlp.down_proj.weight"] = (hidden, inner)
    shapes["model.norm.weight"] = (hidden,)
    if not config.get("tie_word_embeddings"):
        shapes["lm_head.weight"] = (config["vocab_size"], hidden)
    return {
        name: torch.rand(shape, generator=generator) + 0.5
        if len(shape) == 1
        else torch.randn(shape, generator=generator) * 0.3
        for name, shape in shapes.items()
    }


def safetensors_bytes(tensors: Mapping[str, Tensor], changes: Mapping[str, object] | None = None) -> bytes:
    """A safetensors file; `changes` replace whole entries of its header after the layout is made."""
    header: dict[str, object] = {}
    data = b""
    for name, tensor in tensors.items():
        raw = tensor.detach().contiguous().view(torch.uint8).numpy().tobytes()
        places = [len(data), len(data) + len(raw)]
        header[name] = {"dtype": _DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": places}
        data += raw
    text_bytes = json.dumps(header | dict(changes or {})).encode()
    text_bytes += b" " * (-len(text_bytes) % 8)
    return struct.pack("<Q", len(text_bytes)) + text_bytes + data


def write_folder(
    folder: Path, state: Mapping[str, Tensor], config: Mapping[str, Any] = TINY, shards: int = 1
) -> Path:
    """config.json and weights of a Hugging Face folder, in one file or in shards with an index."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    if shards == 1:
        (folder / "model.safetensors").write_bytes(safetensors_bytes(state))
        return folder
    weight_map: dict[str, str] = {}
    names = list(state)
    for number in range(shards):
        file = f"model-{number + 1:05d}-of-{shards:05d}.safetensors"
        part = {name: state[name] for name in names[number::shards]}
        (folder / file).write_bytes(safetensors_bytes(part))
        weight_map |= dict.fromkeys(part, file)
    index = {"metadata": {}, "weight_map": weight_map}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return folder
