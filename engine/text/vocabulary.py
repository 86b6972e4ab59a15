"""What a tokenizer needs to know of a model's vocabulary, read from whatever file it came in.

Knows the byte alphabet of GPT-2 and the usual names of end tokens; does not know files.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from engine.errors import TokenizerError
from engine.foreign import shown
from engine.words import figure, tr

# Control tokens by which models end a turn, whether or not a setting names them.
END_TEXTS = frozenset(
    {
        "<|im_end|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<|end_of_text|>",
        "<|endoftext|>",
        "<|end|>",
        "<|return|>",
        "<|call|>",
        "<|calls|>",
        "<|flush|>",
        "<|endofturn|>",
        "<|end_of_turn|>",
        "<|END_OF_TURN_TOKEN|>",
        "<end_of_turn>",
        "<turn|>",
        "<|tool_response>",
        "<end_of_utterance>",
        "<|eot|>",
        "<|EOT|>",
        "<EOT>",
        "_<EOT>",
        "<|role_end|>",
        "</s>",
        "<｜end▁of▁sentence｜>",
        "[EOS]",
        "[EOT]",
        "<eos>",
        "[e~[",
    }
)
SPACE = "\u2581"  # stands for a space in SentencePiece's vocabularies
BYTE_TOKEN = re.compile(r"<0x([0-9A-Fa-f]{2})>")
MOST_ADDED = 100_000  # models that speak have up to about 66,000
MOST_ADDED_CHARS = 256
# Where a model has these, <|end|> ends only one of several messages of an answer.
_LATER_ENDS = (frozenset({"<|return|>", "<|call|>"}), frozenset({"<|flush|>", "<|calls|>"}))


@dataclass(frozen=True, slots=True)
class AddedToken:
    """A token that is found in text by its spelling. Control ones are never shown.

    Those that are ``late`` are looked for in what the others leave.
    """

    id: int
    text: str
    control: bool
    lstrip: bool = False  # white space on this side belongs to it
    rstrip: bool = False
    single_word: bool = False
    late: bool = False


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """One model's vocabulary. ``encode(text, is_first)`` gives the ids of text without added tokens.

    ``is_first``: nothing stands before the text; nor does an added token, but where the model
    ``begins_behind_added`` it counts as nothing.
    """

    kind: str
    vocab_size: int
    added: tuple[AddedToken, ...]
    control_ids: frozenset[int]
    encode: Callable[[str, bool], list[int]]
    bytes_of: Callable[[int], bytes]
    bos_id: int | None
    bos_token: str
    eos_token: str
    eos_ids: frozenset[int]
    add_bos: bool
    chat_template: str | None
    warnings: tuple[str, ...] = ()
    strips_first_space: bool = False
    begins_behind_added: bool = False
    tool_template: str | None = None  # a chat template of its own for chats with tools


def check_added(texts: Collection[str]) -> None:
    """Raise TokenizerError where added tokens are too many or too long to be looked for in every text."""
    if len(texts) > MOST_ADDED:
        raise TokenizerError(
            tr("The tokenizer has {count} special tokens; at most {most} are allowed.").format(
                count=figure(len(texts)), most=figure(MOST_ADDED)
            ),
            tr("Choose another file of this model."),
        )
    for text in texts:
        if len(text) > MOST_ADDED_CHARS:
            raise TokenizerError(
                tr(
                    "The tokenizer has a special token of {count} characters, {token}; at most"
                    " {most} are allowed."
                ).format(count=figure(len(text)), token=shown(text), most=MOST_ADDED_CHARS),
                tr("Choose another file of this model."),
            )


def end_ids(listed: Iterable[int], added: Iterable[AddedToken]) -> frozenset[int]:
    """All ids that end an answer: those a setting lists, and control tokens with a known name."""
    by_text = {token.text: token.id for token in added if token.control}
    ends = set(listed) | {by_text[text] for text in END_TEXTS & by_text.keys()}
    if "<|end|>" in by_text and any(by_text.keys() >= later for later in _LATER_ENDS):
        ends.discard(by_text["<|end|>"])
    return frozenset(ends)


def _byte_letters() -> dict[str, int]:
    """The printable letter that stands for each byte in a byte-level vocabulary.

    Radford et al., "Language Models are Unsupervised Multitask Learners" (2019): bytes that print as
    themselves in Latin-1 keep their letter, the others get the letters from U+0100 on, in order.
    """
    printed = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printed]
    letters = {chr(byte): byte for byte in printed}
    letters.update({chr(0x100 + index): byte for index, byte in enumerate(others)})
    return letters


BYTE_LETTERS = _byte_letters()


def byte_level_bytes(text: str) -> bytes:
    """The bytes of a byte-level token; one with other letters is taken as plain text."""
    try:
        return bytes(BYTE_LETTERS[letter] for letter in text)
    except KeyError:
        return text.encode("utf-8", errors="replace")


def marked_bytes(text: str) -> bytes:
    """The bytes of a SentencePiece token: `<0xE2>` is one byte, U+2581 a space."""
    if byte := BYTE_TOKEN.fullmatch(text):
        return bytes.fromhex(byte.group(1))
    return text.replace(SPACE, " ").encode("utf-8", errors="replace")


def missing(what: str) -> TokenizerError:
    """The refusal of a model whose tokenizer is not all there; ``what`` is a translated clause."""
    return TokenizerError(
        tr("The model cannot be used: {reason}.").format(reason=what),
        tr("Choose a complete file or folder of this model."),
    )
