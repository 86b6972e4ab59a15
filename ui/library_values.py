"""What the library page is told to show: frozen values, standard library only. All texts are plain text."""

from __future__ import annotations

from dataclasses import dataclass

from ui.values import DownloadView


@dataclass(frozen=True, slots=True)
class FitMark:
    """Whether a model fits this computer and how fast it should be. ``kind``: fits, tight, spills, no, or
    unknown.
    """

    kind: str = "unknown"
    title: str = ""  # "Fits · 1.9 GB spare"
    speed: str = ""  # "41 tok/s", without the unit of trust
    trust: str = ""  # "±6% predicted"
    tooltip: str = ""


NO_MARK = FitMark()


@dataclass(frozen=True, slots=True)
class LibraryRow:
    """A model on this computer; one that cannot run has its ``reason``."""

    path: str
    name: str
    detail: str  # "llama · 4.8 bits · 2.02 GB · 131k context · chat template"
    place: str = ""  # "LM Studio"
    used: str = ""  # "used yesterday"
    note: str = ""  # "Vision part left out"
    fit: FitMark = NO_MARK
    reason: str = ""
    is_loaded: bool = False
    can_delete: bool = False
    added_folder: str = ""  # by the user, who can take it out of the library
    tooltip: str = ""


@dataclass(frozen=True, slots=True)
class LibraryView:
    """The models on this computer. ``notes`` say what could not be read or was too much."""

    rows: tuple[LibraryRow, ...] = ()
    summary: str = ""  # "42 models · 310 GB"
    notes: tuple[str, ...] = ()
    is_looking: bool = False


@dataclass(frozen=True, slots=True)
class RepoRow:
    """A model that a search found."""

    repo: str
    detail: str  # "1.2 million downloads · apache-2.0 · 2026-03-31"
    is_gated: bool = False


@dataclass(frozen=True, slots=True)
class FileRow:
    """Files of a repository that are one model. ``state``: offered, downloading, here or blocked (``reason``
    says why).
    """

    key: str
    label: str  # "Q4_K_M"
    detail: str  # "1.12 GB", "4.9 GB in 2 files"
    fit: FitMark = NO_MARK
    state: str = "offered"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class FindView:
    """The search. ``state``: idle, busy, results, files, empty or failed; ``busy`` keeps what is shown."""

    state: str = "idle"
    words: str = ""
    repos: tuple[RepoRow, ...] = ()
    repo: str = ""
    detail: str = ""  # of the repository whose files are shown
    files: tuple[FileRow, ...] = ()
    notes: tuple[str, ...] = ()
    title: str = ""  # of a failure
    text: str = ""
    page: str = ""  # where a licence is accepted; then a token is asked for
    site: str = "https://huggingface.co"

    @property
    def host(self) -> str:
        """The hub's name in sentences."""
        return self.site.partition("://")[2]


@dataclass(frozen=True, slots=True)
class TransferView:
    """One download: its name and where it stands."""

    key: str
    name: str
    detail: str  # "Q4_K_M · maker/model"
    progress: DownloadView


@dataclass(frozen=True, slots=True)
class OfferRow:
    """A model of the short list on the first-start screen."""

    repo: str
    name: str
    detail: str  # "4-bit · 0.99 GB"
    praise: str  # "best balance"
    fit: FitMark = NO_MARK
    state: str = ""  # "Downloading 43%" in place of the button
    note: str = ""  # why it did not work
