"""Which regular expressions of a foreign tokenizer are used: those whose time cannot explode.

Knows the syntax of Oniguruma, which the tokenizers library runs; does not know files or vocabularies.

Oniguruma gives up one attempt after ten million steps (a panic), but begins a new one at every character, so
a nested repetition just below that limit takes hours. Without nesting the time is a polynomial of the text's
length, of a low degree for the few repetitions that a branch may have: slow on a text made for it, no more.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from engine.errors import TokenizerError
from engine.foreign import shown
from engine.words import mark, tr

MOST_CHARS = 4096
MOST_CHOICES = 8  # in one branch; published patterns have up to five
_FEW = 4  # times that a part with choices inside it may be repeated
_NO_LIMIT = 1 << 30
_GROUP = re.compile(r"\?(?:[:=!>]|<[=!]|<\w+>|[im]*-?[im]*:)")
_FLAGS = re.compile(r"\?[im]*-?[im]*\)")
_QUANTIFIER = re.compile(r"[*+?]|\{(?=\d|,\d)(\d*)(,?)(\d*)\}")
_ESCAPE = re.compile(r"\\(?:[pP]\{\^?\w+\}|[xu]\{[0-9A-Fa-f]+\}|[^1-9kgcCM])", re.DOTALL)


_LONG = mark("The tokenizer splits text by a pattern that is longer than {most} characters: {pattern}.")
_OPEN = mark("The tokenizer splits text by a pattern that leaves a group open: {pattern}.")
_UNKNOWN_GROUP = mark(
    "The tokenizer splits text by a pattern that has a group of an unknown kind: {pattern}."
)
_CLOSED = mark("The tokenizer splits text by a pattern that closes a group that is not open: {pattern}.")
_ESCAPED = mark(
    "The tokenizer splits text by a pattern that refers to a part of itself, "
    "or has an unknown escape: {pattern}."
)
_REPEATED = mark("The tokenizer splits text by a pattern that repeats a repetition: {pattern}.")
_NESTED = mark(
    "The tokenizer splits text by a pattern that repeats a part that repeats something itself: {pattern}."
)
_MANY = mark("The tokenizer splits text by a pattern that repeats too many parts in a row: {pattern}.")


@dataclass(slots=True)
class _Group:
    """An open group, or the whole pattern. Choices: repetitions, options, groups with several branches."""

    choices: int = 0  # of the branch that is being read
    other_choices: int = 0  # the most that an earlier branch has
    has_branches: bool = False

    def begin_branch(self) -> None:
        self.other_choices = self.most_choices
        self.choices = 0
        self.has_branches = True

    @property
    def most_choices(self) -> int:
        return max(self.choices, self.other_choices)


def check(pattern: str) -> None:
    """Raise TokenizerError for a pattern that nests repetitions, refers back, or is not understood here."""
    fault = _Scan(pattern).fault()
    if fault:
        raise TokenizerError(
            tr(fault).format(pattern=shown(pattern), most=MOST_CHARS),
            tr("Such a pattern can take hours. Choose another file of this model."),
        )


class _Scan:
    """One pass over a pattern; `fault` is the marked sentence that says what is wrong with it, or nothing."""

    def __init__(self, pattern: str) -> None:
        self._text = pattern
        self._at = 0
        self._groups = [_Group()]

    def fault(self) -> str:
        if len(self._text) > MOST_CHARS:
            return _LONG
        while self._at < len(self._text):
            letter = self._text[self._at]
            if letter == "(":
                reason = self._open()
            elif letter == "|":
                self._groups[-1].begin_branch()
                self._at += 1
                reason = ""
            else:
                reason = self._item(letter)
            if reason:
                return reason
        return _OPEN if len(self._groups) > 1 else ""

    def _open(self) -> str:
        self._at += 1
        if not self._text.startswith("?", self._at):
            self._groups.append(_Group())
        elif flags := _FLAGS.match(self._text, self._at):
            self._at = flags.end()
        elif kind := _GROUP.match(self._text, self._at):
            self._at = kind.end()
            self._groups.append(_Group())
        else:
            return _UNKNOWN_GROUP
        return ""

    def _item(self, letter: str) -> str:
        """One character, class or closed group, with its quantifier."""
        inner = _Group()
        if letter == ")":
            if len(self._groups) == 1:
                return _CLOSED
            inner = self._groups.pop()
            self._at += 1
        elif letter == "[":
            self._at = self._end_of_class()
        elif letter == "\\":
            escape = _ESCAPE.match(self._text, self._at)
            if escape is None:
                return _ESCAPED
            self._at = escape.end()
        elif letter in "*+?":
            return _REPEATED
        else:
            self._at += 1
        return self._quantify(inner)

    def _quantify(self, inner: _Group) -> str:
        """Count what stands behind an item; `inner` is the item where it was a group."""
        least = most = 1
        if quantifier := _QUANTIFIER.match(self._text, self._at):
            least, most = _bounds(quantifier)
            self._at = quantifier.end()
            if not quantifier.group().startswith("{") and self._text[self._at : self._at + 1] in ("?", "+"):
                self._at += 1  # lazy or possessive
            if _QUANTIFIER.match(self._text, self._at):
                return _REPEATED
        within = inner.most_choices + inner.has_branches
        if within and most > _FEW:
            return _NESTED
        branch = self._groups[-1]
        branch.choices += within * most + (most > least)
        return _MANY if branch.choices > MOST_CHOICES else ""

    def _end_of_class(self) -> int:
        """Where the text goes on behind a class, which may hold other classes."""
        at, depth = self._at, 0
        while at < len(self._text):
            letter = self._text[at]
            if letter == "\\":
                at += 1
            elif letter == "[":
                depth += 1
                at += self._text.startswith("^", at + 1)
                at += self._text.startswith("]", at + 1)  # a bracket that stands first is one of the letters
            elif letter == "]":
                depth -= 1
                if depth == 0:
                    return at + 1
            at += 1
        return at


def _bounds(quantifier: re.Match[str]) -> tuple[int, int]:
    """(fewest, most) repetitions of a quantifier."""
    if quantifier.group() in ("*", "+", "?"):
        return (quantifier.group() == "+"), (1 if quantifier.group() == "?" else _NO_LIMIT)
    low, comma, high = quantifier.groups()
    least = int(low or 0)
    return least, (int(high) if high else _NO_LIMIT if comma else least)
