"""The library in words: rows of the page and of the picker, transfers, dates. Pure functions."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from app.library_entry import Entry, Listing
from app.library_fit import fit_mark
from app.library_walk import Stamp
from engine.machine import Hardware
from engine.types import LoadSpec, ModelSpec
from engine.words import tr
from ui import numbers
from ui.first_start import format_bytes
from ui.library_values import FitMark, LibraryRow, LibraryView, OfferRow
from ui.values import DownloadView, ModelRow

_STEP_BYTES = 256_000_000  # free memory that changes by less changes no mark


@dataclass(frozen=True, slots=True)
class Machine:
    """What marks are made from."""

    hardware: Hardware | None
    held_bytes: int = 0

    @property
    def situation(self) -> object:
        """The same where no mark would differ by much."""
        hardware = self.hardware
        if hardware is None:
            return None
        free = [hardware.ram_free_bytes, *(gpu.free_bytes for gpu in hardware.gpus or ())]
        steps = tuple(None if each is None else each // _STEP_BYTES for each in free)
        known = (hardware.calibration, hardware.best_threads, hardware.gpus is None)
        return steps, self.held_bytes // _STEP_BYTES, known


@dataclass(slots=True)
class Marks:
    """Fit marks that were worked out, so that two hundred models cost nothing when nothing has changed."""

    known: dict[str, tuple[Stamp, object, FitMark]] = field(default_factory=dict)

    def of(self, entry: Entry, machine: Machine) -> FitMark:
        """The mark of a model as the plan would load it by itself."""
        spec = entry.header.spec
        if spec is None:
            return FitMark()
        stamp, situation = entry.candidate.stamp, machine.situation
        known = self.known.get(entry.path)
        if known is not None and known[:2] == (stamp, situation):
            return known[2]
        mark = fit_mark(spec, machine.hardware, LoadSpec(entry.path), machine.held_bytes)
        self.known[entry.path] = stamp, situation, mark
        return mark


def library_view(
    listing: Listing,
    mark_of: Callable[[Entry], FitMark],
    loaded: str,
    used: Mapping[str, float],
    today: datetime.date,
) -> LibraryView:
    """All rows: those used last come first, then by name."""
    rows = [library_row(entry, mark_of(entry), loaded, used, today) for entry in listing.entries]
    rows.sort(key=lambda row: -used.get(row.path, 0.0))
    total = sum(entry.candidate.size_bytes for entry in listing.entries)
    count = tr("%n model(s)", "", len(rows))
    summary = f"{count} · {format_bytes(total)}" if rows else ""
    return LibraryView(tuple(rows), summary, listing.notes, is_looking=not listing.is_complete)


def library_row(
    entry: Entry, mark: FitMark, loaded: str, used: Mapping[str, float], today: datetime.date
) -> LibraryRow:
    """One model of this computer; ``used`` are seconds since 1970 by path."""
    candidate = entry.candidate
    when = used.get(entry.path)
    return LibraryRow(
        path=entry.path,
        name=entry.name,
        detail=detail_of(entry),
        place=candidate.place,
        used="" if when is None else tr("used {day}").format(day=day_words(when, today)),
        note=tr("vision part left out") if candidate.projectors and not entry.header.reason else "",
        fit=mark,
        reason=entry.header.reason,
        is_loaded=entry.path == loaded,
        can_delete=candidate.is_ours and entry.path != loaded,
        added_folder=candidate.added_folder,
        tooltip=_files_words(entry),
    )


def picker_row(entry: Entry, row: LibraryRow) -> ModelRow:
    """The same model in the picker under the chip, where there is room for less."""
    spec = entry.header.spec
    bits = _bits_words(spec) if spec else ""
    speed = f"{row.fit.speed} {row.fit.trust}".strip()
    facts = (bits, format_bytes(entry.candidate.size_bytes), row.fit.title, speed)
    return ModelRow(row.path, row.name, " · ".join(fact for fact in facts if fact), row.reason, row.is_loaded)


def detail_of(entry: Entry) -> str:
    """ "llama · 4.9 bits · 2.02 GB · 131k context · chat template · 3 files"."""
    spec, size = entry.header.spec, entry.candidate.size_bytes
    if spec is None:
        return format_bytes(size) if size else ""
    facts = [
        spec.architecture,
        _bits_words(spec),
        format_bytes(size),
        tr("{tokens}\u00a0context").format(tokens=numbers.context(spec.trained_context)),
        tr("chat template") if entry.header.has_template else tr("no chat template"),
    ]
    weights = sum(not file.endswith(".json") for file in entry.candidate.files)
    if weights > 1:
        facts.append(tr("{count}\u00a0files").format(count=weights))
    return " · ".join(facts)


def offer_view(row: OfferRow, progress: DownloadView | None) -> OfferRow:
    """An offer while its download is on the way."""
    if progress is None:
        return row
    if progress.state == "failed":
        return replace(row, note=progress.message)
    percent = 100 * progress.done_bytes // max(1, progress.total_bytes)
    words = tr("Paused {percent}") if progress.state == "paused" else tr("Downloading {percent}")
    return replace(row, state=words.format(percent=numbers.percent(percent / 100)))


def day_words(when_s: float, today: datetime.date) -> str:
    """ "today", "yesterday", "5 days ago", then the date."""
    try:
        day = datetime.datetime.fromtimestamp(when_s).date()
    except (OverflowError, OSError, ValueError):
        return numbers.UNKNOWN
    days = (today - day).days
    if days <= 0:
        return tr("today")
    if days == 1:
        return tr("yesterday")
    return tr("{days} days ago").format(days=days) if days < 30 else day.isoformat()


def _files_words(entry: Entry) -> str:
    """Where it lies, and which files belong together."""
    names = [Path(file).name for file in entry.candidate.files if Path(file) != Path(entry.path)]
    sentences = [f"{entry.path}."]
    if names:
        listed = f"{', '.join(names[:6])}{'…' if len(names) > 6 else ''}"
        sentences.append(tr("With {files}.").format(files=listed))
    if left_out := entry.candidate.projectors:
        listed = ", ".join(left_out[:3])
        sentences.append(tr("Left out: {files} (pictures are not read).").format(files=listed))
    return " ".join(sentences)


def _bits_words(spec: ModelSpec) -> str:
    return tr("{bits}\u00a0bits").format(bits=numbers.decimal(spec.weight_bits, 1))
