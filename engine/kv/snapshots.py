"""Indexed pages, and which idle pages of a sliding-window kind go first.

Such a kind needs only its last window to go on. A snapshot is the window before the end of a turn: while
there is room its pages stay, so that the conversation can be taken up again there. Knows neither the tree nor
sequences.
"""

from __future__ import annotations

from collections import OrderedDict

from engine.kv.pages import NO_PAGE, PageAllocator


class Node:
    """A page's identity: the chain of pages before it and its own token ids, fewer than a page in a leaf that
    a conversation ended in. ``pages`` has its page of every kind, or NO_PAGE.
    """

    __slots__ = ("children", "is_kept", "pages", "parent", "pins", "snapshots", "stamp", "tokens", "uses")

    def __init__(self, parent: Node | None, tokens: tuple[int, ...], pages: list[int]) -> None:
        self.parent = parent
        self.tokens = tokens
        self.pages = pages
        self.children: dict[tuple[int, ...], Node] = {}
        self.uses = 0  # running sequences it is a part of
        self.is_kept = False  # a sequence it was a part of has been released, not dropped
        self.stamp = 0  # when a sequence last left it
        self.pins = [0] * len(pages)  # snapshots that want the page, by kind
        self.snapshots: list[Snapshot | None] = [None] * len(pages)  # that end here, by kind

    @property
    def is_indexed(self) -> bool:
        """Whether it can be found in the tree."""
        return self.parent is not None and self.parent.children.get(self.tokens) is self


class Snapshot:
    """The pages of one sliding-window kind before the end of a turn, in order. It is open while its last page
    is still being written and so is not among them.
    """

    __slots__ = ("nodes",)

    def __init__(self, nodes: list[Node]) -> None:
        self.nodes = nodes


class WindowPages:
    """The idle pages of one sliding-window kind in the order in which they go: first those of no snapshot,
    longest idle first, then those of the snapshot that was longest not used.
    """

    def __init__(self, kind: int, allocator: PageAllocator) -> None:
        self._kind = kind
        self._allocator = allocator
        self._loose: OrderedDict[Node, None] = OrderedDict()  # idle and of no snapshot
        self._snapshots: OrderedDict[Snapshot, None] = OrderedDict()

    @property
    def is_empty(self) -> bool:
        """Whether nothing is idle or kept."""
        return not self._loose and not self._snapshots

    def idle(self, node: Node) -> None:
        """Nobody reads the page any more."""
        if not node.pins[self._kind]:
            self._loose[node] = None

    def busy(self, node: Node) -> None:
        """Somebody reads the page, or it is gone."""
        self._loose.pop(node, None)

    def take_snapshot(self, nodes: list[Node]) -> Snapshot:
        """A new snapshot of the pages of ``nodes``, open."""
        snapshot = Snapshot([])
        self._snapshots[snapshot] = None
        for node in nodes:
            self._pin(snapshot, node)
        return snapshot

    def close(self, snapshot: Snapshot, last: Node) -> None:
        """``last`` is the page that ``snapshot`` ends in; it replaces an earlier one that ended there. One
        that was given up in the meantime stays so.
        """
        if snapshot not in self._snapshots:
            return
        if not snapshot.nodes or snapshot.nodes[-1] is not last:
            self._pin(snapshot, last)
        earlier = last.snapshots[self._kind]
        last.snapshots[self._kind] = snapshot
        if earlier is not None:
            self._forget(earlier)

    def reopen(self, node: Node) -> Snapshot | None:
        """The page of ``node`` is to be written on: the snapshot that ended in it, if any, open again."""
        snapshot = node.snapshots[self._kind]
        if snapshot is not None:
            node.snapshots[self._kind] = None
            snapshot.nodes.pop()
            node.pins[self._kind] -= 1
        return snapshot

    def touch(self, node: Node) -> None:
        """The snapshot that ends in ``node``, if any, is being used."""
        snapshot = node.snapshots[self._kind]
        if snapshot is not None:
            self._snapshots.move_to_end(snapshot)

    def dissolve(self, snapshot: Snapshot) -> None:
        """Give up ``snapshot``, if it is still kept; its pages stay until they are needed."""
        if snapshot not in self._snapshots:
            return
        last = snapshot.nodes[-1] if snapshot.nodes else None
        if last is not None and last.snapshots[self._kind] is snapshot:
            last.snapshots[self._kind] = None
        self._forget(snapshot)

    def oldest(self) -> Node:
        """The node whose page goes next; there must be an idle one."""
        while not self._loose:
            self.dissolve(next(iter(self._snapshots)))
        return next(iter(self._loose))

    def _pin(self, snapshot: Snapshot, node: Node) -> None:
        snapshot.nodes.append(node)
        node.pins[self._kind] += 1
        self._loose.pop(node, None)

    def _forget(self, snapshot: Snapshot) -> None:
        del self._snapshots[snapshot]
        for node in snapshot.nodes:
            node.pins[self._kind] -= 1
            page = node.pages[self._kind]
            if page != NO_PAGE and not self._allocator.readers(page):
                self.idle(node)
