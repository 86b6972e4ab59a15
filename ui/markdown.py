"""Reads one chunk of Markdown into frozen blocks of styled text, through markdown-it's tokens.

No HTML, no images, no links but http, https and mailto: the rest stays as the text that was written. Formulas
become Unicode. No Qt.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from markdown_it import MarkdownIt
from markdown_it.rules_inline import StateInline
from markdown_it.token import Token

from engine.words import tr
from ui.latex import styled_runs, to_text
from ui.latex_grid import is_grid
from ui.splitter import MATH_STOPS, Chunk

MAX_DEPTH = 16  # deeper nesting is shown as it was written
MAX_COLUMNS = 32
_LINK = re.compile(r"(?:https?|mailto):[^\s<>\"'`]+", re.IGNORECASE)
_ALLOWED = re.compile(r"(?:https?://|mailto:)", re.IGNORECASE)
_TASK = re.compile(r"\[([ xX])\] ")  # at the beginning of a list item
_MATH_ENDS = {"$": "$", "$$": "$$", "\\(": "\\)", "\\[": "\\]"}
_MATH_START = re.compile(r"\$\$?|\\[(\[]")
# What stands between two dollar signs and is still no formula: "$5 for one" or words.
_NO_MATH = re.compile(r"[^\\^_={}<>+]*[^\W\d_]{2,}\s+[^\W\d_]{2,}[^\\^_={}<>+]*")
# Controls, line separators, lone surrogates, and the marks that turn the reading direction around.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True, slots=True)
class Span:
    """A run of text in one style. ``text`` is safe to show: see ``visible``."""

    text: str
    bold: bool = False
    italic: bool = False
    strike: bool = False
    code: bool = False
    href: str = ""
    formula: str = ""  # what all runs of a formula were written as


Spans = tuple[Span, ...]


@dataclass(frozen=True, slots=True)
class Prose:
    """A paragraph, heading or list item. ``level`` counts list indents; ``marker`` hangs before the text."""

    spans: Spans
    heading: int = 0
    level: int = 0
    marker: str = ""
    quote: int = 0
    is_joined: bool = False
    # Of a formula that stands alone "lines", or "grid" where columns belong together; "raw": text as it came.
    form: str = ""
    source: str = ""  # where it has a form: what it was written as


@dataclass(frozen=True, slots=True)
class Code:
    """A piece of a code block. ``text``: its exact characters, without the last line break."""

    text: str
    language: str = ""
    level: int = 0
    code_id: int = 0  # 0: a block of its own
    is_first: bool = True
    is_last: bool = True


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of cells; ``header`` is empty in the further pieces of a long table."""

    header: tuple[Spans, ...]
    rows: tuple[tuple[Spans, ...], ...]
    aligns: tuple[str, ...]  # left | center | right, one a column
    level: int = 0
    is_joined: bool = False


@dataclass(frozen=True, slots=True)
class Rule:
    """A line across the column."""

    level: int = 0


Block = Prose | Code | Table | Rule


def visible(text: str) -> str:
    """The text with every character that hides or misleads replaced by one that shows, one for one."""
    return _UNSAFE.sub("\ufffd", text)


def is_allowed(url: str) -> bool:
    """True for the only addresses that may become a link."""
    return bool(_ALLOWED.match(url))


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False, "maxNesting": MAX_DEPTH + 8})
    parser.enable(["table", "strikethrough"])
    # References would make text vanish; "---" under a line is meant as a rule, not as a heading.
    parser.disable(["reference", "lheading", "html_block", "html_inline"])
    parser.inline.ruler.before("escape", "math", _math)
    parser.validateLink = is_allowed  # type: ignore[method-assign]
    return parser


