"""Where the program keeps its files. Knows names of folders only, not what is in them.

The settings have a fixed place, and may name other ones for the chats and the models.
"""

from __future__ import annotations

import contextlib
import os
from functools import lru_cache
from pathlib import Path

from platformdirs import PlatformDirs

from app.atomic_file import read_object

MOST_SETTINGS_BYTES = 1_000_000
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


VARIABLES = {"data_folder": "DECODECK_DATA", "models_folder": "DECODECK_MODELS"}
"""What names a folder for one run, and for the processes that it starts, by the name of the setting."""


def _chosen(name: str) -> Path | None:
    """The folder that was named for this run, else the one that the settings name; None: nobody named one.

    What cannot be read names none: whoever loads the settings says so.
    """
    named: object = os.environ.get(VARIABLES[name])
    if not named:
        with contextlib.suppress(OSError, ValueError):
            place = settings_file()
            status = place.stat()
            named = _kept(place, status.st_ino, status.st_size, status.st_mtime_ns).get(name)
    return Path(named) if isinstance(named, str) and Path(named).is_absolute() else None


@lru_cache(maxsize=1)
def _kept(place: Path, *_: int) -> dict[str, object]:
    """The settings in a file, read once for each of its states. Raises what ``read_object`` does."""
    return read_object(place, MOST_SETTINGS_BYTES)


def base_dir() -> Path:
    """The settings, and the data where no other folder was named."""
    home = _home()
    return _made(home if home else Path(_DIRS.user_data_path))


def data_dir() -> Path:
    """Chats and what was measured. A folder that was named and is gone with its disk is not made anew."""
    return _chosen("data_folder") or base_dir()


def models_dir() -> Path:
    """Models that the program downloaded, and those the user put there."""
    return _chosen("models_folder") or _made(data_dir() / "models")


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
    return base_dir() / "settings.json"


def predictions_file() -> Path:
    """What was predicted of past answers, and what they were."""
    return data_dir() / "predictions.json"


def quality_file() -> Path:
    """What the quality of which model's formats was found to be."""
    return data_dir() / "quality.json"


def presets_file() -> Path:
    """How chats can be answered, by name."""
    return data_dir() / "presets.json"


def lab_file() -> Path:
    """What the Batch lab has measured."""
    return data_dir() / "lab.json"
