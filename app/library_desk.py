"""The model library behind its page and the picker: what is on this computer, downloads, deletions, offers.

Joins window, model desk and lanes; looks at the disk only while somebody looks at it.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QObject, QTimer, QUrl
from PySide6.QtGui import QDesktopServices, QGuiApplication

from app import (
    library_entry,
    library_fetch,
    library_places,
    library_record,
    library_words,
    load_notices,
    offers,
    paths,
    readouts,
    starter,
)
from app.hub import Hub
from app.hub_desk import HubDesk
from app.hub_token import HubToken
from app.io_thread import IoThread
from app.library_downloads import LANE, Downloads
from app.library_entry import Entry, Headers, Listing
from app.library_fit import fit_mark
from app.library_record import LibraryRecord
from app.library_trash import Deleted, Trash
from app.library_words import Machine, Marks
from app.model_desk import ModelDesk
from app.not_kept import LIBRARY as LIST
from app.not_kept import NotKept
from engine.events import Failed
from engine.types import LoadSpec
from engine.words import tr
from ui.first_start import format_bytes
from ui.library_values import FitMark, LibraryView, OfferRow
from ui.main_window import MainWindow
from ui.values import NoticeView
from ui.window_view import LIBRARY

POLL_MS = 2000
SCAN_LANE = "library scan"  # a folder on a dead network holds up nothing else


class LibraryDesk(QObject):
    """Owns the lists and what the library remembers. Call ``stop`` and, after all else, ``finish``."""

    def __init__(
        self,
        window: MainWindow,
        io: IoThread,
        models: ModelDesk,
        not_kept: NotKept,
        token: HubToken | None = None,
    ) -> None:
        super().__init__()
        self._window, self._io, self._models = window, io, models
        self._not_kept = not_kept
        self._page = window.library
        self._models_dir = paths.models_dir()
        self._record_file = paths.data_dir() / "library.json"
        self._record = LibraryRecord()
        self._headers, self._marks = Headers(), Marks()
        self._trash = Trash(self._models_dir)
        self._deleted: list[Deleted] = []
        self._offers: tuple[OfferRow, ...] = ()
        self._shown_offers: tuple[OfferRow, ...] = ()
        self._offers_shown = window.body.centre.first_start.offers
        self._listing = Listing()
        self._view = LibraryView(is_looking=True)
        self._is_scanning = self._scan_again = self._is_picking = False
        self._poll = QTimer(self, interval=POLL_MS)
        token = self.token = token or HubToken()
        hub = self._hub = Hub(token.get)
        self.downloads = Downloads(io, hub, paths.data_dir() / "downloads.json", self._models_dir)
        self.hub = HubDesk(self._page, io, self.downloads, hub, token, self._machine, self._models_dir)
        self.downloads.on_error = self._on_error
        models.choice.name_of = self.name_of
        self._connect()

    def start(self) -> None:
        """Read what earlier runs left; nothing is asked of any server."""
        self._on_lane(library_record.load, self._record_file, on_done=self._on_record)
        self._on_lane(self._trash.empty_abandoned)
        self.downloads.restore()

    def stop(self) -> None:
        """The program closes: nothing is fetched or looked at any more."""
        self._poll.stop()
        self.hub.stop()
        self.downloads.stop()

    def finish(self) -> None:
        """Free what was deleted, behind all that is to be saved; what is cut off the next run frees."""
        self._io.submit(self._trash.empty)
        self._io.submit(self._hub.close)

    def forget_deleted(self) -> Callable[[], None]:
        """Nothing that was deleted comes back any more; the function, which waits, frees its space."""
        self._deleted.clear()
        self._page.set_undo("")
        return self._trash.empty

    @property
    def used_paths(self) -> tuple[str, ...]:
        """The models that were used, as far as that is remembered."""
        return tuple(self._record.used)

    def use_folders(self, places: Mapping[str, str]) -> None:
        """The folders of the program are elsewhere now; ``places`` are new paths of models by old ones."""
        self._models_dir = paths.models_dir()
        self._record_file = paths.data_dir() / "library.json"
        self._trash = Trash(self._models_dir)
        self.downloads.use_folders(paths.data_dir() / "downloads.json", self._models_dir)
        self.hub.use_folder(self._models_dir)
        used = {places.get(path, path): when for path, when in self._record.used.items()}
        self._keep(replace(self._record, used=used))
        self.look()

    def look(self) -> None:
        """Look at the disk, once at a time; what comes meanwhile is looked at afterwards."""
        if self._is_scanning:
            self._scan_again = True
            return
        self._is_scanning = True
        folders = [Path(folder) for folder in self._record.folders]
        opened = [Path(path) for path in {*self._record.used, self._loaded_path()} - {""}]
        places = library_places.places(self._models_dir, folders, sorted(opened))
        hidden = self.downloads.unfinished
        machine, loaded, used = self._machine(), self._loaded_path(), dict(self._record.used)
        today = datetime.date.today()

        def mark_of(entry: Entry) -> FitMark:
            return self._marks.of(entry, machine)

        def view_of(listing: Listing) -> tuple[Listing, LibraryView]:
            return listing, library_words.library_view(listing, mark_of, loaded, used, today)

        def work() -> tuple[Listing, LibraryView, int | None]:
            listing = library_entry.scan(
                places, self._headers, hidden, lambda found: self._io.post(self._on_part, view_of(found))
            )
            return *view_of(listing), library_fetch.free_bytes(self._models_dir)

        self._io.submit(work, on_done=self._on_looked, on_error=self._on_look_failed, lane=SCAN_LANE)

    def _connect(self) -> None:
        window, page = self._window, self._page
        page.shown.connect(self._on_shown)
        page.triggered.connect(self._on_triggered)
        page.undo_clicked.connect(self._on_undo)
        page.folder_chosen.connect(self._on_folder)
        window.picker_opened.connect(self._on_picker_opened)
        self._offers_shown.download_clicked.connect(self._on_offer)
        self._poll.timeout.connect(self.look)
        self._models.ready.connect(self._on_ready)
        self._models.probed.connect(self._on_probed)
        self.hub.used.connect(self._use)
        self.hub.activity_changed.connect(self._tell_activity)
        self.hub.offer_failed.connect(self._on_offer_failed)
        self.downloads.changed.connect(self._on_downloads_changed)
        self.downloads.moved.connect(self._on_download_moved)
        self.downloads.done.connect(self._on_download_done)
        transfers = page.transfers
        transfers.pause_clicked.connect(self.downloads.pause)
        transfers.resume_clicked.connect(self.downloads.resume)
        transfers.cancel_clicked.connect(self.downloads.cancel)

    def _machine(self) -> Machine:
        room = self._models.room
        return Machine(room.hardware, room.held_bytes)

    def _loaded_path(self) -> str:
        made = self._models.plan
        return made.model.path if made else ""

    def _on_lane(self, function: Callable[..., object], *args: object, **callbacks: object) -> None:
        given = {"on_error": self._on_error} | callbacks
        self._io.submit(function, *args, lane=LANE, **given)  # type: ignore[arg-type]

    # What is on this computer

    def _on_record(self, record: LibraryRecord) -> None:
        self._record = record
        self.look()

    def _on_shown(self, is_shown: bool) -> None:
        if is_shown:
            self.look()
            self._poll.start()
        else:
            self._poll.stop()

    def _on_picker_opened(self) -> None:
        self._is_picking = True
        self.look()

    def _on_part(self, found: tuple[Listing, LibraryView]) -> None:
        """Rows that are there already, while the rest is read; an earlier list stays until all is."""
        if not self._listing.entries:
            self._page.set_library(found[1])

    def _on_looked(self, found: tuple[Listing, LibraryView, int | None]) -> None:
        self._is_scanning = False
        self._listing, self._view, free = found
        self._page.set_library(self._view)
        self._window.body.sidebar.navigation.set_note(LIBRARY, _count_words(len(self._view.rows)))
        self.hub.set_free(free)
        self.hub.set_here(frozenset(entry.path for entry in self._listing.entries if entry.header.spec))
        if self._is_picking:
            self._is_picking = False
            self._show_picker()
        if self._scan_again:
            self._scan_again = False
            self.look()

    def _on_look_failed(self, failed: Failed) -> None:
        self._is_scanning = False
        self._on_error(failed)

    def _show_picker(self) -> None:
        entries = {entry.path: entry for entry in self._listing.entries}
        rows = [library_words.picker_row(entries[row.path], row) for row in self._view.rows]
        loaded = self._models.plan
        if loaded is not None and all(row.path != loaded.model.path for row in rows):
            rows.insert(0, readouts.model_row(loaded.model.path, loaded.model, loaded.model.path))
        is_wanted = self._models.needs_model and str(starter.model_path()) not in entries
        self._window.picker.offer_starter(self._models.download.offer_words if is_wanted else "")
        self._window.set_models(rows)

    def name_of(self, path: str) -> str:
        """What the library calls a model, for files without a name of their own; "" where it knows none."""
        found = next((each for each in self._listing.entries if each.path == path), None)
        return found.name if found and found.candidate.name else ""

    # What the user does with it

    def _on_triggered(self, path: str, action: str) -> None:
        if action == "use":
            self._use(path)
        elif action == "show":
            folder = path if Path(path).is_dir() else str(Path(path).parent)
            QDesktopServices.openUrl(QUrl.fromLocalFile(folder))
        elif action == "copy":
            QGuiApplication.clipboard().setText(path)
        elif action == "delete":
            self._delete(path)
        elif action == "leave-out":
            self._leave_out(path)

    def _use(self, path: str) -> None:
        self._window.body.show_page("")
        self._models.choose(path)

    def _delete(self, path: str) -> None:
        entry = next((each for each in self._listing.entries if each.path == path), None)
        if entry is None or not entry.candidate.is_ours or path == self._loaded_path():
            return
        files = tuple(Path(file) for file in entry.candidate.files)
        self._on_lane(self._trash.delete, entry.name, Path(path), files, on_done=self._on_deleted)

    def _leave_out(self, path: str) -> None:
        """Take the folder that the user added out of the lists; nothing in it is touched."""
        entry = next((each for each in self._listing.entries if each.path == path), None)
        if entry is not None:
            self._keep(self._record.without_folder(entry.candidate.added_folder))
            self.look()

    def _on_deleted(self, deleted: Deleted) -> None:
        self._deleted.append(deleted)
        self._page.set_undo(deleted.name)
        self.look()

    def _on_undo(self) -> None:
        if self._deleted:
            self._on_lane(self._trash.undo, self._deleted.pop(), on_done=lambda _: self.look())
            self._page.set_undo(self._deleted[-1].name if self._deleted else "")

    def _on_folder(self, folder: str) -> None:
        self._keep(self._record.with_folder(folder))
        self.look()

    def _on_ready(self) -> None:
        """A model can answer: it was used now, and the rows' marks follow the memory that is left."""
        self._keep(self._record.with_use(self._loaded_path(), time.time()))
        path = self._loaded_path()
        if self._page.isVisible() or all(entry.path != path for entry in self._listing.entries):
            self.look()

    def _keep(self, record: LibraryRecord) -> None:
        if record != self._record:
            self._record = record
            saving = library_record.save, self._record_file, record
            self._io.submit(*saving, on_done=self._on_kept, on_error=self._on_unkept)

    def _on_kept(self, _: None) -> None:
        self._not_kept.take_back(LIST)

    def _on_unkept(self, failed: Failed) -> None:
        self._not_kept.say(LIST, tr("The list of models could not be saved."), failed)

    # Downloads and offers

    def _on_downloads_changed(self) -> None:
        self._page.set_transfers(self.downloads.views)
        self._tell_activity()
        self._show_offers()

    def _on_download_moved(self, key: str) -> None:
        self._page.transfers.set_view(self.downloads.view_of(key))
        if any(row.repo == _repo_of(key) for row in self._offers):
            self._show_offers()

    def _tell_activity(self) -> None:
        self._models.set_fetching(self.downloads.is_running or self.hub.is_asking)

    def _on_download_done(self, path: str) -> None:
        """It is on this computer; it loads by itself only where there is no other model to chat with."""
        self.look()
        if not self._models.is_ready and not self._models.is_coming:
            self._models.choose(path)
        else:
            name = Path(path).name
            self._window.show_notice(
                NoticeView(
                    "info",
                    tr("{model} is on this computer.").format(model=name),
                    tr("Choose it with the chip."),
                    key=load_notices.CHOICE,
                )
            )

    def _on_probed(self) -> None:
        machine = self._machine()
        if machine.hardware is None:
            return

        def suited() -> tuple[OfferRow, ...]:
            assert machine.hardware is not None
            return tuple(
                OfferRow(
                    offer.repo,
                    offer.name,
                    f"{readouts.bits_words(4)} · {format_bytes(offer.size_bytes)} · {offer.licence}",
                    tr(offer.praise),
                    fit_mark(offer.spec, machine.hardware, LoadSpec(offer.file), machine.held_bytes),
                )
                for offer in offers.suited(machine.hardware)
            )

        self._on_lane(suited, on_done=self._on_offers)

    def _on_offers(self, rows: tuple[OfferRow, ...]) -> None:
        self._offers = rows
        self._show_offers()

    def _show_offers(self) -> None:
        """As they are by now; the list is made anew only where a row is another."""
        by_repo = {_repo_of(view.key): view.progress for view in self.downloads.views}
        rows = tuple(library_words.offer_view(row, by_repo.get(row.repo)) for row in self._offers)
        if rows != self._shown_offers:
            self._shown_offers = rows
            self._offers_shown.set_offers(rows)

    def _on_offer(self, repo: str) -> None:
        offer = next((each for each in offers.offer_list().offers if each.repo == repo), None)
        if offer is not None:
            self.hub.fetch_offer(offer.repo, offer.file)

    def _on_offer_failed(self, failed: Failed) -> None:
        """What a licence needs is asked for in the library; all else is said where the offer is."""
        if failed.kind == "gated":
            self._window.show_library()
        else:
            self._on_error(failed)

    def _on_error(self, failed: Failed) -> None:
        self._window.show_notice(NoticeView("error", failed.message, failed.hint, (), failed.details))


def _repo_of(key: str) -> str:
    """The repository of an order."""
    return "/".join(key.split("/")[:2])


def _count_words(count: int) -> str:
    return tr("%n model(s)", "", count) if count else tr("empty", "no model on this computer")
