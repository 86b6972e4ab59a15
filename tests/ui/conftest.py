"""Fixtures of the widget tests: every test starts in the dark theme, and time is a tick of the clock."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtCore import QEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from tests.ui.transcripts import LONG, say, settle
from ui import theme
from ui.transcript import Transcript


@pytest.fixture(autouse=True)
def _dark_theme(qapp: QApplication) -> None:
    """What the tests before have closed goes first: Qt deletes it with a loop that not every test runs, and a
    change of theme would give each of those windows its colours too.
    """
    QApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete.value)
    if theme.notifier().choice != "dark":
        theme.apply(qapp, "dark")


@pytest.fixture
def tick() -> Callable[[int], None]:
    """Let the shared clock fire n times without waiting."""

    def fire(times: int = 1) -> None:
        for _ in range(times):
            theme.clock().timeout.emit()

    return fire


@pytest.fixture
def transcript(qtbot: QtBot) -> Transcript:
    made = Transcript()
    qtbot.addWidget(made)
    made.resize(840, 600)
    made.show()
    return made


@pytest.fixture
def writing(transcript: Transcript, qtbot: QtBot) -> Transcript:
    transcript.show_messages([say("user", "Go"), say("assistant", LONG, "writing", "a")])
    settle(transcript, qtbot)
    return transcript
