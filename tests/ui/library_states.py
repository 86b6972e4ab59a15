"""The designed states of the model library, as functions that bring a window into one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from ui.library import FIND
from ui.library_values import (
    FileRow,
    FindView,
    FitMark,
    LibraryRow,
    LibraryView,
    OfferRow,
    RepoRow,
    TransferView,
)
from ui.main_window import MainWindow
from ui.values import DownloadView, StatusView
from ui.window_view import LIBRARY

GB = "\u00a0GB"
FITS = FitMark("fits", f"Fits · 1.90{GB} spare", "41\u00a0tok/s", "±6% predicted")
SPILLS = FitMark("spills", "Spills 18% to RAM · about 6× slower", "1.3\u00a0tok/s", "±20% predicted")
TIGHT = FitMark("tight", f"Tight · 0.21{GB} spare", "12\u00a0tok/s", "±12% predicted")
NO = FitMark("no", f"Does not fit · 3.40{GB} short")
ROWS = (
    LibraryRow(
        "/m/a",
        "SmolLM2-135M-Instruct",
        "llama · 5.8 bits · 98 MB · 8k context · chat template",
        "Decodeck",
        "used today",
        fit=FITS,
        is_loaded=True,
    ),
    LibraryRow(
        "/m/b",
        "Qwen2.5-1.5B-Instruct",
        "qwen2 · 5.1 bits · 0.99 GB · 32k context · chat template",
        "LM Studio",
        "used yesterday",
        fit=TIGHT,
    ),
    LibraryRow(
        "/m/c",
        "llama3.2:3b",
        "llama · 5.0 bits · 2.02 GB · 128k context · no chat template",
        "Ollama",
        note="vision part left out",
        fit=SPILLS,
    ),
    LibraryRow(
        "/m/d",
        "Qwen2.5-14B-Instruct",
        "qwen2 · 4.9 bits · 8.99 GB · 32k context · chat template · 3 files",
        "Hugging Face cache",
        fit=NO,
        can_delete=True,
    ),
    LibraryRow(
        "/m/e",
        "notes",
        "12 MB",
        "Downloads",
        reason="This is a web page, not a GGUF file; the download failed. Download the file again.",
    ),
    LibraryRow("/m/f", "mamba-2.8b", "5.6 GB", "Jan", reason="Architecture not supported: mamba2."),
)
REPOS = (
    RepoRow("bartowski/Qwen2.5-7B-Instruct-GGUF", "1.2 million downloads · apache-2.0 · 2025-01-12"),
    RepoRow("google/gemma-3-4b-it-qat-q4_0-gguf", "412,300 downloads · gemma · 2025-04-18", is_gated=True),
    RepoRow("somebody/an-experiment-GGUF", "14 downloads · no licence named · 2026-02-01"),
)
FILES = (
    FileRow("a-Q3_K_M.gguf", "Q3_K_M", "3.81 GB", FITS, "here"),
    FileRow("a-Q4_K_M.gguf", "Q4_K_M", "4.68 GB", TIGHT, "downloading"),
    FileRow("a-Q6_K.gguf", "Q6_K", "6.25 GB", SPILLS),
    FileRow("a-Q8_0.gguf", "Q8_0", "8.10 GB in 2 files", NO),
    FileRow("a-IQ1_S.gguf", "IQ1_S", "1.90 GB", state="blocked", reason="Type IQ1_S is not supported."),
    FileRow(
        "a-F16.gguf", "F16", "15.2 GB", state="blocked", reason="15.2 GB needed, 9.1 GB free on this disk."
    ),
)
OFFERS = (
    OfferRow("q/1.5", "Qwen2.5-1.5B-Instruct", f"4-bit · 0.99{GB} · apache-2.0", "best balance", FITS),
    OfferRow("l/3", "Llama-3.2-3B-Instruct", f"4-bit · 2.02{GB} · llama3.2", "better answers", TIGHT),
    OfferRow("q/7", "Qwen2.5-7B-Instruct", f"4-bit · 4.68{GB} · apache-2.0", "good answers", SPILLS),
)
RUNNING = DownloadView("running", 1_900_000_000, 4_680_000_000, 6.1e6, 455.0)
TRANSFERS = (
    TransferView("k1", "Qwen2.5-7B-Instruct-GGUF", "Q4_K_M · bartowski/Qwen2.5-7B-Instruct-GGUF", RUNNING),
    TransferView(
        "k2", "gemma-3-4b-it", "Q4_0 · google/gemma-3-4b", DownloadView("paused", 36_000_000, 84_000_000)
    ),
    TransferView(
        "k3",
        "an-experiment-GGUF",
        "Q8_0 · somebody/an-experiment-GGUF",
        DownloadView(
            "failed", 12_000_000, 310_000_000, message="huggingface.co was asked too often. Wait 5 s."
        ),
    ),
)


def _open(window: MainWindow) -> None:
    navigation = window.body.sidebar.navigation
    navigation.set_note(LIBRARY, "6 models")
    window.set_status(StatusView("AMD EPYC 9B45 · 2 cores"))
    window.library.set_library(LibraryView(ROWS, f"6 models · 17.7{GB}"))
    window.show_library()


def _list(window: MainWindow) -> None:
    _open(window)
    window.library.set_library(
        LibraryView(ROWS, f"6 models · 17.7{GB}", ("/srv/models cannot be read: Permission denied.",))
    )
    window.library.set_undo("tinyllama-1.1b")


def _empty(window: MainWindow) -> None:
    _open(window)
    window.body.sidebar.navigation.set_note(LIBRARY, "empty")
    window.library.set_library(LibraryView())


def _download(window: MainWindow) -> None:
    _open(window)
    window.set_status(
        StatusView("AMD EPYC 9B45 · 2 cores", (), "Only model files are downloaded; chats stay here")
    )
    window.library.set_transfers(TRANSFERS)


def _find(window: MainWindow, view: FindView) -> None:
    _open(window)
    window.library.show_tab(FIND)
    window.library.search.field.set_text("qwen")
    window.library.set_find(view)


def _results(window: MainWindow) -> None:
    _find(window, FindView("results", "qwen", REPOS))


def _idle(window: MainWindow) -> None:
    _find(window, FindView())
    window.library.search.field.set_text("")


def _files(window: MainWindow) -> None:
    notes = ("The vision part (mmproj) is left out: Decodeck reads text.",)
    repo = REPOS[0].repo
    _find(window, FindView("files", "qwen", REPOS, repo, "apache-2.0 · 1.2 million downloads", FILES, notes))


def _gated(window: MainWindow) -> None:
    repo = REPOS[1].repo
    page = f"https://huggingface.co/{repo}"
    title = f"{repo} wants its licence accepted first."
    text = f"Accept it at {page} and add an access token of your account."
    _find(window, FindView("failed", "gemma", REPOS, title=title, text=text, page=page))


def _offline(window: MainWindow) -> None:
    text = "Check the network and try again. Models on this computer still work."
    _find(window, FindView("failed", "qwen", title="No connection to huggingface.co.", text=text))


def _offer(window: MainWindow) -> None:
    window.show_first_start(True)
    window.set_download(DownloadView("offered", 0, 92_871_040))
    window.body.centre.first_start.offers.set_offers(
        [OFFERS[0], replace(OFFERS[1], state="Downloading 43%"), OFFERS[2]]
    )


LIBRARY_STATES: dict[str, Callable[[MainWindow], None]] = {
    "library": _list,
    "library-empty": _empty,
    "library-downloads": _download,
    "library-find": _idle,
    "library-results": _results,
    "library-files": _files,
    "library-gated": _gated,
    "library-offline": _offline,
    "first-start-offers": _offer,
}
