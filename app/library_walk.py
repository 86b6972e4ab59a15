"""Finds what may be a model in a place, by names alone and within bounds; opens no model file.

Knows which files belong together: parts, shards, image projectors; Ollama's manifests are read elsewhere.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from app import ollama_store
from app.library_places import Place
from engine.models import gguf_parts, hf_folder
from engine.words import tr

MOST_ENTRIES = 50_000  # names in all folders of a place
MOST_MODELS = 2_000
MOST_DEPTH = 8
_HUB_PREFIX = "models--"
_MAIN_NAMES = ("model", "ggml-model")  # a file called so is named by its folder

Stamp = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class Candidate:
    """What may be a model. ``path`` is what is loaded; ``stamp`` (path, bytes, mtime in ns of each file)
    changes when its content may have.
    """

    path: str
    name: str  # "" where the path says it
    place: str
    files: tuple[str, ...]
    stamp: Stamp
    projectors: tuple[str, ...] = ()  # names of image parts beside it, which are not used
    reason: str = ""  # why it cannot be one after all, found without its header
    is_ours: bool = False
    added_folder: str = ""  # that the user added, in which it lies

    @property
    def size_bytes(self) -> int:
        """Of its files on the disk."""
        return sum(size for _, size, _ in self.stamp)


@dataclass(slots=True)
class Found:
    """Candidates so far, and sentences on what was left out."""

    candidates: list[Candidate] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(slots=True)
class _Walk:
    """One pass through a place: what is left of its bounds, and the folders that it has been in."""

    place: Place
    found: Found
    entries_left: int
    seen: set[tuple[int, int]] = field(default_factory=set)

    def note(self, text: str) -> None:
        if text not in self.found.notes:
            self.found.notes.append(text)


def walk(place: Place) -> Found:
    """What ``place`` holds; a place that is not there holds nothing. Never raises for what is on the disk."""
    found = Found()
    on = _Walk(place, found, MOST_ENTRIES)
    if place.layout == "hub":
        _walk_hub(on)
    elif place.layout == "ollama":
        _walk_ollama(on)
    elif place.layout == "opened":
        _look_at(on)
    else:
        _walk_folder(on, place.folder, 0)
    return found


def _listed(on: _Walk, folder: Path) -> list[os.DirEntry[str]]:
    """The entries of a folder by name; none where it was seen, cannot be read, or the bounds are reached."""
    try:
        status = folder.stat()
        if (status.st_dev, status.st_ino) in on.seen:
            return []
        on.seen.add((status.st_dev, status.st_ino))
        entries = []
        with os.scandir(folder) as listing:
            for entry in listing:
                on.entries_left -= 1
                if on.entries_left < 0:
                    words = tr("{folder} holds too many files: not all of it was looked at.")
                    on.note(words.format(folder=on.place.folder))
                    break
                entries.append(entry)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        words = tr("{path} cannot be read: {reason}.")
        on.note(words.format(path=folder, reason=error.strerror or error))
        return []
    return sorted(entries, key=lambda entry: (entry.name.casefold(), entry.name))


def _walk_folder(on: _Walk, folder: Path, depth: int) -> None:
    entries = _listed(on, folder)
    files, folders = set[str](), list[Path]()
    for entry in entries:
        try:
            is_folder = entry.is_dir()
        except OSError:
            continue
        if is_folder and not entry.name.startswith("."):
            folders.append(folder / entry.name)
        elif not is_folder:
            files.add(entry.name)
    for candidate in _models(on.place, folder, files):
        if len(on.found.candidates) >= MOST_MODELS:
            words = tr("Only the first %n model(s) of {folder} are listed.", "", MOST_MODELS)
            on.note(words.format(folder=on.place.folder))
            return
        on.found.candidates.append(candidate)
    if depth < MOST_DEPTH:
        for each in folders:
            _walk_folder(on, each, depth + 1)
    elif folders:
        on.note(tr("{folder} is too deep: its sub-folders were not looked at.").format(folder=folder))


def _look_at(on: _Walk) -> None:
    """The place's models alone, as far as they are still there; not what lies beside them."""
    by_folder: dict[Path, set[str]] = {}
    for path in on.place.models:
        by_folder.setdefault(path if path.is_dir() else path.parent, set()).add(str(path))
    for folder, wanted in by_folder.items():
        names = {entry.name for entry in _listed(on, folder)}
        found = _models(on.place, folder, names)
        on.found.candidates += [candidate for candidate in found if candidate.path in wanted]


