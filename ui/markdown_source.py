"""Writes styled text as Markdown again, for what is copied. No Qt."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ui.markdown import Prose, Span, Spans, Table
from ui.text_units import cut, units

_ALIGNS = {"left": "---", "center": ":---:", "right": "---:"}
_TASKS = {"•": "-", "☐": "- [ ]", "☑": "- [x]"}


def cut_spans(spans: Spans, start: int, end: int) -> Spans:
    """The runs between two positions in UTF-16 units."""
    found: list[Span] = []
    position = 0
    for span in spans:
        length = units(span.text)
        first, last = max(start - position, 0), min(end - position, length)
        if first < last:
            found.append(replace(span, text=cut(span.text, first, last)))
        position += length
    return tuple(found)


def spans_source(spans: Iterable[Span]) -> str:
    """Runs with their marks; a formula as it was written, also where only a part of it is taken."""
    parts: list[str] = []
    formula = ""
    for span in spans:
        if not span.formula or span.formula is not formula:
            parts.append(span.formula or _marked(span))
        formula = span.formula
    return "".join(parts)


def _marked(span: Span) -> str:
    text = span.text
    if span.code:
        return f"`{text}`" if "`" not in text else f"`` {text} ``"
    if span.href and span.href != text:
        text = f"[{text}]({span.href})"
    inner = text.strip()
    if not inner:
        return text
    for mark, is_set in (("~~", span.strike), ("*", span.italic), ("**", span.bold)):
        inner = f"{mark}{inner}{mark}" if is_set else inner
    before, after = len(text) - len(text.lstrip()), len(text.rstrip())
    return text[:before] + inner + text[after:]


def prose_source(block: Prose, start: int, end: int) -> str:
    """A paragraph, heading or list item, with what stands before it where its beginning is taken."""
    text = block.source if block.form else spans_source(cut_spans(block.spans, start, end))
    if start > 0:
        return text
    nested = "    " * max(0, block.level - bool(block.marker))
    marker = f"{_TASKS.get(block.marker, block.marker)} " if block.marker else ""
    heading = f"{'#' * block.heading} " if block.heading else ""
    quote = "> " * block.quote
    follow = "\n" + quote + nested + " " * len(marker)
    return quote + nested + heading + marker + text.replace("\n", follow)


def table_source(table: Table) -> str:
    """Rows between pipes, with the line below the header where the piece has one."""
    lines = [_row(row) for row in table.rows]
    if table.header:
        lines[:0] = [_row(table.header), f"| {' | '.join(_ALIGNS[align] for align in table.aligns)} |"]
    return "\n".join(lines)


def _row(cells: tuple[Spans, ...]) -> str:
    return f"| {' | '.join(spans_source(cell).replace('|', chr(92) + '|') for cell in cells)} |"
