"""Finding models on the hub for the library page: searches, files with their marks, tokens, downloads begun.

Owns what the search shows; asks the network on lanes of its own, and only what the user asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from PySide6.QtCore import QObject, Signal

from app import hub, hub_peek, library_fetch
from app.hub import Files, Hub, Repo, Variant
from app.hub_peek import Spent
from app.hub_token import HubToken
from app.io_thread import IoThread
from app.library_downloads import Downloads
from app.library_fetch import Order
from app.library_fit import fit_mark, size_mark
from app.library_words import Machine
from app.transport import shown
from engine.errors import EngineError
from engine.events import Failed
from engine.types import LoadSpec
from engine.words import tr
from ui import numbers
from ui.first_start import format_bytes
from ui.library import LibraryPage
from ui.library_values import NO_MARK, FileRow, FindView, FitMark, RepoRow

LANE, PEEK_LANE = "hub", "hub headers"
PEEK_BYTES = 96_000_000  # of headers, for one look at a repository's files


@dataclass(frozen=True, slots=True)
class _Peeked:
    """What a look at a header told."""

    mark: FitMark
    reason: str = ""  # why it cannot run here
    was_seen: bool = True


class HubDesk(QObject):
    """``used`` carries the path of files that are here already; ``activity_changed`` tells that a question to
    the hub begins or ends, ``offer_failed`` that an offer could not be fetched.
    """

    used = Signal(str)
    activity_changed = Signal()
    offer_failed = Signal(Failed)

    def __init__(
        self,
        page: LibraryPage,
        io: IoThread,
        downloads: Downloads,
        seen_hub: Hub,
        token: HubToken,
        machine: Callable[[], Machine],
        models_dir: Path,
    ) -> None:
        super().__init__()
        self._page, self._io, self._downloads = page, io, downloads
        self._hub, self._token, self._machine = seen_hub, token, machine
        self._models_dir = models_dir
        self._view = FindView(site=_site())
        self._cancel = threading.Event()
        self._again: Callable[[], None] = lambda: None
        self._files: Files | None = None
        self._peeked: dict[str, _Peeked] = {}
        self._here: frozenset[str] = frozenset()
        self._asked_repo = ""
        self._is_peeking = False
        self._free_bytes: int | None = None
        self.is_asking = False
        self._connect()
        page.set_find(self._view)

    def use_folder(self, models_dir: Path) -> None:
        """What is fetched goes there from now on."""
        self._models_dir = models_dir

    def _connect(self) -> None:
        find = self._page.search
        find.searched.connect(self.search)
        find.opened.connect(self.open_files)
        find.triggered.connect(self._on_file)
        find.left.connect(self._on_left)
        find.retried.connect(lambda: self._again())
        find.token_given.connect(self._on_token)
        self._downloads.changed.connect(self.refresh)
        self._downloads.refused.connect(self._on_refused)

    def search(self, words: str, kind: str) -> None:
        """Ask the hub for models; "owner/name" opens that model at once."""
        if words.count("/") == 1 and " " not in words:
            self.open_files(words)
            return
        self._ask(
            lambda cancel: self._hub.search(words, kind, cancel),
            lambda found: self._on_found(words, found),
            lambda: self.search(words, kind),
            replace(self._view, state="busy", words=words, repo="", title="", page=""),
        )

    def open_files(self, repo: str) -> None:
        """Ask the hub for the files of a model."""
        self._asked_repo = repo
        self._ask(
            lambda cancel: self._hub.files(repo, cancel),
            self._on_files,
            lambda: self.open_files(repo),
            replace(self._view, state="busy", title="", page=""),
        )

    def fetch_offer(self, repo: str, file: str) -> None:
        """Begin the download of one file of the short list: its size and hash are asked for first."""

        def begin(files: Files) -> None:
            variant = next((each for each in files.variants if each.key == file), None)
            if variant is None:
                self._on_files(files)  # it was replaced since the list was made: show what there is
                return
            self._view = replace(self._view, state="idle")
            self._start(files, variant)
            self.refresh()

        self._asked_repo = repo
        self._ask(
            lambda cancel: self._hub.files(repo, cancel),
            begin,
            lambda: self.fetch_offer(repo, file),
            replace(self._view, state="busy", title="", page=""),
            self.offer_failed.emit,
        )

    def stop(self) -> None:
        """Leave what is being asked: the page is left, or the program closes."""
        self._cancel.set()

    def set_here(self, paths: frozenset[str]) -> None:
        """Tell which files are on this computer."""
        if paths != self._here:
            self._here = paths
            self.refresh()

    def refresh(self) -> None:
        """Show the files with what is known of them by now."""
        if self._files is not None and self._view.repo:
            files = self._files
            self._view = replace(self._view, files=tuple(self._row(files, each) for each in files.variants))
        self._page.set_find(self._view)

    def _ask(
        self,
        work: Callable[[threading.Event], object],
        on_done: Callable[..., None],
        again: Callable[[], None],
        view: FindView,
        on_failed: Callable[[Failed], None] = lambda _: None,
    ) -> None:
        """Run one question; an earlier one that is still waiting is left."""
        self._cancel.set()
        cancel = self._cancel = threading.Event()
        self._again, self._view = again, replace(view, site=_site())
        self._set_asking(True)

        def done(value: object) -> None:
            if cancel is self._cancel:
                self._set_asking(False)
                on_done(value)
                self.refresh()

        def failed(failure: Failed) -> None:
            if cancel is self._cancel:
                self._set_asking(False)
                self._on_failed(failure)
                on_failed(failure)

        self._io.submit(work, cancel, on_done=done, on_error=failed, lane=LANE)
        self.refresh()

    def _set_asking(self, is_asking: bool) -> None:
        self.is_asking = is_asking
        self.activity_changed.emit()

    def _on_found(self, words: str, found: tuple[Repo, ...]) -> None:
        rows = tuple(RepoRow(each.repo, _repo_words(each), each.is_gated) for each in found)
        state = "results" if rows else "empty"
        self._view = replace(self._view, state=state, words=words, repos=rows, repo="")

    def _on_files(self, files: Files) -> None:
        self._files, self._peeked = files, {}
        detail = " · ".join(part for part in (files.licence, _downloads(files.downloads)) if part)
        self._view = replace(self._view, state="files", repo=files.repo, detail=detail, notes=files.notes)
        self._peek_all(files)

    def _on_left(self) -> None:
        self._cancel.set()
        self._files = None
        state = "results" if self._view.repos else "idle"
        self._view = replace(self._view, state=state, repo="", files=(), notes=(), title="", page="")
        self.refresh()

    def _on_failed(self, failure: Failed) -> None:
        """Say why; where a licence is to be accepted, its page and the place for a token come along."""
        is_gated = failure.kind == "gated"
        page = hub.page_of(self._asked_repo) if is_gated else ""
        self._view = replace(self._view, state="failed", title=failure.message, text=failure.hint, page=page)
        self._page.show_tab("find")
        self.refresh()

    # Headers of what is not here

    def _peek_all(self, files: Files) -> None:
        """Look at the headers one after another, small models first, until enough was read for one look."""
        cancel, spent, machine = self._cancel, Spent(), self._machine()
        self._is_peeking = True

        def work() -> None:
            for variant in files.variants:
                if cancel.is_set() or spent.num_bytes > PEEK_BYTES:
                    return
                found = self._peek(files, variant, machine, cancel, spent)
                self._io.post(lambda value: self._on_peeked(files, *value), (variant.key, found))

        def end(_: object) -> None:
            if files is self._files:
                self._is_peeking = False
                self.refresh()

        self._io.submit(work, on_done=end, on_error=end, lane=PEEK_LANE)

    def _peek(
        self, files: Files, variant: Variant, machine: Machine, cancel: threading.Event, spent: Spent
    ) -> _Peeked:
        try:
            spec = hub_peek.peek(self._hub, files, variant, cancel, spent)
            return _Peeked(fit_mark(spec, machine.hardware, LoadSpec(variant.key), machine.held_bytes))
        except EngineError as error:
            reason = hub_peek.reason_of(error)
            if error.kind in ("download", "cancelled", "gated"):  # it was not seen: it may be fine
                return _Peeked(replace(_not_seen(), tooltip=reason), was_seen=False)
            return _Peeked(NO_MARK, reason)

    def _on_peeked(self, files: Files, key: str, found: _Peeked) -> None:
        if files is self._files:
            self._peeked[key] = found
            self.refresh()

    # Rows and downloads

    def _row(self, files: Files, variant: Variant) -> FileRow:
        order, peeked = self._order(files, variant), self._peeked.get(variant.key)
        state, reason = "offered", ""
        if str(order.target) in self._here:
            state = "here"
        elif self._downloads.state_of(order.key):
            state = "downloading"
        elif peeked is not None and peeked.reason:
            state, reason = "blocked", peeked.reason
        else:
            reason = self._space_reason(variant)
            state = "blocked" if reason else state
        parts = len([file for file in variant.files if file.name.endswith((".gguf", ".safetensors"))])
        size = format_bytes(variant.size_bytes)
        detail = tr("{size} in %n file(s)", "", parts).format(size=size) if parts > 1 else size
        return FileRow(variant.key, variant.label, detail, self._mark(variant, peeked), state, reason)

    def _mark(self, variant: Variant, peeked: _Peeked | None) -> FitMark:
        """From the header where it could be looked at, else what the size alone tells."""
        if peeked is not None and peeked.was_seen and peeked.mark.title:
            return peeked.mark
        machine = self._machine()
        mark = size_mark(variant.size_bytes, machine.hardware, machine.held_bytes)
        if mark.title:
            return mark
        if peeked is None and self._is_peeking:
            return FitMark("unknown", tr("Looking…"))
        return peeked.mark if peeked is not None else _not_seen()

    def _space_reason(self, variant: Variant) -> str:
        free = self._free_bytes
        if free is None or free >= variant.size_bytes:
            return ""
        words = tr("{needed} needed, {free} free on this disk.")
        return words.format(needed=format_bytes(variant.size_bytes), free=format_bytes(free))

    def set_free(self, free_bytes: int | None) -> None:
        """Tell what is free on the disk of the models folder."""
        self._free_bytes = free_bytes

    def _order(self, files: Files, variant: Variant) -> Order:
        return library_fetch.order_of(files.repo, files.commit, variant, self._models_dir)

    def _start(self, files: Files, variant: Variant) -> None:
        self._downloads.start(self._order(files, variant))

    def _on_file(self, key: str, action: str) -> None:
        files = self._files
        variant = next((each for each in files.variants if each.key == key), None) if files else None
        if files is None or variant is None:
            return
        order = self._order(files, variant)
        if action == "use":
            self.used.emit(str(order.target))
        else:
            self._downloads.start(order)

    # Access

    def _on_refused(self, key: str, repo: str) -> None:
        """A download wants a login: the place for a token opens, and the download goes on with it."""
        text = tr("Accept its licence on the model page and add an access token; the download then goes on.")
        self._again = lambda: self._downloads.resume(key)
        title = tr("{repo} wants its licence accepted first.").format(repo=repo)
        self._view = replace(self._view, state="failed", title=title, text=text, page=hub.page_of(repo))
        self._page.show_tab("find")
        self.refresh()

    def _on_token(self, text: str) -> None:
        def kept(is_lasting: bool) -> None:
            lost = tr("There is no keyring on this computer: the token is kept until the program closes.")
            notes = () if is_lasting else (lost,)
            again = self._again
            state = "files" if self._view.repo else "results" if self._view.repos else "idle"
            self._view = replace(self._view, state=state, title="", page="", notes=notes)
            self.refresh()
            again()

        def failed(failure: Failed) -> None:
            self._view = replace(self._view, title=failure.message, text=failure.hint)
            self.refresh()

        self._io.submit(self._token.keep, text, on_done=kept, on_error=failed, lane=LANE)


def _not_seen() -> FitMark:
    return FitMark("unknown", tr("Not looked at"))


def _site() -> str:
    """The hub's address without a login that HF_ENDPOINT may hold."""
    return shown(hub.endpoint())


def _repo_words(repo: Repo) -> str:
    parts = (_downloads(repo.downloads), repo.licence or tr("no licence named"), repo.updated)
    return " · ".join(part for part in parts if part)


def _downloads(count: int | None) -> str:
    """ "1.2 million downloads", "12,400 downloads"."""
    if count is None:
        return ""
    if count >= 1_000_000:
        return tr("{count} million downloads").format(count=numbers.decimal(count / 1e6, 1))
    return tr("%n download(s)", "", count)
