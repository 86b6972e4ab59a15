"""Builds a vocabulary from the JSON files of a Hugging Face model folder.

Knows tokenizer.json, tokenizer_config.json, generation_config.json and chat_template.jinja, all read as plain
data: `auto_map` and `trust_remote_code` in them mean nothing here. Does not know templates or weights.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from engine.errors import ModelFileError, TokenizerError
from engine.foreign import shown
from engine.models.hf_folder import read_json
from engine.text import growth, patterns
from engine.text.backend import ids_of, refusals
from engine.text.splitting import PATTERNS
from engine.text.vocabulary import (
    SPACE,
    AddedToken,
    Vocabulary,
    byte_level_bytes,
    check_added,
    end_ids,
    marked_bytes,
    missing,
)
from engine.words import tr

_MAX_BYTES = 256 << 20
_WITHOUT_LENGTHS = {"truncation": None, "padding": None}  # both would change what is encoded
_EMPTY_MODEL = {"type": "BPE", "vocab": {}, "merges": []}
_STAND_IN = "\U0010fffd\U0010fffc\U0010fffd"


def read(folder: str) -> Vocabulary:
    """The vocabulary of a model folder. Raises TokenizerError, or ModelFileError for bad JSON."""
    path = os.path.join(folder, "tokenizer.json")
    if not os.path.isfile(path):
        raise missing(tr("the folder has no tokenizer.json"))
    data = _read_json(folder, "tokenizer.json")
    for pattern in _patterns(data):
        if pattern not in PATTERNS:
            patterns.check(pattern)
    grown = growth.of(data)
    added = _added_tokens(data)
    check_added([token.text for token in added])
    config = _read_json(folder, "tokenizer_config.json")
    generation = _read_json(folder, "generation_config.json")
    template = _chat_template(folder, config)
    _backend({"added_tokens": data.get("added_tokens"), "model": _EMPTY_MODEL}, path)
    plain = _backend(_plain_data(data), path)
    # From here on the data have the shape that they should.
    kind = _model_kind(data["model"])
    vocab = plain.get_vocab(False) | {token.text: token.id for token in added}
    warnings: list[str] = []
    bos_token, eos_token = (_token_text(config, name, warnings) for name in ("bos_token", "eos_token"))
    bos_id = vocab.get(bos_token) if bos_token else None
    eos_id = vocab.get(eos_token) if eos_token else None
    vocab_size = max(vocab.values(), default=-1) + 1
    listed = _listed_ends(eos_id, generation, vocab_size, warnings)
    texts = {token_id: text for text, token_id in vocab.items()}
    to_bytes, strips = _decoder(data)
    return Vocabulary(
        kind=f"tokenizer.json/{kind}",
        vocab_size=vocab_size,
        added=tuple(added),
        control_ids=frozenset(token.id for token in added if token.control),
        encode=_encoder(plain, data, grown),
        bytes_of=_bytes_of(texts, added, to_bytes),
        bos_id=bos_id,
        bos_token=bos_token,
        eos_token=eos_token,
        eos_ids=end_ids(listed, added),
        add_bos=bos_id is not None and _adds_bos(config, data.get("post_processor"), bos_id),
        chat_template=template,
        warnings=tuple(warnings),
        strips_first_space=strips,
        tool_template=_tool_template(folder, config),
    )


def _read_json(folder: str, name: str) -> dict[str, Any]:
    """One of the folder's JSON files; empty where it is not there."""
    path = Path(folder, name)
    return read_json(path, _MAX_BYTES) if path.is_file() else {}


def _patterns(data: dict[str, Any]) -> Iterator[str]:
    """All regular expressions that the library would run."""
    parts = [data.get(name) for name in ("normalizer", "pre_tokenizer", "decoder")]
    while parts:
        part = parts.pop()
        if isinstance(part, list):
            parts += part
        elif isinstance(part, dict):
            parts += part.values()
            if isinstance(pattern := part.get("Regex"), str):
                yield pattern


def _chat_template(folder: str, config: dict[str, Any]) -> str | None:
    """The default template: a file of its own comes first, then the config's, which may name several."""
    own = _template_file(folder, "chat_template.jinja")
    template = config.get("chat_template")
    if own is None and isinstance(template, list):
        return _named_template(template, "default")
    return own if own is not None else template if isinstance(template, str) else None


