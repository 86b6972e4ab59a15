"""Builds a vocabulary from the `tokenizer.*` keys of a GGUF header.

Knows the kinds of tokenizers that `tokenizer.ggml.model` names and the types of tokens; does not know
templates or weights. Keys: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md#tokenizer
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import compress
from typing import Any

from engine.errors import TokenizerError
from engine.foreign import shown
from engine.models.gguf import read_header
from engine.text import byte_pairs
from engine.text.backend import ids_of
from engine.text.sentencepiece import SentencePiece
from engine.text.splitting import RULES, Rule
from engine.text.vocabulary import (
    BYTE_TOKEN,
    END_TEXTS,
    AddedToken,
    Vocabulary,
    byte_level_bytes,
    check_added,
    end_ids,
    marked_bytes,
    missing,
)
from engine.words import tr

_NORMAL, _UNKNOWN, _CONTROL, _USER_DEFINED, _UNUSED, _BYTE = range(1, 7)
# A control token of this name ends a turn; a user-defined one may be a tag of HTML.
_AMBIGUOUS_ENDS = frozenset({"</s>", "<eos>"})
_PHI3_WITHOUT_STRIPPING = frozenset({"<unk>", "<s>", "<|endoftext|>"})


@dataclass(frozen=True, slots=True)
class _Table:
    """The tokens of a file by id, and what was found wrong with them."""

    metadata: dict[str, Any]
    tokens: list[str]
    types: list[int]
    warnings: list[str] = field(default_factory=list)

    def ids(self, *without: int) -> dict[str, int]:
        """Text → id of all tokens but those of the types in `without`; of equals the first."""
        is_wanted = [kind not in without for kind in self.types]
        texts = list(compress(self.tokens, is_wanted))
        ids = list(compress(range(len(self.tokens)), is_wanted))
        return dict(zip(reversed(texts), reversed(ids), strict=True))

    def token_id(self, key: str, default: int | None = None) -> int | None:
        """An id that a key names; one outside the vocabulary is left out with a warning."""
        value = self.metadata.get(f"tokenizer.ggml.{key}")
        if value is None:
            usual = default is not None and default < len(self.types) and self.types[default] == _CONTROL
            return default if usual else None
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < len(self.tokens):
            return value
        said = tr("The {key} {value} is outside the vocabulary of {count} tokens; ignored.")
        self.warnings.append(said.format(key=key, value=shown(value), count=len(self.tokens)))
        return None

    def text(self, token_id: int | None) -> str:
        return "" if token_id is None else self.tokens[token_id]


@dataclass(frozen=True, slots=True)
class _Coding:
    """What one kind of tokenizer does: text to ids, ids to bytes, and what it assumes of prompts."""

    kind: str
    encode: Callable[[str, bool], list[int]]
    bytes_of: Callable[[int], bytes]
    adds_bos: bool
    has_prefix: bool = False  # a space before the first word, and before the first behind an added token
    default_bos: int | None = None
    default_eos: int | None = None


def read(path: str) -> Vocabulary:
    """The vocabulary of the GGUF file at `path`. Raises TokenizerError, or ModelFileError from the header."""
    return from_metadata(read_header(path).metadata)


def from_metadata(metadata: dict[str, Any]) -> Vocabulary:
    """The vocabulary that a header's metadata describe. Raises TokenizerError."""
    coding_of = _kind(metadata)
    tokens = _strings(metadata, "tokens")
    table = _Table(metadata, tokens, _types(metadata, len(tokens)))
    added = _added(table)
    check_added([token.text for token in added])
    coding = coding_of(table)
    bos_id = table.token_id("bos_token_id", coding.default_bos)
    eos_id = table.token_id("eos_token_id", coding.default_eos)
    listed = (eos_id, table.token_id("eot_token_id"), table.token_id("eom_token_id"))
    add_bos = metadata.get("tokenizer.ggml.add_bos_token", coding.adds_bos)
    template = metadata.get("tokenizer.chat_template")
    tool_template = metadata.get("tokenizer.chat_template.tool_use")
    return Vocabulary(
        kind=coding.kind,
        vocab_size=len(tokens),
        added=added,
        control_ids=frozenset(token.id for token in added if token.control),
        encode=coding.encode,
        bytes_of=coding.bytes_of,
        bos_id=bos_id,
        bos_token=table.text(bos_id),
        eos_token=table.text(eos_id),
        eos_ids=end_ids((token_id for token_id in listed if token_id is not None), added),
        add_bos=add_bos is True and bos_id is not None,
        chat_template=template if isinstance(template, str) else None,
        warnings=tuple(table.warnings),
        strips_first_space=coding.has_prefix,
        begins_behind_added=coding.has_prefix,
        tool_template=tool_template if isinstance(tool_template, str) else None,
    )


def _kind(metadata: dict[str, Any]) -> Callable[[_Table], _Coding]:
    """What builds the encoder; a kind or a rule that is not known here is refused by name."""
    model = metadata.get("tokenizer.ggml.model")
    if model is None:
        raise missing(tr("the file has no tokenizer"))
    if model == "llama":
        return _sentence_piece
    if model not in ("gpt2", "gemma4"):
        raise TokenizerError(
            tr("The tokenizer kind {kind} is not supported.").format(kind=shown(model)),
            tr("Models with a BPE or SentencePiece tokenizer (gpt2, gemma4, llama) run."),
        )
    pre = "gemma4" if model == "gemma4" else metadata.get("tokenizer.ggml.pre")
    if pre is None:
        raise missing(tr("the file does not say how its tokenizer splits text (tokenizer.ggml.pre)"))
    if not isinstance(pre, str) or pre not in RULES:
        raise TokenizerError(
            tr("The tokenizer splits text by an unknown rule, {rule} (tokenizer.ggml.pre).").format(
                rule=shown(pre)
            ),
            tr("Known rules: {rules}.").format(rules=", ".join(sorted(RULES))),
        )
    return lambda table: _byte_pairs(table, f"{model}/{pre}", RULES[pre])


