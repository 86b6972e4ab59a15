"""Files dragged over the window: which can be loaded or attached, and the overlay that says so."""

from __future__ import annotations

import mimetypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from PySide6.QtCore import QEvent, QObject, QRectF, Qt, QUrl, Signal
from PySide6.QtGui import (
    QDragEnterEvent,
    QDragLeaveEvent,
    QDragMoveEvent,
    QDropEvent,
    QPainter,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import QVBoxLayout, QWidget

from engine.models import gguf_parts
from engine.models.gguf_parts import PartName
from engine.words import tr
from ui import theme
from ui.label import Icon, Label
from ui.painting import with_alpha
from ui.values import NoticeAction, NoticeView

WEIGHT_ENDINGS = (".gguf", ".safetensors", ".safetensors.index.json")
_STATUS_PX = 24  # the status bar stays readable below the overlay's card
NO_TEXT_ENDINGS: tuple[str, ...] = (
    ".bin",
    ".db",
    ".doc",
    ".docx",
    ".exe",
    ".odt",
    ".ods",
    ".ppt",
    ".pptx",
    ".pt",
    ".xls",
    ".xlsx",
)
NO_TEXT_ENDINGS += (
    ".7z",
    ".bz2",
    ".dll",
    ".gz",
    ".iso",
    ".jar",
    ".rar",
    ".so",
    ".tar",
    ".tgz",
    ".xz",
    ".zip",
)
_NO_TEXT_TYPES = ("audio", "font", "image", "video")
MAX_NAMES = 3  # refused names that are listed; the rest is counted


@dataclass(frozen=True, slots=True)
class Dropped:
    """What was dragged, sorted: the model to load, models beyond the first, names of what is of no use, and
    files that may be texts to attach.
    """

    model: str | None
    others: tuple[str, ...]
    refused: tuple[str, ...]
    texts: tuple[str, ...] = ()  # paths

    @property
    def model_name(self) -> str:
        """The model's own name, without its folder."""
        return Path(self.model).name if self.model else ""


def sort_urls(urls: Sequence[QUrl]) -> Dropped:
    """Sort what was dragged. A folder is a model if it holds a config.json or exactly one GGUF model; dragged
    parts of a split model are one.
    """
    models: dict[object, str] = {}
    refused: list[str] = []
    texts: list[str] = []
    for url in urls:
        path = _model_path(Path(url.toLocalFile())) if url.isLocalFile() else None
        if path is None and url.isLocalFile() and _may_be_text(Path(url.toLocalFile())):
            texts.append(url.toLocalFile())
        elif path is None:
            refused.append(url.fileName() or Path(url.toLocalFile()).name or url.toDisplayString())
        else:
            models.setdefault(_model_of(path), path)
    paths = list(models.values())
    others = tuple(Path(path).name for path in paths[1:])
    return Dropped(paths[0] if paths else None, others, tuple(refused), tuple(texts))


def _may_be_text(path: Path) -> bool:
    """By its name alone: what is in it is read after the release, beside the window."""
    kind = (mimetypes.guess_type(path.name)[0] or "").partition("/")[0]
    is_picture = kind in _NO_TEXT_TYPES and not path.name.lower().endswith(".svg")
    if is_picture or path.name.lower().endswith(NO_TEXT_ENDINGS):
        return False
    try:
        return not path.is_dir()
    except OSError:
        return False


def _model_of(path: str) -> object:
    """The same for all parts of a split model."""
    part = PartName.parse(Path(path).name)
    return path if part is None else (Path(path).parent, part.model)


def _model_path(path: Path) -> str | None:
    try:
        if path.is_dir():
            if (path / "config.json").is_file():
                return str(path)
            inside = gguf_parts.models(each.name for each in path.iterdir())
            return str(path / inside[0]) if len(inside) == 1 else None
    except OSError:
        return None
    is_weights = path.name.lower().endswith(WEIGHT_ENDINGS) or path.name == "config.json"
    # A piece that was cut by hand is no model, but reading it says what to do with it.
    return str(path) if is_weights or gguf_parts.is_cut_by_hand(path.name) else None


def describe_drop(dropped: Dropped) -> tuple[str, str]:
    """The overlay's two lines: what will happen on release, and what will be left out."""
    left_out = _join_names((*dropped.others, *dropped.refused))
    if dropped.texts:
        return _describe_texts(dropped, left_out)
    if dropped.model is None:
        notice = describe_refused(dropped)
        return notice.title, notice.text
    title = tr("Drop to load {name}").format(name=dropped.model_name)
    if dropped.others and dropped.refused:
        return title, tr("Left out: {names}").format(names=left_out)
    if dropped.others:
        return title, tr("One model at a time: {names} is left out").format(names=left_out)
    if dropped.refused:
        return title, tr("Not a model, left out: {names}").format(names=left_out)
    return title, tr("The file stays where it is")


def _describe_texts(dropped: Dropped, left_out: str) -> tuple[str, str]:
    count = len(dropped.texts)
    detail = tr("Text goes into this message")
    if dropped.model is not None:
        title = tr("Drop to add 1 model and %n text file(s)", "", count)
        detail = tr("The model is loaded, text goes into this message")
    elif count == 1:
        title = tr("Drop to attach {name}").format(name=Path(dropped.texts[0]).name)
    else:
        title = tr("Drop to attach %n text file(s)", "", count)
    return title, f"{detail}. " + tr("Left out: {names}").format(names=left_out) if left_out else detail


def describe_refused(dropped: Dropped) -> NoticeView:
    """What to say after a release that left something out."""
    names = _join_names((*dropped.others, *dropped.refused))
    if dropped.model is None:
        if dropped.texts:
            text = tr("{names}. Text, code, CSV and PDF files can be attached.")
            return NoticeView("info", tr("Left out"), text.format(names=names))
        title = tr("These files cannot be used")
        text = tr("{names} are neither models nor text. Drop a GGUF file, a model folder or a text file.")
        if len(dropped.refused) == 1:
            title = tr("This file cannot be used")
            text = tr("{names} is neither a model nor text. Drop a GGUF file, a model folder or a text file.")
        action = NoticeAction("choose-file", tr("Choose another file"))
        return NoticeView("warning", title, text.format(names=names), (action,))
    text = tr("{names}. One model is loaded at a time.")
    return NoticeView("info", tr("Left out"), text.format(names=names))


def _join_names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MAX_NAMES])
    more = len(names) - MAX_NAMES
    return tr("{names} and {count} more").format(names=shown, count=more) if more > 0 else shown