def _tool_template(folder: str, config: dict[str, Any]) -> str | None:
    """The template for chats with tools, where there is one of its own."""
    own = _template_file(folder, os.path.join("additional_chat_templates", "tool_use.jinja"))
    template = config.get("chat_template")
    if own is None and isinstance(template, list):
        return _named_template(template, "tool_use")
    return own


def _template_file(folder: str, name: str) -> str | None:
    path = os.path.join(folder, name)
    if not os.path.isfile(path):
        return None
    try:
        with open(path, encoding="utf-8") as file:
            return file.read(_MAX_BYTES)
    except (OSError, ValueError) as error:
        said = tr("{path} cannot be read: {reason}.").format(path=path, reason=error)
        raise ModelFileError(said, tr("Download the folder again.")) from None


def _named_template(entries: list[Any], name: str) -> str | None:
    """The last of that name in a list of named templates."""
    found = [
        entry.get("template") for entry in entries if isinstance(entry, dict) and entry.get("name") == name
    ]
    return found[-1] if found and isinstance(found[-1], str) else None


def _token_text(config: dict[str, Any], name: str, warnings: list[str]) -> str:
    """A token as a config spells it: its text, or an object with its text. Half a character is no text."""
    value = config.get(name)
    if isinstance(value, dict):
        value = value.get("content")
    if not isinstance(value, str):
        return ""
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        said = tr("The {name} {value} is not valid text; ignored.")
        warnings.append(said.format(name=name, value=shown(value)))
        return ""
    return value


def _added_tokens(data: dict[str, Any]) -> list[AddedToken]:
    """The added tokens of a tokenizer.json; the special ones are control tokens."""
    added = []
    entries = data.get("added_tokens")
    for entry in entries if isinstance(entries, list) else ():
        if not isinstance(entry, dict):
            continue  # the library refuses it
        text, token_id = entry.get("content"), entry.get("id")
        if isinstance(text, str) and text and isinstance(token_id, int):
            flags = {name: entry.get(name) is True for name in ("lstrip", "rstrip", "single_word")}
            special, late = entry.get("special") is True, entry.get("normalized") is True
            added.append(AddedToken(token_id, text, control=special, late=late, **flags))
    return added


def _plain_data(data: dict[str, Any]) -> dict[str, Any]:
    """The same tokenizer without added tokens, which are found here, where it is known what a person typed.

    One stand-in token remains, for the encoding of text that does not stand first (see `_encoder`).
    """
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True}
    stand_in = {"id": 1 << 24, "content": _STAND_IN, **flags}
    return {**data, **_WITHOUT_LENGTHS, "added_tokens": [stand_in], "post_processor": None}


def _backend(data: dict[str, Any], path: str) -> Tokenizer:
    said = tr("{path} holds no tokenizer that can be read").format(path=path)
    with refusals(said, tr("Download the folder again.")):
        return Tokenizer.from_str(json.dumps(data, ensure_ascii=False))


def _encoder(plain: Tokenizer, data: dict[str, Any], grown: int) -> Callable[[str, bool], list[int]]:
    """Some tokenizers put a space before the first word only: later stretches follow a stand-in token."""
    marks_first = "Metaspace" in json.dumps([data.get("pre_tokenizer"), data.get("normalizer")])

    def encode(text: str, is_first: bool) -> list[int]:
        growth.check(text, grown)
        if is_first or not marks_first:
            return ids_of(plain, text)
        return ids_of(plain, _STAND_IN + text)[1:]

    return encode


def _model_kind(model: dict[str, Any]) -> str:
    """BPE or Unigram; other models, and one that fails at an unknown character, are refused by name."""
    kind = model.get("type", "BPE" if "merges" in model else None)
    if kind not in ("BPE", "Unigram"):
        raise TokenizerError(
            tr("The tokenizer model {kind} is not supported.").format(kind=shown(kind)),
            tr("Models with BPE or Unigram tokenizers run."),
        )
    if kind == "Unigram" and model.get("unk_id") is None:
        raise missing(tr("its tokenizer has no token for unknown characters (unk_id)"))
    return str(kind)


