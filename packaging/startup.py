"""``python packaging/startup.py PROGRAM…``: how long each program takes to paint its window, in turn. Linux.

The window is started offscreen with an empty home. It imports torch as soon as it has painted and not before:
the first paint is over when torch's library is among the process's files.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROUNDS = 7
LIBRARY = "libtorch_cpu"
LIMIT_S = 60.0
POLL_S = 0.005


def first_paint_s(program: str) -> float:
    """Seconds from the start of the process. Raises TimeoutError where nothing is painted."""
    with tempfile.TemporaryDirectory() as home:
        environment = os.environ | {"QT_QPA_PLATFORM": "offscreen", "DECODECK_HOME": home}
        started = time.perf_counter()
        with subprocess.Popen([program], env=environment, stderr=subprocess.DEVNULL) as process:
            try:
                while LIBRARY not in Path(f"/proc/{process.pid}/maps").read_text():
                    if time.perf_counter() - started > LIMIT_S:
                        raise TimeoutError(program)
                    time.sleep(POLL_S)
                return time.perf_counter() - started
            finally:
                process.kill()


def main(programs: list[str]) -> None:
    for program in programs:
        first_paint_s(program)  # from now on the files are in the system's cache
    times: dict[str, list[float]] = {program: [] for program in programs}
    for _ in range(ROUNDS):
        for program in programs:
            times[program].append(first_paint_s(program))
    for program, found in times.items():
        print(f"{statistics.median(found):.2f} s ({min(found):.2f}-{max(found):.2f})  {program}")


if __name__ == "__main__":
    main(sys.argv[1:])
