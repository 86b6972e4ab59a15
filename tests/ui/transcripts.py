"""What the tests of the transcript share: messages, and places in it."""

from __future__ import annotations

from PySide6.QtCore import QPoint
from pytestqt.qtbot import QtBot

from ui.blocks import Item
from ui.chat_values import MessageView
from ui.transcript import Transcript

LONG = "\n\n".join(f"Paragraph {number} with some words in it." for number in range(120))


def say(role: str, text: str, status: str = "done", name: str = "") -> MessageView:
    return MessageView(name or role, role, text, status)


def settle(transcript: Transcript, qtbot: QtBot) -> None:
    qtbot.waitUntil(lambda: not transcript.is_busy, timeout=30_000)


def find(transcript: Transcript, kind: type[Item]) -> int:
    return next(index for index, item in enumerate(transcript.flow.items) if isinstance(item, kind))


def point_of(transcript: Transcript, index: int, dx: float, dy: float) -> QPoint:
    return transcript.item_rect(index).topLeft() + QPoint(round(dx), round(dy))
