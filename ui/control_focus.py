"""Which control inside a message has the keyboard. Knows pieces and their controls, not what these do."""

from __future__ import annotations

from ui.blocks import Control, Item
from ui.message import MessageItems


def controls_of(message: MessageItems) -> list[tuple[Item, Control]]:
    """All that can be pressed in a message, from its first piece to its last."""
    return [(item, control) for item in message.items for control in item.controls()]


class ControlFocus:
    """A place among the controls of one message; before the first there is none."""

    def __init__(self) -> None:
        self._place = -1

    def leave(self) -> None:
        """No control has the keyboard."""
        self._place = -1

    def of(self, message: MessageItems | None) -> tuple[Item, Control] | None:
        """The control of ``message`` that has the keyboard, with its piece."""
        found = controls_of(message) if message is not None else []
        return found[self._place] if 0 <= self._place < len(found) else None

    def move(self, message: MessageItems, step: int) -> tuple[Item, Control] | None:
        """Go to the next control, or with -1 to the one before; None at the ends: the keyboard leaves."""
        self._place = max(-1, self._place + step)
        found = self.of(message)
        if found is None:
            self.leave()
        return found
