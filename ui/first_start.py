"""The first-start screen: this computer, the starter model, a way to one's own. Downloads nothing itself."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLayout, QScrollArea, QVBoxLayout, QWidget

from engine.words import mark, tr
from ui import numbers
from ui.card import Card, ProgressLine
from ui.controls import Button, IconButton
from ui.label import Icon, Label, LinkButton
from ui.numbers import NBSP
from ui.offers import Offers
from ui.values import DownloadView, MachineView

STARTER_NAME = "SmolLM2-135M-Instruct"
_BUTTONS = {
    "offered": mark("Download"),
    "paused": mark("Resume"),
    "failed": mark("Try again"),
    "here": mark("Use it"),
}
_RUNNING = {"starting", "running", "checking"}


def format_bytes(num_bytes: float, unit: str | None = None) -> str:
    """Decimal MB without a fraction below 1 GB, then GB."""
    if unit == "MB" or (unit is None and num_bytes < 1e9):
        return f"{numbers.decimal(num_bytes / 1e6, 0)}{NBSP}MB"
    return f"{numbers.gigabytes(round(num_bytes))}{NBSP}GB"


def describe_progress(view: DownloadView) -> tuple[str, str]:
    """What stands under the bar, left and right: "36 of 84 MB · 43%" and "6.1 MB/s · 8 s left"."""
    if view.state == "starting":
        return view.message or tr("Starting…"), ""
    if view.state == "checking":
        return tr("Checking the file…"), ""
    if view.state == "done":
        return tr("Downloaded. Loading the model…"), ""
    if view.state == "here":
        return tr("It is on this computer already."), ""
    if not view.total_bytes:
        return format_bytes(view.done_bytes), ""
    unit = "MB" if view.total_bytes < 1e9 else "GB"
    total = format_bytes(view.total_bytes, unit)
    done = format_bytes(view.done_bytes, unit).removesuffix(f"{NBSP}{unit}")
    if view.state in ("paused", "failed"):
        paused = tr("Paused at {done} of {total}").format(done=done, total=total)
        return paused if view.done_bytes else "", ""
    percent = int(100 * view.done_bytes / view.total_bytes)
    left = tr("{done} of {total} · {percent}")
    left = left.format(done=done, total=total, percent=numbers.percent(percent / 100))
    right = []
    if view.rate_bps is not None:
        right.append(f"{numbers.decimal(view.rate_bps / 1e6, 1)}{NBSP}MB/s")
    if view.seconds_left is not None:
        right.append(numbers.time_left(view.seconds_left))
    return left, " · ".join(right)


class MachineCard(Card):
    """This computer in two lines; before it is known it says so."""

    def __init__(self) -> None:
        super().__init__("bg1")
        row = QHBoxLayout(self)
        row.setContentsMargins(16, 8, 16, 8)
        row.setSpacing(14)
        self._title = Label(tr("This computer"), "ui", "text1", 600, elide=True)
        self._detail = Label(tr("Looking at it…"), "small", "text2", elide=True)
        row.addWidget(Icon("cpu", "text3"))
        lines = QVBoxLayout()
        lines.setSpacing(0)
        lines.addWidget(self._title)
        lines.addWidget(self._detail)
        row.addLayout(lines, 1)
        self.setAccessibleName(tr("This computer"))

    def set_machine(self, view: MachineView) -> None:
        """Show what is known of this computer."""
        self._title.setText(view.title)
        self._detail.setText(view.detail)
        self.setAccessibleDescription(f"{view.title}, {view.detail}")


class StarterCard(Card):
    """The starter model: an offer, then its download."""

    download_clicked = Signal()
    cancel_clicked = Signal()

    def __init__(self) -> None:
        super().__init__("bg2")
        self.setAccessibleName(tr("Starter model"))
        self.state = "offered"
        self._size = Label("", "small", "text3", 500)
        self._cancel = IconButton("x", tr("Cancel the download"))
        self._cancel.clicked.connect(self.cancel_clicked)
        self._bar = ProgressLine(tr("Download of the starter model"))
        self._left = Label("", "small", "text1", 600)
        self._right = Label("", "small", "text2", 500)
        self._message = Label("", "ui", "bad", wrap=True)
        self._failure = QWidget()
        text = tr(
            "Small and quick, good for a first try. You can write already: the message is sent when the"
            " model is ready."
        )
        self._text = Label(text, "small", "text3", wrap=True)
        self._button = Button(tr("Download"), "download", "primary")
        self._button.clicked.connect(self.download_clicked)
        self._lay_out()
        self.set_download(DownloadView("offered"))

    @property
    def can_start(self) -> bool:
        """Whether Enter starts or resumes the download now."""
        return self.state in _BUTTONS

    @property
    def action(self) -> QWidget | None:
        """The button that can be pressed now."""
        return self._button if self.can_start else self._cancel if self.state in _RUNNING else None

    def set_download(self, view: DownloadView) -> None:
        """Show where the download stands."""
        self.state = view.state
        is_here = view.state == "here"
        size = f" · {format_bytes(view.total_bytes)}" if view.total_bytes and not is_here else ""
        self._size.setText(tr("4-bit") + size)
        is_running = view.state in _RUNNING
        left, right = describe_progress(view)
        has_part = view.state not in ("offered", "here") and (is_running or view.done_bytes > 0)
        self._bar.setVisible(has_part or view.state == "done")
        fraction = 1.0 if view.state in ("checking", "done") else view.done_bytes / max(1, view.total_bytes)
        self._bar.setValue(round(1000 * min(1.0, fraction)))
        self._left.setText(left)
        self._figures.setVisible(view.state != "offered" and bool(left))
        self._right.setText(right)
        self._message.setText(view.message)
        self._failure.setVisible(view.state == "failed" and bool(view.message))
        self._cancel.setVisible(is_running)
        self._actions.setVisible(self.can_start)
        self._button.set_icon(None if is_here else "download")
        self._button.setText(tr(_BUTTONS.get(view.state, _BUTTONS["offered"])))
        self.setAccessibleDescription(view.message if view.state == "failed" else left)

    def _lay_out(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 12, 16, 14)
        column.setSpacing(8)
        head = QHBoxLayout()
        head.setSpacing(10)
        title = tr("Starter model: {name}").format(name=STARTER_NAME)
        head.addWidget(Label(title, "title", elide=True))
        head.addWidget(self._size)
        head.addStretch(1)
        keep = self._cancel.sizePolicy()
        keep.setRetainSizeWhenHidden(True)
        self._cancel.setSizePolicy(keep)
        head.addWidget(self._cancel)
        self._figures = QWidget()
        figures = QHBoxLayout(self._figures)
        figures.setContentsMargins(0, 0, 0, 0)
        figures.addWidget(self._left)
        figures.addStretch(1)
        figures.addWidget(self._right)
        failure = QHBoxLayout(self._failure)
        failure.setContentsMargins(0, 0, 0, 0)
        failure.setSpacing(8)
        failure.addWidget(Icon("circle-x", "bad", 16))
        failure.addWidget(self._message, 1)
        self._actions = QWidget()
        action = QHBoxLayout(self._actions)
        action.setContentsMargins(0, 4, 0, 0)
        action.setSpacing(12)
        action.addWidget(self._button)
        action.addWidget(Label(tr("or press Enter"), "small", "text3"))
        action.addStretch(1)
        column.addLayout(head)
        column.addWidget(self._bar)
        column.addWidget(self._figures)
        column.addWidget(self._failure)
        column.addWidget(self._text)
        column.addWidget(self._actions)
        column.setSizeConstraint(QLayout.SizeConstraint.SetMinimumSize)


class FirstStart(QScrollArea):
    """The screen in place of the transcript while there is no model. Enter starts the starter's download."""

    starter_requested = Signal()
    download_cancelled = Signal()
    file_requested = Signal()
    folder_requested = Signal()
    library_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setAccessibleName(tr("Welcome"))
        self.machine = MachineCard()
        self.starter = StarterCard()
        self.starter.download_clicked.connect(self.starter_requested)
        self.starter.cancel_clicked.connect(self.download_cancelled)
        self.offers = Offers()
        self.offers.browse_clicked.connect(self.library_requested)
        self._column = self._make_column()
        page = QWidget()
        self._across = QHBoxLayout(page)
        self._left = 24
        self._across.addWidget(self._column)
        self._across.addStretch(1)
        self.setWidget(page)
        for ground in (self.viewport(), page):
            ground.setAutoFillBackground(False)

    def set_machine(self, view: MachineView) -> None:
        """Show this computer."""
        self.machine.set_machine(view)

    def set_download(self, view: DownloadView | None) -> None:
        """Show the starter's download; None where there is no starter to offer."""
        self.starter.setVisible(view is not None)
        if view is not None:
            self.starter.set_download(view)

    def set_column(self, left: int, width: int) -> None:
        """Stand in the same column as the composer: its left edge and width, in px of this screen."""
        self._column.setFixedWidth(width)
        self._left = left
        self._set_margins()

    def start(self) -> bool:
        """Start or resume the starter's download if it is on offer; whether it was."""
        is_offered = self.starter.isVisibleTo(self) and self.starter.can_start
        if is_offered:
            self.starter_requested.emit()
        return is_offered

    def focus_region(self) -> None:
        """Give the keyboard to the download's button, or to the links where there is none."""
        target = self.starter.action if self.starter.isVisibleTo(self) else None
        (target or self._file_link).setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _make_column(self) -> QWidget:
        column = QWidget()
        lines = QVBoxLayout(column)
        lines.setContentsMargins(0, 0, 0, 0)
        lines.setSpacing(0)
        lines.addWidget(Label(tr("Welcome to Decodeck"), "title-l"))
        lines.addSpacing(6)
        text = tr("Chat with models that run on this computer, and see how fast they are.")
        lines.addWidget(Label(text, "body", "text2", wrap=True))
        lines.addSpacing(20)
        lines.addWidget(self.machine)
        lines.addSpacing(16)
        lines.addWidget(self.starter)
        lines.addSpacing(20)
        lines.addWidget(self.offers)
        lines.addLayout(self._make_own_models())
        lines.addStretch(1)
        return column

    def _make_own_models(self) -> QHBoxLayout:
        row = QHBoxLayout()
        row.setSpacing(4)
        file_link = self._file_link = LinkButton(tr("choose a file"), tr("Choose a GGUF file"))
        folder_link = LinkButton(tr("a folder", "choose a file or a folder"), tr("Choose a model folder"))
        file_link.clicked.connect(self.file_requested)
        folder_link.clicked.connect(self.folder_requested)
        row.addWidget(Icon("folder", "text3", 16))
        row.addSpacing(4)
        row.addWidget(Label(tr("Already have models? Drop one here, or"), "ui", "text2"))
        row.addWidget(file_link)
        row.addWidget(Label(tr("or", "choose a file or a folder"), "ui", "text2"))
        row.addWidget(folder_link)
        row.addStretch(1)
        return row

    def _set_margins(self) -> None:
        """A low window has less air above, so that it need not scroll."""
        top, bottom = (40, 24) if self.height() >= 480 else (20, 8)
        self._across.setContentsMargins(self._left, top, 0, bottom)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._set_margins()

    def sizeHint(self) -> QSize:
        return QSize(600, 400)

    def minimumSizeHint(self) -> QSize:
        return QSize(200, 80)
