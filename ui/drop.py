"""Files dragged over the window: which can be loaded, and the overlay that says so. Loads nothing."""

from __future__ import annotations

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

from ui import theme
from ui.label import Icon, Label
from ui.painting import with_alpha
from ui.values import NoticeAction, NoticeView

WEIGHT_ENDINGS = (".gguf", ".safetensors", ".safetensors.index.json")
_STATUS_PX = 24  # the status bar stays readable below the overlay's card
MAX_NAMES = 3  # refused names that are listed; the rest is counted


@dataclass(frozen=True, slots=True)
class Dropped:
    """What was dragged, sorted: the model to load, models beyond the first, and what is not a model."""

    model: str | None
    others: tuple[str, ...]
    refused: tuple[str, ...]

    @property
    def model_name(self) -> str:
        """The model's own name, without its folder."""
        return Path(self.model).name if self.model else ""


def sort_urls(urls: Sequence[QUrl]) -> Dropped:
    """Sort what was dragged. A folder is a model if it holds a config.json or exactly one GGUF file."""
    models: list[str] = []
    refused: list[str] = []
    for url in urls:
        path = _model_path(Path(url.toLocalFile())) if url.isLocalFile() else None
        if path is None:
            refused.append(url.fileName() or Path(url.toLocalFile()).name or url.toDisplayString())
        else:
            models.append(path)
    others = tuple(Path(path).name for path in models[1:])
    return Dropped(models[0] if models else None, others, tuple(refused))


def _model_path(path: Path) -> str | None:
    try:
        if path.is_dir():
            if (path / "config.json").is_file():
                return str(path)
            inside = sorted(path.glob("*.gguf"))
            return str(inside[0]) if len(inside) == 1 else None
    except OSError:
        return None
    is_weights = path.name.lower().endswith(WEIGHT_ENDINGS) or path.name == "config.json"
    return str(path) if is_weights else None


def describe_drop(dropped: Dropped) -> tuple[str, str]:
    """The overlay's two lines: what will happen on release, and what will be left out."""
    left_out = _join_names((*dropped.others, *dropped.refused))
    if dropped.model is None:
        notice = describe_refused(dropped)
        return notice.title, notice.text
    title = f"Drop to load {dropped.model_name}"
    if dropped.others and dropped.refused:
        return title, f"Left out: {left_out}"
    if dropped.others:
        return title, f"One model at a time: {left_out} is left out"
    if dropped.refused:
        return title, f"Not a model, left out: {left_out}"
    return title, "The file stays where it is"


def describe_refused(dropped: Dropped) -> NoticeView:
    """What to say after a release that left something out."""
    names = _join_names((*dropped.others, *dropped.refused))
    if dropped.model is None:
        title = "These are not models" if len(dropped.refused) > 1 else "This is not a model"
        text = f"{names} cannot be used here. Drop a GGUF file or a model folder."
        return NoticeView("warning", title, text, (NoticeAction("choose-file", "Choose another file"),))
    return NoticeView("info", "Left out", f"{names}. One model is loaded at a time.")


def _join_names(names: Sequence[str]) -> str:
    shown = ", ".join(names[:MAX_NAMES])
    more = len(names) - MAX_NAMES
    return f"{shown} and {more} more" if more > 0 else shown


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
        self._is_refused = dropped.model is None
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
    """Lets a window take models. ``model_dropped`` carries the path; ``refused`` what was only left out."""

    model_dropped = Signal(str)
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