def _math(state: StateInline, silent: bool) -> bool:
    """An inline rule: a formula between its signs; one without an end stays text."""
    start = _MATH_START.match(state.src, state.pos)
    if start is None:
        return False
    end = _MATH_ENDS[start[0]]
    first = start.end()
    last = state.src.find(end, first, state.posMax)
    if last <= first or (start[0] == "$" and not _is_dollar_math(state.src, first, last)):
        return False
    if not silent:
        token = state.push("math", "", 0)
        token.markup, token.content = start[0], state.src[first:last]
    state.pos = last + len(end)
    return True


def _is_dollar_math(source: str, first: int, last: int) -> bool:
    """Single dollar signs are money and variables of a shell too: as in Pandoc, they cling to a formula."""
    before, after = source[first - 2 : first - 1], source[last + 1 : last + 2]
    if before.isalnum() or after.isalnum() or source[first].isspace() or source[last - 1].isspace():
        return False
    return source[last - 1] != "\\" and not _NO_MATH.fullmatch(source, first, last)


def _formula(source: str, markup: str, style: Span) -> list[Span]:
    """A formula in styled runs; as it was written where it cannot be read."""
    text, written = to_text(source), visible(markup + source + _MATH_ENDS[markup])
    if text is None:
        return [replace(style, text=written)]
    return [
        replace(style, text=visible(run), bold=style.bold or is_bold, italic=is_italic, formula=written)
        for run, is_bold, is_italic in styled_runs(text)
    ]


def _display(chunk: Chunk) -> Prose:
    """A formula that stands alone."""
    source = chunk.source.rstrip(MATH_STOPS)
    written = visible(chunk.source)
    stop = (Span(chunk.source[len(source) :].strip()),)
    text = to_text(source[2:-2] if source[:2] in _MATH_ENDS else source, is_display=True)
    if text is None:
        return Prose((Span(written),), level=chunk.level, form="lines", source=written)
    kind = "grid" if is_grid(text) else "lines"
    made = [Span(visible(run), is_bold, is_italic) for run, is_bold, is_italic in styled_runs(text)]
    if kind == "grid":  # its columns need letters of one width
        made = [Span("".join(span.text for span in made))]
    return Prose(_merge([*made, *stop]), level=chunk.level, form=kind, source=written)


def parse(chunk: Chunk) -> list[Block]:
    """The blocks of one chunk; never raises, never loses text."""
    if chunk.kind == "math":
        return [_display(chunk)]
    if chunk.kind == "code":
        code = Code(chunk.source, visible(chunk.language), chunk.level, chunk.code_id)
        return [replace(code, is_first=chunk.is_first, is_last=chunk.is_last)]
    tokens = _parser().parse(chunk.source)
    if any(token.level >= MAX_DEPTH for token in tokens):
        return [Prose((Span(visible(chunk.source)),), level=chunk.level, is_joined=chunk.is_joined)]
    return _Reader(chunk).read(tokens)


