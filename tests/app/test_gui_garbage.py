"""Dead cycles are collected on the GUI thread, whoever allocates."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterator

import pytest
from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot

from app.gui_garbage import GuiGarbage


class Node:
    """A link of a cycle that notes where it dies."""

    def __init__(self, deaths: list[str]) -> None:
        self.deaths = deaths
        self.itself = self

    def __del__(self) -> None:
        self.deaths.append(threading.current_thread().name)


@pytest.fixture
def owner() -> Iterator[QObject]:
    was_enabled = gc.isenabled()
    yield QObject()
    if was_enabled:
        gc.enable()


def test_an_allocating_thread_collects_nothing_and_the_timer_does(owner: QObject, qtbot: QtBot) -> None:
    gc.collect()
    garbage = GuiGarbage(owner)
    deaths: list[str] = []
    kept: list[list[int]] = []

    def allocate() -> None:
        for _ in range(20):
            Node(deaths)
        kept.extend([] for _ in range(200_000))

    thread = threading.Thread(target=allocate, name="allocating")
    thread.start()
    thread.join()
    assert deaths == []
    garbage.collect()
    assert deaths == ["MainThread"] * 20


def test_little_garbage_is_left_alone(owner: QObject) -> None:
    garbage = GuiGarbage(owner)
    gc.collect()
    deaths: list[str] = []
    Node(deaths)
    garbage.collect()
    assert deaths == []
