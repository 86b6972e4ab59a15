"""Turns Markdown that grows into the pieces that show it; what is finished is never made again."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ui.blocks import Item, ProseItem, RuleItem
from ui.code_block import CodeItem, CodeSource
from ui.markdown import Block, Code, Prose, Span, Table, parse, visible
from ui.splitter import BlockSplitter, split_plain
from ui.table_block import TableItem, TableShape

_PUSH_CHARS = 512  # of text that one look reads: a table of short cells takes 10 ms for as much


@dataclass(slots=True)
class _Context:
    """What the next block needs to know of those before it."""

    before: Prose | None = None
    code_index: int = 0
    shape: TableShape | None = None


class GrowingText:
    """``items`` show the text. ``read`` takes what is new and says from which piece on they changed.

    ``is_aside`` sets all of it off from other text, as a quotation is; ``is_raw`` shows it as it came.
    """

    def __init__(self, text: str = "", *, is_aside: bool = False, is_raw: bool = False) -> None:
        self.items: list[Item] = []
        self._is_raw = is_raw
        self._is_aside = is_aside
        self._read: list[str] = []  # text that the splitter has
        self._unread = text
        self._splitter = BlockSplitter()
        self._context = _Context()
        self._sources: dict[int, CodeSource] = {}
        self._num_done = 0
        self.is_finished = False  # all of it is read, and no more was to come

    @property
    def has_unread(self) -> bool:
        """Whether another ``read`` has work to do."""
        return bool(self._unread)

    @property
    def has_read(self) -> bool:
        """Whether there is any text in the pieces."""
        return bool(self._read)

    def text(self) -> str:
        """The whole text as it came."""
        return "".join(self._read) + self._unread

    def append(self, text: str) -> None:
        """The next part of the text; shown by the next ``read``."""
        self._unread += text

    def read(self, *, is_open: bool) -> int:
        """Read on, build the open end again; the index of the first piece that is new."""
        if self._is_raw:
            return self._read_raw()
        first = self._num_done
        del self.items[first:]
        piece, self._unread = self._unread[:_PUSH_CHARS], self._unread[_PUSH_CHARS:]
        if piece:
            self._read.append(piece)
            self._splitter.push(piece)
        self.is_finished = not self._unread and not is_open
        if self.is_finished:
            self._splitter.finish()
        for chunk in self._splitter.take():
            for block in parse(chunk):
                self._add(block, self._context, is_tail=False)
        self._num_done = len(self.items)
        if self._unread:  # the open end is shown once all that came is read
            return self._join_tables(first)
        context = replace(self._context)
        for chunk in self._splitter.tail():
            for block in parse(chunk):
                self._add(block, context, is_tail=True)
        return self._join_tables(first)

    def _read_raw(self) -> int:
        """The next lines of a text that is complete."""
        first, text = len(self.items), self._unread
        end = text.rfind("\n", 0, _PUSH_CHARS) + 1 if len(text) > _PUSH_CHARS else len(text)
        piece, self._unread = text[: end or _PUSH_CHARS], text[end or _PUSH_CHARS :]
        if piece:
            self._read.append(piece)
        self.is_finished = not self._unread
        shown = piece.removesuffix("\n").replace("\r\n", "\n")
        for part in split_plain(visible(shown)) if piece else ():
            block = Prose((Span(part),), form="raw", source=part, is_joined=bool(self.items))
            self.items.append(ProseItem(block))
        return first

    def last_code(self) -> CodeSource | None:
        """The last block of code in it."""
        found = (item.source for item in reversed(self.items) if isinstance(item, CodeItem))
        return next(found, None)

    def _join_tables(self, first: int) -> int:
        """Where a table goes on, the piece before gives up its bar; the first piece that changed."""
        lowest = first
        for index in range(max(1, first), len(self.items)):
            piece, before = self.items[index], self.items[index - 1]
            if isinstance(piece, TableItem) and piece.block.is_joined and isinstance(before, TableItem):
                lowest = min(lowest, index - before.go_on())
        return lowest

    def _add(self, block: Block, context: _Context, *, is_tail: bool) -> None:
        if self._is_aside:
            block = _set_off(block)
        item: Item
        match block:
            case Prose():
                item = ProseItem(block, context.before)
            case Code():
                item = self._code(block, context, is_tail)
            case Table():
                if not block.is_joined or context.shape is None:
                    context.shape = TableShape(block)
                item = TableItem(block, context.shape)
            case _:
                item = RuleItem(block)
        item.is_aside = self._is_aside
        context.before = block if isinstance(block, Prose) else None
        self.items.append(item)

    def _code(self, block: Code, context: _Context, is_tail: bool) -> CodeItem:
        context.code_index = 0 if block.is_first else context.code_index + 1
        if block.code_id:
            source = self._sources.setdefault(block.code_id, CodeSource(block.language))
        else:
            source = CodeSource(block.language)
        source.set_piece(context.code_index, block.text)
        source.is_closed = block.is_last and not is_tail
        return CodeItem(block, source, context.code_index, is_tail=is_tail)


def _set_off(block: Block) -> Block:
    """Room for the bar at the left, and the quieter colour of a quotation."""
    if isinstance(block, Prose):
        return replace(block, quote=block.quote + 1)
    return replace(block, level=block.level + 1)