def _adds_bos(config: dict[str, Any], post_processor: object, bos_id: int) -> bool:
    """Whether a prompt begins with a BOS: as the config says, else as the post-processor does."""
    stated = config.get("add_bos_token")
    return stated if isinstance(stated, bool) else _first_id(post_processor) == bos_id


def _first_id(post_processor: object) -> int | None:
    """What a post-processor puts before every text; of several the last stands outermost."""
    steps = [post_processor]
    while steps:
        step = steps.pop()
        if not isinstance(step, dict):
            continue
        first = None
        match step.get("type"):
            case "Sequence":
                inner = step.get("processors")
                steps += inner if isinstance(inner, list) else ()
            case "TemplateProcessing":
                first = _first_of_template(step.get("single"), step.get("special_tokens"))
            case "BertProcessing" | "RobertaProcessing":
                cls = step.get("cls")
                first = cls[1] if isinstance(cls, list) and len(cls) > 1 else None
        if isinstance(first, int):
            return first
    return None


def _first_of_template(pieces: object, tokens: object) -> int | None:
    """The first id that stands before the text in a template of special tokens."""
    for piece in pieces if isinstance(pieces, list) else ():
        special = piece.get("SpecialToken") if isinstance(piece, dict) else None
        if not isinstance(special, dict) or not isinstance(tokens, dict):
            return None
        token = tokens.get(str(special.get("id")))
        ids = token.get("ids") if isinstance(token, dict) else None
        if isinstance(ids, list) and ids:
            return ids[0] if isinstance(ids[0], int) else None
    return None


def _listed_ends(
    eos_id: int | None, generation: dict[str, Any], vocab_size: int, warnings: list[str]
) -> list[int]:
    """The end ids of both configs; those outside the vocabulary are left out with a warning."""
    listed = generation.get("eos_token_id")
    ids = listed if isinstance(listed, list) else [listed]
    ends = [] if eos_id is None else [eos_id]
    for token_id in ids:
        if isinstance(token_id, int) and not isinstance(token_id, bool) and 0 <= token_id < vocab_size:
            ends.append(token_id)
        elif token_id is not None:
            said = tr("The end token {token} is outside the vocabulary of {count} tokens.")
            warnings.append(said.format(token=shown(token_id), count=vocab_size))
    return ends


def _decoder(data: dict[str, Any]) -> tuple[Callable[[str], bytes], bool]:
    """(token text → bytes, whether an answer's first space is dropped) of a tokenizer.json.

    Where it names no decoder, what splits a text tells how its tokens are written.
    """
    decoder = data.get("decoder") or data.get("pre_tokenizer")
    steps = [decoder] if isinstance(decoder, dict) else []
    if steps and steps[0].get("type") == "Sequence":
        inner = steps[0].get("decoders") or steps[0].get("pretokenizers")
        steps = [step for step in inner or () if isinstance(step, dict)]
    kinds = [step.get("type") for step in steps]
    if "ByteLevel" in kinds:
        return byte_level_bytes, False
    if "Metaspace" in kinds:
        return marked_bytes, steps[kinds.index("Metaspace")].get("prepend_scheme", "always") != "never"
    if "ByteFallback" in kinds or any(step.get("pattern") == {"String": SPACE} for step in steps):
        strips = any(step.get("type") == "Strip" and step.get("start") for step in steps)
        return marked_bytes, strips
    raise TokenizerError(
        tr("The tokenizer's decoder {kind} is not supported.").format(
            kind=shown(kinds[0] if kinds else "none")
        ),
        tr("Models with a byte-level or SentencePiece tokenizer run."),
    )


def _bytes_of(
    texts: dict[int, str], added: Iterable[AddedToken], to_bytes: Callable[[str], bytes]
) -> Callable[[int], bytes]:
    """Token id → bytes. Where letters stand for bytes, added tokens are written as they are all the same."""
    plain = {token.id for token in added} if to_bytes is byte_level_bytes else frozenset()

    def bytes_of(token_id: int) -> bytes:
        text = texts.get(token_id, "")
        return text.encode("utf-8", errors="replace") if token_id in plain else to_bytes(text)

    return bytes_of