@dataclass(slots=True)
class _Reader:
    """Walks block tokens and keeps what surrounds them."""

    chunk: Chunk
    blocks: list[Block] = field(default_factory=list)
    lists: list[int | None] = field(default_factory=list)
    quote: int = 0
    heading: int = 0
    marker: str = ""

    def read(self, tokens: Sequence[Token]) -> list[Block]:
        stream = iter(tokens)
        for token in stream:
            if token.type == "table_open":
                self.blocks.append(self._table(stream))
            else:
                self._block(token)
        return self.blocks

    @property
    def _level(self) -> int:
        return self.chunk.level + len(self.lists)

    def _block(self, token: Token) -> None:
        match token.type:
            case "blockquote_open":
                self.quote += 1
            case "blockquote_close":
                self.quote -= 1
            case "bullet_list_open":
                self.lists.append(None)
            case "ordered_list_open":
                start = int(token.attrs.get("start", 1))
                is_own = not self.lists and self.chunk.number is not None
                self.lists.append(self.chunk.number if is_own else start)
            case "bullet_list_close" | "ordered_list_close":
                self.lists.pop()
            case "list_item_open":
                self._open_item()
            case "list_item_close":
                if self.marker:
                    self._prose(())
            case "heading_open":
                self.heading = int(token.tag[1:])
            case "inline":
                self._prose(spans(token.children or []))
            case "fence" | "code_block":
                language = visible(token.info.strip().split(" ")[0]) if token.info else ""
                self.blocks.append(Code(token.content.removesuffix("\n"), language, self._level))
            case "hr":
                self.blocks.append(Rule(self._level))

    def _open_item(self) -> None:
        number = self.lists[-1]
        self.marker = "•" if number is None else f"{number}."
        if number is not None:
            self.lists[-1] = number + 1

    def _prose(self, text: Spans) -> None:
        if self.marker == "•" and text and (task := _TASK.match(text[0].text)):
            self.marker = "☐" if task[1] == " " else "☑"
            text = _merge([replace(text[0], text=text[0].text[task.end() :]), *text[1:]])
        joined = self.chunk.is_joined and not self.blocks
        self.blocks.append(Prose(text, self.heading, self._level, self.marker, self.quote, joined))
        self.heading, self.marker = 0, ""

    def _table(self, stream: Iterator[Token]) -> Table:
        rows: list[tuple[Spans, ...]] = []
        row: list[Spans] = []
        aligns: list[str] = []
        for token in stream:
            match token.type:
                case "table_close":
                    break
                case "tr_open":
                    row = []
                case "th_open":
                    style = str(token.attrs.get("style", ""))
                    aligns.append(style.removeprefix("text-align:") or "left")
                case "inline":
                    row.append(spans(token.children or []))
                case "tr_close":
                    rows.append(tuple(row[:MAX_COLUMNS]))
        header = () if self.chunk.is_joined else rows[0]
        shape = tuple(aligns[:MAX_COLUMNS])
        return Table(header, tuple(rows[1:]), shape, self._level, self.chunk.is_joined)


def spans(tokens: Sequence[Token]) -> Spans:
    """Styled runs of inline tokens; an image becomes its words and its address, and is never loaded."""
    style = Span("")
    runs: list[Span] = []
    for token in tokens:
        match token.type:
            case "strong_open" | "strong_close":
                style = replace(style, bold=token.nesting > 0)
            case "em_open" | "em_close":
                style = replace(style, italic=token.nesting > 0)
            case "s_open" | "s_close":
                style = replace(style, strike=token.nesting > 0)
            case "link_open":
                style = replace(style, href=str(token.attrs.get("href", "")))
            case "link_close":
                style = replace(style, href="")
            case "softbreak" | "hardbreak":
                runs.append(replace(style, text="\n"))
            case "code_inline":
                runs.append(replace(style, text=visible(token.content), code=True))
            case "math":
                runs.extend(_formula(token.content, token.markup, style))
            case "image":
                words = tr("{words} (image, not loaded: {address})")
                words = words.format(words=token.content, address=token.attrs.get("src", ""))
                runs.append(replace(style, text=visible(words).strip()))
            case _:
                runs.extend(_linked(replace(style, text=visible(token.content))))
    return _merge(runs)


def _linked(span: Span) -> Iterator[Span]:
    """Bare addresses in running text become links."""
    if span.href or ":" not in span.text:
        yield span
        return
    end = 0
    for match in _LINK.finditer(span.text):
        address = match[0].rstrip(".,;:!?*_)]}")
        if not is_allowed(address):
            continue
        yield replace(span, text=span.text[end : match.start()])
        yield replace(span, text=address, href=address)
        end = match.start() + len(address)
    yield replace(span, text=span.text[end:])


def _merge(runs: Sequence[Span]) -> Spans:
    """Neighbours of one style become one run; empty runs go."""
    merged: list[Span] = []
    for run in runs:
        if merged and replace(merged[-1], text=run.text) == run:
            merged[-1] = replace(run, text=merged[-1].text + run.text)
        elif run.text:
            merged.append(run)
    return tuple(merged)
