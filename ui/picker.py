"""The popup that lists models to load. Knows no disk: rows come in, the chosen path leaves as a signal."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from PySide6.QtCore import (
    QAbstractListModel,
    QModelIndex,
    QPersistentModelIndex,
    QRectF,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QFontMetricsF, QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QHBoxLayout,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from engine.words import tr
from ui import theme
from ui.card import Card
from ui.controls import Button
from ui.label import Label, key_text, one_line, plain_tooltip
from ui.popup import Popup
from ui.values import ModelRow

Index = QModelIndex | QPersistentModelIndex
ROW_ROLE = Qt.ItemDataRole.UserRole + 1
PANEL_WIDTH, ROW_HEIGHT, MAX_ROWS = 440, 52, 7


class ModelListModel(QAbstractListModel):
    """The models found, in the order given."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.rows: tuple[ModelRow, ...] = ()

    def set_rows(self, rows: Sequence[ModelRow]) -> None:
        """Show these models."""
        self.beginResetModel()
        self.rows = tuple(rows)
        self.endResetModel()

    def rowCount(self, parent: Index | None = None) -> int:
        return 0 if parent is not None and parent.isValid() else len(self.rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> Any:
        if not index.isValid():
            return None
        row = self.rows[index.row()]
        if role == Qt.ItemDataRole.DisplayRole:
            return row.name
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return ", ".join(part for part in (row.name, row.detail, _state(row)) if part)
        if role == Qt.ItemDataRole.ToolTipRole:
            return plain_tooltip(row.reason or row.path)
        return row if role == ROW_ROLE else None


def _state(row: ModelRow) -> str:
    if row.is_loaded:
        return tr("loaded")
    return tr("cannot run: {reason}").format(reason=row.reason) if row.reason else ""


class ModelRowDelegate(QStyledItemDelegate):
    """Paints a model: name and detail, or the reason why it cannot run."""

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        row = index.data(ROW_ROLE)
        colors = theme.palette()
        body = QRectF(option.rect).adjusted(0, 1, 0, -1)
        is_current = bool(option.state & QStyle.StateFlag.State_Selected)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if is_current or option.state & QStyle.StateFlag.State_MouseOver:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colors.bg3)
            painter.drawRoundedRect(body, 8, 8)
        if is_current and option.state & QStyle.StateFlag.State_HasFocus:
            theme.draw_focus_ring(painter, body, 8)
        right = 16.0
        if row.is_loaded:
            right += self._paint_loaded(painter, body)
        self._paint_lines(painter, body.adjusted(12, 5, -right, -5), row)
        painter.restore()

    def _paint_loaded(self, painter: QPainter, body: QRectF) -> float:
        color = theme.palette().ok
        font = theme.font("small", 600)
        words = tr("Loaded")
        width = QFontMetricsF(font).horizontalAdvance(words)
        painter.setFont(font)
        painter.setPen(color)
        box = body.adjusted(0, 0, -12, 0)
        painter.drawText(box, int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight), words)
        place = QRectF(box.right() - width - 20, box.center().y() - 7, 14, 14)
        theme.draw_icon(painter, place, "circle-check", color)
        return width + 28

    def _paint_lines(self, painter: QPainter, box: QRectF, row: ModelRow) -> None:
        colors = theme.palette()
        first = QRectF(box.left(), box.top(), box.width(), 20)
        second = QRectF(box.left(), box.top() + 21, box.width(), 16)
        if row.reason:
            place = QRectF(box.left(), second.top() + 1, 14, 14)
            theme.draw_icon(painter, place, "triangle-alert", colors.warn)
            second.adjust(20, 0, 0, 0)
        inks = (colors.text3, colors.warn) if row.reason else (colors.text1, colors.text3)
        for area, text, font, color in (
            (first, row.name, theme.font("ui", 600), inks[0]),
            (second, row.reason or row.detail, theme.font("small"), inks[1]),
        ):
            painter.setFont(font)
            painter.setPen(color)
            elided = QFontMetricsF(font).elidedText(one_line(text), Qt.TextElideMode.ElideRight, area.width())
            painter.drawText(area, int(Qt.AlignmentFlag.AlignVCenter), elided)

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        return QSize(200, ROW_HEIGHT)


class ModelList(QListView):
    """The rows; ``chosen`` carries the path of a model that can run."""

    chosen = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.models = ModelListModel(self)
        self.setModel(self.models)
        self.setItemDelegate(ModelRowDelegate(self))
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setMouseTracking(True)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setAccessibleName(tr("Models"))
        self.viewport().setAutoFillBackground(False)
        self.clicked.connect(self._choose)

    def _choose(self, index: QModelIndex) -> None:
        row = index.data(ROW_ROLE)
        if isinstance(row, ModelRow) and not row.reason:
            self.chosen.emit(row.path)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._choose(self.currentIndex())
            return
        super().keyPressEvent(event)


