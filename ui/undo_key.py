"""Ctrl+Z where no typing can be undone: a text field keeps that key for itself even with nothing to undo."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject
from PySide6.QtGui import QKeyEvent, QKeySequence
from PySide6.QtWidgets import QApplication, QLineEdit, QPlainTextEdit, QTextEdit, QWidget

UNDO_KEYS = "Ctrl+Z"


class UndoKey(QObject):
    """Leaves the key to the window's shortcut where the field that has the keyboard has nothing to undo."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        application = QApplication.instance()
        assert isinstance(application, QApplication)
        application.focusChanged.connect(self._on_focus_changed)

    def _on_focus_changed(self, _: QWidget | None, now: QWidget | None) -> None:
        is_field = isinstance(now, QLineEdit | QTextEdit | QPlainTextEdit)
        if is_field and now is not None and self._window.isAncestorOf(now):
            now.installEventFilter(self)  # once more is as good as once

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() != QEvent.Type.ShortcutOverride or not isinstance(event, QKeyEvent):
            return False
        if not event.matches(QKeySequence.StandardKey.Undo) or _has_undo(watched):
            return False
        event.ignore()
        return True


def _has_undo(field: QObject) -> bool:
    if isinstance(field, QLineEdit):
        return field.isUndoAvailable()
    return isinstance(field, QTextEdit | QPlainTextEdit) and field.document().isUndoAvailable()
