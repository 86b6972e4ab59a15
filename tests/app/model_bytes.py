"""Tiny models as bytes, for a server to send and for folders to hold."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache

from torch import Tensor

from tests.engine.models.writers import (
    TINY,
    byte_vocabulary,
    gguf_bytes,
    llama_metadata,
    llama_tensors,
    safetensors_bytes,
    tiny_state,
)

TEMPLATE = "{% for message in messages %}{{ message.content }}{% endfor %}"
CONFIG = {"model_type": "llama", "architectures": ["LlamaForCausalLM"], **TINY}


@cache
def _state() -> dict[str, Tensor]:
    return tiny_state()


@cache
def _gguf(type_name: str, has_template: bool, architecture: str) -> bytes:
    keys = llama_metadata(TINY) | byte_vocabulary(["<s>"], TEMPLATE if has_template else None)
    if architecture != "llama":
        keys["general.architecture"] = architecture
    return gguf_bytes(keys, llama_tensors(_state(), TINY, type_name))


def gguf_model(type_name: str = "F32", *, has_template: bool = True, architecture: str = "llama") -> bytes:
    """A GGUF model of two layers with a vocabulary of bytes."""
    return _gguf(type_name, has_template, architecture)


def projector() -> bytes:
    """An image projector: an addition to a model."""
    return gguf_bytes({"general.architecture": "clip", "general.type": "mmproj"})


def folder_model(changes: Mapping[str, object] | None = None) -> dict[str, bytes]:
    """The files of a Hugging Face folder by name."""
    return {
        "config.json": json.dumps(CONFIG | dict(changes or {})).encode(),
        "model.safetensors": safetensors_bytes(_state()),
        "tokenizer_config.json": json.dumps({"chat_template": TEMPLATE}).encode(),
    }
