"""Cards of downloads on the library page: how far each is, and pause, resume, cancel. Knows no network."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLayout,
    QScrollArea,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from engine.words import tr
from ui.card import Card, ProgressLine
from ui.controls import Button, IconButton
from ui.first_start import describe_progress, format_bytes
from ui.label import Icon, Label
from ui.library_values import TransferView

ASK_FROM_BYTES = 1_000_000_000  # of what is here already: less is given up without a question
_STANDING = ("paused", "failed")


class TransferCard(Card):
    """One download. Signals carry its key."""

    pause_clicked = Signal(str)
    resume_clicked = Signal(str)
    cancel_clicked = Signal(str)

    def __init__(self, view: TransferView) -> None:
        super().__init__("bg2")
        self._view = view
        self._name = Label(view.name, "ui", "text1", 600, elide=True)
        self._detail = Label(view.detail, "small", "text3", elide=True)
        self._pause = IconButton("pause", tr("Pause"), size=28, icon_size=16)
        self._cancel = IconButton("x", tr("Cancel"), size=28, icon_size=16)
        self._bar = ProgressLine(tr("Download of {name}").format(name=view.name))
        self._left = Label("", "small", "text1", 600, elide=True)
        self._right = Label("", "small", "text2", 500)
        self._failure = QWidget()
        self._message = Label("", "small", "bad", wrap=True)
        self._question = QWidget()
        self._asked = Label("", "small", "text2", wrap=True)
        self._pause.clicked.connect(self._on_pause)
        self._cancel.clicked.connect(self._on_cancel)
        self._lay_out()
        self.set_view(view)

    @property
    def key(self) -> str:
        """Which download it is."""
        return self._view.key

    @property
    def texts(self) -> tuple[str, str, str]:
        """What stands under the bar, left and right, and why it failed."""
        return self._left.text(), self._right.text(), self._message.text()

    def set_view(self, view: TransferView) -> None:
        """Show where the download stands."""
        self._view, progress = view, view.progress
        left, right = describe_progress(progress)
        if progress.state == "queued":
            left = tr("Waiting for the other downloads")
        is_standing = progress.state in _STANDING
        fraction = 1.0 if progress.state == "checking" else progress.done_bytes / max(1, progress.total_bytes)
        self._bar.setValue(round(1000 * min(1.0, fraction)))
        self._left.setText(left)
        self._right.setText(right)
        self._pause.set_icon("play" if is_standing else "pause")
        verb, named = _verb(progress.state)
        self._pause.setToolTip(verb)
        self._pause.setAccessibleName(named.format(name=view.name))
        self._cancel.setAccessibleName(tr("Cancel: {name}").format(name=view.name))
        self._message.setText(progress.message if progress.state == "failed" else "")
        self._failure.setVisible(progress.state == "failed" and bool(progress.message))
        self._figures.setVisible(bool(left or right))
        self.setAccessibleName(tr("Download of {name}").format(name=view.name))
        self.setAccessibleDescription(progress.message or f"{left} {right}".strip())

    def _on_pause(self) -> None:
        is_standing = self._view.progress.state in _STANDING
        (self.resume_clicked if is_standing else self.pause_clicked).emit(self.key)

    def _on_cancel(self) -> None:
        """What took long to fetch is not thrown away by one press."""
        done = self._view.progress.done_bytes
        if done < ASK_FROM_BYTES:
            self.cancel_clicked.emit(self.key)
            return
        self._asked.setText(tr("Delete the {size} that are here?").format(size=format_bytes(done)))
        self._question.show()
        self._keep.setFocus()

    def _lay_out(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 10, 12, 12)
        column.setSpacing(6)
        head = QHBoxLayout()
        head.setSpacing(8)
        words = QHBoxLayout()
        words.setSpacing(8)
        words.addWidget(self._name)
        words.addWidget(self._detail, 1)
        head.addLayout(words, 1)
        head.addWidget(self._pause)
        head.addWidget(self._cancel)
        self._figures = QWidget()
        figures = QHBoxLayout(self._figures)
        figures.setContentsMargins(0, 0, 4, 0)
        figures.addWidget(self._left, 1)
        figures.addWidget(self._right)
        failure = QHBoxLayout(self._failure)
        failure.setContentsMargins(0, 0, 0, 0)
        failure.setSpacing(8)
        failure.addWidget(Icon("circle-x", "bad", 14))
        failure.addWidget(self._message, 1)
        question = QHBoxLayout(self._question)
        question.setContentsMargins(0, 0, 0, 0)
        question.setSpacing(8)
        self._keep = Button(tr("Keep"), None, "secondary", is_small=True)
        delete = Button(tr("Delete"), "trash-2", "secondary", is_small=True)
        self._keep.clicked.connect(self._question.hide)
        delete.clicked.connect(lambda: self.cancel_clicked.emit(self.key))
        question.addWidget(self._asked, 1)
        question.addWidget(delete)
        question.addWidget(self._keep)
        self._question.hide()
        bar = QHBoxLayout()
        bar.setContentsMargins(0, 0, 4, 0)
        bar.addWidget(self._bar)
        column.addLayout(head)
        column.addLayout(bar)
        for part in (self._figures, self._failure, self._question):
            column.addWidget(part)
        column.setSizeConstraint(QLayout.SizeConstraint.SetMinimumSize)


class TransferStack(QScrollArea):
    """The cards, one above the other; hidden while there is none. Where many do not fit they scroll."""

    pause_clicked = Signal(str)
    resume_clicked = Signal(str)
    cancel_clicked = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Downloads"))
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setWidgetResizable(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Maximum)
        self.cards: dict[str, TransferCard] = {}
        page = QWidget()
        self._column = QVBoxLayout(page)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(8)
        self.setWidget(page)
        for ground in (self.viewport(), page):
            ground.setAutoFillBackground(False)
        self.hide()

    def set_views(self, views: Sequence[TransferView]) -> None:
        """Show these; a card stays the same widget as long as its download is there."""
        keys = {view.key for view in views}
        for key in [key for key in self.cards if key not in keys]:
            card = self.cards.pop(key)
            self._column.removeWidget(card)
            card.hide()
            card.deleteLater()
        for view in views:
            if view.key in self.cards:
                self.cards[view.key].set_view(view)
            else:
                self._add_card(view)
        self.setVisible(bool(views))
        self.updateGeometry()

    def set_view(self, view: TransferView) -> None:
        """Show where one of them stands by now."""
        self.cards[view.key].set_view(view)

    def _add_card(self, view: TransferView) -> None:
        card = self.cards[view.key] = TransferCard(view)
        card.pause_clicked.connect(self.pause_clicked)
        card.resume_clicked.connect(self.resume_clicked)
        card.cancel_clicked.connect(self.cancel_clicked)
        self._column.addWidget(card)

    def sizeHint(self) -> QSize:
        return QSize(400, self._column.sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        return QSize(200, min(90, self.sizeHint().height()))


def _verb(state: str) -> tuple[str, str]:
    """What the first button does, alone and with a place for the {name} of the download."""
    if state == "failed":
        return tr("Try again"), tr("Try again: {name}")
    if state in _STANDING:
        return tr("Resume"), tr("Resume: {name}")
    return tr("Pause"), tr("Pause: {name}")
