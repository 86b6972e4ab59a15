"""Small GGUF vocabularies for tests, and llama.cpp's own reading of a file as the oracle."""

from __future__ import annotations

import functools
import importlib.util
import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from engine.text.vocabulary import BYTE_LETTERS
from tests.engine.models.writers import Typed, write_gguf

NORMAL, UNKNOWN, CONTROL, USER, UNUSED, BYTE = range(1, 7)
needs_llama_cpp = pytest.mark.skipif(
    importlib.util.find_spec("llama_cpp") is None, reason="llama.cpp (the oracle) is not installed"
)
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def keys(**values: Any) -> dict[str, Any]:
    """Metadata of the `tokenizer.ggml.` keys; None takes a key away."""
    return {f"tokenizer.ggml.{key}": value for key, value in values.items() if value is not None}


def byte_pairs(**changes: Any) -> dict[str, Any]:
    """All bytes, two merges, then <s> </s> <|im_end|> and a run of spaces."""
    values: dict[str, Any] = {
        "model": "gpt2",
        "pre": "gpt-2",
        "tokens": [*BYTE_LETTERS, "ab", "abc", "<s>", "</s>", "<|im_end|>", "   "],
        "token_type": [NORMAL] * 258 + [CONTROL] * 3 + [USER],
        "merges": ["a b", "ab c"],
        "bos_token_id": 258,
        "eos_token_id": 259,
    }
    return keys(**values | changes)


def trained_pairs(pre: str, texts: Iterable[str]) -> dict[str, Any]:
    """A vocabulary whose merges were learned from texts that were not cut: they run across all borders.

    To the token "camelCase" no merges lead.
    """
    tokens, merges = _trained(tuple(texts))
    tokens = [*tokens, "camelCase"]
    return byte_pairs(
        pre=pre,
        tokens=[*tokens, "<s>"],
        token_type=[NORMAL] * len(tokens) + [CONTROL],
        merges=merges,
        bos_token_id=len(tokens),
        eos_token_id=len(tokens),
    )


@functools.cache
def _trained(texts: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """(tokens, merges) of a byte-level vocabulary."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(
        vocab_size=4000, initial_alphabet=list(BYTE_LETTERS), show_progress=False, max_token_length=8
    )
    backend.train_from_iterator(texts, trainer)
    model = json.loads(backend.to_str())["model"]
    return sorted(model["vocab"], key=model["vocab"].__getitem__), [
        " ".join(pair) for pair in model["merges"]
    ]


def pieces(scores: Mapping[str, float], /, **changes: Any) -> dict[str, Any]:
    """<unk>, <s>, </s>, the 256 bytes, then the pieces with their scores, from id 259 on."""
    values: dict[str, Any] = {
        "model": "llama",
        "tokens": ["<unk>", "<s>", "</s>", *BYTES, *scores],
        "token_type": [UNKNOWN, CONTROL, CONTROL, *[BYTE] * 256, *[NORMAL] * len(scores)],
        "scores": [*[0.0] * 259, *scores.values()],
        "bos_token_id": 1,
        "eos_token_id": 2,
    }
    return keys(**values | changes)


def write(path: Path, metadata: Mapping[str, Any]) -> Path:
    """A GGUF file of the vocabulary alone."""
    types = Typed("array:i32", metadata["tokenizer.ggml.token_type"])
    named = {"general.architecture": "llama"} | dict(metadata) | {"tokenizer.ggml.token_type": types}
    return write_gguf(path, named)


def llama_cpp_ids(path: Path) -> Callable[..., list[int]]:
    """llama.cpp's own encoder of a file, for tests that `needs_llama_cpp` marks."""
    from llama_cpp import Llama

    model = Llama(str(path), vocab_only=True, verbose=False)

    def ids(text: str, controls: bool = False) -> list[int]:
        found: list[int] = model.tokenize(text.encode(), add_bos=False, special=controls)
        return found

    return ids
