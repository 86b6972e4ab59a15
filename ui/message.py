"""Turns one message into the pieces that show it, and keeps what is finished while the rest grows."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from engine.words import tr
from ui.attachment_item import AttachmentItem, opened
from ui.attachment_text import parse
from ui.blocks import GAP, Item, ProseItem
from ui.bubble import BubbleItem, BubbleShape
from ui.chat_values import MessageView
from ui.code_block import CodeItem, CodeSource
from ui.growing_text import GrowingText
from ui.markdown import visible
from ui.marks import MAKE_ROOM, MarkerItem, StatsItem, WaitingItem
from ui.message_actions import CONTINUE, COPY_MESSAGE, EDIT, REGENERATE, MessageActions
from ui.splitter import split_plain
from ui.thought import ThoughtItem

MESSAGE_GAP = 16
OPEN_STATES = frozenset({"reading", "writing", "waiting"})
UNFINISHED = frozenset({"stopped", "length", "context", "failed"})
_NUM_TOKENS = re.compile(r"(\d[\d,.'’\u00a0\u202f ]*)\s\w+(?:\s|$)")  # "1,204 tokens", in any language


class MessageItems:
    """``items`` show the message. ``refresh`` reads what is new and says from which piece on they changed.

    What the model thought is read when it is opened; ``thought`` is its row, None where there is none.
    """

    def __init__(self, view: MessageView) -> None:
        self.start = 0  # of its pieces in the transcript
        self.is_last = True  # of the chat
        self.is_left_out = False
        self.items: list[Item] = []
        self.thought: ThoughtItem | None = None
        self._opened_files: set[int] = set()  # by their numbers
        self._caret: Item | None = None
        self._begin(view)

    def _begin(self, view: MessageView) -> None:
        self.view = view
        self._thinking = view.thinking
        self._aside: GrowingText | None = None  # the opened thought
        self._body = GrowingText("" if view.role == "user" else view.text)
        self._head: list[Item] = []
        if view.left_out:
            self._head.append(MarkerItem(view.left_out, "scissors", "warn", MAKE_ROOM))
        if view.note:
            self._head.append(MarkerItem(view.note, "info"))
        if view.thinking:
            self._add_thought()
        if view.role == "user":
            self._head += _asked(view, self._opened_files)
        self.items = list(self._head)
        self._has_toggled = False
        self.is_raw = False
        self.has_moved_caret = True  # whether the piece before those that ``refresh`` made has lost the caret
        self._own(0)

    def _add_thought(self) -> None:
        """The row, opened as it was before."""
        self.thought = self.thought or ThoughtItem()
        self.thought.set(self.view.thinking_s, is_running=self._is_thinking)
        self._head.append(self.thought)
        if self.thought.is_expanded:
            self._aside = GrowingText(self._thinking, is_aside=True)

    def _own(self, first: int) -> None:
        for item in self.items[first:]:
            item.owner = self.view.message_id
            item.is_left_out = self.is_left_out and not isinstance(item, MarkerItem)
        num_markers = bool(self.view.left_out) + bool(self.view.note)
        for item in self.items[: num_markers + 1]:
            item.gap = MESSAGE_GAP

    @property
    def has_unread(self) -> bool:
        """Whether another ``refresh`` has work to do."""
        return self._body.has_unread or (self._aside is not None and self._aside.has_unread)

    @property
    def is_open(self) -> bool:
        """Whether more of it may come."""
        return self.view.status in OPEN_STATES

    @property
    def can_go_on(self) -> bool:
        """Whether it is an answer that can be continued: the last one, unfinished, with something in it."""
        has_any = self._body.has_read or self._body.has_unread or bool(self._thinking)
        return self.is_last and has_any and self.view.role != "user" and self.view.status in UNFINISHED

    def set_left_out(self, is_left_out: bool) -> None:
        """Set all of it back, or bring it forward again."""
        self.is_left_out = is_left_out
        for item in self.items:
            item.set_left_out(is_left_out and not isinstance(item, MarkerItem))

    @property
    def _is_thinking(self) -> bool:
        return self.is_open and not (self._body.has_read or self._body.has_unread)

    def text(self) -> str:
        """The whole message as it came, without what the model thought; of the user's what was typed."""
        if self.view.role != "user":
            return self._body.text()
        return parse(self.view.text)[1] or self.view.text

    def toggle_file(self, number: int) -> None:
        """Open or close an attached text; all pieces are made anew."""
        self._opened_files ^= {number}
        self._begin(self.view)

    def append(self, text: str) -> None:
        """The next part of an answer; shown by the next ``refresh``."""
        self._body.append(text)
        self._be_writing()

    def append_thinking(self, text: str) -> bool:
        """The next part of what the model thinks; False where nobody sees it, behind a closed row."""
        self._think(text)
        self._be_writing()
        return self._aside is not None or self.thought not in self._head

    def _think(self, text: str) -> None:
        self._thinking += text
        if self._aside is not None:
            self._aside.append(text)

    def _be_writing(self) -> None:
        if self.view.status in ("reading", "waiting"):
            self.view = replace(self.view, status="writing", stats="")

    def toggle_thought(self) -> None:
        """Open or close what the model thought; shown by the next ``refresh``."""
        if self.thought is not None:
            self.thought.is_expanded = not self.thought.is_expanded
            self._aside = GrowingText(self._thinking, is_aside=True) if self.thought.is_expanded else None
            self._has_toggled = True

    def toggle_raw(self) -> None:
        """Show an answer that is complete as it came, or formatted again; shown by the next ``refresh``."""
        self.is_raw = not self.is_raw
        self._body = GrowingText(self._body.text(), is_raw=self.is_raw)

    def set_view(self, view: MessageView) -> bool:
        """A new state of the message; True when it has to be built again from its first piece."""
        shown, before = self.text(), self.view
        is_other = view.role == "user" or before.note != view.note
        if is_other or not view.text.startswith(shown) or not view.thinking.startswith(self._thinking):
            self._begin(view)
            return True
        self.view = view
        self._body.append(view.text[len(shown) :])
        self._think(view.thinking[len(self._thinking) :])
        was_finished = before.status not in OPEN_STATES
        if was_finished and (self.is_open or self.has_unread):
            self._begin(view)
            return True
        return False

    def refresh(self) -> int:
        """Read on, build the open end again; the index of the first piece that is new."""
        if self.view.role == "user":
            self.has_moved_caret = False
            return len(self.items)
        before, caret = len(self.items), self._caret
        if self._caret:
            self._caret.has_caret, self._caret = False, None
        first = min(self._read_head(), self._read_texts())
        aside = self._aside.items if self._aside else []
        made = [*self._head, *aside, *self._body.items]
        self._add_open_end(made)
        self._add_footer(made)
        first = min(first, before)
        self.has_moved_caret = first > 0 and made[first - 1] is caret
        self.items[first:] = made[first:]
        self._own(first)
        return first

    def _read_head(self) -> int:
        """The first piece of the head that is new or has another look; a large number where none has."""
        if self._thinking and self.thought not in self._head:
            self._add_thought()
            return len(self._head) - 1
        if self.thought is not None and self._thinking:
            self._has_toggled |= self.thought.set(self.view.thinking_s, is_running=self._is_thinking)
        is_changed, self._has_toggled = self._has_toggled, False
        return len(self._head) - 1 if is_changed else 1 << 30

    def _read_texts(self) -> int:
        """Read on in the opened thought, then in the answer; the first piece that is new."""
        first, aside = len(self._head), self._aside
        if aside is not None and (self._is_thinking or not aside.is_finished):
            place = aside.read(is_open=self._is_thinking)
            self._body.read(is_open=self.is_open)
            return first + place
        first += len(aside.items) if aside else 0
        return first + self._body.read(is_open=self.is_open)

    def last_code(self) -> CodeSource | None:
        """The last block of code in the answer."""
        return self._body.last_code()

    def _add_open_end(self, made: list[Item]) -> None:
        """The caret, in the last words or where the first will be."""
        if not self.is_open:
            return
        last = made[-1] if made else None
        if isinstance(last, ProseItem | CodeItem):
            last.has_caret = True
            self._caret = last
        elif not isinstance(last, ThoughtItem):
            made.append(WaitingItem(self._waiting_words(tr("Reading your message…"))))

    def _waiting_words(self, reading: str) -> str:
        """What holds up an answer that stands still, "" where nothing is known of it."""
        status, stats = self.view.status, self.view.stats
        if status == "reading" and stats:
            return f"{reading} {stats}"
        return stats if status == "waiting" else ""

    def _add_footer(self, made: list[Item]) -> None:
        view, has_text = self.view, self._body.has_read
        if self.has_unread or (made and isinstance(made[-1], WaitingItem)):
            return
        stats = self._waiting_words(tr("Reading the chat…")) if view.status == "reading" else view.stats
        branch = view.branch, view.branches
        if stats or (has_text and view.status != "reading") or view.branches > 1:
            actions = [COPY_MESSAGE, EDIT] if has_text and not self.is_open else []
            actions += [] if self.is_open else [REGENERATE]
            actions += [CONTINUE] if self.can_go_on else []
            made.append(StatsItem(stats, actions, branch, view.details))
        marker = self._marker()
        if marker:
            marker.gap = GAP if has_text else MESSAGE_GAP
            made.append(marker)

    def _marker(self) -> MarkerItem | None:
        """The sentence below an answer that did not end by itself."""
        has_text, link = self._body.has_read, CONTINUE if self.can_go_on else ""
        match self.view.status:
            case "stopped":
                return MarkerItem(_stopped_words(self.view.stats), "square", "text3", link)
            case "failed":
                words = tr("Could not finish. The answer so far is kept.")
                words = words if has_text else tr("No answer was written.")
                return MarkerItem(words, "circle-x", "bad", link)
            case "length":
                return MarkerItem(tr("Longest answer length reached"), "info", link=link)
            case "context":
                room = MAKE_ROOM if self.is_last else ""
                return MarkerItem(tr("Context full: the answer ends here"), "scissors", "warn", room)
            case "done" if not has_text and self.thought is not None:
                words = tr("The model ended its answer after thinking, without writing one")
                return MarkerItem(words, "info")
            case "done" if not has_text:
                return MarkerItem(tr("The model ended its answer without writing anything"), "info")
        return None


