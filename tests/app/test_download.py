"""Downloads against a local server: resumed, checked and given up."""

from __future__ import annotations

import errno
import os
import shutil
import threading
import time
from pathlib import Path

import pytest

from app import download
from app.download import DownloadCancelledError, DownloadError, fetch
from app.file_lock import FileLock
from app.progress import DownloadProgress
from tests.app import file_server
from tests.app.downloads import DATA, SHA256, Reports, get, put_part
from tests.app.file_server import Plan

pytestmark = pytest.mark.usefixtures("plain_network")


def test_a_file_arrives_whole_and_leaves_nothing_else_behind(server: Plan, target: Path) -> None:
    reports = Reports()
    assert get(server, target, reports=reports) == target
    assert target.read_bytes() == DATA
    assert [path.name for path in target.parent.iterdir()] == ["model.gguf"]
    assert reports.phases() == ["starting", "running", "checking"]
    assert reports[-1].done_bytes == reports[-1].total_bytes == len(DATA)


def test_a_part_is_continued_with_range(server: Plan, target: Path) -> None:
    put_part(target, DATA[:1_000_000])
    get(server, target)
    assert server.requests == [("/model.gguf", "bytes=1000000-")]
    assert target.read_bytes() == DATA


def test_a_server_that_ignores_range_starts_the_file_anew(server: Plan, target: Path) -> None:
    server.answer = file_server.without_range
    put_part(target, DATA[:1_000_000])
    get(server, target)
    assert len(server.requests) == 1
    assert target.read_bytes() == DATA


def test_a_complete_part_is_checked_and_moved_without_a_request(target: Path) -> None:
    put_part(target, DATA)

    def asked() -> str:
        raise AssertionError("no address is needed")

    fetch(asked, target, size=len(DATA), sha256=SHA256, progress=Reports(), cancel=threading.Event())
    assert target.read_bytes() == DATA


def test_a_complete_target_is_checked_and_kept_without_a_request(server: Plan, target: Path) -> None:
    put_part(target, DATA).rename(target)
    get(server, target)
    assert server.requests == []


def test_a_target_with_other_content_is_replaced(server: Plan, target: Path) -> None:
    put_part(target, bytes(len(DATA))).rename(target)
    get(server, target)
    assert target.read_bytes() == DATA


def test_a_part_longer_than_the_file_is_dropped(server: Plan, target: Path) -> None:
    put_part(target, DATA + b"x")
    get(server, target)
    assert server.requests == [("/model.gguf", None)]
    assert target.read_bytes() == DATA


def test_a_part_is_not_trusted_where_no_hash_can_decide(server: Plan, target: Path) -> None:
    put_part(target, b"of another file")
    get(server, target, sha256=None)
    assert server.requests == [("/model.gguf", None)]
    assert target.read_bytes() == DATA


def test_a_file_of_unknown_size_and_hash_is_fetched(server: Plan, target: Path) -> None:
    reports = Reports()
    get(server, target, size=None, sha256=None, reports=reports)
    assert target.read_bytes() == DATA
    assert reports[-1].total_bytes == len(DATA)


def test_a_damaged_part_is_found_at_the_end_and_fetched_again_once(server: Plan, target: Path) -> None:
    put_part(target, bytes(1_000_000))
    get(server, target)
    assert [asked for _, asked in server.requests] == ["bytes=1000000-", None]
    assert target.read_bytes() == DATA


def test_a_part_beyond_the_servers_file_is_dropped_after_416(server: Plan, target: Path) -> None:
    put_part(target, bytes(len(DATA) + 10))
    get(server, target, size=None)
    assert [asked for _, asked in server.requests] == [f"bytes={len(DATA) + 10}-", None]
    assert target.read_bytes() == DATA


def test_a_flipped_byte_is_refused_by_name_and_nothing_is_kept(server: Plan, target: Path) -> None:
    flipped = bytearray(DATA)
    flipped[2_000_000] ^= 1
    server.files["/model.gguf"] = bytes(flipped)
    with pytest.raises(DownloadError, match=r"model\.gguf does not have the expected content"):
        get(server, target)
    assert list(target.parent.iterdir()) == []


@pytest.mark.parametrize("size", [len(DATA), None])
def test_an_empty_answer_is_named(server: Plan, target: Path, size: int | None) -> None:
    server.answer = file_server.fixed(b"")
    with pytest.raises(DownloadError, match="empty answer"):
        get(server, target, size=size)
    assert not target.exists()


@pytest.mark.parametrize("kind", ["text/html; charset=utf-8", "application/octet-stream"])
@pytest.mark.parametrize("sha256", [SHA256, None])
def test_a_web_page_is_named_and_does_not_touch_the_part(
    server: Plan, target: Path, kind: str, sha256: str | None
) -> None:
    part = put_part(target, DATA[:1000]) if sha256 else download.part_of(target)
    server.answer = file_server.fixed(b"\n<!DOCTYPE html><title>Log in</title>", Content_Type=kind)
    with pytest.raises(DownloadError, match="web page"):
        get(server, target, sha256=sha256)
    assert not target.exists()
    assert not sha256 or part.read_bytes() == DATA[:1000]


