"""The models of this computer, each from its header alone; headers are read once for every state of a file.

Knows candidates and headers; no window, and nothing of the machine's memory or speed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from app.library_places import Place
from app.library_walk import Candidate, Stamp, walk
from engine.errors import EngineError
from engine.foreign import printable
from engine.models import gguf_parts, hf_folder
from engine.models.fields import display_name
from engine.models.gguf_spec import AdditionError
from engine.models.spec import from_gguf, read_spec
from engine.types import ModelSpec

TEMPLATE_KEY = "tokenizer.chat_template"
_REPORT_EVERY_S = 0.25


@dataclass(frozen=True, slots=True)
class Header:
    """What one look into a model's files told: its spec, or why it has none."""

    spec: ModelSpec | None
    has_template: bool = False
    reason: str = ""
    is_addition: bool = False  # a projector, an adapter: nothing to list


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the library."""

    candidate: Candidate
    header: Header

    @property
    def path(self) -> str:
        """What is loaded."""
        return self.candidate.path

    @property
    def name(self) -> str:
        """For the screen."""
        return printable(self.candidate.name, 120) if self.candidate.name else display_name(self.path)


@dataclass(frozen=True, slots=True)
class Listing:
    """All rows found so far, by name, and sentences on what was left out."""

    entries: tuple[Entry, ...] = ()
    notes: tuple[str, ...] = ()
    is_complete: bool = False


@dataclass(slots=True)
class Headers:
    """The headers that were read, by path and stamp. One thread at a time."""

    known: dict[str, tuple[Stamp, Header]] = field(default_factory=dict)
    num_reads: int = 0

    def of(self, candidate: Candidate) -> Header:
        """The header of a candidate, read from the disk where its files have changed since."""
        stamp, header = self.known.get(candidate.path, ((), None))
        if header is None or stamp != candidate.stamp:
            self.num_reads += 1
            header = read_header(candidate)
            self.known[candidate.path] = candidate.stamp, header
        return header

    def forget_all_but(self, paths: Collection[str]) -> None:
        """Drop what is not there any more."""
        self.known = {path: value for path, value in self.known.items() if path in paths}


def read_header(candidate: Candidate) -> Header:
    """One look into a model's files; what is wrong with them becomes the reason."""
    if candidate.reason:
        return Header(None, reason=candidate.reason)
    try:
        if Path(candidate.path).is_dir():
            return Header(read_spec(candidate.path), _folder_has_template(Path(candidate.path)))
        header = gguf_parts.read_header(candidate.path)
        return Header(from_gguf(header), isinstance(header.metadata.get(TEMPLATE_KEY), str))
    except AdditionError:
        return Header(None, is_addition=True)
    except EngineError as error:
        reason = error.message.removeprefix(f"{candidate.path}: ")
        return Header(None, reason=printable(f"{reason[:1].upper()}{reason[1:]} {error.hint}".strip(), 400))


def _folder_has_template(folder: Path) -> bool:
    if (folder / "chat_template.jinja").is_file():
        return True
    try:
        return bool(hf_folder.read_json(folder / "tokenizer_config.json").get("chat_template"))
    except EngineError:
        return False


def scan(
    places: Iterable[Place],
    headers: Headers,
    hidden: Collection[str] = (),
    report: Callable[[Listing], None] = lambda _: None,
    clock: Callable[[], float] = time.monotonic,
) -> Listing:
    """Look into all places. ``hidden`` are folders of unfinished downloads, which are no models yet;
    ``report`` gets what is there so far, at most four times a second.
    """
    entries: list[Entry] = []
    notes: list[str] = []
    seen, looked_at = set[str](), set[str]()
    last = clock()
    for place in places:
        found = walk(place)
        notes += found.notes
        for candidate in found.candidates:
            real = _real_path(candidate)
            if real in seen or candidate.path in hidden:
                continue
            seen.add(real)
            looked_at.add(candidate.path)
            header = headers.of(candidate)
            if not header.is_addition:
                entries.append(Entry(candidate, header))
            if clock() - last >= _REPORT_EVERY_S:
                last = clock()
                report(_listing(entries, notes, is_complete=False))
    headers.forget_all_but(looked_at)
    return _listing(entries, notes, is_complete=True)


def _real_path(candidate: Candidate) -> str:
    """The same for a file that two places hold, as when one lies in the other."""
    try:
        return str(Path(candidate.path).resolve())
    except (OSError, RuntimeError):
        return candidate.path


def _listing(entries: list[Entry], notes: list[str], *, is_complete: bool) -> Listing:
    ordered = sorted(entries, key=lambda entry: (entry.name.casefold(), entry.path))
    return Listing(tuple(ordered), tuple(notes), is_complete)
