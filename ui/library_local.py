"""The models on this computer as a list with a filter; knows no disk."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QHBoxLayout, QStackedWidget, QVBoxLayout, QWidget

from engine.words import mark, tr
from ui.controls import Button
from ui.label import Icon, Label
from ui.library_field import Field
from ui.library_rows import Row, RowAction, RowList, framed, in_the_middle
from ui.library_values import LibraryRow, LibraryView

USE = RowAction("use", mark("Use"), tooltip=mark("Load this model (Enter)"))
SHOW = RowAction("show", mark("Show in folder"))
COPY = RowAction("copy", mark("Copy the path"))
LEAVE_OUT = RowAction("leave-out", mark("Take its folder out of the library"))
DELETE = RowAction("delete", mark("Delete"), tooltip=mark("It can be put back until the program closes"))


def local_row(row: LibraryRow) -> Row:
    """How a model of this computer looks in a list."""
    facts = " · ".join(part for part in (row.detail, row.note, row.used) if part)
    can_use = not row.reason and not row.is_loaded
    menu = (SHOW, COPY, *((DELETE,) if row.can_delete else (LEAVE_OUT,) if row.added_folder else ()))
    return Row(
        key=row.path,
        title=row.name,
        detail=facts,
        tag=row.place,
        fit=row.fit,
        warning=row.reason,
        state=tr("Loaded") if row.is_loaded else "",
        is_loaded=row.is_loaded,
        action=USE.translated() if can_use else None,
        menu=tuple(action.translated() for action in menu),
        tooltip=row.tooltip,
    )


class LocalModels(QWidget):
    """``triggered`` carries a path and use, show, copy, delete or leave-out."""

    triggered = Signal(str, str)
    find_clicked = Signal()
    folder_clicked = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._view = LibraryView(is_looking=True)
        hint = tr("Filter by name, architecture or program")
        self.filter = Field("search", hint, tr("Filter the models"))
        self._summary = Label("", "small", "text3")
        self._notes = Label("", "small", "warn", wrap=True)
        self.list = RowList(tr("Models on this computer"))
        self._nothing = Label("", "ui", "text2", wrap=True)
        self._nothing.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self._stack = QStackedWidget()
        self._lay_out()
        self.filter.typed.connect(self._show)
        self.filter.entered.connect(self.list.focus_first)
        self.list.triggered.connect(self.triggered)
        self._show()

    def set_view(self, view: LibraryView) -> None:
        """Show these models."""
        self._view = view
        self._show()

    @property
    def shown(self) -> tuple[str, ...]:
        """The paths of the rows that are shown."""
        return tuple(row.key for row in self.list.model_.rows)

    def focus_region(self) -> None:
        """Give the keyboard to the list, else to the filter, else to what finds a model."""
        if self.list.model_.rows:
            self.list.focus_first()
        else:
            (self.filter if self._head.isVisibleTo(self) else self._find).setFocus(
                Qt.FocusReason.ShortcutFocusReason
            )

    def _show(self) -> None:
        words = self.filter.text().casefold().split()
        rows = [row for row in self._view.rows if all(word in _searched(row) for word in words)]
        self.list.set_rows([local_row(row) for row in rows])
        self._summary.setText(tr("Looking…") if self._view.is_looking and not rows else self._view.summary)
        self._notes.setText("\n".join(self._view.notes))
        self._notes.setVisible(bool(self._view.notes))
        self._head.setVisible(bool(self._view.rows) or self._view.is_looking)
        if rows:
            self._stack.setCurrentWidget(self._listed)
        elif self._view.rows:
            nothing = tr('No model here matches "{words}".').format(words=self.filter.text().strip())
            self._nothing.setText(nothing)
            self._stack.setCurrentWidget(self._unmatched)
        elif not self._view.is_looking:
            self._stack.setCurrentWidget(self._empty)

    def _lay_out(self) -> None:
        self._head = QWidget()
        head = QHBoxLayout(self._head)
        head.setContentsMargins(0, 0, 0, 0)
        head.setSpacing(16)
        head.addWidget(self.filter, 1)
        head.addWidget(self._summary)
        self._listed = framed(self.list)
        self._unmatched = QWidget()
        unmatched = QVBoxLayout(self._unmatched)
        unmatched.setContentsMargins(0, 48, 0, 0)
        unmatched.addWidget(self._nothing)
        unmatched.addStretch(1)
        self._empty = self._make_empty()
        for page in (self._listed, self._unmatched, self._empty):
            self._stack.addWidget(page)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(12)
        column.addWidget(self._head)
        column.addWidget(self._notes)
        column.addWidget(self._stack, 1)

    def _make_empty(self) -> QWidget:
        empty = QWidget()
        column = QVBoxLayout(empty)
        column.setContentsMargins(24, 56, 24, 0)
        column.setSpacing(8)
        column.addWidget(Icon("library", "text3", 32), 0, Qt.AlignmentFlag.AlignHCenter)
        text = tr(
            "Models of Hugging Face, LM Studio, Jan, GPT4All, llama.cpp and Ollama are listed here where "
            "they are, without a copy. Drop a GGUF file anywhere in the window, add a folder, or find one."
        )
        title = Label(tr("No models on this computer yet"), "title")
        words = Label(text, "ui", "text2", wrap=True)
        for label in (title, words):
            label.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        column.addWidget(title)
        column.addLayout(in_the_middle(words))
        column.addSpacing(8)
        find = self._find = Button(tr("Find a model"), "search", "primary")
        folder = Button(tr("Add a folder"), "folder", "secondary")
        find.clicked.connect(self.find_clicked)
        folder.clicked.connect(self.folder_clicked)
        buttons = QHBoxLayout()
        buttons.setSpacing(8)
        buttons.addStretch(1)
        buttons.addWidget(find)
        buttons.addWidget(folder)
        buttons.addStretch(1)
        column.addLayout(buttons)
        column.addStretch(1)
        return empty


def _searched(row: LibraryRow) -> str:
    return " ".join((row.name, row.detail, row.place, row.reason)).casefold()
