"""The program's log file. A log that cannot be written stops nothing; no text of a chat belongs in it."""

from __future__ import annotations

import contextlib
import copy
import logging
import re
import threading
import traceback
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from app import paths

FILE = "decodeck.log"
_MAX_BYTES = 1_000_000
_KEPT_FILES = 3
_FORMAT = "%(asctime)s %(levelname)s %(name)s [%(threadName)s] %(message)s"
_LOGIN = re.compile(r"(?<=://)[^/\s@]+@")
_OWN = ("app", "engine", "ui")
_OPEN = (OSError, ImportError, MemoryError, RuntimeError, AttributeError, TypeError, NameError)
"""What speaks of files, names and the program; others (a bad character, a template) may quote a chat."""
_HUSHED = "(its words are left out: they may quote a chat)"
_log = logging.getLogger(__name__)


class _Formatter(logging.Formatter):
    """Leaves names and passwords of addresses out, and whatever of an error may quote a chat."""

    def format(self, record: logging.LogRecord) -> str:
        fresh = copy.copy(record)
        fresh.exc_text = None  # what another handler has made of the error has all its words
        return _LOGIN.sub("", super().format(fresh))

    def formatException(self, ei: tuple[Any, ...]) -> str:  # noqa: N802 - the name is logging's
        """The tracebacks of an error and of what led to it; words only where they never quote a text."""
        parts: list[str] = []
        error, seen = ei[1], set[int]()
        while error is not None and id(error) not in seen:
            seen.add(id(error))
            words = str(error) if isinstance(error, _OPEN) else _HUSHED
            lines = "".join(traceback.format_tb(error.__traceback__))
            parts.append(f"{lines}{type(error).__name__}: {words}")
            error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        return "\n".join(reversed(parts))


class _QuietHandler(RotatingFileHandler):
    """A rotating file that gives up a line rather than complain: the disk may be full."""

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name is logging's
        with contextlib.suppress(OSError, ValueError):
            if self.stream is not None:
                self.stream.close()
        self.stream = None  # opened again with the next line


class _ThreadHook:
    """Logs what ended a thread; ``before`` is what was called until now, and again after ``stop``."""

    def __init__(self) -> None:
        self.before = threading.excepthook

    def __call__(self, ended: threading.ExceptHookArgs) -> None:
        if ended.exc_value is None or isinstance(ended.exc_value, SystemExit):
            return
        name = ended.thread.name if ended.thread is not None else "unknown"
        _log.error("the thread %s ended", name, exc_info=ended.exc_value)


def start(level: int = logging.INFO) -> Path | None:
    """Write warnings of libraries, everything from ``level`` of our own, and what ends a thread, to a file.

    Returns the file, None where no file can be opened. A second call replaces the first.
    """
    stop()
    path = paths.log_dir() / FILE
    try:
        handler = _QuietHandler(
            path, maxBytes=_MAX_BYTES, backupCount=_KEPT_FILES, encoding="utf-8", errors="replace"
        )
    except OSError:
        return None
    handler.setFormatter(_Formatter(_FORMAT))
    root = logging.getLogger()
    root.addHandler(handler)
    for name in _OWN:
        logging.getLogger(name).setLevel(level)
    threading.excepthook = _ThreadHook()
    return path


def stop() -> None:
    """Close the log file."""
    if isinstance(threading.excepthook, _ThreadHook):
        threading.excepthook = threading.excepthook.before
    root = logging.getLogger()
    for handler in [each for each in root.handlers if isinstance(each, _QuietHandler)]:
        root.removeHandler(handler)
        with contextlib.suppress(OSError, ValueError):
            handler.close()
