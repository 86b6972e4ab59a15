"""Paints headings, folders and chats of the list, and edits a name where it stands. Knows no order."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import QAbstractItemModel, QEvent, QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QFontMetricsF, QMouseEvent, QPainter
from PySide6.QtWidgets import QLineEdit, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from engine.words import tr
from ui import theme
from ui.chat_list_model import MAX_TITLE, ROW_ROLE, Index
from ui.chat_values import ChatRow, FolderRow
from ui.label import one_line
from ui.painting import with_alpha

if TYPE_CHECKING:
    from ui.chat_list import ChatList

ROW_WIDTH, ROW_HEIGHT, FOLDER_HEIGHT, HEADING_HEIGHT = 216, 48, 36, 32
_INDENT = 12  # of the chats in a folder
_CENTER = int(Qt.AlignmentFlag.AlignVCenter)
_RIGHT = int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight)


class ChatRowDelegate(QStyledItemDelegate):
    """Headings are text alone; folders and chats have a ground, a menu and a name that can be edited."""

    def __init__(self, view: ChatList) -> None:
        super().__init__(view)
        self._view = view

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        row = index.data(ROW_ROLE)
        area = row_area(option.rect)
        if isinstance(row, ChatRow):
            self._paint_chat(painter, area, row, option.state)
        elif isinstance(row, FolderRow):
            self._paint_folder(painter, area, row, option.state)
        else:
            self._paint_heading(painter, area, index.data())
        painter.restore()

    def _paint_heading(self, painter: QPainter, area: QRect, text: str) -> None:
        painter.setFont(theme.font("small", 600))
        painter.setPen(theme.palette().text3)
        flags = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignBottom
        painter.drawText(area.adjusted(12, 0, -12, -6), int(flags), text)

    def _paint_ground(
        self, painter: QPainter, area: QRect, state: QStyle.StateFlag, *, is_open: bool
    ) -> bool:
        """The ground and the ring of a row; whether it is under the pointer or open, and shows its menu."""
        colors = theme.palette()
        is_hovered = bool(state & QStyle.StateFlag.State_MouseOver)
        body = QRectF(area.adjusted(0, 1, 0, -1))
        painter.setPen(Qt.PenStyle.NoPen)
        if is_open or is_hovered:
            ground = colors.bg3 if is_open else colors.bg2 if theme.is_dark() else colors.bg3
            painter.setBrush(ground)
            painter.drawRoundedRect(body, 8, 8)
        if is_open:
            painter.setBrush(colors.accent)
            painter.drawRoundedRect(QRectF(body.left(), body.center().y() - 10, 3, 20), 1.5, 1.5)
        if bool(state & QStyle.StateFlag.State_HasFocus) and self._view.has_keyboard_focus:
            theme.draw_focus_ring(painter, body, 8)
        return is_open or is_hovered

    def _paint_folder(self, painter: QPainter, area: QRect, row: FolderRow, state: QStyle.StateFlag) -> None:
        colors = theme.palette()
        has_menu = self._paint_ground(painter, area, state, is_open=False)
        icon = "folder-open" if row.is_open else "folder"
        theme.draw_icon(painter, QRectF(area.left() + 12, area.center().y() - 7, 16, 16), icon, colors.text2)
        painter.setFont(theme.font("ui", 600))
        painter.setPen(colors.text1)
        box = QRectF(area).adjusted(36, 0, -40, 0)
        metrics = QFontMetricsF(painter.font())
        name = metrics.elidedText(one_line(row.name), Qt.TextElideMode.ElideRight, box.width())
        painter.drawText(box, _CENTER, name)
        if has_menu:
            theme.draw_icon(painter, _menu_icon(area), "ellipsis", colors.text2)
        else:
            painter.setFont(theme.font("small"))
            painter.setPen(colors.text3)
            painter.drawText(QRectF(area).adjusted(0, 0, -12, 0), _RIGHT, str(row.count))

    def _paint_chat(self, painter: QPainter, area: QRect, row: ChatRow, state: QStyle.StateFlag) -> None:
        colors = theme.palette()
        is_open = row.chat_id == self._view.chats.current_id
        is_hovered = bool(state & QStyle.StateFlag.State_MouseOver)
        self._paint_ground(painter, area, state, is_open=is_open)
        has_menu = is_hovered or (is_open and not row.is_pinned)
        self._paint_texts(painter, area, row, is_narrow=has_menu or row.is_pinned)
        if has_menu:
            theme.draw_icon(painter, _menu_icon(area), "ellipsis", colors.text2)
        elif row.is_pinned:
            theme.draw_icon(painter, _menu_icon(area).adjusted(1, 1, -1, -1), "pin", colors.text3)
        if row.is_writing:
            _paint_dot(painter, QPointF(area.right() - 16.5, area.top() + 33))

    def _paint_texts(self, painter: QPainter, area: QRect, row: ChatRow, *, is_narrow: bool) -> None:
        colors = theme.palette()
        left = 12 + (_INDENT if row.folder_id and not row.is_pinned and not row.is_temporary else 0)
        detail = " · ".join(part for part in (row.is_temporary and tr("Not stored"), row.detail) if part)
        lines = (
            (row.title, theme.font("ui", 600), colors.text1, 5, 20, 40 if is_narrow else 12),
            (detail, theme.font("small"), colors.text3, 25, 16, 36 if row.is_writing else 12),
        )
        for text, font, color, top, height, right in lines:
            box = QRectF(area.left() + left, area.top() + top, area.width() - left - right, height)
            elided = QFontMetricsF(font).elidedText(one_line(text), Qt.TextElideMode.ElideRight, box.width())
            painter.setFont(font)
            painter.setPen(color)
            painter.drawText(box, _CENTER, elided)

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        row = index.data(ROW_ROLE)
        if row is not None:
            return QSize(ROW_WIDTH, ROW_HEIGHT if isinstance(row, ChatRow) else FOLDER_HEIGHT)
        return QSize(ROW_WIDTH, HEADING_HEIGHT if index.row() else HEADING_HEIGHT - 4)

    def createEditor(self, parent: QWidget, option: QStyleOptionViewItem, index: Index) -> QWidget:
        editor = QLineEdit(parent)
        editor.setObjectName("rename")
        is_chat = isinstance(index.data(ROW_ROLE), ChatRow)
        editor.setAccessibleName(tr("Chat title") if is_chat else tr("Folder name"))
        editor.setMaxLength(MAX_TITLE)
        editor.setFont(theme.font("ui", 600))
        editor.setFrame(False)
        colors = theme.palette()
        editor.setStyleSheet(
            f"QLineEdit {{ background: {colors.bg0.name()}; color: {colors.text1.name()}; padding: 0 6px;"
            f" border: 2px solid {colors.accent.name()}; border-radius: 6px; }}"
        )
        return editor

    def setModelData(self, editor: QWidget, model: QAbstractItemModel, index: Index) -> None:
        if isinstance(editor, QLineEdit):
            self._view.chats.rename(self._view.chats.index(index.row()), editor.text())

    def updateEditorGeometry(self, editor: QWidget, option: QStyleOptionViewItem, index: Index) -> None:
        margin = 8 if isinstance(index.data(ROW_ROLE), ChatRow) else 2
        editor.setGeometry(row_area(option.rect).adjusted(3, margin, -3, -margin))

    def editorEvent(
        self, event: QEvent, model: QAbstractItemModel, option: QStyleOptionViewItem, index: Index
    ) -> bool:
        if isinstance(event, QMouseEvent) and event.type() == QEvent.Type.MouseButtonRelease:
            area = row_area(option.rect)
            if index.data(ROW_ROLE) is not None and menu_target(area).contains(event.position().toPoint()):
                self._view.show_menu(self._view.chats.index(index.row()), event.globalPosition().toPoint())
                return True
        return super().editorEvent(event, model, option, index)


def row_area(rect: QRect) -> QRect:
    """A row without the room of the scroll bar."""
    return QRect(rect.left(), rect.top(), ROW_WIDTH, rect.height())


def menu_target(area: QRect) -> QRect:
    """Where a row's menu is opened."""
    return QRect(area.right() - 33, area.top() + 1, 32, 28)


def _menu_icon(area: QRect) -> QRectF:
    top = 7 if area.height() >= ROW_HEIGHT else (area.height() - 16) / 2
    return QRectF(area.right() - 25, area.top() + top, 16, 16)


def _paint_dot(painter: QPainter, center: QPointF) -> None:
    colors = theme.palette()
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(with_alpha(colors.accent, 0.28))
    painter.drawEllipse(center, 6.0, 6.0)
    painter.setBrush(colors.accent)
    painter.drawEllipse(center, 3.0, 3.0)
