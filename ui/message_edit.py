"""The field a message is typed into: plain text only, Enter sends, Shift+Enter begins a new line."""

from __future__ import annotations

from PySide6.QtCore import QMimeData, QPointF, Qt, Signal
from PySide6.QtGui import (
    QFocusEvent,
    QInputMethodEvent,
    QKeyEvent,
    QPainter,
    QPaintEvent,
    QPalette,
    QTextBlockFormat,
    QTextCursor,
)
from PySide6.QtWidgets import QFrame, QTextEdit, QWidget

from engine.words import tr
from ui import theme
from ui.markdown import visible

LINE_PX = 22


class MessageEdit(QTextEdit):
    """Signals: ``enter_pressed`` for Enter without Shift; ``recall_pressed`` for Up in the empty field;
    ``text_height_changed`` when lines come or go; ``focus_changed`` when it gets or loses the keyboard.
    """

    enter_pressed = Signal()
    recall_pressed = Signal()
    text_height_changed = Signal()
    focus_changed = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._is_composing = False
        self._height = 0
        self.setAcceptRichText(False)
        self.setAcceptDrops(False)  # files are dropped on the window
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setTabChangesFocus(True)
        self.setFont(theme.font("body"))
        self.setCursorWidth(2)
        self.verticalScrollBar().rangeChanged.connect(self._keep_width)
        self.setAccessibleName(tr("Message"))
        self.document().setDocumentMargin(0)
        self.document().documentLayout().documentSizeChanged.connect(self._on_size_changed)
        self.document().contentsChange.connect(self._on_contents_changed)
        theme.notifier().changed.connect(self._on_theme_changed)
        self._set_line_height()
        self.document().clearUndoRedoStacks()  # the line height is nothing that a person did
        self._on_theme_changed()
        self._keep_width()

    def text(self) -> str:
        """What was typed, lines ended by ``\\n``."""
        return self.document().toRawText().replace("\u2029", "\n").replace("\u2028", "\n")

    def replace_text(self, text: str) -> None:
        """Put text in the place of all there is; Undo brings that back."""
        cursor = QTextCursor(self.document())
        cursor.select(QTextCursor.SelectionType.Document)
        cursor.insertText(text)
        cursor.movePosition(QTextCursor.MoveOperation.End)
        self.setTextCursor(cursor)

    def text_height(self) -> int:
        """Height of all lines, in pixels."""
        return max(LINE_PX, round(self.document().size().height()))

    def _set_line_height(self) -> None:
        """The line height of the type scale, as a property of every paragraph."""
        spacing = QTextBlockFormat()
        spacing.setLineHeight(LINE_PX, QTextBlockFormat.LineHeightTypes.FixedHeight.value)
        cursor = QTextCursor(self.document())
        cursor.select(QTextCursor.SelectionType.Document)
        if self.document().isUndoAvailable():
            cursor.joinPreviousEditBlock()
        else:
            cursor.beginEditBlock()
        cursor.mergeBlockFormat(spacing)
        cursor.endEditBlock()

    def _on_contents_changed(self, position: int, removed: int, added: int) -> None:
        """Text that replaces everything, or is undone, may come without the line height."""
        block = self.document().findBlock(position)
        if block.isValid() and block.blockFormat().lineHeight() != LINE_PX:
            self._set_line_height()

    def _on_size_changed(self) -> None:
        height = self.text_height()
        if height != self._height:
            self._height = height
            self.text_height_changed.emit()

    def _keep_width(self) -> None:
        """Lines are as wide with the scroll bar as without it: its room stays free."""
        room = 0 if self.verticalScrollBar().maximum() else self.verticalScrollBar().sizeHint().width()
        if self.viewportMargins().right() != room:
            self.setViewportMargins(0, 0, room, 0)

    def _on_theme_changed(self) -> None:
        colors = theme.palette()
        palette = QPalette(self.palette())
        palette.setColor(QPalette.ColorRole.Text, colors.text1)
        palette.setColor(QPalette.ColorRole.Base, Qt.GlobalColor.transparent)
        palette.setColor(QPalette.ColorRole.PlaceholderText, Qt.GlobalColor.transparent)
        self.setPalette(palette)
        self.viewport().setAutoFillBackground(False)
        self.viewport().update()

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        return source.hasText()

    def insertFromMimeData(self, source: QMimeData) -> None:
        self.textCursor().insertText(source.text().replace("\r\n", "\n"))
        self.ensureCursorVisible()

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self.focus_changed.emit()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.focus_changed.emit()

    def inputMethodEvent(self, event: QInputMethodEvent) -> None:
        self._is_composing = bool(event.preeditString())
        super().inputMethodEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Up and self.document().isEmpty() and not self._is_composing:
            self.recall_pressed.emit()
            return
        is_enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if is_enter and not self._is_composing:
            if event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
                self.textCursor().insertBlock()
                self.ensureCursorVisible()
            elif event.modifiers() in (Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.KeypadModifier):
                self.enter_pressed.emit()
            else:
                event.ignore()
            return
        super().keyPressEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        super().paintEvent(event)
        if self.document().isEmpty() and not self._is_composing:
            painter = QPainter(self.viewport())
            painter.setFont(self.font())
            painter.setPen(theme.palette().text3)
            layout = self.document().firstBlock().layout()
            line = layout.lineAt(0)
            baseline = layout.position().y() + line.y() + line.ascent()
            left = float(self.cursorWidth())  # beside the caret, not under it
            painter.drawText(QPointF(left, baseline), visible(self.placeholderText()))
