"""The asker's side of the bench protocol: a worker process and its answers.

Knows how a worker is started, asked and ended; not what it measures.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
from types import TracebackType
from typing import Any

from app import relaunch
from engine.errors import EngineError

_END_S = 2.0


class WorkerError(EngineError):
    """A worker ended in the middle of a measurement, or met a fault of its own."""

    kind = "worker"


class _ReportedError(EngineError):
    """What a worker refused, with its own kind."""

    def __init__(self, kind: str, message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.kind = kind


class Worker:
    """One process that runs ``module``; ``title`` is what messages call it. Use it as a context manager."""

    def __init__(self, module: str, title: str) -> None:
        self.title = title
        # Read when it dies, and closed with the worker.
        self._complaints = tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace")  # noqa: SIM115
        self._process = subprocess.Popen(
            relaunch.command(module),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
            encoding="utf-8",
        )

    def __enter__(self) -> Worker:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        return self._process.pid

    def ask(self, do: str, **arguments: object) -> dict[str, Any]:
        """Send one command and wait for its answer.

        Raises WorkerError where the worker dies or fails by its own fault, another EngineError where it
        refuses.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"do": do, **arguments}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            raise self._death()
        reply: dict[str, Any] = json.loads(line)
        if "error" in reply:
            raise self._refusal(**reply["error"])
        answer: dict[str, Any] = reply["ok"]
        return answer

    def close(self) -> None:
        """End the process, whatever it is doing. May be called twice."""
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                assert stream is not None
                stream.close()  # a worker ends with its standard input
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._complaints.close()

    def _death(self) -> WorkerError:
        try:
            code = self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            return WorkerError(f"The {self.title} worker closed its output.", self._last_words())
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        words = self._last_words() or ("Is there enough memory?" if code < 0 else "")
        return WorkerError(f"The {self.title} worker ended in the middle of its work ({how}).", words)

    def _refusal(self, kind: str, message: str, hint: str) -> EngineError:
        if kind == "bug":
            return WorkerError(f"The {self.title} worker failed: {message}.", hint)
        return _ReportedError(kind, message, hint)

    def _last_words(self) -> str:
        """The last line that the worker wrote to standard error."""
        self._complaints.seek(0)
        lines = self._complaints.read().strip().splitlines()
        return lines[-1].strip() if lines else ""
