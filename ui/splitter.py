"""Cuts a Markdown stream into chunks that never change again, and an open tail of bounded size.

Knows lines, fences, list nesting, tables and formulas that stand alone; what stands inside a chunk is read by
``ui.markdown``. No Qt.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

MAX_LINES = 24  # of one text chunk; a longer paragraph goes on in a joined chunk
MAX_CHARS = 1_600
CODE_LINES = 40  # of one piece of a code block
TABLE_ROWS = 16  # of one piece of a table

_FENCE = re.compile(r"(`{3,}(?=[^`]*$)|~{3,})[ \t]*([^\s`]*)")
_ITEM = re.compile(r"([-+*]|(\d{1,9})[.)])(?:([ \t]+)(?=\S)|[ \t]*$)")
_RULE = re.compile(r"([-*_])[ \t]*(?:\1[ \t]*){2,}$")
_HEADING = re.compile(r"#{1,6}(?:[ \t]|$)")
_DELIMITER = re.compile(r"\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*\|?$")
# A formula that stands alone: what begins its first line, and what then ends its last.
_MATH = re.compile(r"\$\$|\\\[|\\begin\{(?:align|equation|gather|multline|eqnarray|flalign)\*?\}")
MATH_STOPS = " \t\r.,;"  # of the sentence that a formula ends
# A line that may still become a marker: shown only when it is complete, so that nothing flickers.
_UNDECIDED = re.compile(r"[ \t]*(?:[-=*_+#`~>|: \t]+|\d{1,9}[.)])$")


@dataclass(frozen=True, slots=True)
class Chunk:
    """One piece of a message. ``source`` is dedented Markdown, or the raw lines of a code block.

    ``level``: lists it lies in. ``is_joined``: goes on where the chunk before it was cut.
    Pieces of one code block share ``code_id``; ``is_first`` and ``is_last`` mark its ends.
    """

    kind: str  # text | code | table | math
    source: str
    level: int = 0
    number: int | None = None  # what an ordered list item shows
    is_joined: bool = False
    language: str = ""
    code_id: int = 0
    is_first: bool = True
    is_last: bool = True


@dataclass(slots=True)
class _Open:
    """The chunk being written."""

    kind: str  # text | quote | indented | table | code | math
    level: int = 0
    lines: list[str] = field(default_factory=list)
    num_chars: int = 0
    number: int | None = None
    is_item: bool = False
    is_joined: bool = False
    header: tuple[str, ...] = ()  # a table's first two lines, once it goes on in a further piece
    language: str = ""
    fence: str = ""  # what closes code or a formula
    indent: int = 0
    is_first: bool = True

    def copy(self) -> _Open:
        return replace(self, lines=list(self.lines))

    def add(self, line: str) -> None:
        self.lines.append(line)
        self.num_chars += len(line)


class BlockSplitter:
    """``push`` text, ``take`` the chunks that are final, ``tail`` gives the rest as it looks now.

    The work of ``push`` and ``tail`` is bounded by the new text and one chunk, however long the message is.
    """

    def __init__(self) -> None:
        self._partial = ""
        self._open: _Open | None = None
        self._offsets: list[int] = []  # content columns of the list items around the next line
        self._numbers: dict[int, int] = {}  # last number of an ordered list, by level
        self._blanks = 0
        self._code_id = 0
        self._done: list[Chunk] = []

    def push(self, text: str) -> None:
        """Add the next piece of the message."""
        lines = (self._partial + text).split("\n") if "\n" in text else [self._partial + text]
        for line in lines[:-1]:
            self._line(line)
        self._partial = lines[-1]
        if not self._is_code():
            while len(self._partial) > MAX_CHARS:
                cut = _cut_at(self._partial)
                self._line(self._partial[:cut])
                self._partial = self._partial[cut:]
                self._join_next()

    def finish(self) -> None:
        """The message is complete: everything becomes final."""
        if self._partial:
            self._line(self._partial)
        self._partial = ""
        self._close_all()

    def take(self) -> list[Chunk]:
        """Chunks that became final since the last call, in order."""
        done, self._done = self._done, []
        return done

    def tail(self) -> list[Chunk]:
        """The chunks of the text that is not final yet."""
        trial = BlockSplitter()
        trial._open = self._open.copy() if self._open else None
        trial._offsets = list(self._offsets)
        trial._numbers = dict(self._numbers)
        trial._blanks = self._blanks
        trial._code_id = self._code_id
        if self._partial and (self._is_code() or not _UNDECIDED.match(self._partial)):
            trial._line(self._partial)
        was_code = trial._is_code()
        trial._close_all()
        done = trial._done
        if was_code and done:
            done[-1] = replace(done[-1], is_last=False)
        return done

    def _is_code(self) -> bool:
        return self._open is not None and self._open.kind == "code"

    def _join_next(self) -> None:
        """After a cut inside a line: the rest is the same paragraph."""
        chunk = self._close_all()
        level = (chunk.level + chunk.is_item) if chunk else 0
        self._open = _Open("text", level, is_joined=True)

    def _line(self, raw: str, *, may_be_math: bool = True) -> None:
        if self._is_code():
            self._code_line(raw)
            return
        if self._open and self._open.kind == "math":
            self._math_line(self._open, raw)
            return
        line = raw.removesuffix("\r").expandtabs(4) if "\t" in raw[:16] else raw.removesuffix("\r")
        body = line.lstrip(" ")
        if not body.strip():
            self._blank()
        elif may_be_math and (start := _MATH.match(body)) and self._is_alone(start[0], body):
            self._open_math(start[0], body, len(line) - len(body))
        else:
            self._block_line(line, body, len(line) - len(body))

    def _blank(self) -> None:
        if self._open and self._open.kind == "indented":
            self._blanks += 1
        else:
            self._close()

    def _block_line(self, line: str, body: str, indent: int) -> None:
        current = self._open
        if current and current.kind == "indented":
            if indent >= 4 and not self._offsets:
                for _ in range(self._blanks):
                    current.add("")
                self._blanks = 0
                self._add(current, line)
                return
            self._close()
            current = None
        inside = len([offset for offset in self._offsets if offset <= indent])
        base = self._offsets[inside - 1] if inside else 0
        head = body[:MAX_CHARS]
        if indent - base >= 4 and not current:
            self._leave(inside)
            self._start(_Open("text" if inside else "indented", inside), body if inside else line)
        elif fence := _FENCE.match(head):
            self._leave(inside)
            self._open_code(fence, indent, inside)
        elif _RULE.match(head) or _HEADING.match(head):
            self._leave(inside)
            self._start(_Open("text", inside), body)
            self._close()
        elif (item := _ITEM.match(head)) and self._can_start(item, current):
            self._item(item, body, indent, inside)
        else:
            self._plain(body, inside)

    def _can_start(self, item: re.Match[str], current: _Open | None) -> bool:
        """CommonMark: in the middle of a paragraph, only a filled bullet or the number 1 begins a list."""
        if current is None or self._offsets:
            return True
        return item.end() < len(item.string) and item[2] in (None, "1")

    def _leave(self, inside: int) -> None:
        """Close the open chunk and the lists that the next line is not part of."""
        self._close()
        del self._offsets[inside:]
        self._numbers = {level: last for level, last in self._numbers.items() if level < inside}

    def _item(self, item: re.Match[str], body: str, indent: int, inside: int) -> None:
        last = self._numbers.get(inside)
        self._leave(inside)
        number = None
        if item[2]:
            # As in CommonMark "1. 1. 1." counts up; a number that jumps ahead is shown as it was written.
            number = int(item[2]) if last is None else max(int(item[2]), last + 1)
            self._numbers[inside] = number
        gap = len(item[3] or " ")
        offset = indent + len(item[1]) + (gap if gap <= 4 else 1)
        self._offsets.append(offset)
        content = body[item.end() :]
        self._start(_Open("text", inside, number=number, is_item=True), f"{item[1]} {content}")
        if fence := _FENCE.match(content[:MAX_CHARS]):
            if self._open:
                self._open.lines[-1] = item[1]
            self._close()
            self._open_code(fence, offset, inside + 1)

    def _plain(self, body: str, inside: int) -> None:
        current = self._open
        kind = "quote" if body.startswith(">") else "text"
        if current and current.kind == "table" and "|" not in body:
            self._close()
            self._start(_Open(kind, current.level), body)
        elif current and current.kind == "table":
            self._add(current, body)
        elif current and self._is_table(current, body):
            header = current.lines.pop()
            table = _Open("table", current.level + current.is_item)
            if current.lines:
                self._close()
            self._open = table
            table.add(header)
            table.add(body)
        elif current and not (kind == "quote" and current.kind == "text"):
            self._add(current, body)
        else:
            self._leave(inside if current is None or kind == "quote" else len(self._offsets))
            self._start(_Open(kind, inside), body)

    @staticmethod
    def _is_table(current: _Open, body: str) -> bool:
        if current.kind != "text" or len(current.lines) <= current.is_item or "|" not in current.lines[-1]:
            return False
        if "-" not in body or not _DELIMITER.match(body.rstrip()[:MAX_CHARS]):
            return False
        return _num_cells(current.lines[-1]) == _num_cells(body)

    def _start(self, chunk: _Open, line: str) -> None:
        self._open = chunk
        self._add(chunk, line)

    def _add(self, chunk: _Open, line: str) -> None:
        """Add a line; a chunk that is full becomes final and goes on in a joined one."""
        if chunk.kind == "table":
            if len(chunk.lines) >= TABLE_ROWS + 2:
                header = tuple(chunk.lines[:2])
                self._close()
                chunk = self._open = _Open("table", chunk.level, lines=list(header), is_joined=True)
            chunk.add(line[:MAX_CHARS])
            return
        while True:
            is_full = len(chunk.lines) >= MAX_LINES or chunk.num_chars + len(line) > MAX_CHARS
            if chunk.lines and is_full:
                self._close()
                kept = chunk.kind
                chunk = self._open = _Open(kept, chunk.level + chunk.is_item, is_joined=True)
            if len(line) <= MAX_CHARS:
                chunk.add(line)
                return
            cut = _cut_at(line)
            chunk.add(line[:cut])
            line = line[cut:]

    def _open_code(self, fence: re.Match[str], indent: int, level: int) -> None:
        self._code_id += 1
        self._open = _Open("code", level, language=fence[2], fence=fence[1], indent=indent)

    def _code_line(self, raw: str) -> None:
        code = self._open
        assert code is not None
        body = raw.strip(" \t\r")
        if len(body) >= len(code.fence) and body == code.fence[0] * len(body) and not raw.startswith("\t"):
            self._close()
            return
        if len(code.lines) >= CODE_LINES:
            self._emit_code(code, is_last=False)
            code.lines, code.is_first = [], False
        spaces = len(raw) - len(raw.lstrip(" "))
        code.add(raw[min(spaces, code.indent) :])

    @staticmethod
    def _is_alone(start: str, body: str) -> bool:
        """Whether no other text follows the formula that begins on this line."""
        end = _math_end(start)
        closing = body.find(end, len(start), MAX_CHARS)
        return closing < 0 or not body[closing + len(end) :].strip(MATH_STOPS)

    def _open_math(self, start: str, body: str, indent: int) -> None:
        inside = len([offset for offset in self._offsets if offset <= indent])
        self._leave(inside)
        self._open = _Open("math", inside, fence=_math_end(start))
        self._open.add(body)
        if body.find(self._open.fence, len(start), MAX_CHARS) > 0:
            self._close()

    def _math_line(self, math: _Open, raw: str) -> None:
        """The next line of a formula; a blank one, or too many, show that it is none."""
        is_full = len(math.lines) >= MAX_LINES or math.num_chars + len(raw) > MAX_CHARS
        if not raw.strip() or is_full:
            self._close()
            self._line(raw)
            return
        math.add(raw)
        if raw.rstrip(MATH_STOPS).endswith(math.fence):
            self._close()

    def _emit_math(self, math: _Open) -> None:
        """Final where it is complete, else read again as text."""
        source = "\n".join(line.strip() for line in math.lines)
        formula = source.rstrip(MATH_STOPS)
        if formula.endswith(math.fence) and len(formula) >= 2 * len(math.fence):
            self._done.append(Chunk("math", source, math.level))
            return
        for line in math.lines:
            self._line(line, may_be_math=False)

    def _emit_code(self, code: _Open, is_last: bool) -> None:
        text = "\n".join(code.lines)
        chunk = Chunk("code", text, code.level, language=code.language, code_id=self._code_id)
        first = code.is_first
        self._done.append(replace(chunk, is_first=first, is_last=is_last, is_joined=not first))

    def _close_all(self) -> _Open | None:
        """Close the open chunk, and the text that is left of a formula without an end; the last of them."""
        last = None
        while self._open:
            last = self._open
            self._close()
        return last

    def _close(self) -> None:
        chunk, self._open = self._open, None
        self._blanks = 0
        if chunk is None:
            return
        if chunk.kind == "code":
            self._emit_code(chunk, is_last=True)
        elif chunk.kind == "math":
            self._emit_math(chunk)
        elif chunk.lines:
            kind = "table" if chunk.kind == "table" else "text"
            source = "\n".join(chunk.lines)
            done = Chunk(kind, source, chunk.level, number=chunk.number, is_joined=chunk.is_joined)
            self._done.append(done)


def _math_end(start: str) -> str:
    """What ends a formula that begins with ``start``."""
    return start if start == "$$" else start.replace("[", "]").replace("begin", "end")


def _num_cells(row: str) -> int:
    return row.replace("\\|", "").strip().strip("|").count("|") + 1


def _cut_at(line: str) -> int:
    """Where to cut a line that is too long: after a space of its second half, if there is one."""
    space = line.rfind(" ", MAX_CHARS // 2, MAX_CHARS)
    return space + 1 if space >= 0 else MAX_CHARS


def split_plain(text: str) -> list[str]:
    """Text that is no Markdown, in pieces of bounded size; most texts are one piece."""
    pieces: list[str] = []
    lines: list[str] = []
    num_chars = 0
    for whole in text.split("\n"):
        line = whole
        while True:
            if lines and (len(lines) >= MAX_LINES or num_chars + len(line) > MAX_CHARS):
                pieces.append("\n".join(lines))
                lines, num_chars = [], 0
            end = len(line) if len(line) <= MAX_CHARS else _cut_at(line)
            lines.append(line[:end])
            num_chars += end
            line = line[end:]
            if not line:
                break
    return [*pieces, "\n".join(lines)]


def split(text: str) -> list[Chunk]:
    """All chunks of a complete message."""
    splitter = BlockSplitter()
    splitter.push(text)
    splitter.finish()
    return splitter.take()