class DropOverlay(QWidget):
    """Covers the window while files are dragged over it."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._window = parent
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        self._is_refused = False
        self._icon = Icon("download", "accent", 28)
        self._title = Label("", "title", elide=True)
        self._detail = Label("", "ui", "text2", 400, wrap=True)
        column = QVBoxLayout(self)
        column.setContentsMargins(48, 0, 48, 0)
        column.setSpacing(6)
        column.addStretch(1)
        column.addWidget(self._icon, 0, Qt.AlignmentFlag.AlignHCenter)
        column.addSpacing(4)
        for label in (self._title, self._detail):
            label.setAlignment(Qt.AlignmentFlag.AlignHCenter)
            column.addWidget(label)
        column.addStretch(1)
        self.hide()

    def show_drop(self, dropped: Dropped) -> None:
        """Cover the parent and say what a release will do."""
        title, detail = describe_drop(dropped)
        self._is_refused = dropped.model is None and not dropped.texts
        self._icon.set_icon("circle-x" if self._is_refused else "download", self._ink)
        self._title.setText(title)
        self._detail.setText(detail)
        self.setAccessibleName(f"{title}. {detail}")
        self.setGeometry(self._window.rect())
        self.show()
        self.raise_()

    @property
    def _ink(self) -> str:
        return "bad" if self._is_refused else "accent"

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = theme.palette()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.fillRect(self.rect(), with_alpha(colors.bg0, 0.6))
        ground = colors.bad_soft if self._is_refused else colors.accent_soft
        pen = QPen(colors.bad if self._is_refused else colors.accent, 2)
        pen.setDashPattern([5, 3.5])
        painter.setPen(pen)
        painter.setBrush(ground)
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(16, 16, -16, -16 - _STATUS_PX), 12, 12)


class DropTarget(QObject):
    """Lets a window take files. ``model_dropped`` carries a path, ``texts_dropped`` paths; ``refused`` what
    was only left out.
    """

    model_dropped = Signal(str)
    texts_dropped = Signal(list)
    refused = Signal(object)  # Dropped

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self.overlay = DropOverlay(window)
        self._dropped: Dropped | None = None
        window.setAcceptDrops(True)
        window.installEventFilter(self)

    def _on_enter(self, event: QDragEnterEvent) -> None:
        self._dropped = sort_urls(event.mimeData().urls())
        self.overlay.show_drop(self._dropped)
        _accept_as_copy(event)  # also what will be refused: only so can the release be answered

    def _on_drop(self, event: QDropEvent) -> None:
        dropped = sort_urls(event.mimeData().urls())
        self._leave()
        _accept_as_copy(event)
        if dropped.model is not None:
            self.model_dropped.emit(dropped.model)
        if dropped.texts:
            self.texts_dropped.emit(list(dropped.texts))
        if dropped.others or dropped.refused:
            self.refused.emit(dropped)

    def _leave(self) -> None:
        self._dropped = None
        self.overlay.hide()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QDragEnterEvent) and event.mimeData().hasUrls():
            self._on_enter(event)
            return True
        if isinstance(event, QDragMoveEvent) and self._dropped is not None:
            _accept_as_copy(event)
            return True
        if isinstance(event, QDragLeaveEvent):
            self._leave()
            return True
        if isinstance(event, QDropEvent) and event.type() == QEvent.Type.Drop and event.mimeData().hasUrls():
            self._on_drop(event)
            return True
        return False


def _accept_as_copy(event: QDropEvent) -> None:
    """Never as a move, whatever was proposed: the source would delete the file, which stays where it is."""
    event.setDropAction(Qt.DropAction.CopyAction)
    event.accept()
