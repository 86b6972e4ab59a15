"""A page pool together with a simple model of its planes: which tokens the content of every place stands for.

A place's content is all ids up to and with its token, as its keys and values depend on all of them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from engine.kv.page_pool import PageKind, PagePool, SequencePages
from engine.kv.pages import NO_PAGE, CopyTokens
from engine.kv.snapshots import Node

Content = tuple[int, ...]
PIECE = 8  # tokens


class Chat:
    """A running sequence and the ids that it should hold."""

    def __init__(self, pages: SequencePages, prompt: list[int], held: int) -> None:
        self.pages = pages
        self.prompt = prompt
        self.reused = held
        self.ids = prompt[:held]


class ModelledPool:
    """Does what the engine would do, in a model of the tensors, and checks what comes back."""

    def __init__(self, kinds: Sequence[PageKind], page_size: int) -> None:
        self.pool = PagePool(kinds, page_size)
        self.planes: list[list[Content | None]] = [[None] * (kind.num_pages * page_size) for kind in kinds]
        self.chats: list[Chat] = []

    # -- what an engine does

    def begin(self, prompt: list[int]) -> Chat:
        best = self.reusable(prompt)
        # Tokens of a page that is being written on have to be copied. And with several kinds of windows the
        # first tokens of a page might be had from one page for one kind, from another for the other.
        may_lack_room = any(a.num_available <= best // self.pool.page_size for a in self.pool.allocators)
        may_be_less = may_lack_room or sum(kind.window is not None for kind in self.pool.kinds) > 1
        pages, reused, copies = self.pool.begin(prompt)
        self._copy(copies)
        assert reused == pages.length
        assert reused == best or (reused < best and may_be_less)
        self.chats.append(Chat(pages, prompt, reused))
        self._forget_garbage()
        return self.chats[-1]

    def write(self, chat: Chat, ids: list[int]) -> bool:
        """Reserve, run and append; whether there was room."""
        before = [(node, list(node.pages)) for node in self.nodes()]
        start = len(chat.ids)
        most = len(chat.prompt + ids) // self.pool.page_size + 2  # pages that could possibly be asked for
        is_roomy = all(allocator.num_free >= most for allocator in self.pool.allocators)
        reserved = self.pool.reserve(chat.pages, len(ids))
        if is_roomy or not reserved:
            self._check_nothing_lost(before, chat)
        if not reserved:
            assert not reserved.copies
            return False
        self._copy(reserved.copies)
        chat.ids += ids
        for kind, plane in enumerate(self.planes):
            places = self.places(chat, kind, start, len(chat.ids))
            assert len(places) == len(ids)
            for length, place in enumerate(places, start + 1):
                assert self.pool.allocators[kind].readers(place // self.pool.page_size) == 1
                plane[place] = tuple(chat.ids[:length])
        self.pool.append(chat.pages, ids)
        self._forget_garbage()
        return True

    def trim(self, chat: Chat, length: int) -> None:
        self.pool.trim(chat.pages, length)
        del chat.ids[length:]
        self._forget_garbage()

    def release(self, chat: Chat) -> None:
        self.pool.release(chat.pages)
        self.chats.remove(chat)
        self._forget_garbage()

    def drop(self, chat: Chat) -> None:
        self.pool.drop(chat.pages)
        self.chats.remove(chat)
        self._forget_garbage()

    def run(self, prompt: list[int]) -> Chat:
        """Begin, and read the prompt in pieces."""
        chat = self.begin(prompt)
        for start in range(len(chat.ids), len(prompt), PIECE):
            assert self.write(chat, prompt[start : start + PIECE])
        return chat

    def say(self, prompt: list[int], answer: list[int]) -> int:
        """A whole turn; the number of tokens it reused."""
        chat = self.run(prompt)
        for token in answer:
            assert self.write(chat, [token])
        self.release(chat)
        self.check()
        return chat.reused

    def _check_nothing_lost(self, before: list[tuple[Node, list[int]]], chat: Chat) -> None:
        """Of all the nodes that a released sequence had; one may be written on behind its last token."""
        for node, pages in before:
            if node.is_indexed:
                assert all(page in (NO_PAGE, now) for page, now in zip(pages, node.pages, strict=True))
            else:
                assert not node.is_kept or node.tokens == tuple(chat.ids[-len(node.tokens) :])

    def _copy(self, copies: Sequence[CopyTokens]) -> None:
        for kind, source, target, num_tokens in copies:
            plane = self.planes[kind]
            plane[target : target + num_tokens] = plane[source : source + num_tokens]

    # -- what should be

    def places(self, chat: Chat, kind: int, start: int, stop: int) -> list[int]:
        spans = chat.pages.spans(kind, start, stop)
        for span, following in pairwise(spans):
            assert span.start + span.num_tokens != following.start, "neighbours are one span"
        return [place for span in spans for place in range(span.start, span.start + span.num_tokens)]

    def reusable(self, prompt: list[int]) -> int:
        """The longest prefix that could be gone on from, by what the planes hold, wherever it lies."""
        held = [set(plane) for plane in self.planes]
        prefixes = [tuple(prompt[: length + 1]) for length in range(len(prompt))]
        return next(
            length
            for length in range(max(0, len(prompt) - 1), -1, -1)
            if all(
                prefix in places
                for kind, places in zip(self.pool.kinds, held, strict=True)
                for prefix in prefixes[kind.first_needed(length) : length]
            )
        )

    def check(self) -> None:
        """Every law that holds between calls."""
        for chat in self.chats:
            assert chat.pages.length == len(chat.ids)
            for kind, spec in enumerate(self.pool.kinds):
                self._check_content(chat, kind, spec)
        self._forget_garbage()
        for kind in range(len(self.planes)):
            self._check_owners(kind)
            self._check_counts(kind)
        self._check_uses()

    def _check_content(self, chat: Chat, kind: int, spec: PageKind) -> None:
        first = 0 if spec.window is None else max(0, len(chat.ids) + 1 - spec.window)
        spans = chat.pages.spans(kind)
        read = [self.planes[kind][span.start + at] for span in spans for at in range(span.num_tokens)]
        assert read == [tuple(chat.ids[: length + 1]) for length in range(first, len(chat.ids))]

    def _forget_garbage(self) -> None:
        """What lies in free pages, and behind the tokens of a running sequence, must be of use to nobody."""
        size = self.pool.page_size
        for kind, (plane, allocator) in enumerate(zip(self.planes, self.pool.allocators, strict=True)):
            for page in range(allocator.num_pages):
                if not allocator.is_taken(page):
                    plane[page * size : (page + 1) * size] = [None] * size
            for chat in self.chats:
                if chat.pages.head is None:
                    for place in self.places(chat, kind, len(chat.ids), chat.pages.capacity):
                        plane[place] = None

    def nodes(self) -> Iterator[Node]:
        waiting = list(self.pool.index.root.children.values())
        while waiting:
            node = waiting.pop()
            waiting += node.children.values()
            yield node

    def _check_owners(self, kind: int) -> None:
        """A page has one owner, a node or a sequence, and as many readers as sequences hold it."""
        allocator = self.pool.allocators[kind]
        readers: Counter[int] = Counter()
        owners = Counter(node.pages[kind] for node in self.nodes() if node.pages[kind] != NO_PAGE)
        for chat in self.chats:
            table, settled = chat.pages.tables[kind], len(chat.pages.nodes) + (chat.pages.head is not None)
            readers.update(table.page(at) for at in range(table.first, table.end))
            owners.update(table.page(at) for at in range(settled, table.end))
        assert set(owners.values()) <= {1}
        for page in range(allocator.num_pages):
            assert allocator.readers(page) == readers[page]
            assert allocator.is_taken(page) == (page in owners)
        assert allocator.num_used == len(readers)
        assert allocator.num_free + len(owners) == allocator.num_pages

    def _check_counts(self, kind: int) -> None:
        stats, size = self.pool.stats()[kind], self.pool.page_size
        assert stats.used_pages + stats.idle_pages <= stats.reserved_pages
        assert stats.tokens == sum(content is not None for content in self.planes[kind])
        assert stats.waste_tokens == (stats.used_pages + stats.idle_pages) * size - stats.tokens

    def _check_uses(self) -> None:
        uses: Counter[Node] = Counter()
        for chat in self.chats:
            uses.update(chat.pages.nodes)
            if chat.pages.head is not None:
                uses[chat.pages.head] += 1
        for node in self.nodes():
            assert node.uses == uses[node]
            assert node.is_indexed
            assert node.uses or node.is_kept, "what was dropped leaves nothing behind"
            assert len(node.tokens) == self.pool.page_size or not node.children
        assert set(uses) <= set(self.nodes())
