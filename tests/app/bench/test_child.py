"""The program's own commands as children of a measurement."""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import psutil
import pytest

from app.bench import child

END_S = 20.0


def test_a_command_runs_with_its_output_in_pipes() -> None:
    with child.command(["--version"]) as running:
        out, _ = running.communicate()
    assert out.decode().strip() == f"decodeck {version('decodeck')}"
    assert running.returncode == 0


@pytest.mark.slow
def test_a_command_that_is_left_ends_with_all_that_it_started(tiny: Callable[[str], Path]) -> None:
    with child.command(["bench", "--model", str(tiny("Q4_0")), "--repeat", "100000"]) as running:
        assert running.stderr is not None
        assert b"measuring" in running.stderr.readline()
        started = psutil.Process(running.pid).children(recursive=True)
        assert len(started) == 2
    assert running.poll() is not None
    _, alive = psutil.wait_procs(started, timeout=END_S)
    assert alive == []
