"""Text to token ids and back, for a GGUF file or a Hugging Face folder.

Owns control tokens, the BOS rule and the bytes of tokens; how a vocabulary is read from a file is known to
`gguf_vocabulary` and `hf_vocabulary`. Does not know templates' language, weights or models.
"""

from __future__ import annotations

import os
import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from engine.errors import TokenizerError
from engine.foreign import plain_errors
from engine.models.gguf import GgufHeader
from engine.text import gguf_vocabulary, hf_vocabulary
from engine.text.limits import Limits
from engine.text.prompt import Part, Spellings
from engine.text.vocabulary import Vocabulary
from engine.words import tr

_SPACE = re.compile(r"\s*")
# What \w is for the tokenizers library. https://www.unicode.org/reports/tr18/#word
_WORD_LETTERS = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "Pc"})
_JOINERS = "\u200c\u200d"


@dataclass(frozen=True, slots=True)
class _Hit:
    """An added token found in a text, with the white space that belongs to it."""

    start: int
    end: int
    id: int


@dataclass(frozen=True, slots=True)
class _Wanted:
    """Added tokens that are looked for in one go, and those of them that typed text may become."""

    all: Spellings
    typed: Spellings


@plain_errors()
def load(path: str, header: GgufHeader | None = None) -> Tokenizer:
    """The tokenizer of the GGUF file or model folder at `path`; weights are not touched. `header` is the
    file's where it has been read already.

    Raises TokenizerError where it is missing, incomplete or of an unknown kind, ModelFileError where the
    file cannot be read.
    """
    if os.path.isfile(path) and os.path.splitext(path)[1].lower() in (".json", ".safetensors"):
        path = os.path.dirname(path) or "."
    if header is not None:
        return Tokenizer(gguf_vocabulary.from_metadata(header.metadata))
    read = hf_vocabulary.read if os.path.isdir(path) else gguf_vocabulary.read
    return Tokenizer(read(path))