def test_a_file_of_another_size_is_refused_before_it_is_downloaded(server: Plan, target: Path) -> None:
    server.files["/model.gguf"] = DATA + b"more"
    with pytest.raises(DownloadError, match=r"3,000,004 bytes on the server instead of 3,000,000"):
        get(server, target)
    assert list(target.parent.iterdir()) == []


def test_an_endless_answer_is_cut_off(server: Plan, target: Path) -> None:
    def endless(handler: file_server.Handler) -> None:
        handler.head(200, None)
        while not handler.plan.stop.is_set():
            handler.wfile.write(bytes(65536))

    server.answer = endless
    with pytest.raises(DownloadError, match="longer on the server"):
        get(server, target)
    assert download.part_bytes(target) == 0


def test_a_broken_connection_is_taken_up_where_it_broke(server: Plan, target: Path) -> None:
    server.answer = file_server.dropping(500_000, times=5)  # more often than delays: progress starts anew
    reports = Reports()
    get(server, target, reports=reports)
    assert target.read_bytes() == DATA
    assert len(server.requests) == 6
    assert server.requests[-1][1] == "bytes=2500000-"
    assert "waiting" in reports.phases()


def test_a_connection_that_always_breaks_at_the_same_place_ends_and_keeps_the_part(
    server: Plan, target: Path
) -> None:
    server.answer = file_server.dropping(0, times=99)
    put_part(target, DATA[:1000])
    with pytest.raises(DownloadError, match="broke off"):
        get(server, target)
    assert len(server.requests) == 4
    assert download.part_bytes(target) == 1000


def test_a_busy_server_is_asked_again_after_a_while(server: Plan, target: Path) -> None:
    def busy_once(handler: file_server.Handler) -> None:
        if len(server.requests) == 1:
            handler.body(b"", 503, Retry_After="0")
        else:
            file_server.serve(handler)

    server.answer = busy_once
    get(server, target)
    assert len(server.requests) == 2


@pytest.mark.parametrize(("status", "words"), [(404, "does not have"), (403, "refuses access"), (418, "418")])
def test_a_refusal_is_named_and_not_repeated(server: Plan, target: Path, status: int, words: str) -> None:
    server.answer = file_server.fixed(b"no", status)
    with pytest.raises(DownloadError, match=words):
        get(server, target)
    assert len(server.requests) == 1


def test_cancel_is_quick_while_the_server_is_silent_and_keeps_the_part(server: Plan, target: Path) -> None:
    server.answer = file_server.stalling(200_000)
    cancel, pressed = threading.Event(), [0.0]

    def act(progress: DownloadProgress) -> None:
        if progress.phase == "running" and not pressed[0]:
            pressed[0] = time.monotonic()
            threading.Timer(0.1, cancel.set).start()

    with pytest.raises(DownloadCancelledError, match=r"Paused at 0 of 3 MB\."):
        get(server, target, cancel=cancel, reports=Reports(act))
    assert time.monotonic() - pressed[0] < 5  # far before the server's 20 s; 0.05 s on a quiet machine
    assert download.part_bytes(target) == 200_000
    assert not target.exists()
    server.answer = file_server.serve
    get(server, target)
    assert server.requests[-1][1] == "bytes=200000-"


def test_cancel_works_while_waiting_for_the_first_answer(server: Plan, target: Path) -> None:
    server.answer = file_server.silent
    cancel = threading.Event()
    threading.Timer(0.1, cancel.set).start()
    began = time.monotonic()
    with pytest.raises(DownloadCancelledError):
        get(server, target, cancel=cancel)
    assert time.monotonic() - began < 5


def test_cancel_works_while_waiting_for_the_next_try(server: Plan, target: Path) -> None:
    server.answer = file_server.dropping(1000, times=9)
    cancel = threading.Event()
    reports = Reports(lambda progress: cancel.set() if progress.phase == "waiting" else None)
    with pytest.raises(DownloadCancelledError):
        get(server, target, cancel=cancel, reports=reports, delays=(60.0,))
    assert download.part_bytes(target) == 1000


def test_cancel_while_checking_keeps_the_part(server: Plan, target: Path) -> None:
    cancel = threading.Event()
    reports = Reports(lambda progress: cancel.set() if progress.phase == "checking" else None)
    with pytest.raises(DownloadCancelledError):
        get(server, target, cancel=cancel, reports=reports)
    assert download.part_bytes(target) == len(DATA)
    assert not target.exists()


