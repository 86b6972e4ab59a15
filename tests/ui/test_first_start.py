"""The first-start screen: what it says about the download, and when Enter starts it."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QLocale
from PySide6.QtWidgets import QAbstractButton
from pytestqt.qtbot import QtBot

from ui.controls import Button
from ui.first_start import FirstStart, describe_progress, format_bytes
from ui.label import Label
from ui.values import DownloadView, MachineView

MB = 1_000_000


@pytest.fixture(autouse=True)
def _english() -> None:
    QLocale.setDefault(QLocale(QLocale.Language.English))


@pytest.fixture
def screen(qtbot: QtBot) -> FirstStart:
    screen = FirstStart()
    qtbot.addWidget(screen)
    screen.resize(800, 600)
    screen.show()
    return screen


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


@pytest.mark.parametrize(
    ("num_bytes", "expected"),
    [(98_362_432, "98 MB"), (990 * MB, "990 MB"), (3_100 * MB, "3.10 GB"), (16_500 * MB, "16.5 GB")],
)
def test_sizes_are_decimal_with_two_places_below_10_gb(num_bytes: int, expected: str) -> None:
    assert plain(format_bytes(num_bytes)) == expected


@pytest.mark.parametrize(
    ("view", "left", "right"),
    [
        (DownloadView("running", 36 * MB, 84 * MB, 6.1e6, 8), "36 of 84 MB · 42%", "6.1 MB/s · 8 s left"),
        (DownloadView("running", 36 * MB, 84 * MB), "36 of 84 MB · 42%", ""),
        (DownloadView("running", 36 * MB, 84 * MB, 1e5, 480), "36 of 84 MB · 42%", "0.1 MB/s · 8 min left"),
        (DownloadView("paused", 36 * MB, 84 * MB), "Paused at 36 of 84 MB", ""),
        (DownloadView("starting", 0, 84 * MB), "Starting…", ""),
        (DownloadView("starting", 36 * MB, 84 * MB, message="It broke off."), "It broke off.", ""),
        (DownloadView("checking", 84 * MB, 84 * MB), "Checking the file…", ""),
        (DownloadView("here", 0, 84 * MB), "It is on this computer already.", ""),
        (DownloadView("failed", 0, 84 * MB, message="No connection."), "", ""),
    ],
)
def test_each_state_has_its_line(view: DownloadView, left: str, right: str) -> None:
    assert tuple(map(plain, describe_progress(view))) == (left, right)


@pytest.mark.parametrize(
    ("state", "can_start"),
    [
        ("offered", True),
        ("paused", True),
        ("failed", True),
        ("here", True),
        ("starting", False),
        ("running", False),
        ("checking", False),
        ("done", False),
    ],
)
def test_enter_starts_the_download_only_where_it_is_on_offer(
    screen: FirstStart, qtbot: QtBot, state: str, can_start: bool
) -> None:
    started: list[bool] = []
    screen.starter_requested.connect(lambda: started.append(True))
    screen.set_download(DownloadView(state, 36 * MB, 84 * MB))
    assert screen.start() is can_start
    assert bool(started) is can_start


def test_without_a_starter_nothing_is_offered(screen: FirstStart) -> None:
    screen.set_download(None)
    assert not screen.start()
    assert screen.starter.isHidden()


def test_cancel_is_there_exactly_while_it_runs(screen: FirstStart, qtbot: QtBot) -> None:
    cancel = next(
        button
        for button in screen.findChildren(QAbstractButton)
        if button.accessibleName() == "Cancel the download"
    )
    assert cancel.isHidden()
    screen.set_download(DownloadView("running", 1, 2))
    with qtbot.waitSignal(screen.download_cancelled):
        cancel.click()


def test_the_machine_is_read_out(screen: FirstStart) -> None:
    screen.set_machine(MachineView("Two cores", "16 GB RAM"))
    assert screen.machine.accessibleDescription() == "Two cores, 16 GB RAM"


def test_a_starter_that_is_here_is_not_called_a_download(screen: FirstStart) -> None:
    screen.set_download(DownloadView("here", 0, 84 * MB))
    words = [label.text() for label in screen.starter.findChildren(Label) if not label.isHidden()]
    assert not any("MB" in each for each in words)
    assert [each.text() for each in screen.starter.findChildren(Button) if each.text()] == ["Use it"]
