"""Turns one message into the pieces that show it, and keeps what is finished while the rest grows."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from ui.blocks import GAP, BubbleItem, BubbleShape, Item, ProseItem, RuleItem
from ui.code_block import CodeItem, CodeSource
from ui.markdown import Block, Code, Prose, Table, parse, visible
from ui.marks import MarkerItem, StatsItem, WaitingItem
from ui.splitter import BlockSplitter, split_plain
from ui.table_block import TableItem, TableShape
from ui.values import MessageView

MESSAGE_GAP = 16
OPEN_STATES = frozenset({"reading", "writing"})
_PUSH_CHARS = 4_096  # of text that one refresh reads, so that a long message never holds up the window
_NUM_TOKENS = re.compile(r"[\d,.\u00a0\u202f ]+tokens?")


@dataclass(slots=True)
class _Context:
    """What the next block needs to know of those before it."""

    before: Prose | None = None
    code_index: int = 0
    shape: TableShape | None = None


class MessageItems:
    """``items`` show the message. ``refresh`` reads what is new and says from which piece on they changed."""

    def __init__(self, view: MessageView) -> None:
        self.start = 0  # of its pieces in the transcript
        self.items: list[Item] = []
        self._sources: dict[int, CodeSource] = {}
        self._caret: Item | None = None
        self._begin(view)

    def _begin(self, view: MessageView) -> None:
        self.view = view
        self._read: list[str] = []  # text that the splitter has
        self._unread = view.text
        self._splitter = BlockSplitter()
        self._context = _Context()
        self._sources.clear()
        self.items = []
        if view.note:
            self.items.append(MarkerItem(view.note, *_note_icon(view.note)))
        if view.role == "user":
            self._unread = ""
            self._add_bubbles(view)
        self._num_done = len(self.items)
        self.has_moved_caret = True  # whether the piece before those that ``refresh`` made has lost the caret
        self._own(0)

    def _own(self, first: int) -> None:
        for item in self.items[first:]:
            item.owner = self.view.message_id
        if self.items:
            self.items[0].gap = MESSAGE_GAP
        if self.view.note and len(self.items) > 1:
            self.items[1].gap = MESSAGE_GAP

    @property
    def has_unread(self) -> bool:
        """Whether another ``refresh`` has work to do."""
        return bool(self._unread)

    @property
    def is_open(self) -> bool:
        """Whether more of it may come."""
        return self.view.status in OPEN_STATES

    def text(self) -> str:
        """The whole message as it came."""
        return self.view.text if self.view.role == "user" else "".join(self._read) + self._unread

    def append(self, text: str) -> None:
        """The next part of an answer; shown by the next ``refresh``."""
        self._unread += text
        if self.view.status == "reading":
            self.view = replace(self.view, status="writing", stats="")

    def set_view(self, view: MessageView) -> bool:
        """A new state of the message; True when it has to be built again from its first piece."""
        shown, before = self.text(), self.view
        if view.role == "user" or before.note != view.note or not view.text.startswith(shown):
            self._begin(view)
            return True
        self.view = view
        self._unread += view.text[len(shown) :]
        was_finished = before.status not in OPEN_STATES
        if was_finished and (self.is_open or self._unread):
            self._begin(view)
            return True
        return False

    def refresh(self) -> int:
        """Read on, build the open end again; the index of the first piece that is new."""
        first = self._num_done
        self.has_moved_caret = first > 0 and self.items[first - 1] is self._caret
        del self.items[first:]
        if self._caret:
            self._caret.has_caret = False
        if self.view.role != "user":
            self._read_on()
            self._add_tail()
            self._add_footer()
        first = self._join_tables(first)
        self._own(first)
        return first

    def last_code(self) -> CodeSource | None:
        """The last block of code in it."""
        found = (item.source for item in reversed(self.items) if isinstance(item, CodeItem))
        return next(found, None)

    def _read_on(self) -> None:
        piece, self._unread = self._unread[:_PUSH_CHARS], self._unread[_PUSH_CHARS:]
        if piece:
            self._read.append(piece)
            self._splitter.push(piece)
        if not self._unread and not self.is_open:
            self._splitter.finish()
        for chunk in self._splitter.take():
            for block in parse(chunk):
                self._add(block, self._context, is_tail=False)
        self._num_done = len(self.items)

    def _add_tail(self) -> None:
        context = replace(self._context)
        for chunk in self._splitter.tail():
            for block in parse(chunk):
                self._add(block, context, is_tail=True)
        if not self.is_open:
            return
        last = self.items[-1] if self.items else None
        if isinstance(last, ProseItem | CodeItem):
            last.has_caret = True
            self._caret = last
        else:
            sentence = f"Reading your message… {self.view.stats}" if self.view.stats else ""
            self.items.append(WaitingItem(sentence if self.view.status == "reading" else ""))

    def _join_tables(self, first: int) -> int:
        """Where a table goes on, the piece before gives up its bar; the first piece that changed."""
        lowest = first
        for index in range(max(1, first), len(self.items)):
            piece, before = self.items[index], self.items[index - 1]
            if isinstance(piece, TableItem) and piece.block.is_joined and isinstance(before, TableItem):
                lowest = min(lowest, index - before.go_on())
        return lowest

    def _add(self, block: Block, context: _Context, *, is_tail: bool) -> None:
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

    def _add_bubbles(self, view: MessageView) -> None:
        pieces = split_plain(visible(view.text.replace("\r\n", "\n")))
        shape = BubbleShape(view.status == "queued", len(pieces) == 1)
        last = len(pieces) - 1
        for index, piece in enumerate(pieces):
            self.items.append(BubbleItem(piece, shape, is_first=index == 0, is_last=index == last))

    def _add_footer(self) -> None:
        view = self.view
        if view.status == "reading" or self._unread:
            return
        has_text = bool(self._read)
        if has_text or view.stats:
            self.items.append(StatsItem(view.stats, has_actions=has_text and not self.is_open))
        marker = _marker(view.status, view.stats, has_text)
        if marker:
            marker.gap = GAP if has_text else MESSAGE_GAP
            self.items.append(marker)


def _marker(status: str, stats: str, has_text: bool) -> MarkerItem | None:
    """The sentence below an answer that did not end by itself."""
    match status:
        case "stopped":
            tokens = _NUM_TOKENS.match(stats)
            after = f" after {tokens[0].strip()}" if tokens else ""
            return MarkerItem(f"Stopped by you{after}", "square", "text3")
        case "failed":
            words = "Could not finish. The answer so far is kept." if has_text else "No answer was written."
            return MarkerItem(words, "circle-x", "bad")
        case "length":
            return MarkerItem("Longest answer length reached", "info")
        case "context":
            return MarkerItem("Context full: the answer ends here", "scissors", "warn")
        case "done" if not has_text:
            return MarkerItem("The model ended its answer without writing anything", "info")
    return None


def _note_icon(note: str) -> tuple[str, str]:
    """Icon and colour token for a sentence above a message."""
    lowered = note.lower()
    if lowered.startswith("context full") or "left out" in lowered:
        return "scissors", "warn"
    if lowered.startswith("model changed"):
        return "cpu", "text2"
    return ("circle-check", "text2") if lowered.startswith("context raised") else ("info", "text2")
