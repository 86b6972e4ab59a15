"""Orders and downloads: several at once, paused, resumed by the next run, given up, refused."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from app import download, library_fetch
from app.hub import Hub, RemoteFile, Variant
from app.io_thread import IoThread
from app.library_downloads import Downloads, load, save
from app.library_fetch import Order, fetch_order, order_of
from app.progress import DownloadProgress
from app.transport import DownloadCancelledError, DownloadError
from tests.app.file_server import Handler, fixed
from tests.app.hub_server import COMMIT, PlayedHub, PlayedRepo, send_range
from tests.app.model_bytes import folder_model, gguf_model

REPO = "maker/tiny-GGUF"
LONG_MS = 30_000
BIG = hashlib.shake_128(b"weights").digest(2_000_000)


@pytest.fixture
def models(tmp_path: Path) -> Path:
    return tmp_path / "models"


def ordered(played: PlayedHub, models: Path, files: dict[str, bytes], repo: str = REPO) -> Order:
    played.repos[repo] = PlayedRepo(files)
    listed = Hub().files(repo, threading.Event())
    played.plan.requests.clear()
    return order_of(repo, COMMIT, listed.variants[0], models)


def run(order: Order, reports: list[DownloadProgress] | None = None, token: str = "") -> Path:
    report = reports.append if reports is not None else lambda _: None
    return fetch_order(Hub(token=lambda: token), order, report, threading.Event())


def test_all_files_of_a_model_arrive_in_its_folder_as_one_count(played: PlayedHub, models: Path) -> None:
    parts = {f"Q8/big-0000{n}-of-00003.gguf": BIG[: n * 500_000] for n in (1, 2, 3)}
    order = ordered(played, models, parts)
    reports: list[DownloadProgress] = []
    path = run(order, reports)
    assert path == models / "maker--tiny-GGUF" / "big-00001-of-00003.gguf"
    assert [place.stat().st_size for place in order.places] == [500_000, 1_000_000, 1_500_000]
    done = [each.done_bytes for each in reports]
    assert done == sorted(done) and {each.total_bytes for each in reports} == {3_000_000}


def test_a_folder_model_is_loaded_as_a_folder(played: PlayedHub, models: Path) -> None:
    order = ordered(played, models, folder_model(), "maker/tiny")
    assert run(order) == models / "maker--tiny"
    assert (models / "maker--tiny" / "config.json").read_bytes() == folder_model()["config.json"]


def test_what_is_here_already_is_not_asked_for_again(played: PlayedHub, models: Path) -> None:
    order = ordered(played, models, folder_model(), "maker/tiny")
    run(order)
    played.plan.requests.clear()
    run(order)
    assert played.plan.requests == []


def test_a_broken_shard_is_fetched_again_and_the_others_are_not(played: PlayedHub, models: Path) -> None:
    parts = {f"big-0000{n}-of-00002.gguf": BIG for n in (1, 2)}
    order = ordered(played, models, parts)
    run(order)
    order.places[1].write_bytes(b"x" * len(BIG))
    played.plan.requests.clear()
    run(order)
    assert [path.rpartition("/")[2] for path, _ in played.plan.requests] == ["big-00002-of-00002.gguf"]
    assert order.places[1].read_bytes() == BIG


def test_a_cancelled_shard_goes_on_where_it_stopped(played: PlayedHub, models: Path) -> None:
    order = ordered(played, models, {"tiny.gguf": BIG})
    cancel = threading.Event()

    def stop(progress: DownloadProgress) -> None:
        if progress.done_bytes > 0:
            cancel.set()

    with pytest.raises(DownloadCancelledError):
        fetch_order(Hub(), order, stop, cancel)
    part = download.part_bytes(order.places[0])
    assert 0 < part <= len(BIG) and library_fetch.fetched_bytes(order) == part
    run(order)
    assert order.places[0].read_bytes() == BIG


def flipped(handler: Handler, data: bytes) -> None:
    send_range(handler, data[:1000] + bytes([data[1000] ^ 1]) + data[1001:])


def page(handler: Handler, data: bytes) -> None:
    handler.body(b"<!doctype html>log in", Content_Type="text/html")


def nothing(handler: Handler, data: bytes) -> None:
    handler.body(b"")


def longer(handler: Handler, data: bytes) -> None:
    handler.body(data + b"more")


@pytest.mark.parametrize(
    ("serve", "words"),
    [
        (flipped, "expected content"),
        (page, "web page"),
        (nothing, "empty answer"),
        (longer, "bytes on the server instead of"),
    ],
)
def test_a_server_that_sends_something_else_makes_no_model(
    played: PlayedHub, models: Path, serve: Callable[[Handler, bytes], None], words: str
) -> None:
    order = ordered(played, models, {"tiny.gguf": BIG})
    played.serve = serve
    with pytest.raises(DownloadError, match=words):
        run(order)
    assert not order.target.exists()


@pytest.mark.parametrize(
    ("code", "status", "words", "kind"),
    [
        ("GatedRepo", 403, "licence", "gated"),
        ("EntryNotFound", 404, "was changed", "download"),
        ("RevisionNotFound", 404, "was changed", "download"),
        ("RepoNotFound", 401, "no model", "download"),
    ],
)
def test_a_refused_file_has_its_sentence(
    played: PlayedHub, models: Path, code: str, status: int, words: str, kind: str
) -> None:
    order = ordered(played, models, {"tiny.gguf": BIG})
    played.repos[REPO].refuses = fixed(b"{}", status, X_Error_Code=code)
    with pytest.raises(DownloadError, match=words) as caught:
        run(order)
    assert caught.value.kind == kind


def test_the_token_goes_along_and_not_to_where_the_bytes_are(
    played: PlayedHub, models: Path, make_server: Callable[[], PlayedHub]
) -> None:
    order = ordered(played, models, {"tiny.gguf": BIG})
    other = make_server()
    other.repos = played.repos
    played.elsewhere = other.plan.url
    played.plan.logins.clear()
    run(order, token="hf_a_secret_token")
    assert played.plan.logins == ["Bearer hf_a_secret_token"] and other.plan.logins == [None]


def test_a_full_disk_is_said_before_a_byte_is_asked_for(
    played: PlayedHub, models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = ordered(played, models, {"tiny.gguf": BIG})
    monkeypatch.setattr(download, "_disk_of", lambda folder: (1, 1_000_000))
    with pytest.raises(DownloadError, match="needed"):
        run(order)
    assert played.plan.requests == []


def test_giving_up_frees_the_space_and_leaves_other_models_of_the_folder(
    played: PlayedHub, models: Path
) -> None:
    order = ordered(played, models, {"tiny-Q4_0.gguf": BIG})
    run(order)
    other = order.target.with_name("tiny-Q8_0.gguf")
    other.write_bytes(b"x")
    download.part_of(order.target).write_bytes(b"x")
    library_fetch.discard(order)
    assert [path.name for path in other.parent.iterdir()] == ["tiny-Q8_0.gguf"]


def an_order(models: Path, name: str = "a.gguf") -> Order:
    variant = Variant("Q8_0", (RemoteFile(name, 10, "0" * 64),), True)
    return order_of(REPO, COMMIT, variant, models)


def test_orders_are_kept_for_the_next_run(tmp_path: Path, models: Path) -> None:
    orders = [an_order(models, "a.gguf"), an_order(models, "b.gguf")]
    save(tmp_path / "downloads.json", orders)
    assert load(tmp_path / "downloads.json", models) == orders


@pytest.mark.parametrize(
    "change",
    [
        {"folder": "/etc"},
        {"folder": 3},
        {"files": []},
        {"files": [{"name": "..", "size_bytes": 1}]},
        {"files": [{"name": "a.gguf"}]},
        {"files": [{"name": 3, "size_bytes": 1}]},
        {"more": 1},
    ],
)
def test_an_order_that_was_tampered_with_is_left_out(
    tmp_path: Path, models: Path, change: dict[str, object]
) -> None:
    good, bad = an_order(models, "good.gguf"), library_fetch.to_json(an_order(models)) | change
    value = {"version": 1, "orders": [bad, library_fetch.to_json(good)]}
    (tmp_path / "downloads.json").write_text(json.dumps(value))
    assert load(tmp_path / "downloads.json", models) == [good]


@pytest.mark.parametrize("data", [b"", b"\0" * 99, b"[]", b'{"orders": 3}', b"[" * 99_999])
def test_a_record_that_is_none_is_empty(tmp_path: Path, models: Path, data: bytes) -> None:
    (tmp_path / "downloads.json").write_bytes(data)
    assert load(tmp_path / "downloads.json", models) == []


# The downloads of a window


@pytest.fixture
def io(qtbot: QtBot) -> Iterator[IoThread]:
    thread = IoThread()
    yield thread
    thread.stop()


@pytest.fixture
def make(io: IoThread, models: Path, tmp_path: Path) -> Iterator[Callable[[], Downloads]]:
    made: list[Downloads] = []

    def make() -> Downloads:
        made.append(Downloads(io, Hub(), tmp_path / "downloads.json", models))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def wait(qtbot: QtBot, is_true: Callable[[], bool]) -> None:
    """Longer than Qt's tests do by themselves: bytes and hashes take their time on a busy machine."""
    qtbot.waitUntil(is_true, timeout=LONG_MS)


