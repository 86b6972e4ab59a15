"""Texts that were typed and not sent, one for each chat, in memory and in the store."""

from __future__ import annotations

from collections.abc import Mapping

from app.store_lane import StoreLane

NEW_CHAT = ""  # the draft of a chat that has no message yet


class Drafts:
    """Keyed by chat id. Only what changed is written."""

    def __init__(self, store: StoreLane) -> None:
        self._store = store
        self._texts: dict[str, str] = {}

    def load(self, stored: Mapping[str, str]) -> None:
        """Take what the store has; what was typed meanwhile stays."""
        self._texts = dict(stored) | self._texts

    def get(self, chat_id: str | None) -> str:
        return self._texts.get(chat_id or NEW_CHAT, "")

    def save(self, chat_id: str | None, text: str) -> None:
        """Keep ``text``; an empty one forgets."""
        key = chat_id or NEW_CHAT
        if text == self.get(key):
            return
        self._texts[key] = text
        self._store.write(key, lambda store: store.save_draft(key, text))