def test_the_same_file_has_one_writer(server: Plan, target: Path) -> None:
    target.parent.mkdir()
    with FileLock(target) as lock:
        assert lock.acquire()
        with pytest.raises(DownloadError, match="already being downloaded"):
            get(server, target)
    assert server.requests == []
    get(server, target)


def test_a_part_removed_during_the_download_is_said(server: Plan, target: Path) -> None:
    def act(progress: DownloadProgress) -> None:
        if progress.phase == "checking":
            download.part_of(target).unlink(missing_ok=True)

    with pytest.raises(DownloadError, match="was removed while it was being downloaded"):
        get(server, target, reports=Reports(act))


def test_too_little_space_is_said_before_any_request(
    server: Plan, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(target.anchor)._replace(free=1_000_000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(DownloadError, match=r"67 MB needed, 1 MB free on this disk\."):
        get(server, target)
    assert server.requests == []


def test_space_for_files_on_the_same_disk_is_added_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=150)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    download.require_space([(tmp_path, 100)], margin_bytes=10)
    with pytest.raises(DownloadError, match="needed"):
        download.require_space([(tmp_path, 100), (tmp_path, 100)], margin_bytes=10)


def test_a_disk_that_fills_up_keeps_the_part_and_says_so(
    server: Plan, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = download._Download._append

    def full(self: download._Download, file: object, chunk: bytes, done: int) -> int:
        if done > 1_000_000:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(self, file, chunk, done)  # type: ignore[arg-type]

    with monkeypatch.context() as patch:
        patch.setattr(download._Download, "_append", full)
        with pytest.raises(DownloadError, match=r"The disk is full: model\.gguf"):
            get(server, target)
    assert download.part_bytes(target) > 1_000_000
    get(server, target)
    assert target.read_bytes() == DATA


def test_a_failed_move_shows_its_cause_and_keeps_the_part(
    server: Plan, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(part: Path, goal: Path) -> None:
        raise PermissionError(errno.EACCES, "in use by another program")

    monkeypatch.setattr(download, "move_into_place", locked)
    with pytest.raises(DownloadError, match="in use by another program"):
        get(server, target)
    assert download.part_bytes(target) == len(DATA)


def test_a_folder_that_cannot_be_made_is_said(server: Plan, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(DownloadError, match="cannot be written"):
        get(server, tmp_path / "file" / "model.gguf")


def test_a_file_address_is_copied_and_resumed(tmp_path: Path, target: Path) -> None:
    source = tmp_path / "a wheel.bin"
    source.write_bytes(DATA)
    put_part(target, DATA[:1000])
    fetch(
        source.as_uri(),
        target,
        size=len(DATA),
        sha256=SHA256,
        progress=Reports(),
        cancel=threading.Event(),
    )
    assert target.read_bytes() == DATA
    with pytest.raises(DownloadError, match=r"nothing\.bin cannot be read"):
        fetch((tmp_path / "nothing.bin").as_uri(), target, progress=Reports(), cancel=threading.Event())


def test_a_redirect_is_followed(server: Plan, target: Path) -> None:
    def moved(handler: file_server.Handler) -> None:
        if handler.path == "/old":
            handler.body(b"", 302, Location="/model.gguf")
        else:
            file_server.serve(handler)

    server.answer = moved
    get(server, target, path="/old")
    assert target.read_bytes() == DATA


def unreadable(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading ``path`` fails as on a bad disk; writing works."""
    original = Path.open

    def refuse(self: Path, mode: str = "r", *args: object, **kwargs: object) -> object:
        if self == path and mode == "rb":
            raise OSError(errno.EIO, os.strerror(errno.EIO), str(path))
        return original(self, mode, *args, **kwargs)  # type: ignore[call-overload]

    monkeypatch.setattr(Path, "open", refuse)


def test_a_target_that_cannot_be_read_is_told_in_words(
    server: Plan, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_part(target, DATA).rename(target)
    unreadable(target, monkeypatch)
    with pytest.raises(DownloadError, match=os.strerror(errno.EIO)):
        get(server, target)


def test_a_part_that_cannot_be_read_back_is_told_in_words(
    server: Plan, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unreadable(download.part_of(target), monkeypatch)
    with pytest.raises(DownloadError, match=os.strerror(errno.EIO)):
        get(server, target)


def test_a_disk_that_does_not_tell_its_free_space_is_told_in_words(
    server: Plan, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: Path) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(shutil, "disk_usage", refuse)
    with pytest.raises(DownloadError, match="no permission"):
        get(server, target)
    with pytest.raises(DownloadError, match="no permission"):
        download.require_space([(target.parent, 1)])


def test_a_wait_says_why(server: Plan, target: Path) -> None:
    server.answer = file_server.dropping(1_000_000, 1)
    reports = Reports()
    get(server, target, reports=reports)
    (note,) = {report.note for report in reports if report.phase == "waiting"}
    assert "broke off" in note and note.endswith("Trying again…")
    assert {report.note for report in reports if report.phase != "waiting"} == {""}