class Tokenizer:
    """Encodes and decodes with one vocabulary. Immutable, and safe to use from several threads."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self.vocab_size = vocabulary.vocab_size  # ids that the tokenizer knows; the model may have more rows
        self.bos_id = vocabulary.bos_id
        self.bos_token = vocabulary.bos_token
        self.eos_token = vocabulary.eos_token
        self.eos_ids = vocabulary.eos_ids  # every id that ends an answer
        self.control_ids = vocabulary.control_ids
        self.add_bos = vocabulary.add_bos
        self.kind = vocabulary.kind
        self.warnings = vocabulary.warnings
        self.chat_template = vocabulary.chat_template
        self.tool_template = vocabulary.tool_template
        self.strips_first_space = vocabulary.strips_first_space
        self._added = {token.text: token for token in vocabulary.added}
        # A longer template is refused where it is compiled.
        sources = [text[: Limits().source_chars] for text in (self.chat_template, self.tool_template) if text]
        written = Spellings(self._added).within("\n".join(sources))
        controls = {text for text, token in self._added.items() if token.control}
        # Runs of spaces are tokens of some models and stand in every template: they command nothing.
        self._protected = frozenset(controls | {text for text in written if not text.isspace()})
        self._protected_ids = frozenset(self._added[text].id for text in self._protected)
        late = {text for text, token in self._added.items() if token.late}
        self._early, self._late = (
            _Wanted(Spellings(texts), Spellings(texts - self._protected))
            for texts in (self._added.keys() - late, late)
        )

    @property
    def control_texts(self) -> frozenset[str]:
        """Spellings that no typed text may turn into tokens: control ones, and those the template writes."""
        return self._protected

    @property
    def added_texts(self) -> Iterable[str]:
        """The spellings of all added tokens."""
        return self._added.keys()

    def hidden(self, texts: Iterable[str]) -> dict[int, str]:
        """Those of the texts that are control tokens, and so decode to nothing, by their ids."""
        tokens = (self._added[text] for text in texts if text in self._added)
        return {token.id: token.text for token in tokens if token.id in self.control_ids}

    def encode(self, text: str, literal: bool = False, goes_on: bool = False) -> list[int]:
        """Ids of `text`; no BOS is added. With `literal` no text becomes a control token. Where it `goes_on`
        from other text, no space is put before it by those tokenizers that begin with one.
        """
        return self._encode((Part(text, literal),), goes_on)

    def encode_reply(self, parts: Iterable[Part]) -> list[int]:
        """Ids of a reply, or of the beginning of one: what a model writes behind its prompt."""
        return self._encode(tuple(parts))

    def encode_prompt(self, parts: Iterable[Part]) -> list[int]:
        """Ids of a rendered prompt. Where the model wants a BOS there is exactly one, whoever writes it."""
        ids = self._encode(tuple(parts))
        if self.bos_id is None:
            return ids
        first = next((at for at, token_id in enumerate(ids) if token_id != self.bos_id), len(ids))
        wanted = 1 if self.add_bos or first else 0
        return [self.bos_id] * wanted + ids[first:]

    def token_bytes(self, token_id: int) -> bytes:
        """The bytes that one token stands for; b"" for control tokens and unknown ids."""
        if token_id in self.control_ids or not 0 <= token_id < self.vocab_size:
            return b""
        return self._vocabulary.bytes_of(token_id)

    def spellings(self) -> list[bytes]:
        """How every id is written, control tokens by their names; b"" for one that stands for nothing."""
        names = {token.id: token.text.encode(errors="replace") for token in self._added.values()}
        return [names.get(each) or self._vocabulary.bytes_of(each) for each in range(self.vocab_size)]

    def decode(self, ids: Sequence[int]) -> str:
        """The text of `ids` without control tokens; bytes that are no UTF-8 become U+FFFD."""
        text = b"".join(map(self.token_bytes, ids)).decode("utf-8", errors="replace")
        return text.removeprefix(" ") if self.strips_first_space else text

    def _encode(self, parts: tuple[Part, ...], goes_on: bool = False) -> list[int]:
        """Literal parts only hide spellings: how the text is cut into parts does not change its ids."""
        text = "".join(_sound(part.text) for part in parts)
        ids: list[int] = []
        at = 0
        begins = self._vocabulary.begins_behind_added
        for hit in self._find_added(text, _Literal(parts)):
            ids += self._plain(text[at : hit.start], is_first=not goes_on and (begins or at == 0))
            ids.append(hit.id)
            at = hit.end
        return ids + self._plain(text[at:], is_first=not goes_on and (begins or at == 0))

    def _find_added(self, text: str, literal: _Literal) -> Iterator[_Hit]:
        """The added tokens in a text, in order; the late ones lie between the others."""
        at = 0
        for hit in self._find(text, literal, 0, self._early):
            yield from self._find(text[at : hit.start], literal, at, self._late)
            yield hit
            at = hit.end
        yield from self._find(text[at:], literal, at, self._late)

    def _find(self, text: str, literal: _Literal, offset: int, wanted: _Wanted) -> Iterator[_Hit]:
        """The wanted tokens in `text`, which begins at `offset` of the prompt."""

        def accept(start: int, end: int) -> bool:
            token = self._added[text[start:end]]
            if token.text in self._protected and literal.overlaps(offset + start, offset + end):
                return False
            return not (token.single_word and _is_inside_word(text, start, end))

        def among(start: int) -> Spellings:
            return wanted.typed if literal.overlaps(offset + start, offset + start + 1) else wanted.all

        at = 0
        for start, end in wanted.all.find(text, accept, among):
            if start < at:  # swallowed by the white space of the one before
                continue
            token = self._added[text[start:end]]
            if token.lstrip:
                start = at + len(text[at:start].rstrip())
            at = _end_of_space(text, end) if token.rstrip else end
            yield _Hit(offset + start, offset + at, token.id)

    def _plain(self, text: str, is_first: bool) -> list[int]:
        """Ids of text without added tokens. Should merges lead to one all the same, it is cut in two."""
        if not text:
            return []
        ids = self._vocabulary.encode(text, is_first)
        if self._protected_ids.isdisjoint(ids):
            return ids
        if len(text) == 1:
            raise TokenizerError(
                tr(
                    "The tokenizer of this model reads the plain character {letter} as a control token."
                ).format(letter=repr(text)),
                tr("Choose another file of this model."),
            )
        half = len(text) // 2
        return self._plain(text[:half], is_first) + self._plain(text[half:], False)


class _Literal:
    """Where the literal parts of a prompt lie."""

    def __init__(self, parts: tuple[Part, ...]) -> None:
        ends = list(accumulate((len(part.text) for part in parts), initial=0))
        self._spans = [
            (start, end) for part, start, end in zip(parts, ends, ends[1:], strict=False) if part.literal
        ]

    def overlaps(self, start: int, end: int) -> bool:
        """Whether any of these characters is literal."""
        before = bisect_left(self._spans, (end, 0))
        return before > 0 and self._spans[before - 1][1] > start


def _is_inside_word(text: str, start: int, end: int) -> bool:
    neighbours = text[max(0, start - 1) : start] + text[end : end + 1]
    return any(unicodedata.category(letter) in _WORD_LETTERS or letter in _JOINERS for letter in neighbours)


def _end_of_space(text: str, start: int) -> int:
    space = _SPACE.match(text, start)
    return space.end() if space else start


def _sound(text: str) -> str:
    """`text` with lone surrogates, which are no text, as U+FFFD; its length stays the same."""
    if text.isascii():
        return text
    return "".join("\ufffd" if "\ud800" <= letter <= "\udfff" else letter for letter in text)
