"""How far a foreign tokenizer may lengthen a text before it splits it: no chain of steps makes it endless.

Knows the normalizers and pre-tokenizers of a tokenizer.json; does not know files, patterns or vocabularies.
Each step is counted by the most UTF-8 bytes that it makes of one byte, and what follows multiplies that.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from typing import Any

from engine.errors import TokenizerError
from engine.foreign import shown
from engine.words import tr

MOST_STEPS = 64  # of either kind; published tokenizers have up to about ten
MOST_GROWTH = 4096  # published ones reach about 600
MOST_BYTES = 1 << 27  # of one text, as long as it could become

# The Unicode forms by the characters that grow most (U+1D1C0, U+0DDD, U+FDFA), lower case by U+023A.
_GROWTH = {
    "BertNormalizer": 12,  # spaces around an ideograph, taken apart, in lower case
    "BertPreTokenizer": 1,
    "CharDelimiterSplit": 1,
    "Digits": 1,
    "FixedLength": 1,
    "Lowercase": 2,
    "NFC": 3,
    "NFD": 3,
    "NFKC": 11,
    "NFKD": 11,
    "Nmt": 1,
    "Punctuation": 1,
    "Split": 1,
    "Strip": 1,
    "StripAccents": 1,
    "UnicodeScripts": 1,
    "Whitespace": 1,
    "WhitespaceSplit": 1,
}
_SEQUENCES = ("normalizers", "pretokenizers")


def of(data: Mapping[str, Any]) -> int:
    """The most bytes that the steps in a tokenizer.json make of one byte of text, at least 1.

    Raises TokenizerError for more or for other steps than published tokenizers have.
    """
    growth = 1
    for name in ("normalizer", "pre_tokenizer"):
        for count, step in enumerate(_steps(data.get(name))):
            growth *= _of_step(step)
            if count >= MOST_STEPS or growth > MOST_GROWTH:
                raise TokenizerError(
                    tr(
                        "The tokenizer's {step} can make a text many thousand times as long, or never end."
                    ).format(step=name),
                    tr("Choose another file of this model."),
                )
    return growth


def check(text: str, growth: int) -> None:
    """Raise TokenizerError for a text that could become too long; `growth` as `of` gives it."""
    if len(text.encode("utf-8", errors="replace")) * growth > MOST_BYTES:
        raise TokenizerError(
            tr("The text is too long for the way in which this model's tokenizer rewrites it."),
            tr("Send it in smaller parts."),
        )


def _steps(part: object) -> Iterator[object]:
    """The single steps of a part, those in nested sequences too."""
    parts = [part]
    while parts:
        step = parts.pop()
        if isinstance(step, dict) and step.get("type") == "Sequence":
            for name in _SEQUENCES:
                inner = step.get(name)
                parts += inner if isinstance(inner, list) else ()
        elif step is not None:
            yield step


def _of_step(step: object) -> int:
    kind = step.get("type") if isinstance(step, dict) else step
    if isinstance(kind, str) and isinstance(step, dict):
        if kind in _GROWTH:
            return _GROWTH[kind]
        if kind in _COUNTED:
            return _COUNTED[kind](step)
    raise TokenizerError(
        tr("The tokenizer has a step of an unknown kind, {kind}.").format(kind=shown(kind)),
        tr("Choose another file of this model."),
    )


def _of_replace(step: dict[str, Any]) -> int:
    """A pattern may match nothing before each character; a string is replaced where it stands."""
    content, pattern = _size(step.get("content")), step.get("pattern")
    replaced = _size(pattern.get("String")) if isinstance(pattern, dict) else 0
    return max(1, -(-content // replaced)) if replaced else 1 + content


def _of_characters(step: dict[str, Any]) -> int:
    """A table of replacements: the size of a trie, the trie, then texts that end in a zero byte.

    The library takes memory for whatever size the table claims.
    """
    try:
        raw = base64.b64decode(step.get("precompiled_charsmap") or "", validate=True)
    except (ValueError, TypeError):
        raw = b""
    start = 4 + int.from_bytes(raw[:4], "little")
    if not 4 < start <= len(raw):
        raise TokenizerError(
            tr("The tokenizer's table of characters (precompiled_charsmap) is damaged."),
            tr("Download the folder again."),
        )
    return max(1, *map(len, raw[start:].split(b"\0")))


def _of_bytes(step: dict[str, Any]) -> int:
    """A letter of two bytes for each byte, and for a space before each piece."""
    return 2 if step.get("add_prefix_space") is False else 4


_COUNTED = {
    "ByteLevel": _of_bytes,
    "Metaspace": lambda step: 1 + _size(step.get("replacement")),
    "Precompiled": _of_characters,
    "Prepend": lambda step: 1 + _size(step.get("prepend")),
    "Replace": _of_replace,
}


def _size(text: object) -> int:
    """Bytes of a text; nothing else is one."""
    return len(text.encode("utf-8", errors="replace")) if isinstance(text, str) else 0
