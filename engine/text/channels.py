"""Parts a model's reply into thinking, answer and calls of tools, by the tags that the model writes.

Knows tags and streams of text; not tokens, not templates, nor what is done with the parts. Each character is
looked at a bounded number of times, so the work grows with the length of the reply alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from engine.text.prompt import Spellings

THINKING, ANSWER, TOOL = "thinking", "answer", "tool"
STAND_INS = range(0xD800, 0xDC00)  # for control tokens in a stream: lone surrogates never come out of UTF-8
_STAND_IN = re.compile(f"[{chr(STAND_INS[0])}-{chr(STAND_INS[-1])}]")
_SPACE = " \t\r\n"
_HEAD_CHARS = 256  # a longer head is none: the model writes without tags
_RECIPIENT = re.compile(r"\bto=([\w.-]+)")

Piece = tuple[str, str]  # kind and text


@dataclass(frozen=True, slots=True)
class Block:
    """A part of a reply between tags; without ``ends`` it goes on to the end of the reply.

    ``place`` is where it may begin; the same tags elsewhere are what the model writes about.
    """

    kind: str
    ends: tuple[str, ...] = ()
    place: str = "first"  # first: of a reply | between: parts | anywhere: also amid the answer


@dataclass(frozen=True, slots=True)
class Grammar:
    """How a model marks the parts of its reply.

    ``blocks`` has them by the tag that begins one. Other models write messages: one of ``heads``, some words,
    one of ``head_ends`` with the kind of what follows ("": the words tell), text, one of ``message_ends``.
    """

    blocks: Mapping[str, Block] = field(default_factory=dict, hash=False)
    heads: tuple[str, ...] = ()
    head_ends: Mapping[str, str] = field(default_factory=dict, hash=False)
    message_ends: tuple[str, ...] = ()
    is_named: bool = True  # by the model's template or vocabulary; else it is only the usual one

    @property
    def tags(self) -> frozenset[str]:
        """Every tag of it."""
        ends = (tag for block in self.blocks.values() for tag in block.ends)
        return frozenset((*self.blocks, *ends, *self.heads, *self.head_ends, *self.message_ends))

    def spelled(self, spelling: Mapping[str, str]) -> Grammar:
        """The same with some of its tags spelled in another way."""

        def tag(text: str) -> str:
            return spelling.get(text, text)

        def tags(texts: tuple[str, ...]) -> tuple[str, ...]:
            return tuple(map(tag, texts))

        return replace(
            self,
            blocks={
                tag(begin): replace(block, ends=tags(block.ends)) for begin, block in self.blocks.items()
            },
            heads=tags(self.heads),
            head_ends={tag(end): kind for end, kind in self.head_ends.items()},
            message_ends=tags(self.message_ends),
        )

    def without_tools(self) -> Grammar:
        """The same for a reply that can call nothing: what looks like a call is a part of the answer."""
        return replace(
            self,
            blocks={tag: block for tag, block in self.blocks.items() if block.kind != TOOL},
            head_ends={tag: ANSWER if kind == TOOL else kind for tag, kind in self.head_ends.items()},
        )


class Splitter:
    """Parts one reply, from ``push`` to ``flush``. How the text was cut makes no difference.

    A tag takes the white space around it with it, and never shows: what could still become one is held back.
    Two parts of a kind are set apart by an empty line. Stand-ins of control tokens never come out.
    """

    def __init__(self, grammar: Grammar, has_tools: bool = False) -> None:
        self._grammar = grammar if has_tools else grammar.without_tools()
        self._has_tools = has_tools
        blocks = self._grammar.blocks
        marks = (*grammar.heads, *grammar.message_ends)
        self._at_start = Spellings((*blocks, *marks))
        self._between_parts = Spellings((*_placed(blocks, "between", "anywhere"), *marks))
        self._in_answer = Spellings((*_placed(blocks, "anywhere"), *marks))
        self._in_head_marks = Spellings((*grammar.head_ends, *marks))
        self._in_block_marks = {
            block.ends: Spellings((*block.ends, *grammar.heads)) for block in blocks.values() if block.ends
        }
        self._in_block_marks[grammar.message_ends] = Spellings(marks)
        self._text = ""  # not parted yet
        self._pending: list[str] = []  # white space, and perhaps a closing tag: shown only if text follows
        self._is_first = True  # no part has begun
        self._step: Callable[[], bool] = self._between
        self._block = Block(ANSWER)
        self._resumed: Block | None = None  # what goes on, should text follow a closing tag that was text
        self._opened = Spellings(())  # the tag by which the prompt has begun this part
        self._is_fresh = False  # white space at the beginning of a part still belongs to its tag
        self._head = ""
        self._prompt_head = ""  # the part of the head that the prompt has written
        self._is_apart = False  # the next text begins another part of a kind that was there before
        self._is_tagged = False  # the model has written a tag
        self._said: set[str] = set()
        self._pieces: list[Piece] = []

    def open(self, prompt_end: str) -> None:
        """Begin where the prompt ends: it may have opened a block, closed an empty one, or begun a head."""
        text, blocks = prompt_end.rstrip(_SPACE), self._grammar.blocks
        opened = max((tag for tag in blocks if text.endswith(tag)), key=len, default=None)
        if opened is not None:
            self._enter(blocks[opened])
            self._opened = Spellings([opened])
            return
        if text.endswith(tuple(end for tag in _placed(blocks, "first") for end in blocks[tag].ends)):
            self._is_first = False
            return
        head = max((text.rfind(tag) for tag in self._grammar.heads), default=-1)
        is_empty_message = text.endswith(self._grammar.message_ends)
        if head >= 0 and (is_empty_message or "\n" not in text[head:]):
            self.push(text[head:])
            self._prompt_head, self._is_tagged = self._head, False

    @property
    def kind(self) -> str:
        """The part that the next text belongs to, unless a tag comes; "" in the words before a message."""
        if self._step == self._in_head:
            return ""
        return self._block.kind if self._step == self._inside else ANSWER

    @property
    def held(self) -> str:
        """What shows before the next text, unless it turns out to be a tag, or space that belongs to one."""
        shows = self._step == self._inside or (self._step == self._between and self._is_first)
        return "".join(self._pending) + self._text if shows else ""

    def hold_answer(self) -> None:
        """From here on all is the answer, whatever tags it looks like."""
        self._text, self._step = "".join(self._pending) + self._text, self._verbatim
        self._pending.clear()

    def push(self, text: str) -> list[Piece]:
        """The parts that are certain now."""
        self._text += text
        while self._step():
            pass
        return self._take()

    def flush(self) -> list[Piece]:
        """The end of the reply: what was held back is no tag, and shows."""
        rest, self._text = self._text, ""
        if self._step == self._in_head:
            words = (self._head + rest).removeprefix(self._prompt_head)
            if not self._is_tagged:
                self._say(ANSWER, words)
        elif self._step == self._verbatim:
            self._say(ANSWER, rest)
        elif self._step == self._inside:
            self._say(self._block.kind, "".join(self._pending) + rest)
        elif rest or self._is_first:
            self._enter_answer()
            self._say(ANSWER, "".join(self._pending) + rest)
        self._pending.clear()
        return self._take()

    # Each state takes what it can from the text, and tells whether the next look may find more.

    def _between(self) -> bool:
        """At the start, or behind a part: another one may begin, else this is the answer."""
        if self._grammar.is_named or not self._is_first:
            self._set_space_aside()
        if not self._text:
            return False
        marks = self._at_start if self._is_first else self._between_parts
        tag = _beginning(marks, self._text)
        if tag:
            self._text = self._text[len(tag) :]
            self._begin(tag)
            return True
        if marks.open_end(self._text) == len(self._text):
            return False
        self._enter_answer()
        return True

    def _in_head(self) -> bool:
        """In the words before a message: they tell its kind, and never show."""
        self._head, self._text = self._head + self._text, ""
        marks = self._in_head_marks
        found = next(marks.find(self._head), None)
        words = self._head[: found[0] if found else len(self._head) - marks.open_end(self._head)]
        if len(words) > _HEAD_CHARS or "\n" in words.strip(_SPACE):
            # No head at all: this model writes without tags.
            self._text, self._head = self._head.removeprefix(self._prompt_head), ""
            self._enter_answer()
            return True
        if found is None:
            return False
        self._is_tagged = True
        tag = self._head[slice(*found)]
        self._text, self._head = self._head[found[1] :], ""
        if tag in self._grammar.head_ends:
            kind = self._grammar.head_ends[tag] or _kind_of(words, self._has_tools)
            self._enter(Block(kind, self._grammar.message_ends))
        elif tag in self._grammar.heads:
            self._head = f"{words} "
        else:
            self._is_first, self._step = False, self._between
        return True

    def _inside(self) -> bool:
        """In a part, until one of its ends comes; in an answer without ends another part may begin."""
        if self._is_fresh and not self._freshen():
            return False
        marks = self._in_block_marks[self._block.ends] if self._block.ends else self._in_answer
        found = next(marks.find(self._text), None)
        if found is None:
            held = marks.open_end(self._text)
            certain = self._text[: len(self._text) - held]
            self._text = self._text[len(certain) :]
            self._release(certain, keeps_space=bool(marks.texts))
            return False
        tag = self._text[slice(*found)]
        self._release(self._text[: found[0]], keeps_space=True)
        self._text = self._text[found[1] :]
        if tag in self._block.ends and tag not in self._grammar.blocks:
            self._close(tag)
        else:
            self._begin(tag)
        return True

    def _verbatim(self) -> bool:
        """In an answer that no tag can end."""
        text, self._text = self._text, ""
        self._say(ANSWER, text)
        return False

    # From state to state

    def _begin(self, tag: str) -> None:
        """Behind a tag that begins a part or a head, or ends a message that had no text."""
        self._pending.clear()
        self._resumed, self._is_tagged = None, True
        if tag in self._grammar.blocks:
            self._enter(self._grammar.blocks[tag])
        elif tag in self._grammar.heads:
            self._head, self._prompt_head, self._step = "", "", self._in_head
        else:
            self._step = self._between

    def _enter(self, block: Block) -> None:
        self._block, self._is_fresh, self._step = block, True, self._inside
        self._is_first, self._is_apart = False, block.kind in self._said

    def _enter_answer(self) -> None:
        """Text that no tag begins: the answer, or what seemed to have ended goes on."""
        was_first, resumed = self._is_first, self._resumed
        self._resumed = None
        self._enter(resumed or Block(ANSWER))
        if was_first or resumed:
            self._is_fresh = False
            self._is_apart = False
        else:
            self._pending.clear()

    def _close(self, tag: str) -> None:
        """An end in plain letters, as </response>, could be meant: then it is shown with what follows it."""
        is_written = self._block.kind == ANSWER and not _STAND_IN.match(tag)
        self._resumed = self._block if is_written else None
        if is_written:
            self._pending.append(tag)
        else:
            self._pending.clear()
        self._step = self._between

    def _freshen(self) -> bool:
        """Drop white space at the beginning of a part, and a tag that opens again what the prompt opened."""
        self._text = self._text.lstrip(_SPACE)
        if not self._text or self._opened.open_end(self._text) == len(self._text):
            return False
        again, self._opened = _beginning(self._opened, self._text), Spellings(())
        self._text = self._text.removeprefix(again or "").lstrip(_SPACE)
        self._is_fresh = not self._text
        return not self._is_fresh

    # Text

    def _set_space_aside(self) -> None:
        rest = self._text.lstrip(_SPACE)
        if len(rest) < len(self._text):
            self._pending.append(self._text[: len(self._text) - len(rest)])
            self._text = rest

    def _release(self, text: str, keeps_space: bool) -> None:
        """Say ``text``; white space at its end waits where a tag may follow."""
        body = text.rstrip(_SPACE) if keeps_space else text
        if body:
            self._say(self._block.kind, "".join(self._pending) + body)
            self._pending.clear()
        if len(body) < len(text):
            self._pending.append(text[len(body) :])

    def _say(self, kind: str, text: str) -> None:
        text = _STAND_IN.sub("", text)
        if not text:
            return
        if self._is_apart:
            text, self._is_apart = f"\n\n{text}", False
        self._said.add(kind)
        self._pieces.append((kind, text))

    def _take(self) -> list[Piece]:
        pieces, self._pieces = self._pieces, []
        return pieces


def _placed(blocks: Mapping[str, Block], *places: str) -> list[str]:
    """The tags of the blocks that may begin at such places."""
    return [tag for tag, block in blocks.items() if block.place in places]


def _beginning(marks: Spellings, text: str) -> str | None:
    """The longest mark that ``text`` begins with."""
    return max((mark for mark in marks.texts if text.startswith(mark)), key=len, default=None)


def _kind_of(words: str, has_tools: bool) -> str:
    """What the words before a message say of it: ``assistant to=functions.f``, ``analysis``."""
    recipient = _RECIPIENT.search(words)
    if recipient and has_tools and recipient[1] not in ("self", "user"):
        return TOOL
    if "analysis" in words or (recipient and recipient[1] == "self"):
        return THINKING
    return ANSWER
