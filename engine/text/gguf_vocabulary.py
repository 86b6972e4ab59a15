"""Builds a vocabulary from the `tokenizer.*` keys of a GGUF header.

Knows which rule of splitting text belongs to which `tokenizer.ggml.pre`; does not know templates or weights.
Keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md#tokenizer
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from engine.errors import TokenizerError
from engine.foreign import shown
from engine.models.gguf import read_header
from engine.text.backend import ids_of, refusals
from engine.text.vocabulary import (
    BYTE_LETTERS,
    AddedToken,
    Vocabulary,
    byte_level_bytes,
    check_added,
    end_ids,
    missing,
)

_CONTROL, _USER_DEFINED, _UNUSED, _BYTE = 3, 4, 5, 6
_NORMAL = 1
# Bytes that everyday text is made of. Published vocabularies lack some others, which hardly ever occur.
_TEXT_BYTES = frozenset({0x09, 0x0A, *range(0x20, 0x7F), *range(0x80, 0xC0), *range(0xC2, 0xF1)})

_LLAMA3_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_DEEPSEEK_CODER_STEPS = (r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[一-龥ࠀ-一가-퟿]+")


def _split(pattern: str) -> Any:
    return pre_tokenizers.Split(Regex(pattern), "isolated")


def _bytes(use_regex: bool) -> Any:
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


def _single_digits() -> Any:
    return pre_tokenizers.Digits(individual_digits=True)


def _deepseek_coder() -> list[Any]:
    return [*map(_split, _DEEPSEEK_CODER_STEPS), _single_digits(), _bytes(False)]


_SPLITTERS: dict[str, Callable[[], list[Any]]] = {
    "gpt-2": lambda: [_bytes(True)],
    "smollm": lambda: [_single_digits(), _bytes(True)],
    "llama-bpe": lambda: [_split(_LLAMA3_WORDS), _bytes(False)],
    "deepseek-coder": _deepseek_coder,
}
_ALIASES = {"llama3": "llama-bpe", "llama-v3": "llama-bpe"}


def read(path: str) -> Vocabulary:
    """The vocabulary of the GGUF file at `path`. Raises TokenizerError, or ModelFileError from the header."""
    return from_metadata(read_header(path).metadata)


def from_metadata(metadata: dict[str, Any]) -> Vocabulary:
    """The vocabulary that a header's metadata describe."""
    pre = _check_kind(metadata)
    tokens = _strings(metadata, "tokens")
    types = _types(metadata, len(tokens))
    merges = _strings(metadata, "merges")
    added = tuple(
        AddedToken(token_id, tokens[token_id], control=kind == _CONTROL)
        for token_id, kind in enumerate(types)
        if kind in (_CONTROL, _USER_DEFINED) and tokens[token_id]
    )
    check_added([token.text for token in added])
    warnings: list[str] = []
    bos_id = _token_id(metadata, "bos_token_id", len(tokens), warnings)
    eos_id = _token_id(metadata, "eos_token_id", len(tokens), warnings)
    listed = {eos_id}
    for key in ("eot_token_id", "eom_token_id"):
        listed.add(_token_id(metadata, key, len(tokens), warnings))
    template = metadata.get("tokenizer.chat_template")
    backend = _build(pre, tokens, types, merges, warnings)
    add_bos = metadata.get("tokenizer.ggml.add_bos_token", pre == "llama-bpe")
    return Vocabulary(
        kind=f"gpt2/{pre}",
        vocab_size=len(tokens),
        added=added,
        control_ids=frozenset(token.id for token in added if token.control),
        encode=lambda text, _is_first: ids_of(backend, text),
        bytes_of=lambda token_id: _bytes_of(tokens[token_id], types[token_id]),
        bos_id=bos_id,
        bos_token="" if bos_id is None else tokens[bos_id],
        eos_token="" if eos_id is None else tokens[eos_id],
        eos_ids=end_ids((token_id for token_id in listed if token_id is not None), added),
        add_bos=add_bos is True and bos_id is not None,
        chat_template=template if isinstance(template, str) else None,
        warnings=tuple(warnings),
    )


