"""Which pages hold which tokens: a tree of full pages, their idle ones in the order in which they go.

A page is found by comparing its real token ids and those of the pages before it, never by a hash alone. Knows
nothing of how running sequences grow.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from itertools import count
from typing import NamedTuple

from engine.kv.pages import NO_PAGE, PageAllocator, PageKind
from engine.kv.snapshots import Node, WindowPages


class Match(NamedTuple):
    """What is there of a prompt. ``head`` is a page of which only the first tokens are wanted, all others are
    wanted whole; ``shared`` is how far the prompt could have been followed had no window been lost.
    """

    nodes: list[Node]
    head: Node | None
    length: int
    shared: int


class PrefixIndex:
    """The tree of nodes over the planes of all kinds (``kinds[k]`` is that of ``allocators[k]``).

    With full attention among the kinds, a node has its pages of those as long as it exists, so the leaves go
    first, those that were longest not used. Pages of sliding windows go one by one, and a node outlives its
    own.
    """

    def __init__(
        self, page_size: int, kinds: Sequence[PageKind], allocators: Sequence[PageAllocator]
    ) -> None:
        self.root = Node(None, (), [NO_PAGE] * len(kinds))
        self.tokens_held = [0] * len(kinds)  # in pages of nodes, by kind
        self._page_size = page_size
        self._allocators = allocators
        self._sliding = [(at, kind) for at, kind in enumerate(kinds) if kind.window is not None]
        self._has_full = len(self._sliding) < len(kinds)
        self.window_pages = {kind: WindowPages(kind, allocators[kind]) for kind, _ in self._sliding}
        self._leaves: list[tuple[int, int, Node]] = []  # a heap: stamp, tie-break, node; some are outdated
        self._most_leaves = max(allocator.num_pages for allocator in allocators)
        self._ties = count()

    # -- finding

    def find(self, prompt: Sequence[int], limit: int, open_pages: Iterable[Node] = ()) -> Match:
        """The longest prefix of ``prompt``, of at most ``limit`` tokens, that can be gone on from: pages of
        full attention for all of it and of sliding windows for the last window. ``open_pages`` are such as
        running sequences still write on: nodes that are not in the tree.
        """
        path, unbroken = self._walk(prompt, limit)
        beside: dict[Node | None, list[Node]] = {}
        for node in open_pages:
            beside.setdefault(node.parent, []).append(node)
        shared = 0
        for level in range(len(path), -1, -1):
            parent = path[level - 1] if level else self.root
            start = level * self._page_size
            pages = [*parent.children.values(), *beside.get(parent, ())]
            found = [(length, node) for node in pages if (length := self._common(node, prompt, start, limit))]
            found.sort(key=lambda page: page[0], reverse=True)
            for length, node in found:
                shared = shared or start + length
                if self._can_resume(node, start, length, unbroken[level]):
                    is_whole = length == self._page_size
                    nodes = [*path[:level], node] if is_whole else path[:level]
                    return Match(nodes, None if is_whole else node, start + length, shared)
            shared = shared or start
        return Match([], None, 0, shared)

    def _walk(self, prompt: Sequence[int], limit: int) -> tuple[list[Node], list[list[int]]]:
        """Nodes of the whole pages of ``prompt``, and for every number of them the index, by sliding kind,
        from which on none of their pages is missing.
        """
        size, node = self._page_size, self.root
        path: list[Node] = []
        unbroken = [[0] * len(self._sliding)]
        for start in range(0, limit - size + 1, size):
            child = node.children.get(tuple(prompt[start : start + size]))
            if child is None:
                break
            path.append(child)
            unbroken.append(
                [
                    len(path) if child.pages[kind] == NO_PAGE else first
                    for (kind, _), first in zip(self._sliding, unbroken[-1], strict=True)
                ]
            )
            node = child
        return path, unbroken

    def _common(self, node: Node, prompt: Sequence[int], start: int, limit: int) -> int:
        """Number of leading tokens of ``node`` that ``prompt`` has from ``start`` on."""
        length = 0
        for token in node.tokens[: limit - start]:
            if token != prompt[start + length]:
                break
            length += 1
        return length

    def _can_resume(self, node: Node, start: int, length: int, unbroken: list[int]) -> bool:
        """Whether the windows before token ``start + length`` are all there, ``node`` being the last page."""
        for (at, kind), first in zip(self._sliding, unbroken, strict=True):
            is_there = kind.first_needed(start + length) >= first * self._page_size
            if node.pages[at] == NO_PAGE or not is_there:
                return False
        return True

    # -- pages of nodes

    def add(self, parent: Node, tokens: tuple[int, ...], pages: list[int]) -> Node:
        """A new node; its pages stay in use by whoever wrote them."""
        node = Node(parent, tokens, pages)
        parent.children[tokens] = node
        for kind in range(len(pages)):
            self.tokens_held[kind] += len(tokens)
        return node

    def give_page(self, node: Node, kind: int, page: int) -> None:
        """``page``, in use, holds the tokens of ``node``, whose own of that kind was lost."""
        assert node.pages[kind] == NO_PAGE
        node.pages[kind] = page
        self.tokens_held[kind] += len(node.tokens)

    def acquire_page(self, node: Node, kind: int) -> int:
        """One reader more of the node's page."""
        page = node.pages[kind]
        self._allocators[kind].acquire(page)
        if kind in self.window_pages:
            self.window_pages[kind].busy(node)
        return page

    def release_page(self, node: Node, kind: int) -> None:
        """One reader fewer of the node's page."""
        if self._allocators[kind].release(node.pages[kind]) and kind in self.window_pages:
            self.window_pages[kind].idle(node)

    def leave(self, node: Node, stamp: int, is_kept: bool) -> None:
        """A sequence that used ``node`` ends or forgets it; a node that no kept sequence had is forgotten
        too.
        """
        node.uses -= 1
        node.stamp = stamp
        node.is_kept |= is_kept
        if node.uses or node.children:
            return
        if node.is_kept:
            self._now_leaf(node)
        else:
            self._remove(node)

    def take(self, node: Node) -> None:
        """Take ``node`` and all below it out of the tree. Its pages are left to its only user, who is about
        to write on them.
        """
        assert node.uses == 1
        below = list(node.children.values())
        for child in below:
            below.extend(child.children.values())
        for child in reversed(below):
            if child.parent is not None:  # not yet gone with its last child
                self._remove(child)
        self._detach(node)
        for kind, page in enumerate(node.pages):
            self.tokens_held[kind] -= len(node.tokens) * (page != NO_PAGE)

    # -- making room

    def make_room(self, kind: int, wanted: int) -> None:
        """Evict idle pages until ``wanted`` are free, or all are."""
        allocator = self._allocators[kind]
        while allocator.num_free < wanted and allocator.num_idle:
            if kind not in self.window_pages:
                self._remove(self._oldest_leaf())
                continue
            node = self.window_pages[kind].oldest()
            self._drop_page(node, kind)
            if not self._has_full and not node.uses and not node.children:
                self._now_leaf(node)

    def _oldest_leaf(self) -> Node:
        while True:
            stamp, _, node = heapq.heappop(self._leaves)
            if self._is_idle_leaf(node, stamp):
                return node

    def _is_idle_leaf(self, node: Node, stamp: int) -> bool:
        return node.parent is not None and not node.uses and not node.children and node.stamp == stamp

    def _now_leaf(self, node: Node) -> None:
        """``node`` has become an idle leaf: it waits to be the oldest, or goes at once if it has no page
        left.
        """
        if self._has_full:
            self._queue(node)
        elif self._is_empty(node):
            self._remove(node)

    def _queue(self, node: Node) -> None:
        heapq.heappush(self._leaves, (node.stamp, next(self._ties), node))
        if len(self._leaves) > 2 * self._most_leaves + 64:
            self._leaves = [entry for entry in self._leaves if self._is_idle_leaf(entry[2], entry[0])]
            heapq.heapify(self._leaves)

    def _is_empty(self, node: Node) -> bool:
        return all(page == NO_PAGE for page in node.pages)

    def _drop_page(self, node: Node, kind: int) -> None:
        page = node.pages[kind]
        if kind in self.window_pages:
            self.window_pages[kind].busy(node)
        node.pages[kind] = NO_PAGE
        self.tokens_held[kind] -= len(node.tokens)
        self._allocators[kind].free(page)

    def _remove(self, node: Node) -> None:
        """Forget an idle leaf with its pages; what it was the last child of is a leaf now, and goes too if it
        has no page left.
        """
        while True:
            parent = node.parent
            assert parent is not None and not node.uses and not node.children
            self._clear(node)
            self._detach(node)
            if parent is self.root or parent.uses or parent.children:
                return
            if self._has_full:
                self._queue(parent)
            if not self._is_empty(parent):
                return
            node = parent

    def _clear(self, node: Node) -> None:
        """Give up the node's pages and the snapshots that end in it."""
        for kind, windows in self.window_pages.items():
            snapshot = node.snapshots[kind]
            if snapshot is not None:
                windows.dissolve(snapshot)
        for kind, page in enumerate(node.pages):
            if page != NO_PAGE:
                self._drop_page(node, kind)

    def _detach(self, node: Node) -> None:
        assert node.parent is not None
        del node.parent.children[node.tokens]
        node.parent = None
