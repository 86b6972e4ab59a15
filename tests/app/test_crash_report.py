"""A crash leaves a report that the next start offers; an end and a kill leave none."""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from app.crash_report import LAST, CrashReport

RUN = """
import sys, time
from pathlib import Path
from app.crash_report import CrashReport
report = CrashReport(Path(sys.argv[1]))
report.begin()
print("running", flush=True)
{what}
"""


@pytest.fixture(autouse=True)
def _faults_of_the_tests_themselves(monkeypatch: pytest.MonkeyPatch) -> None:
    """A crash of the tests is still told where pytest wants it told."""
    monkeypatch.setattr(faulthandler, "enable", lambda *_, **__: None)
    monkeypatch.setattr(faulthandler, "disable", lambda: None)


@contextmanager
def run(folder: Path, what: str) -> Iterator[subprocess.Popen[str]]:
    """A program with a report that does ``what``; it has begun."""
    command = [sys.executable, "-c", RUN.format(what=what), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "running\n"
        yield program


def next_start(folder: Path) -> str:
    report = CrashReport(folder)
    found = report.begin()
    report.end()
    return found


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_a_crash_leaves_a_report_that_is_offered_once_and_kept(tmp_path: Path) -> None:
    with run(tmp_path, "import ctypes; ctypes.string_at(0)") as program:
        assert program.wait() != 0
    found = next_start(tmp_path)
    assert "Fatal Python error: Segmentation fault" in found
    assert "string_at" in found
    assert "decodeck" in found.splitlines()[1]
    assert next_start(tmp_path) == ""
    assert left(tmp_path) == [LAST]
    assert (tmp_path / LAST).read_text("utf-8") == found


def test_an_orderly_end_leaves_nothing(tmp_path: Path) -> None:
    with run(tmp_path, "report.end()") as program:
        assert program.wait() == 0
    assert next_start(tmp_path) == ""
    assert left(tmp_path) == []


def test_a_program_that_was_killed_has_not_crashed(tmp_path: Path) -> None:
    with run(tmp_path, "time.sleep(60)") as program:
        program.kill()
    assert next_start(tmp_path) == ""
    assert left(tmp_path) == []


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such signals")
def test_a_program_that_is_still_running_keeps_its_report(tmp_path: Path) -> None:
    with run(tmp_path, "time.sleep(60)") as program:
        assert next_start(tmp_path) == ""
        os.kill(program.pid, signal.SIGSEGV)
    assert "Segmentation fault" in next_start(tmp_path)


def test_without_a_folder_there_is_no_report_and_no_harm(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    assert next_start(tmp_path / "file") == ""
