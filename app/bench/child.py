"""One of this program's own commands as a child process that ends with its caller, its own children too."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from app import relaunch


@contextmanager
def command(arguments: Sequence[str]) -> Iterator[subprocess.Popen[bytes]]:
    """`decodeck ARGUMENTS` with pipes for its output; whatever is left of it at the end of the block ends."""
    with subprocess.Popen(
        relaunch.command("app.cli", *arguments),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,  # a group of its own, which Windows does not know
    ) as child:
        try:
            yield child
        finally:
            _end(child)


def _end(child: subprocess.Popen[bytes]) -> None:
    """Kill the process if it still runs, and with it all that it started where the system knows groups."""
    if child.poll() is not None:
        return
    if sys.platform == "win32":
        child.kill()
        return
    with contextlib.suppress(ProcessLookupError):  # it has just ended
        os.killpg(child.pid, signal.SIGKILL)