def _models(place: Place, folder: Path, names: set[str]) -> Iterator[Candidate]:
    """The models among the files of one folder."""
    projectors = tuple(sorted(name for name in names if gguf_parts.is_projector(name)))
    if "config.json" in names and _has_own_weights(names):
        weights = sorted(name for name in names if name.endswith((".safetensors", ".safetensors.index.json")))
        files = [str(folder / name) for name in ("config.json", *weights)]
        yield _candidate(place, str(folder), "", files, projectors)
    for name in sorted(gguf_parts.models(names), key=lambda each: (each.casefold(), each)):
        if name.startswith("."):
            continue
        files = [str(folder / part) for part in gguf_parts.together(name, names)]
        called = folder.name if Path(name).stem.casefold() in _MAIN_NAMES else ""
        yield _candidate(place, str(folder / name), called, files, projectors)


def _has_own_weights(names: set[str]) -> bool:
    """Whether a folder's config.json speaks of weights beside it: GGUF files bring their own description."""
    pickles = any(name.lower().endswith(hf_folder.PICKLE_SUFFIXES) for name in names)
    return hf_folder.has_weights(names) or (pickles and not gguf_parts.models(names))


def _candidate(
    place: Place, path: str, name: str, files: list[str], projectors: tuple[str, ...] = (), reason: str = ""
) -> Candidate:
    stamp = tuple(each for file in files if (each := _stamp(file)) is not None)
    added = str(place.folder) if place.is_added else ""
    return Candidate(path, name, place.title, tuple(files), stamp, projectors, reason, place.is_ours, added)


def _stamp(path: str) -> tuple[str, int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return path, status.st_size, status.st_mtime_ns


def _walk_hub(on: _Walk) -> None:
    """The Hugging Face cache: of every repository the snapshot that ``refs/main`` names, else all of them.

    https://huggingface.co/docs/huggingface_hub/guides/manage-cache
    """
    for entry in _listed(on, on.place.folder):
        if not entry.name.startswith(_HUB_PREFIX):
            continue
        repository = on.place.folder / entry.name
        snapshots = [repository / "snapshots" / each.name for each in _listed(on, repository / "snapshots")]
        try:
            main = (repository / "refs" / "main").read_text("utf-8").strip()
        except (OSError, UnicodeDecodeError):
            main = ""
        current = [snapshot for snapshot in snapshots if snapshot.name == main]
        for snapshot in current or snapshots:
            _walk_folder(on, snapshot, MOST_DEPTH - 3)


def _walk_ollama(on: _Walk) -> None:
    for path in _manifests(on, on.place.folder / "manifests", 0):
        model = ollama_store.read_manifest(path, on.place.folder)
        if model is not None:
            files = [model.blob] if model.blob else []
            projectors = (tr("vision part"),) if model.has_projector else ()
            shown = model.blob or str(path)
            on.found.candidates.append(
                _candidate(on.place, shown, model.name, files, projectors, model.reason)
            )


def _manifests(on: _Walk, folder: Path, depth: int) -> Iterator[Path]:
    for entry in _listed(on, folder):
        try:
            is_folder = entry.is_dir()
        except OSError:
            continue
        if is_folder and depth < MOST_DEPTH:
            yield from _manifests(on, folder / entry.name, depth + 1)
        elif not is_folder and not entry.name.startswith("."):
            yield folder / entry.name