def _strings(metadata: dict[str, Any], key: str) -> list[str]:
    """A list of texts that must be there and not empty."""
    values = metadata.get(f"tokenizer.ggml.{key}")
    if not isinstance(values, list) or not values or not isinstance(values[0], str):
        said = tr("its tokenizer has no {key} ({name})")
        raise missing(said.format(key=key, name=f"tokenizer.ggml.{key}"))
    return values


def _types(metadata: dict[str, Any], num_tokens: int) -> list[int]:
    """The type of each token; where the file names none, all are ordinary."""
    types = metadata.get("tokenizer.ggml.token_type")
    if types is None:
        return [_NORMAL] * num_tokens
    if not isinstance(types, list) or len(types) != num_tokens or set(map(type, types)) != {int}:
        raise missing(tr("its tokenizer has not one type for each token (tokenizer.ggml.token_type)"))
    return types


def _scores(table: _Table) -> list[float]:
    """The score of each token; merging has no order without them."""
    scores: Any = table.metadata.get("tokenizer.ggml.scores")
    is_list = isinstance(scores, list) and set(map(type, scores)) <= {int, float}
    if not is_list or len(scores) != len(table.tokens):
        raise missing(tr("its tokenizer has not one score for each token (tokenizer.ggml.scores)"))
    if any(map(math.isnan, scores)):
        raise missing(tr("a score of its tokenizer is not a number (tokenizer.ggml.scores)"))
    return list(scores)


def _added(table: _Table) -> tuple[AddedToken, ...]:
    """The tokens that are found by their spelling. One with the name of a turn's end is a control token.

    Phi-3's own take the white space behind them, which a GGUF has no key for.
    """
    name = str(table.metadata.get("general.name")).lower()
    strips = table.metadata.get("tokenizer.ggml.model") == "llama" and (
        "phi-3" in name or "phi3" in name or table.metadata.get("general.architecture") == "phi3"
    )
    return tuple(
        AddedToken(
            token_id,
            text,
            control=kind != _USER_DEFINED or text in END_TEXTS - _AMBIGUOUS_ENDS,
            rstrip=strips and text not in _PHI3_WITHOUT_STRIPPING,
        )
        for token_id, (text, kind) in enumerate(zip(table.tokens, table.types, strict=True))
        if kind in (_CONTROL, _USER_DEFINED, _UNKNOWN) and text
    )


def _byte_pairs(table: _Table, kind: str, rule: Rule) -> _Coding:
    """Tokens with merges: of letters that stand for bytes, or of text as SentencePiece writes it."""
    merges = _strings(table.metadata, "merges")
    vocab = table.ids(_CONTROL, _UNKNOWN, _UNUSED, *(() if rule.marks_spaces else (_BYTE,)))
    if rule.marks_spaces:
        _byte_ids(vocab)  # they are there, as the library needs them
    backend = byte_pairs.build(vocab, merges, rule, table.warnings)
    to_bytes = _marked_bytes if rule.marks_spaces else _byte_level_bytes
    tokens, types = table.tokens, table.types  # what is kept: merges and scores take more room than these
    return _Coding(
        kind=kind,
        encode=lambda text, _is_first: ids_of(backend, text),
        bytes_of=lambda token_id: to_bytes(tokens[token_id], types[token_id]),
        adds_bos=rule.adds_bos,
    )


def _sentence_piece(table: _Table) -> _Coding:
    """Pieces with scores, as llama.cpp reads them: unused ones merge like others, extra spaces stay."""
    tokens, ids = table.tokens, table.ids()
    for token_id, text in enumerate(tokens):
        if text and ids[text] != token_id:
            said = tr("its tokenizer has the token {token} twice (tokenizer.ggml.tokens)")
            raise missing(said.format(token=shown(text)))
    has_prefix = table.metadata.get("tokenizer.ggml.add_space_prefix", True) is True
    scores, pieces = _scores(table), table.ids(_CONTROL, _UNKNOWN, _BYTE)
    if len(pieces) > 1 and len({scores[token_id] for token_id in pieces.values()}) == 1:
        table.warnings.append(
            tr("All pieces have one score: words may be cut otherwise than the model knows.")
        )
    encoder = SentencePiece(pieces, scores, _byte_ids(ids), has_prefix)
    return _Coding(
        kind="llama",
        encode=encoder.encode,
        bytes_of=lambda token_id: marked_bytes(tokens[token_id]),
        adds_bos=True,
        has_prefix=has_prefix,
        default_bos=1,
        default_eos=2,
    )


def _byte_ids(ids: dict[str, int]) -> Sequence[int]:
    """The ids of the 256 bytes, of which letters are made that are no token."""
    found = [ids.get(f"<0x{byte:02X}>") for byte in range(256)]
    present = [token_id for token_id in found if token_id is not None]
    if len(present) < 256:
        said = tr("its tokenizer lacks {count} of the 256 bytes (<0x00> to <0xFF>)")
        raise missing(said.format(count=256 - len(present)))
    return present


def _byte_level_bytes(text: str, kind: int) -> bytes:
    if kind == _NORMAL:
        return byte_level_bytes(text)
    if kind == _USER_DEFINED:
        return text.encode("utf-8", errors="replace")
    return marked_bytes(text) if kind == _BYTE and BYTE_TOKEN.fullmatch(text) else b""


def _marked_bytes(text: str, kind: int) -> bytes:
    return b"" if kind == _UNUSED else marked_bytes(text)