def _asked(view: MessageView, opened_files: Collection[int]) -> list[Item]:
    """What a person attached, and what they typed, as typed."""
    files, typed = parse(view.text)
    actions = MessageActions(
        () if view.status == "queued" else (COPY_MESSAGE, EDIT), (view.branch, view.branches)
    )
    items: list[Item] = []
    for number, file in enumerate(files):
        is_open, is_alone = number in opened_files, not typed and number == len(files) - 1
        chip = AttachmentItem(file, number, is_open=is_open, actions=actions if is_alone else None)
        chip.is_queued = view.status == "queued"
        items += [chip, *(opened(file) if is_open else ())]
    if typed or not files:
        items += _bubbles(view, typed, actions)
    return items


def _bubbles(view: MessageView, typed: str, actions: MessageActions) -> list[Item]:
    """What a person typed, as typed."""
    pieces = split_plain(visible(typed.replace("\r\n", "\n")))
    shape = BubbleShape(view.status == "queued", len(pieces) == 1, actions)
    last = len(pieces) - 1
    return [
        BubbleItem(piece, shape, is_first=index == 0, is_last=index == last)
        for index, piece in enumerate(pieces)
    ]


def _stopped_words(stats: str) -> str:
    """With how many tokens were written, where the figures begin with them."""
    tokens = _NUM_TOKENS.match(stats)
    if tokens is None:
        return tr("Stopped by you")
    return tr("Stopped by you after %n token(s)", "", int(re.sub(r"\D", "", tokens[1])))
