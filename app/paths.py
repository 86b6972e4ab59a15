"""Where the program keeps its files. Knows names of folders only, not what is in them."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from platformdirs import PlatformDirs

_DIRS = PlatformDirs("decodeck", appauthor=False)


def _home() -> Path | None:
    """The one folder that holds everything, where DECODECK_HOME names it."""
    named = os.environ.get("DECODECK_HOME", "").strip()
    return Path(named).expanduser().absolute() if named else None


def _made(folder: Path) -> Path:
    """``folder``, created where that is possible; a full disk must not stop the start of the program."""
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    return folder


def data_dir() -> Path:
    """Chats and settings: what a backup should hold."""
    home = _home()
    return _made(home if home else Path(_DIRS.user_data_path))


def models_dir() -> Path:
    """Models that the program downloaded, and those the user put there."""
    return _made(data_dir() / "models")


def cache_dir() -> Path:
    """What can be fetched or computed again."""
    home = _home()
    return _made(home / "cache" if home else Path(_DIRS.user_cache_path))


def kernel_times_file() -> Path:
    """Which kernels were how fast on this machine."""
    return cache_dir() / "kernel-times.json"


def log_dir() -> Path:
    """Log files."""
    home = _home()
    return _made(home / "logs" if home else Path(_DIRS.user_log_path))


def chats_db() -> Path:
    """The database of chats."""
    return data_dir() / "chats.db"


def settings_file() -> Path:
    """The settings."""
    return data_dir() / "settings.json"