def _check_kind(metadata: dict[str, Any]) -> str:
    """The name of the splitting rule; every other kind of tokenizer is refused by name."""
    model = metadata.get("tokenizer.ggml.model")
    if model is None:
        raise missing("the file has no tokenizer")
    if model != "gpt2":
        raise TokenizerError(
            f"The tokenizer kind {shown(model)} is not supported yet.",
            "Models with a byte-level BPE tokenizer (gpt2) run.",
        )
    pre = metadata.get("tokenizer.ggml.pre")
    if pre is None:
        raise missing("the file does not say how its tokenizer splits text (tokenizer.ggml.pre)")
    name = _ALIASES.get(pre, pre) if isinstance(pre, str) else pre
    if not isinstance(name, str) or name not in _SPLITTERS:
        known = ", ".join(sorted([*_SPLITTERS, *_ALIASES]))
        raise TokenizerError(
            f"The tokenizer splits text by an unknown rule, {shown(pre)} (tokenizer.ggml.pre).",
            f"Known rules: {known}.",
        )
    return name


def _strings(metadata: dict[str, Any], key: str) -> list[str]:
    """A list of texts that must be there and not empty."""
    values = metadata.get(f"tokenizer.ggml.{key}")
    if not isinstance(values, list) or not values or not isinstance(values[0], str):
        raise missing(f"its tokenizer has no {key} (tokenizer.ggml.{key})")
    return values


def _types(metadata: dict[str, Any], num_tokens: int) -> list[int]:
    """The type of each token; where the file names none, all are ordinary."""
    types = metadata.get("tokenizer.ggml.token_type")
    if types is None:
        return [_NORMAL] * num_tokens
    if not isinstance(types, list) or len(types) != num_tokens:
        raise missing("its tokenizer has not one type for each token (tokenizer.ggml.token_type)")
    return types


def _token_id(metadata: dict[str, Any], key: str, num_tokens: int, warnings: list[str]) -> int | None:
    """An id that a key names; one outside the vocabulary is left out with a warning."""
    value = metadata.get(f"tokenizer.ggml.{key}")
    if value is None:
        return None
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < num_tokens:
        return value
    warnings.append(f"The {key} {shown(value)} is outside the vocabulary of {num_tokens} tokens; ignored.")
    return None


def _build(
    pre: str, tokens: list[str], types: list[int], merges: list[str], warnings: list[str]
) -> Tokenizer:
    """The encoder of plain text. Control tokens are not in it, so no merge can make one."""
    usable = {
        text: token_id
        for token_id, (text, kind) in reversed(list(enumerate(zip(tokens, types, strict=True))))
        if kind not in (_CONTROL, _UNUSED, _BYTE)
    }
    pairs = _pairs(merges, usable)
    if len(pairs) < len(merges):
        warnings.append(f"{len(merges) - len(pairs)} merges lead out of the vocabulary; ignored.")
    lacking = sum(byte in _TEXT_BYTES and letter not in usable for letter, byte in BYTE_LETTERS.items())
    if lacking:
        warnings.append(f"The vocabulary lacks {lacking} of the bytes of text: some characters get lost.")
    with refusals("The file's tokenizer cannot be used"):
        backend = Tokenizer(models.BPE(vocab=usable, merges=pairs, ignore_merges=pre == "llama-bpe"))
        backend.pre_tokenizer = pre_tokenizers.Sequence(_SPLITTERS[pre]())
    return backend


def _pairs(merges: list[str], vocab: Collection[str]) -> list[tuple[str, str]]:
    """The merges as pairs, in order of priority; those that lead out of the vocabulary are left out."""
    pairs = []
    for merge in merges:
        cut = merge.find(" ", 1)
        left, right = merge[:cut], merge[cut + 1 :]
        if cut > 0 and left in vocab and right in vocab and left + right in vocab:
            pairs.append((left, right))
    return pairs


def _bytes_of(text: str, kind: int) -> bytes:
    if kind == _NORMAL:
        return byte_level_bytes(text)
    if kind == _USER_DEFINED:
        return text.encode("utf-8", errors="replace")
    if kind == _BYTE and len(text) == 6 and text.startswith("<0x"):
        return bytes.fromhex(text[3:5])
    return b""