class ModelPicker(Popup):
    """A list of models; one that ``has_files`` offers to choose others than those listed."""

    model_chosen = Signal(str)
    file_requested = Signal()
    folder_requested = Signal()
    library_requested = Signal()
    starter_requested = Signal()

    def __init__(
        self,
        parent: QWidget,
        title: str = "",
        none: str = "",
        *,
        has_files: bool = True,
    ) -> None:
        super().__init__(parent)
        self._title = title or tr("Models on this computer")
        self._none = none or tr("No models here yet. Choose a GGUF file or a model folder.")
        self._has_files = has_files
        self.setAccessibleName(tr("Model picker") if has_files else self._title)
        self.list = ModelList()
        self._note = Label(tr("Looking for models…"), "ui", "text2", wrap=True)
        self._lay_out()
        self.list.chosen.connect(lambda path: self._leave(self.model_chosen, path))
        self.list.hide()

    def set_models(self, rows: Sequence[ModelRow]) -> None:
        """Show these models; the loaded one is chosen at first. Until then it says that it is looking."""
        self.list.models.set_rows(rows)
        self.list.setVisible(bool(rows))
        self._note_row.setVisible(not rows)
        self._note.setText(self._none)
        loaded = next((place for place, row in enumerate(rows) if row.is_loaded), 0)
        if rows:
            self.list.setCurrentIndex(self.list.models.index(loaded))
        self.place()
        if self.isVisible():
            self.focus_region()

    def offer_starter(self, words: str) -> None:
        """Show a button for the starter model called so; "" takes it away."""
        self._starter.setText(words)
        self._starter.setVisible(bool(words))

    @property
    def note_text(self) -> str:
        """What stands in the place of rows."""
        return self._note.text()

    def focus_region(self) -> None:
        """Give the keyboard to the list, or to the first button where there is none."""
        button = self._file if self._starter.isHidden() else self._starter
        target = self.list if self.list.isVisibleTo(self) else button if self._has_files else self
        target.setFocus(Qt.FocusReason.PopupFocusReason)

    def _leave(self, signal: Any, *values: str) -> None:
        self.close_popup()
        signal.emit(*values)

    def _lay_out(self) -> None:
        shadow = Card.SHADOW
        column = self._column = QVBoxLayout(self.panel)
        column.setContentsMargins(shadow + 8, shadow + 8, shadow + 8, shadow + 8)
        column.setSpacing(4)
        title = Label(self._title, "small", "text3", 600)
        head = QHBoxLayout()
        head.setContentsMargins(12, 2, 12, 2)
        head.addWidget(title)
        column.addLayout(head)
        self._note_row = QWidget()
        note = QHBoxLayout(self._note_row)
        note.setContentsMargins(12, 4, 12, 8)
        note.addWidget(self._note)
        column.addWidget(self.list)
        column.addWidget(self._note_row)
        self._starter = Button("", "download", "primary")
        self._starter.clicked.connect(lambda: self._leave(self.starter_requested))
        self._starter.hide()
        starter = QHBoxLayout()
        starter.setContentsMargins(4, 0, 4, 4)
        starter.addWidget(self._starter)
        starter.addStretch(1)
        column.addLayout(starter)
        buttons = QHBoxLayout()
        buttons.setContentsMargins(4, 4, 4, 0)
        buttons.setSpacing(8)
        self._file = Button(tr("Choose a file"), "file", "secondary")
        self._folder = Button(tr("Choose a folder"), "folder", "secondary")
        self._file.clicked.connect(lambda: self._leave(self.file_requested))
        self._folder.clicked.connect(lambda: self._leave(self.folder_requested))
        self._library = Button(tr("Library"), "library", "ghost")
        tooltip = tr("All models, and where to find more ({keys})").format(keys=key_text("Ctrl+M"))
        self._library.setToolTip(tooltip)
        self._library.clicked.connect(lambda: self._leave(self.library_requested))
        buttons.addWidget(self._file)
        buttons.addWidget(self._folder)
        buttons.addStretch(1)
        buttons.addWidget(self._library)
        column.addLayout(buttons)
        for button in (self._file, self._folder, self._library):
            button.setVisible(self._has_files)

    def place(self) -> None:
        """Size the panel to its rows and keep it inside the window."""
        shadow = Card.SHADOW
        count = min(MAX_ROWS, len(self.list.models.rows))
        self.list.setFixedHeight(count * ROW_HEIGHT)
        width = min(PANEL_WIDTH, self.width() - 16) + 2 * shadow
        self._column.invalidate()
        height = max(self._column.sizeHint().height(), self._column.totalHeightForWidth(width))
        left = min(self._anchor.left(), self.width() - width + shadow - 8) - shadow
        top = self._anchor.bottom() + 7 - shadow
        if top + height - shadow > self.height():  # no room below
            top = max(8 - shadow, self._anchor.top() - 6 - height + shadow)
        self.panel.setGeometry(max(8 - shadow, left), top, width, height)

    def stops(self) -> Sequence[QWidget]:
        return self.list, self._starter, self._file, self._folder, self._library


class DraftPicker(ModelPicker):
    """The models that could draft for the loaded one; those that cannot say why. An empty path is none."""

    def __init__(self, parent: QWidget) -> None:
        none = tr("No models here yet. A smaller one of the same family in the models folder can draft.")
        super().__init__(parent, tr("Draft models on this computer"), none, has_files=False)
