"""Fixtures of the widget tests: every test starts in the dark theme, and time is a tick of the clock."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from PySide6.QtWidgets import QApplication

from ui import theme


@pytest.fixture(autouse=True)
def _dark_theme(qapp: QApplication) -> None:
    if theme.notifier().choice != "dark":
        theme.apply(qapp, "dark")


@pytest.fixture
def tick() -> Callable[[int], None]:
    """Let the shared clock fire n times without waiting."""

    def fire(times: int = 1) -> None:
        for _ in range(times):
            theme.clock().timeout.emit()

    return fire
