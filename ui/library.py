"""The model library, a page of the window: models on this computer, finding more, downloads on their way.

Shows values and emits what the user asked for; knows no disk and no network.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QHideEvent, QPainter, QPaintEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QFileDialog, QHBoxLayout, QSizePolicy, QStackedWidget, QVBoxLayout, QWidget

from engine.words import tr
from ui import theme
from ui.controls import Button, IconButton
from ui.label import Label, LinkButton, key_text
from ui.library_find import FindModels
from ui.library_local import LocalModels
from ui.library_transfers import TransferStack
from ui.library_values import FindView, LibraryView, TransferView
from ui.segmented import Choice, Segmented
from ui.top_bar import HEIGHT

LOCAL, FIND = "local", "find"
_ROOMY = 720  # px of the page, from which the bar has room for its title
_LEAST_TRANSFERS = 120  # px
_WIDEST = 1080  # of the lists: a longer row is hard to follow


class LibraryPage(QWidget):
    """``triggered`` carries a path and what to do with that model; the parts have the other signals."""

    triggered = Signal(str, str)
    folder_chosen = Signal(str)
    undo_clicked = Signal()
    close_clicked = Signal()
    shown = Signal(bool)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Model library"))
        self._title = Label(tr("Model library"), "title")
        self.tabs = Segmented(tr("Part of the library"))
        self.tabs.set_choices(_tabs(), LOCAL)
        self.tabs.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.tabs.setFixedWidth(260)
        self.add_folder = Button(tr("Add a folder"), "folder", "secondary")
        self._close = IconButton("x", tr("Back to the chat ({keys})").format(keys=key_text("Esc")))
        self.local = LocalModels()
        self.search = FindModels()
        self.transfers = TransferStack()
        self._undo = QWidget()
        self._undo_text = Label("", "ui", "text2", elide=True)
        self._stack = QStackedWidget()
        self._lay_out()
        self._connect()
        theme.notifier().changed.connect(self.update)

    def set_library(self, view: LibraryView) -> None:
        """Show the models on this computer."""
        self.local.set_view(view)

    def set_find(self, view: FindView) -> None:
        """Show the state of the search."""
        self.search.set_view(view)

    def set_transfers(self, views: Sequence[TransferView]) -> None:
        """Show the downloads on their way."""
        self.transfers.set_views(views)

    def set_undo(self, name: str) -> None:
        """Offer to put a deleted model back; empty: nothing was deleted."""
        self._undo_text.setText(tr("{name} was deleted.").format(name=name) if name else "")
        self._undo.setVisible(bool(name))

    def show_tab(self, key: str) -> None:
        """Show one of the two parts."""
        self.tabs.set_choices(_tabs(), key)
        self._stack.setCurrentWidget(self.search if key == FIND else self.local)

    @property
    def tab(self) -> str:
        """Which part is shown."""
        return FIND if self._stack.currentWidget() is self.search else LOCAL

    def focus_region(self) -> None:
        """Give the keyboard to the part that is shown."""
        (self.search if self.tab == FIND else self.local).focus_region()

    def _connect(self) -> None:
        self.tabs.chosen.connect(self._on_tab)
        self.local.find_clicked.connect(lambda: self._on_tab(FIND))
        self.local.triggered.connect(self.triggered)
        self.local.folder_clicked.connect(self._on_add_folder)
        self.add_folder.clicked.connect(self._on_add_folder)
        self._close.clicked.connect(self.close_clicked)

    def _on_tab(self, key: str) -> None:
        self.show_tab(key)
        if key == FIND:
            self.search.focus_region()

    def _on_add_folder(self) -> None:
        dialog = QFileDialog(self, tr("Add a folder with models"))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.fileSelected.connect(self.folder_chosen)
        dialog.open()

    def _lay_out(self) -> None:
        bar = QHBoxLayout()
        bar.setContentsMargins(24, 0, 12, 1)
        bar.setSpacing(8)
        bar.addWidget(self._title)
        bar.addSpacing(8)
        bar.addWidget(self.tabs)
        bar.addStretch(1)
        bar.addWidget(self.add_folder)
        bar.addWidget(self._close)
        head = QWidget()
        head.setFixedHeight(HEIGHT)
        head.setLayout(bar)
        undo = QHBoxLayout(self._undo)
        undo.setContentsMargins(4, 0, 0, 0)
        undo.setSpacing(4)
        put_back = LinkButton(tr("Undo"), tr("Put the deleted model back"))
        put_back.clicked.connect(self.undo_clicked)
        undo.addWidget(self._undo_text)
        undo.addWidget(put_back)
        undo.addStretch(1)
        self._undo.hide()
        self._stack.addWidget(self.local)
        self._stack.addWidget(self.search)
        inner = QVBoxLayout()
        inner.setSpacing(12)
        inner.addWidget(self.transfers)
        inner.addWidget(self._undo)
        inner.addWidget(self._stack, 1)
        self._across = QHBoxLayout()
        self._across.addLayout(inner)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(head)
        column.addLayout(self._across, 1)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._title.setVisible(self.width() >= _ROOMY)
        side = max(24, (self.width() - _WIDEST) // 2)
        self._across.setContentsMargins(side, 16, side, 16)
        self.transfers.setMaximumHeight(max(_LEAST_TRANSFERS, self.height() * 2 // 5))

    def showEvent(self, event: QShowEvent) -> None:
        self.shown.emit(True)

    def hideEvent(self, event: QHideEvent) -> None:
        self.shown.emit(False)

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = theme.palette()
        painter = QPainter(self)
        painter.fillRect(self.rect(), colors.bg0)
        painter.fillRect(QRectF(0, HEIGHT - 1, self.width(), 1), colors.line)


def _tabs() -> tuple[Choice, ...]:
    return Choice(LOCAL, tr("On this computer")), Choice(FIND, tr("Find models"))
