"""The search of chats in the sidebar: its field, and what was found in place of the list."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from engine.words import tr
from ui.chat_values import SearchView
from ui.label import Label, one_line
from ui.search_field import SearchField
from ui.search_results import SearchResults


class SearchPanel(QWidget):
    """``field`` stands apart, above the list. ``hit_chosen`` carries a chat and a message or ""; ``left``
    says that the keyboard goes elsewhere.
    """

    hit_chosen = Signal(str, str)
    left = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.field = SearchField()
        self.results = SearchResults()
        self._title = Label("", "small", "text3", 600)
        self._none = Label("", "small", "text2", wrap=True)
        self._none.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self.view: SearchView | None = None
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 4, 0, 0)
        column.setSpacing(4)
        self._head, self._empty = QWidget(), QWidget()
        for part, label, top in ((self._head, self._title, 4), (self._empty, self._none, 24)):
            box = QVBoxLayout(part)
            box.setContentsMargins(12, top, 23, 0)
            box.addWidget(label)
            column.addWidget(part)
        column.addWidget(self.results, 1)
        column.addStretch(0)
        self.results.hit_chosen.connect(self.hit_chosen)
        self.results.left.connect(lambda: self.field.setFocus(Qt.FocusReason.BacktabFocusReason))
        self.field.down_pressed.connect(self._to_results)
        self.field.enter_pressed.connect(lambda: self.results.choose(self.results.currentIndex()))
        self.field.escaped.connect(self.left)
        self.set_view(None)

    @property
    def is_searching(self) -> bool:
        """Whether what was found stands in the list's place."""
        return self.view is not None

    def set_view(self, view: SearchView | None) -> None:
        """Show what was found; None is no search."""
        self.view = view
        self.setVisible(view is not None)
        if view is None:
            return
        self.results.set_view(view)
        count = len(view.hits)
        self._title.setText(tr("%n chat(s)", "", count))
        words = tr('No chat contains "{words}".').format(words=one_line(view.query, 60))
        self._none.setText(words)
        self._head.setVisible(count > 0)
        self.results.setVisible(count > 0)
        self._empty.setVisible(not count)

    def _to_results(self) -> None:
        if self.results.isVisible():
            self.results.setFocus(Qt.FocusReason.TabFocusReason)
