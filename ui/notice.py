"""The bar that says what went wrong and what to do; it never blocks. Its words come from outside."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QGuiApplication
from PySide6.QtWidgets import QBoxLayout, QHBoxLayout, QPlainTextEdit, QSizePolicy, QVBoxLayout, QWidget

from engine.words import tr
from ui import theme
from ui.card import Card
from ui.controls import Button, IconButton
from ui.label import Icon, Label
from ui.values import NoticeView

# kind: icon, ink, ground, edge
_LOOKS = {
    "error": ("circle-x", "bad", "bad_soft", "bad_line"),
    "warning": ("triangle-alert", "warn", "warn_soft", "warn_line"),
    "info": ("info", "accent", "accent_soft", "border"),
}
DETAILS_HEIGHT = 120
MAX_TITLE, MAX_TEXT = 120, 300  # characters
MOST_HIDDEN = 5
_STAYING = ("error", "warning")  # an information is of its moment only


class NoticeBar(Card):
    """One notice with its buttons. ``action_clicked`` carries the action's key; closing emits ``closed``.

    Errors and warnings that a newer notice hides come back when that one is closed. A lasting one steps
    behind the others instead.
    """

    action_clicked = Signal(str)
    closed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("bad_soft", "bad_line", 8, parent=parent)
        self.setAccessibleName(tr("Notice"))
        self.view: NoticeView | None = None
        self._hidden: list[NoticeView] = []  # behind ``view``, the newest last
        self._icon = Icon("circle-x", "bad")
        self._title = Label("", "ui", "bad", 600, wrap=True)
        self._text = Label("", "ui", "text2", 400, wrap=True)
        self._buttons = QHBoxLayout()
        self._buttons.setSpacing(4)
        self._details = self._make_details()
        self._close = IconButton("x", tr("Close this notice"), size=28, icon_size=16)
        self._close.clicked.connect(self.dismiss)
        self._more = Label("", "small", "text3")
        self._lay_out()
        self.hide()
        theme.notifier().changed.connect(self._on_theme_changed)

    def show_notice(self, view: NoticeView) -> None:
        """Show this notice in front of the last one and say it to screen readers.

        One of the same key or title is replaced. What is longer than a few lines is cut and stands in full
        behind "Details".
        """
        last = [self.view] if self.view is not None and _is_staying(self.view) else []
        behind = [each for each in (*self._hidden, *last) if not _is_same(each, view)]
        lasting = [each for each in behind if each.is_lasting]
        others = [each for each in behind if not each.is_lasting]
        self._hidden = [*lasting, *others[-MOST_HIDDEN:]]
        self._show(view)

    def _show(self, view: NoticeView) -> None:
        if len(view.title) > MAX_TITLE or len(view.text) > MAX_TEXT:
            parts = (view.title, view.text, view.details)
            view = replace(view, details="\n\n".join(part for part in parts if part))
        self.view = view
        icon, ink, ground, edge = _LOOKS.get(view.kind, _LOOKS["info"])
        self.set_colors(ground, edge)
        self._icon.set_icon(icon, ink)
        self._title.set_color(ink)
        self._title.setText(_shorten(view.title, MAX_TITLE))
        self._text.setText(_shorten(view.text, MAX_TEXT))
        self._text.setVisible(bool(view.text))
        self._details.setPlainText(view.details)
        self._details.hide()
        is_line = not view.text and not view.details  # one line: "Chat deleted" and its Undo
        way = QBoxLayout.Direction.LeftToRight if is_line else QBoxLayout.Direction.TopToBottom
        self._column.setDirection(way)
        self._row.setContentsMargins(14, 8, 8, 8 if is_line else 12)
        self._more.setText(tr("%n more", "notices", len(self._hidden)) if self._hidden else "")
        self._more.setVisible(bool(self._hidden))
        self._close.setVisible(bool(self._hidden) or not view.is_lasting)
        self._fill_buttons(view)
        self.setAccessibleDescription(f"{view.title} {view.text}".strip())
        self.show()
        self._announce(f"{view.title}. {view.text}")

    def dismiss(self) -> None:
        """Close the notice; the one behind it is shown, if there is one."""
        if self.view is not None and self.view.is_lasting:
            self._hidden.insert(0, self.view)
        self._show_next()

    def take_away(self, key: str) -> None:
        """Close the notice of this key, wherever it stands."""
        before = len(self._hidden)
        self._hidden = [each for each in self._hidden if each.key != key]
        if self.view is None:
            return
        if self.view.key != key:
            if len(self._hidden) < before:
                self._show(self.view)
        else:
            self._show_next()

    def clear(self) -> None:
        """Forget the notice and those behind it, but for what outlives its moment."""
        before, self._hidden = self._hidden, [each for each in self._hidden if _outlives(each)]
        if self.view is None or not _outlives(self.view):
            self._show_next()
        elif self._hidden != before:
            self._show(self.view)

    def _show_next(self) -> None:
        """The notice behind the one that goes; with none, hide the bar."""
        if self._hidden:
            self._show(self._hidden.pop())
            return
        if self.view is None:
            return
        self.view = None
        self._details.clear()
        self.hide()
        self.closed.emit()

    def _fill_buttons(self, view: NoticeView) -> None:
        while (item := self._buttons.takeAt(0)) is not None:
            widget = item.widget()
            if widget is not None:
                widget.hide()
                widget.deleteLater()
        for action in view.actions:
            self._add_button(action.label, partial(self.action_clicked.emit, action.key))
        if view.details:
            self._add_button(tr("Details"), self._toggle_details)
            self._add_button(tr("Copy details"), self._copy_details)
        self._buttons.addStretch(1)
        self._button_row.setVisible(self._buttons.count() > 1)

    def _add_button(self, text: str, slot: Callable[[], object]) -> None:
        """One more button; the first one is bordered, the others are bare."""
        role = "ghost" if self._buttons.count() else "secondary"
        button = Button(text, None, role, is_small=True)
        button.clicked.connect(lambda _=False: slot())
        self._buttons.addWidget(button)
        button.show()  # at once, where the bar is already shown

    def _copy_details(self) -> None:
        QGuiApplication.clipboard().setText(self._details.toPlainText())

    def _toggle_details(self) -> None:
        self._details.setVisible(self._details.isHidden())

    def _announce(self, sentence: str) -> None:
        if QAccessible.isActive():
            QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, sentence))

    def _make_details(self) -> QPlainTextEdit:
        details = QPlainTextEdit()
        details.setReadOnly(True)
        details.setAccessibleName(tr("Details"))
        details.setFont(theme.font("code"))
        details.setFixedHeight(DETAILS_HEIGHT)
        details.setTabChangesFocus(True)
        details.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        return details

    def _lay_out(self) -> None:
        row = self._row = QHBoxLayout(self)
        row.setContentsMargins(14, 8, 8, 8)
        row.setSpacing(12)
        icon = QVBoxLayout()
        icon.setContentsMargins(0, 5, 0, 0)
        icon.addWidget(self._icon)
        icon.addStretch(1)
        row.addLayout(icon)
        self._button_row = QWidget()
        self._button_row.setLayout(self._buttons)
        self._buttons.setContentsMargins(0, 0, 0, 0)
        texts = QVBoxLayout()
        texts.setContentsMargins(0, 4, 0, 4)
        texts.setSpacing(2)
        for widget in (self._title, self._text, self._details):
            texts.addWidget(widget)
        self._column = QBoxLayout(QBoxLayout.Direction.TopToBottom)
        self._column.setSpacing(4)
        self._column.addLayout(texts, 1)
        self._column.addWidget(self._button_row, 0)
        row.addLayout(self._column, 1)
        row.addWidget(self._more, 0, Qt.AlignmentFlag.AlignVCenter)
        row.addWidget(self._close, 0, Qt.AlignmentFlag.AlignTop)
        self._on_theme_changed()

    def _on_theme_changed(self) -> None:
        colors = theme.palette()
        self._details.setStyleSheet(
            f"QPlainTextEdit {{ background: {colors.bg0.name()}; color: {colors.text2.name()};"
            f" border: 1px solid {colors.border.name()}; border-radius: 6px; padding: 4px; }}"
        )


def _is_staying(view: NoticeView) -> bool:
    return _outlives(view) or view.kind in _STAYING


def _outlives(view: NoticeView) -> bool:
    """Whether it stays when what was said of a moment goes."""
    return view.is_lasting or view.is_kept


def _is_same(one: NoticeView, other: NoticeView) -> bool:
    return (bool(one.key) and one.key == other.key) or one.title == other.title


def _shorten(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
