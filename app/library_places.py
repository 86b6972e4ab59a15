"""Where models may lie on this computer: our folder, other programs' folders, folders the user added.

Knows names of folders alone and touches no disk; every one of them may be missing.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from engine.words import tr

OURS = "Decodeck"


@dataclass(frozen=True, slots=True)
class Place:
    """One folder to look into. ``layout``: folder (files in sub-folders), hub (the Hugging Face cache),
    ollama (manifests that name blobs) or opened (``models`` alone, wherever they lie).
    """

    title: str
    folder: Path
    layout: str = "folder"
    is_added: bool = False  # by the user, who can take it out again
    models: tuple[Path, ...] = ()

    @property
    def is_ours(self) -> bool:
        """Whether this program may delete what lies there."""
        return self.title == OURS


def places(
    models_dir: Path,
    added: Iterable[Path] = (),
    opened: Iterable[Path] = (),
    environment: Mapping[str, str] | None = None,
    home: Path | None = None,
    system: str = sys.platform,
) -> tuple[Place, ...]:
    """All of them, ours first, at the end the models that were ``opened`` by their paths. ``environment`` and
    ``home`` are those of the user.
    """
    own = [
        Place(OURS, models_dir),
        *(Place(folder.name or str(folder), folder, is_added=True) for folder in added),
    ]
    others = elsewhere(os.environ if environment is None else environment, home or Path.home(), system)
    by_path = Place(tr("Opened before"), Path(), "opened", models=tuple(opened))
    return *own, *others, by_path


def elsewhere(environment: Mapping[str, str], home: Path, system: str) -> tuple[Place, ...]:
    """The folders of other programs."""
    env = environment
    cache = _cache(env, home, system)
    found = [Place("Hugging Face cache", hub_cache(env, home), "hub")]
    found += (Place("LM Studio", home / name / "models") for name in (".lmstudio", ".cache/lm-studio"))
    found += (Place("Jan", folder) for folder in _jan(env, home, system))
    found.append(Place("GPT4All", _data(env, home, system, local=True) / "nomic.ai" / "GPT4All"))
    found.append(Place("llama.cpp cache", _named(env, "LLAMA_CACHE") or cache / "llama.cpp"))
    found += (Place("Ollama", folder, "ollama") for folder in _ollama(env, home, system))
    return tuple(found)


def hub_cache(environment: Mapping[str, str], home: Path) -> Path:
    """The Hugging Face cache, by the rules of huggingface_hub.

    https://huggingface.co/docs/huggingface_hub/package_reference/environment_variables
    """
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if found := _named(environment, name):
            return found
    base = _named(environment, "XDG_CACHE_HOME") or home / ".cache"
    return (_named(environment, "HF_HOME") or base / "huggingface") / "hub"


def _named(environment: Mapping[str, str], name: str) -> Path | None:
    value = os.path.expandvars(environment.get(name, "").strip())
    return Path(value).expanduser() if value else None


def _cache(environment: Mapping[str, str], home: Path, system: str) -> Path:
    if system == "win32":
        return _named(environment, "LOCALAPPDATA") or home / "AppData" / "Local"
    if system == "darwin":
        return home / "Library" / "Caches"
    return _named(environment, "XDG_CACHE_HOME") or home / ".cache"


def _data(environment: Mapping[str, str], home: Path, system: str, *, local: bool = False) -> Path:
    """Where programs keep data; on Windows the roaming folder unless ``local``."""
    if system == "win32":
        name = "LOCALAPPDATA" if local else "APPDATA"
        return _named(environment, name) or home / "AppData" / ("Local" if local else "Roaming")
    if system == "darwin":
        return home / "Library" / "Application Support"
    return _named(environment, "XDG_DATA_HOME") or home / ".local" / "share"


def _jan(environment: Mapping[str, str], home: Path, system: str) -> tuple[Path, ...]:
    """Of today's version and of the ones before it."""
    data = _data(environment, home, system) / "Jan" / "data"
    return data / "llamacpp" / "models", data / "models", home / "jan" / "models"


def _ollama(environment: Mapping[str, str], home: Path, system: str) -> tuple[Path, ...]:
    """The user's store and, on Linux, that of the system's service."""
    own = _named(environment, "OLLAMA_MODELS") or home / ".ollama" / "models"
    return (own, Path("/usr/share/ollama/.ollama/models")) if system == "linux" else (own,)
