"""Other wordings and other answers in the shown chat: each is a branch, nothing is overwritten.

A message is edited in the composer, which gets back afterwards what was typed there before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from app.answer_desk import ABOUT_ANSWER
from app.conversation import ELSEWHERE, Conversation, Turn
from app.store_lane import StoreLane
from engine.words import tr
from ui.main_window import MainWindow
from ui.values import NoticeView

if TYPE_CHECKING:
    from app.chat_desk import ChatDesk


class BranchDesk(QObject):
    """Edits, regenerates, and goes from branch to branch."""

    def __init__(self, window: MainWindow, store: StoreLane, chats: ChatDesk) -> None:
        super().__init__()
        self._window = window
        self._store = store
        self._chats = chats
        self._edited_id: str | None = None
        self.held_text = ""  # what was typed before a message was edited
        window.chats.edit_requested.connect(self.edit)
        window.chats.edit_cancelled.connect(self.cancel)
        window.chats.regenerate_requested.connect(self.regenerate)
        window.chats.branch_requested.connect(self.step)

    @property
    def is_editing(self) -> bool:
        """Whether the composer holds a message that is already there."""
        return self._edited_id is not None

    def edit(self, turn_id: str) -> None:
        """Put a message into the composer."""
        turn = self._turn(turn_id)
        if turn is None or turn.status in ("reading", "writing", ELSEWHERE):
            return
        queued_id = self._chats.queue.waiting_in(turn.chat_id)
        if queued_id not in (None, turn_id):
            self._say_waiting()
            return
        if not self.is_editing:
            self.held_text = self._window.composer_text()
        self._edited_id = turn_id
        self._window.chats.begin_edit(turn_id, is_answer=turn.role != "user")
        self._window.set_composer_text(turn.content)
        self._window.focus_composer()

    def edit_last(self) -> None:
        """Edit the user's last message."""
        conversation = self._chats.current_conversation
        asked = [turn.id for turn in conversation.path() if turn.role == "user"] if conversation else []
        if asked:
            self.edit(asked[-1])

    def cancel(self) -> None:
        """Leave the message as it is; what was typed before comes back."""
        if self.is_editing:
            self.forget()
            self._window.set_composer_text(self.held_text)
            self._window.focus_composer()

    def forget(self) -> None:
        """No message is edited any more; the composer is somebody else's."""
        if self.is_editing:
            self._edited_id = None
            self._window.chats.end_edit()

    def submit(self, text: str) -> None:
        """Take the new wording: a question is asked again with it, an answer stands beside the old one."""
        turn = self._turn(self._edited_id or "")
        conversation = self._chats.current_conversation
        self.cancel()
        if turn is None or conversation is None or not text.strip() or text == turn.content:
            return
        if turn.id == self._chats.queue.waiting_in(turn.chat_id):
            self._chats.queue.change(conversation, text)
        elif turn.role == "user":
            conversation.rewind(turn.parent_id)
            self._show(conversation)
            self._chats.send_to(conversation, text)
        else:
            branch = conversation.branch(turn.id, text)
            self._store.write(branch.chat_id, lambda store: store.add_message(branch))
            self._show(conversation)

    def regenerate(self, turn_id: str) -> None:
        """Another answer to the question of an answer; of the last one where ``turn_id`` is empty."""
        conversation = self._chats.current_conversation
        if conversation is None:
            return
        answers = [turn.id for turn in conversation.path() if turn.role == "assistant"]
        turn = self._turn(turn_id or (answers[-1] if answers else ""))
        question = self._turn(turn.parent_id or "") if turn else None
        if turn is None or question is None or question.role != "user" or turn.role == "user":
            return
        if self._chats.queue.waiting_in(turn.chat_id) is not None:
            self._say_waiting()
            return
        if not self._chats.can_answer(turn.chat_id):
            self._chats.wake()
            title, text = tr("There is no other answer yet."), tr("It needs a model that is ready and free.")
            self._window.show_notice(NoticeView("info", title, text, key=ABOUT_ANSWER))
            return
        conversation.rewind(question.id)
        self._show(conversation)
        self._chats.answer_again(conversation, question)

    def step(self, turn_id: str, by: int) -> None:
        """Go to the next branch at a message, or with -1 to the one before."""
        conversation = self._chats.current_conversation
        if conversation is None or self._turn(turn_id) is None:
            return
        place = conversation.siblings(turn_id)
        at = [turn.id for turn in place].index(turn_id) + by
        if conversation.step(turn_id, by):
            self.cancel()
            self._chats.keep_branch(conversation)
            self._show(conversation)
            self._window.chats.reveal(place[at].id)

    def _say_waiting(self) -> None:
        title = tr("A message waits in this chat.")
        text = tr("It goes first; Up in the empty message field takes it back.")
        self._window.show_notice(NoticeView("info", title, text, key=ABOUT_ANSWER))

    def _show(self, conversation: Conversation) -> None:
        self._chats.answers.show(conversation)

    def _turn(self, turn_id: str) -> Turn | None:
        """A turn of the shown path."""
        conversation = self._chats.current_conversation
        if conversation is None or not conversation.is_on_path(turn_id):
            return None
        return conversation.turn(turn_id)
