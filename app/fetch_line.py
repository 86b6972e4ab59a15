"""How far the starter's download is, on a terminal's error stream. Knows words and a stream alone."""

from __future__ import annotations

import sys
from typing import TextIO

from app.progress import DownloadProgress

_LOG_PERCENT = 10  # where there is no terminal, a line for so much
_VERBS = {"starting": "connecting", "running": "downloading", "waiting": "waiting", "checking": "checking"}


def fetch_words(progress: DownloadProgress) -> str:
    """ "downloading 36 of 93 MB · 38%"; megabytes are those of the download, which checking counts twice."""
    percent = 100 * progress.done_bytes // max(1, progress.total_bytes)
    verb = _VERBS.get(progress.phase, progress.phase)
    if progress.phase != "running":
        return progress.note or (f"{verb} {percent}%" if progress.phase == "checking" else f"{verb}…")
    return f"{verb} {progress.done_bytes / 1e6:.0f} of {progress.total_bytes / 1e6:.0f} MB · {percent}%"


class FetchLine:
    """Shows the progress it is called with: one line on a terminal, else a line for every tenth."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream if stream is not None else sys.stderr
        self._is_terminal = self._stream is not None and self._stream.isatty()
        self._said: tuple[str, int] = ("", 0)

    def __call__(self, progress: DownloadProgress) -> None:
        percent = 100 * progress.done_bytes // max(1, progress.total_bytes)
        step = percent if self._is_terminal else percent - percent % _LOG_PERCENT
        if self._stream is None or self._said == (progress.phase, step):
            return
        self._said = progress.phase, step
        words = fetch_words(progress)
        self._stream.write(f"\r\x1b[K{words}" if self._is_terminal else f"{words}\n")
        self._stream.flush()

    def end(self) -> None:
        """Leave the line."""
        if self._is_terminal and self._said[0]:
            self._stream.write("\n")