def states(downloads: Downloads) -> list[str]:
    return [view.progress.state for view in downloads.views]


class Gate:
    """A server that sends the first half and then waits to be let go."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.at_once: list[int] = []
        self._inside = 0
        self._lock = threading.Lock()

    def __call__(self, handler: Handler, data: bytes) -> None:
        with self._lock:
            self._inside += 1
            self.at_once.append(self._inside)
        handler.head(200, len(data))
        handler.wfile.write(data[: len(data) // 2])
        handler.wfile.flush()
        self.open.wait(20)
        with self._lock:
            self._inside -= 1
        handler.wfile.write(data[len(data) // 2 :])


def test_a_download_ends_as_a_model_and_leaves_the_list(
    qtbot: QtBot, played: PlayedHub, models: Path, make: Callable[[], Downloads]
) -> None:
    order, downloads = ordered(played, models, {"tiny.gguf": gguf_model()}), make()
    with qtbot.waitSignal(downloads.done, timeout=LONG_MS) as done:
        downloads.start(order)
    assert done.args == [str(order.target)] and downloads.views == ()


def test_three_run_at_once_and_the_fourth_waits(
    qtbot: QtBot, played: PlayedHub, models: Path, make: Callable[[], Downloads]
) -> None:
    gate, downloads = Gate(), make()
    orders = [ordered(played, models, {"tiny.gguf": BIG}, f"maker/m{n}-GGUF") for n in range(4)]
    played.serve = gate
    for order in orders:
        downloads.start(order)
    wait(qtbot, lambda: states(downloads) == ["running"] * 3 + ["queued"])
    downloads.start(orders[0])  # the same once more changes nothing
    assert len(downloads.views) == 4
    gate.open.set()
    wait(qtbot, lambda: downloads.views == ())
    assert max(gate.at_once) == 3


def test_pause_keeps_what_is_here_and_the_next_run_goes_on(
    qtbot: QtBot, played: PlayedHub, models: Path, make: Callable[[], Downloads]
) -> None:
    gate, downloads = Gate(), make()
    order = ordered(played, models, {"tiny.gguf": BIG})
    played.serve = gate
    downloads.start(order)
    wait(qtbot, lambda: download.part_bytes(order.target) > 0)
    downloads.pause(order.key)
    wait(qtbot, lambda: states(downloads) == ["paused"] and downloads.views[0].progress.done_bytes > 0)
    assert str(order.target) in downloads.unfinished
    gate.open.set()
    later = make()
    later.restore()
    wait(qtbot, lambda: states(later) == ["paused"])
    assert later.views[0].progress.done_bytes == download.part_bytes(order.target)
    played.serve = send_range
    with qtbot.waitSignal(later.done, timeout=LONG_MS):
        later.resume(order.key)
    assert order.target.read_bytes() == BIG


def test_cancel_frees_the_space(
    qtbot: QtBot, played: PlayedHub, models: Path, make: Callable[[], Downloads]
) -> None:
    gate, downloads = Gate(), make()
    order = ordered(played, models, {"tiny.gguf": BIG})
    played.serve = gate
    downloads.start(order)
    wait(qtbot, lambda: download.part_bytes(order.target) > 0)
    downloads.cancel(order.key)
    wait(qtbot, lambda: downloads.views == ())
    assert not Path(order.folder).exists()
    gate.open.set()


def test_a_failed_download_says_why_and_can_be_tried_again(
    qtbot: QtBot, played: PlayedHub, models: Path, make: Callable[[], Downloads]
) -> None:
    downloads, order = make(), ordered(played, models, {"tiny.gguf": BIG})
    played.serve = flipped
    downloads.start(order)
    wait(qtbot, lambda: states(downloads) == ["failed"])
    assert "expected content" in downloads.views[0].progress.message
    played.serve = send_range
    with qtbot.waitSignal(downloads.done, timeout=LONG_MS):
        downloads.resume(order.key)


def test_a_licence_that_is_not_accepted_is_told_apart(
    qtbot: QtBot, played: PlayedHub, models: Path, make: Callable[[], Downloads]
) -> None:
    downloads, order = make(), ordered(played, models, {"tiny.gguf": BIG})
    played.repos[REPO].refuses = fixed(b"{}", 403, X_Error_Code="GatedRepo")
    with qtbot.waitSignal(downloads.refused, timeout=LONG_MS) as refused:
        downloads.start(order)
    assert refused.args == [order.key, REPO]
