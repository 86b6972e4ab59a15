"""One pool of pages for many chats: what a prompt can reuse, where its next tokens go, what gives way.

Pure bookkeeping of one engine thread; it orders copies and never touches a tensor. Full pages of a running
sequence are settled, so that others find them, when it asks for room next or when another begins: until then
drafts may be trimmed at no cost.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from engine.kv.block_table import BlockTable
from engine.kv.pages import NO_PAGE, CopyTokens, PageAllocator, PageKind
from engine.kv.prefix_index import Match, PrefixIndex
from engine.kv.sequence_pages import SequencePages
from engine.kv.snapshots import Node

PAGE_TOKENS = 32
# At least this part of a plane is evicted at once: room made page by page is scattered. Of old windows it may
# be more, they are worth less than whole conversations.
EVICTED_PARTS, EVICTED_WINDOW_PARTS = 32, 8


@dataclass(frozen=True, slots=True)
class KindStats:
    """Pages of one kind: of the plane, read by running sequences, kept idle; ``tokens`` are in the latter
    two.
    """

    reserved_pages: int
    used_pages: int
    idle_pages: int
    tokens: int
    waste_tokens: int  # places in used and idle pages that hold no token


class Begun(NamedTuple):
    """A new sequence, how many tokens of its prompt it holds already, and copies to make at once."""

    pages: SequencePages
    reused: int
    copies: tuple[CopyTokens, ...]


@dataclass(frozen=True, slots=True)
class Reserved:
    """True if there is room; ``missing`` is how many pages of each kind there are too few. Copies are to be
    made before anything is written and before the pool is asked for anything else.
    """

    missing: tuple[int, ...]
    copies: tuple[CopyTokens, ...] = ()

    def __bool__(self) -> bool:
        return not any(self.missing)


class PagePool:
    """The pages of all kinds of layers, and every sequence that runs on them.

    Spans hold until the next call that begins, reserves, trims or ends anything: ask for them right before a
    step.
    """

    def __init__(self, kinds: Sequence[PageKind], page_size: int = PAGE_TOKENS) -> None:
        assert kinds and page_size > 0
        self.kinds = tuple(kinds)
        self.page_size = page_size
        self.allocators = [PageAllocator(kind.num_pages) for kind in kinds]
        self.index = PrefixIndex(page_size, self.kinds, self.allocators)
        self.running: list[SequencePages] = []
        self._clock = 0
        self._ready = Reserved((0,) * len(kinds))

    # -- a sequence's life

    def begin(self, prompt: Sequence[int]) -> Begun:
        """Start a sequence that holds the longest prefix of ``prompt`` that can be gone on from. Its last
        token is never among it: that is read again for its logits. O(tokens of the prompt / page_size) steps.
        """
        open_pages = [page for running in self.running if (page := self._open_page(running)) is not None]
        limit = max(0, len(prompt) - 1)
        match = self.index.find(prompt, limit, open_pages)
        must_copy = match.head is not None and not match.head.is_indexed
        if must_copy and not self._has_page_beside(match):
            match, must_copy = self.index.find(prompt, limit), False
        pages = SequencePages(self.kinds, self.page_size, len(prompt))
        if match.shared > match.length:
            pages.fork = (match.shared - 1) // self.page_size
        self._hold(pages, match)
        pages.tail = list(prompt[len(pages.nodes) * self.page_size : match.length])
        self.running.append(pages)
        copies = self._copy_tail(pages, match.head.pages, 0) if must_copy and match.head else ()
        return Begun(pages, match.length, copies)

    def reserve(self, pages: SequencePages, tokens: int) -> Reserved:
        """Make room for ``tokens`` more, evicting idle pages where too few are free; all kinds or none."""
        is_settled = pages.head is None and len(pages.tail) < self.page_size
        if is_settled and pages.length + tokens <= pages.capacity:
            return self._ready
        self._settle(pages)
        self._leave_windows(pages)
        grow = max(0, -(-(pages.length + tokens) // self.page_size) - pages.tables[0].end)
        head = pages.head
        if head is None or self._may_take(pages, head):
            missing = self._missing(grow)
        else:
            missing = self._missing(grow + 1)
            if not any(missing):
                copies = self._copy_tail(pages, head.pages, grow)
                self._give_back(pages, head)
                return Reserved(missing, copies)
            if head.uses == 1:  # nobody else runs on it: better lose the rest of it than have no room
                missing = self._missing(grow)
        if any(missing):
            return Reserved(missing)
        if head is not None:
            self._take(pages, head)
        self._grow(pages, grow)
        return self._ready

    def append(self, pages: SequencePages, ids: Sequence[int]) -> None:
        """Note that ``ids`` have been written where there was room reserved for them."""
        assert pages.head is None and pages.length + len(ids) <= pages.capacity
        pages.tail.extend(ids)

    def trim(self, pages: SequencePages, length: int) -> None:
        """Forget the tokens from ``length`` on; its ``can_trim`` must allow it."""
        assert pages.can_trim(length)
        settled = len(pages.nodes) * self.page_size
        if length > settled or (length == settled and pages.head is None):
            del pages.tail[length - settled :]
            return
        self._close(pages)
        keep, rest = divmod(length, self.page_size)
        self._leave(pages, keep + bool(rest), is_kept=False)
        for table, allocator in zip(pages.tables, self.allocators, strict=True):
            table.cut(keep + bool(rest))
            if table.last != NO_PAGE:
                allocator.end_at(table.last)
        pages.head = pages.nodes.pop() if rest else None
        pages.tail = list(pages.head.tokens[:rest]) if pages.head else []

    def turn_ended(self, pages: SequencePages) -> None:
        """Keep the windows before the end of ``pages`` while there is room, to resume there later. Also worth
        calling when a prompt has been read: the same prompt again then resumes at its end.
        """
        self._settle(pages)
        self._take_snapshots(pages, pages.length)

    def release(self, pages: SequencePages) -> None:
        """End the sequence; what it held stays idle until its pages are needed."""
        assert pages in self.running
        self._settle(pages)
        length = pages.length
        if pages.tail and pages.head is None:
            tokens = tuple(pages.tail)
            self._index_page(pages, tokens, self._covering(self._last_node(pages), tokens))
        self._close(pages)
        self._take_snapshots(pages, length)
        self._leave(pages, 0, is_kept=True)
        self._end(pages)

    def drop(self, pages: SequencePages) -> None:
        """End the sequence and forget what no released one held."""
        assert pages in self.running
        self._close(pages)
        self._leave(pages, 0, is_kept=False)
        self._end(pages)

    def forget_idle(self) -> None:
        """Free every page that no running sequence holds."""
        for kind, allocator in enumerate(self.allocators):
            self.index.make_room(kind, allocator.num_pages)

    def stats(self) -> tuple[KindStats, ...]:
        """How full the planes are, by kind."""
        own = sum(len(pages.tail) for pages in self.running if pages.head is None)
        stats = []
        for allocator, held in zip(self.allocators, self.index.tokens_held, strict=True):
            used, idle, tokens = allocator.num_used, allocator.num_idle, held + own
            waste = (used + idle) * self.page_size - tokens
            stats.append(KindStats(allocator.num_pages, used, idle, tokens, waste))
        return tuple(stats)

    # -- pages that others have

    def _hold(self, pages: SequencePages, match: Match) -> None:
        """Make ``pages`` a reader of what was found in the tree."""
        held = list(match.nodes)
        if match.head is not None and match.head.is_indexed:
            pages.head = match.head
            held.append(match.head)
        for node in held:
            node.uses += 1
        for kind in range(len(self.kinds)):
            first = pages.first_page(kind, match.length)
            read = [self.index.acquire_page(node, kind) for node in held[first:]]
            pages.tables.append(BlockTable(self.page_size, first, read))
            if held and kind in self.index.window_pages:
                self.index.window_pages[kind].touch(held[-1])
        pages.nodes = match.nodes

    def _open_page(self, pages: SequencePages) -> Node | None:
        """The page that ``pages`` writes on, as something to be found."""
        self._settle(pages)
        if pages.head is not None or not pages.tail:
            return None
        at = len(pages.nodes)
        return Node(self._last_node(pages), tuple(pages.tail), [table.page(at) for table in pages.tables])

    def _has_page_beside(self, match: Match) -> bool:
        """Whether a page of every kind could be had while the nodes of ``match`` are in use."""
        for kind, allocator in enumerate(self.allocators):
            first = self.kinds[kind].first_needed(match.length) // self.page_size
            read = [node.pages[kind] for node in match.nodes[first:]]
            if allocator.num_available <= sum(not allocator.readers(page) for page in read):
                return False
        return True

    def _may_take(self, pages: SequencePages, head: Node) -> bool:
        """Whether ``pages`` may write on ``head``, with nothing lost that anybody could come back to."""
        return head.uses == 1 and (len(head.tokens) == len(pages.tail) or not head.is_kept)

    def _take(self, pages: SequencePages, head: Node) -> None:
        """Make the page of ``head`` one that ``pages`` may write on."""
        for kind, windows in self.index.window_pages.items():
            pages.snapshots[kind] = windows.reopen(head)
        self.index.take(head)
        pages.head = None

    def _copy_tail(self, pages: SequencePages, source: list[int], grow: int) -> tuple[CopyTokens, ...]:
        """Put the tail in a page of its own, copied from pages ``source``, and ``grow`` more behind it."""
        at, size = len(pages.nodes), self.page_size
        for table in pages.tables:
            table.cut(at)
        self._grow(pages, grow + 1)
        return tuple(
            CopyTokens(kind, page * size, table.page(at) * size, len(pages.tail))
            for kind, (page, table) in enumerate(zip(source, pages.tables, strict=True))
        )

    def _give_back(self, pages: SequencePages, head: Node) -> None:
        """Stop reading the page of ``head``."""
        for kind in range(len(self.kinds)):
            self.index.release_page(head, kind)
        self._clock += 1
        self.index.leave(head, self._clock, is_kept=False)
        pages.head = None

    def _leave(self, pages: SequencePages, keep: int, is_kept: bool) -> None:
        """Stop using the nodes from index ``keep`` on."""
        self._clock += 1
        for at in reversed(range(keep, len(pages.nodes))):
            node = pages.nodes[at]
            for kind, table in enumerate(pages.tables):
                if at >= table.first:
                    self.index.release_page(node, kind)
            self.index.leave(node, self._clock, is_kept)
        del pages.nodes[keep:]

    def _leave_windows(self, pages: SequencePages) -> None:
        """Stop reading the pages that the next token no longer sees; they stay until they are needed."""
        for kind in self.index.window_pages:
            table, first = pages.tables[kind], pages.first_page(kind, pages.length)
            for at in range(table.first, first):
                self.index.release_page(pages.nodes[at], kind)
            table.first = max(table.first, first)

    # -- pages of its own

    def _missing(self, count: int) -> tuple[int, ...]:
        return tuple(max(0, count - allocator.num_available) for allocator in self.allocators)

    def _grow(self, pages: SequencePages, count: int) -> None:
        """``count`` pages more of every kind. What the rest of the prompt will need is evicted together with
        it, so that it comes to lie together.
        """
        if not count:
            return
        for kind, (table, allocator) in enumerate(zip(pages.tables, self.allocators, strict=True)):
            is_full = self.kinds[kind].window is None
            rest = -(-pages.prompt_tokens // self.page_size) - table.end
            expected = rest if is_full and count < rest <= allocator.num_available else count
            wanted = expected
            if allocator.num_free < count:
                parts = EVICTED_PARTS if is_full else EVICTED_WINDOW_PARTS
                wanted = max(expected, allocator.num_pages // parts)
            self.index.make_room(kind, wanted)
            table.extend(allocator.allocate(count, table.last, expected))

    def _settle(self, pages: SequencePages) -> None:
        """Let others find the full pages."""
        if pages.head is not None:
            return
        size, done = self.page_size, 0
        while len(pages.tail) - done >= size:
            tokens = tuple(pages.tail[done : done + size])
            self._index_page(pages, tokens, self._last_node(pages).children.get(tokens))
            done += size
        if done:
            del pages.tail[:done]

    def _index_page(self, pages: SequencePages, tokens: tuple[int, ...], known: Node | None) -> None:
        """Make the next page with ``tokens`` a node; if there is one, ``known``, read that from now on."""
        at = len(pages.nodes)
        if known is None:
            own = [table.page(at) for table in pages.tables]
            known = self.index.add(self._last_node(pages), tokens, own)
        else:
            for kind, table in enumerate(pages.tables):
                self._share(table, kind, at, known)
        known.uses += 1
        pages.nodes.append(known)
        for kind, snapshot in enumerate(pages.snapshots):
            if snapshot is not None:
                self.index.window_pages[kind].close(snapshot, known)
                pages.snapshots[kind] = None
        if at == pages.fork and len(tokens) == self.page_size:
            self._take_snapshots(pages, (at + 1) * self.page_size)

    def _share(self, table: BlockTable, kind: int, at: int, node: Node) -> None:
        """Read the page of ``node`` in place of the own one, or lend it that if it lost its page."""
        own = table.page(at)
        if node.pages[kind] == NO_PAGE:
            self.index.give_page(node, kind, own)
            return
        table.replace(at, self.index.acquire_page(node, kind))
        self._free(kind, own)

    def _covering(self, parent: Node, tokens: tuple[int, ...]) -> Node | None:
        """A page below ``parent`` that holds ``tokens`` already, perhaps with more behind them."""
        if tokens in parent.children:
            return parent.children[tokens]
        for node in parent.children.values():
            if node.tokens[: len(tokens)] == tokens and NO_PAGE not in node.pages:
                return node
        return None

    def _close(self, pages: SequencePages) -> None:
        """Give up what is not settled: open snapshots and the pages after the nodes; a head is settled."""
        for kind, snapshot in enumerate(pages.snapshots):
            if snapshot is not None:
                self.index.window_pages[kind].dissolve(snapshot)
                pages.snapshots[kind] = None
        if pages.head is not None:
            pages.nodes.append(pages.head)
        keep = len(pages.nodes)
        for kind, table in enumerate(pages.tables):
            for at in range(keep, table.end):
                self._free(kind, table.page(at))
            table.cut(keep)
            if table.last != NO_PAGE:
                self.allocators[kind].end_at(table.last)
        pages.head, pages.tail = None, []

    def _free(self, kind: int, page: int) -> None:
        self.allocators[kind].release(page)
        self.allocators[kind].free(page)

    def _end(self, pages: SequencePages) -> None:
        pages.tables = []
        self.running.remove(pages)

    def _take_snapshots(self, pages: SequencePages, length: int) -> None:
        """Keep what of the windows before the last page's tokens up to ``length`` there is."""
        if not length:
            return
        for kind, windows in self.index.window_pages.items():
            first = pages.first_page(kind, max(0, length + 1 - self.page_size))
            nodes: list[Node] = []
            for node in reversed(pages.nodes[first:]):
                if node.pages[kind] == NO_PAGE:
                    break
                nodes.append(node)
            snapshot = windows.take_snapshot(nodes[::-1])
            if length <= len(pages.nodes) * self.page_size:
                windows.close(snapshot, pages.nodes[-1])
            elif pages.head is not None:
                windows.close(snapshot, pages.head)
            else:
                earlier, pages.snapshots[kind] = pages.snapshots[kind], snapshot
                if earlier is not None:
                    windows.dissolve(earlier)

    def _last_node(self, pages: SequencePages) -> Node:
        return pages.nodes[-1] if pages.nodes else self.index.root
