"""The threads beside the window: order, lanes, callbacks on the window's thread, and the end."""

from __future__ import annotations

import contextlib
import gc
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app.io_thread import DOWNLOAD, IoThread
from app.store import Store
from engine.errors import WishError
from engine.events import Failed


@pytest.fixture
def io(qtbot: QtBot) -> Iterator[IoThread]:
    thread = IoThread()
    yield thread
    thread.stop()


def test_a_result_arrives_on_the_thread_of_the_window(qtbot: QtBot, io: IoThread) -> None:
    seen: list[tuple[int, int]] = []
    io.submit(threading.get_ident, on_done=lambda worker: seen.append((worker, threading.get_ident())))
    qtbot.waitUntil(lambda: bool(seen))
    ((worker, here),) = seen
    assert here == threading.get_ident() != worker


def test_jobs_of_one_lane_run_in_order_on_one_thread(qtbot: QtBot, io: IoThread) -> None:
    seen: list[tuple[int, int]] = []
    for number in range(50):
        io.submit(lambda n: (n, threading.get_ident()), number, on_done=seen.append)
    qtbot.waitUntil(lambda: len(seen) == 50)
    assert [number for number, _ in seen] == list(range(50))
    assert len({thread for _, thread in seen}) == 1


def test_a_download_does_not_hold_up_the_database(qtbot: QtBot, io: IoThread) -> None:
    go_on = threading.Event()
    seen: list[str] = []
    io.submit(go_on.wait, 10, on_done=lambda _: seen.append("download"), lane=DOWNLOAD)
    io.submit(lambda: "database", on_done=seen.append)
    qtbot.waitUntil(lambda: bool(seen))
    assert seen == ["database"]
    go_on.set()
    qtbot.waitUntil(lambda: len(seen) == 2)


def test_an_expected_error_arrives_as_its_words(qtbot: QtBot, io: IoThread) -> None:
    def refuse() -> None:
        raise WishError("No such thing.", "Try another.")

    seen: list[Failed] = []
    io.submit(refuse, on_error=seen.append)
    qtbot.waitUntil(lambda: bool(seen))
    assert seen == [Failed(None, "setting", "No such thing.", "Try another.")]


def test_a_bug_is_logged_and_the_lane_goes_on(
    qtbot: QtBot, io: IoThread, caplog: pytest.LogCaptureFixture
) -> None:
    seen: list[object] = []
    io.submit(lambda: 1 // 0, on_error=seen.append)
    io.submit(lambda: 1 // 0)  # nobody listens: it is only logged
    io.submit(lambda: "still here", on_done=seen.append)
    qtbot.waitUntil(lambda: len(seen) == 2)
    failed, last = seen
    assert isinstance(failed, Failed)
    assert (failed.kind, last) == ("bug", "still here")
    assert "ZeroDivisionError" in failed.details
    assert caplog.text.count("a job failed") == 2


class PanicError(BaseException):
    """What a library written in Rust raises where it should not."""


def test_a_panic_of_a_library_is_a_bug_and_the_lane_goes_on(qtbot: QtBot, io: IoThread) -> None:
    def panic() -> None:
        raise PanicError("index out of bounds")

    seen: list[object] = []
    io.submit(panic, on_error=seen.append)
    io.submit(lambda: "still here", on_done=seen.append)
    qtbot.waitUntil(lambda: len(seen) == 2)
    failed, last = seen
    assert isinstance(failed, Failed)
    assert (failed.kind, last) == ("bug", "still here")
    assert "index out of bounds" in failed.details


def test_nothing_of_a_failed_job_stays_alive(qtbot: QtBot, io: IoThread) -> None:
    class Big:
        pass

    def fail(big: Big) -> None:
        raise WishError("no")

    big = Big()
    alive = weakref.ref(big)
    seen: list[object] = []
    io.submit(fail, big, on_error=seen.append)
    del big
    qtbot.waitUntil(lambda: bool(seen))
    qtbot.waitUntil(lambda: gc.collect() >= 0 and alive() is None)


def test_a_value_can_be_posted_from_any_thread(qtbot: QtBot, io: IoThread) -> None:
    seen: list[tuple[int, int]] = []

    def work() -> None:
        for number in range(3):
            io.post(lambda value: seen.append((value, threading.get_ident())), number)

    io.submit(work, lane=DOWNLOAD)
    qtbot.waitUntil(lambda: len(seen) == 3)
    assert seen == [(number, threading.get_ident()) for number in range(3)]


def test_stop_finishes_the_database_and_drops_waiting_downloads(io: IoThread) -> None:
    done: list[object] = []
    started, go_on = threading.Event(), threading.Event()

    def load() -> None:
        started.set()
        go_on.wait(10)

    io.submit(load, lane=DOWNLOAD)
    io.submit(done.append, "second download", lane=DOWNLOAD)
    for number in range(20):
        io.submit(done.append, number)
    assert started.wait(10)
    go_on.set()
    assert io.stop()
    assert done == list(range(20))


def test_stop_does_not_wait_for_a_stuck_job(io: IoThread) -> None:
    go_on = threading.Event()
    io.submit(go_on.wait, 10)
    assert not io.stop(timeout_s=0.05)
    go_on.set()


def test_after_stop_no_callback_runs_and_no_job_begins(qtbot: QtBot, io: IoThread) -> None:
    seen: list[object] = []
    io.submit(lambda: "late", on_done=seen.append)
    assert io.stop()
    io.submit(seen.append, "later")
    io.post(seen.append, "latest")
    with qtbot.waitSignal(io._called, timeout=1000):
        io._called.emit(None)
    qtbot.wait(0)
    assert seen == []


def test_a_store_lives_on_its_lane(qtbot: QtBot, io: IoThread, tmp_path: Path) -> None:
    stores: list[Store] = []
    io.submit(Store, tmp_path / "chats.db", on_done=stores.append)
    qtbot.waitUntil(lambda: bool(stores))
    (store,) = stores
    io.submit(store.create_chat, "t", "c")
    io.submit(store.close)
    assert io.stop()
    with contextlib.closing(Store(tmp_path / "chats.db")) as again:
        assert len(again.list_chats()) == 1
