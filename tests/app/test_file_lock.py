"""One writer per file, and no writer shut out by a dead one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from app import file_lock
from app.file_lock import FileLock


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "model.gguf"


def test_a_lock_is_held_once_and_leaves_nothing(target: Path) -> None:
    first, second = FileLock(target), FileLock(target)
    assert first.acquire()
    assert not second.acquire()
    first.release()
    first.release()
    assert second.acquire()
    second.release()
    assert list(target.parent.iterdir()) == []


def test_a_lock_file_that_is_removed_meanwhile_is_made_anew(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between opening and locking, the last holder may have removed the very file that was opened."""
    lock = FileLock(target)
    real = file_lock._try_lock
    removed: list[bool] = []

    def slow(file: object) -> bool:
        if not removed:
            lock.path.unlink()
            removed.append(True)
        return real(file)  # type: ignore[arg-type]

    monkeypatch.setattr(file_lock, "_try_lock", slow)
    with lock:
        assert lock.acquire()
        assert lock.path.exists()
        assert not FileLock(target).acquire()


def test_a_lock_of_a_killed_process_blocks_nobody(target: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from app.file_lock import FileLock;"
        "lock = FileLock(Path(sys.argv[1])); assert lock.acquire(); print('held', flush=True);"
        "sys.stdin.read()"
    )
    root = Path(__file__).parents[2]
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(target)], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline().strip() == b"held"
        with FileLock(target) as lock:
            assert not lock.acquire()
        holder.kill()
        holder.wait()
    assert (target.parent / "model.gguf.lock").exists()
    with FileLock(target) as lock:
        assert lock.acquire()
