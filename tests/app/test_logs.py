"""The log: written, rotated, free of passwords, and never in the way."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from app import logs, paths


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    yield
    logs.stop()


def test_our_own_lines_and_warnings_of_libraries_are_written() -> None:
    path = logs.start()
    assert path == paths.log_dir() / "decodeck.log"
    logging.getLogger("app.download").info("looking around")
    logging.getLogger("httpx2").info("GET somewhere")
    logging.getLogger("httpx2").warning("trouble")
    text = path.read_text()
    assert "looking around" in text
    assert "trouble" in text
    assert "GET somewhere" not in text


def test_passwords_of_addresses_are_left_out_of_messages_and_tracebacks() -> None:
    path = logs.start()
    assert path is not None
    try:
        raise OSError("cannot reach http://me:secret@proxy:8080/")
    except OSError:
        logging.getLogger("app").exception("at https://user:secret@host/simple")
    text = path.read_text()
    assert "secret" not in text
    assert "https://host/simple" in text
    assert "http://proxy:8080/" in text


def test_a_folder_that_cannot_be_written_stops_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"")
    monkeypatch.setenv("DECODECK_HOME", str(tmp_path / "file"))
    assert logs.start() is None
    logging.getLogger("app").warning("nobody hears this")


def test_a_full_disk_loses_lines_and_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = logs.start()
    assert path is not None
    (handler,) = [each for each in logging.getLogger().handlers if isinstance(each, logs._QuietHandler)]

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(handler, "flush", full)
        logging.getLogger("app").warning("lost")
    logging.getLogger("app").warning("kept")
    assert "kept" in path.read_text()
    assert capsys.readouterr().err == ""


def test_old_lines_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "_MAX_BYTES", 2000)
    path = logs.start()
    assert path is not None
    for number in range(200):
        logging.getLogger("app").info("line %d of many", number)
    files = list(paths.log_dir().iterdir())
    assert len(files) == 4
    assert all(file.stat().st_size <= 2000 for file in files)
    assert "line 199" in path.read_text()


def test_what_ends_a_thread_is_logged_until_the_log_is_closed() -> None:
    before = threading.excepthook
    path = logs.start()
    assert path is not None

    def run(error: BaseException) -> None:
        def fail() -> None:
            raise error

        thread = threading.Thread(target=fail, name="io-test")
        thread.start()
        thread.join()

    run(ValueError("at http://me:secret@host/"))
    run(SystemExit())
    text = path.read_text()
    assert "the thread io-test ended" in text
    assert "ValueError" in text
    assert "secret" not in text
    assert text.count("ended") == 1
    logs.start()
    logs.stop()
    assert threading.excepthook is before


def test_a_second_start_replaces_the_first() -> None:
    logs.start()
    path = logs.start()
    assert path is not None
    logging.getLogger("app").info("once")
    assert path.read_text().count("once") == 1


def test_no_error_carries_the_text_of_a_chat_into_the_log() -> None:
    path, typed = logs.start(), "a secret question".upper()
    assert path is not None
    try:
        try:
            raise KeyError(typed)
        except KeyError as error:
            error.add_note(typed)
            raise ValueError(typed) from error
    except ValueError:
        logging.getLogger("app").exception("an engine call failed")
    text = path.read_text()
    assert typed not in text
    assert text.index("KeyError:") < text.index("ValueError:")
    assert "test_logs.py" in text
