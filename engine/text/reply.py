"""One reply from token ids to its parts: characters made whole, stop strings cut out, tags taken away.

Knows tokens' bytes and the model's tags; not sampling, caches or requests.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from engine.text.channels import ANSWER, STAND_INS, Grammar, Piece, Splitter
from engine.text.detok import StreamDecoder, TokenBytes
from engine.text.prompt import Part
from engine.text.stops import StopMatcher


@dataclass(frozen=True, slots=True)
class ReplyFormat:
    """The tags of one model's replies. ``controls`` are those that are control tokens, by id: nobody sees
    these, but the tags must be.
    """

    grammar: Grammar
    controls: Mapping[int, str] = field(default_factory=dict, hash=False)


class Reply:
    """Takes the ids of a reply as they come and gives its parts: kind and text, each final.

    ``prompt_end`` is how the template ended the prompt: it may have opened a part. ``said`` is what the reply
    has already where it is continued: what comes is parted as if that had come before, and only it is given.
    """

    def __init__(
        self,
        tokenizer: TokenBytes,
        form: ReplyFormat,
        stops: Sequence[str] = (),
        prompt_end: str = "",
        has_tools: bool = False,
        said: Sequence[Part] = (),
    ) -> None:
        marks = {token_id: chr(code) for token_id, code in zip(form.controls, STAND_INS, strict=False)}
        self._spelling = {form.controls[token_id]: mark for token_id, mark in marks.items()}
        self._tags = {mark: tag for tag, mark in self._spelling.items()}
        self._detok = StreamDecoder(tokenizer, marks, goes_on=bool(said))
        self._stops = StopMatcher(stops)
        self._splitter = Splitter(form.grammar.spelled(self._spelling), has_tools)
        self._splitter.open(self._spelled(prompt_end))
        pieces = [
            piece
            for part in said
            for piece in self._splitter.push(part.text if part.literal else self._spelled(part.text))
        ]
        self._owed = self._splitter.held  # comes out of the splitter with what follows, but was said before
        self.begun = "".join(text for kind, text in pieces if kind == ANSWER)
        if self.kind == ANSWER:
            self.begun += self._owed
        self._raw: list[str] = []
        self._texts: dict[str, list[str]] = {}

    @property
    def is_stopped(self) -> bool:
        """Whether a stop string has come; nothing follows."""
        return self._stops.hit

    @property
    def kind(self) -> str:
        """The part that the reply is in: thinking, answer, tool; "" in the words before one."""
        return self._splitter.kind

    @property
    def held(self) -> str:
        """Text that is not given yet, since it could still become a tag."""
        return self._splitter.held

    def hold_answer(self) -> None:
        """From here on all is the answer, whatever tags it looks like."""
        self._splitter.hold_answer()

    @property
    def raw(self) -> str:
        """All of it as the model wrote it, tags too, up to a stop string."""
        return "".join(self._tags.get(letter, letter) for letter in "".join(self._raw))

    def text(self, kind: str) -> str:
        """Everything of one kind so far, ``said`` left out."""
        return "".join(self._texts.get(kind, ()))

    def push(self, token_id: int) -> list[Piece]:
        """What is certain after this token; it may be nothing."""
        return self._part(self._stops.push(self._detok.push(token_id)))

    def flush(self) -> list[Piece]:
        """The end: what was held back in case more would come."""
        pieces: list[Piece] = []
        if not self.is_stopped:
            pieces += self._part(self._stops.push(self._detok.flush()))
        if not self.is_stopped:
            pieces += self._part(self._stops.flush())
        return pieces + self._keep(self._splitter.flush())

    def _part(self, text: str) -> list[Piece]:
        if not text:
            return []
        self._raw.append(text)
        return self._keep(self._splitter.push(text))

    def _keep(self, pieces: list[Piece]) -> list[Piece]:
        if self._owed and pieces:
            pieces = self._without_owed(pieces)
        for kind, text in pieces:
            self._texts.setdefault(kind, []).append(text)
        return pieces

    def _without_owed(self, pieces: list[Piece]) -> list[Piece]:
        """The pieces without what was said before; where another part has begun, that never comes."""
        (kind, text), *rest = pieces
        owed, self._owed = self._owed, ""
        if text.startswith(owed):
            text = text.removeprefix(owed)
        elif owed.startswith(text):
            self._owed, text = owed.removeprefix(text), ""
        return [(kind, text), *rest] if text else rest

    def _spelled(self, text: str) -> str:
        for tag, mark in self._spelling.items():
            text = text.replace(tag, mark)
        return text
