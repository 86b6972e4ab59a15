"""What one running sequence holds of a page pool: its tokens, page by page, and where they are."""

from __future__ import annotations

from collections.abc import Sequence

from engine.kv.block_table import BlockTable, Span
from engine.kv.pages import PageKind
from engine.kv.snapshots import Node, Snapshot


class SequencePages:
    """The handle of a sequence; only its pool changes it.

    ``nodes`` are its settled pages. ``tail`` are the tokens after them: in pages of its own or, if there is a
    ``head``, at the start of that page, which may be read but not written on.
    """

    __slots__ = (
        "_kinds",
        "_page_size",
        "fork",
        "head",
        "nodes",
        "prompt_tokens",
        "snapshots",
        "tables",
        "tail",
    )

    def __init__(self, kinds: Sequence[PageKind], page_size: int, prompt_tokens: int) -> None:
        self._kinds = kinds
        self._page_size = page_size
        self.prompt_tokens = prompt_tokens
        self.nodes: list[Node] = []
        self.head: Node | None = None
        self.tail: list[int] = []
        self.tables: list[BlockTable] = []  # by kind; all end alike; none once the sequence has ended
        self.snapshots: list[Snapshot | None] = [None] * len(kinds)  # open ones: they end in the tail
        self.fork = -1  # index of the page up to which the prompt was known without being resumable there

    @property
    def length(self) -> int:
        """Tokens held."""
        return len(self.nodes) * self._page_size + len(self.tail)

    @property
    def capacity(self) -> int:
        """Tokens that there are places for."""
        assert self.tables, "a sequence that has ended is not used again"
        return self.tables[0].end * self._page_size

    def first_page(self, kind: int, length: int) -> int:
        """Index of the first page that has to be held to go on behind ``length`` tokens."""
        return self._kinds[kind].first_needed(length) // self._page_size

    def can_trim(self, length: int) -> bool:
        """Whether all that has to be held to go on behind ``length`` tokens is. Behind the length at the last
        reservation, and anything longer, it always is.
        """
        return 0 <= length <= self.length and all(
            table.first <= self.first_page(kind, length) for kind, table in enumerate(self.tables)
        )

    def spans(self, kind: int, start: int | None = None, stop: int | None = None) -> list[Span]:
        """Where the tokens start … stop − 1 are in the plane of ``kind``, in order and in as few spans as can
        be.

        By default those held that the next token sees. Places up to ``capacity`` may be asked for, to write
        in; tokens before the window may not.
        """
        window, length = self._kinds[kind].window, self.length
        if start is None:
            start = 0 if window is None else max(0, length + 1 - window)
        return self.tables[kind].spans(start, length if stop is None else stop)
