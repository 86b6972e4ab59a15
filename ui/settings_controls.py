"""What settings are changed with: a choice, a line, lines, a folder, a button. Know no setting.

Each shows a field and says ``changed`` with what the user chose or typed, as a text.
"""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFocusEvent, QFontMetricsF, QKeyEvent, QPainter, QPaintEvent, QWheelEvent
from PySide6.QtWidgets import (
    QComboBox,
    QFileDialog,
    QHBoxLayout,
    QLineEdit,
    QPlainTextEdit,
    QSizePolicy,
    QStyle,
    QStyleOptionComboBox,
    QVBoxLayout,
    QWidget,
)

from engine.words import tr
from ui import theme
from ui.controls import Button
from ui.label import Label
from ui.segmented import Choice, Segmented
from ui.settings_values import SettingAction, SettingField

WIDTH = 272  # of every control
_HEIGHT = 32
_LINES_HEIGHT = 76
_MOST_SEGMENTS = 4
_SEGMENT_PADDING = 20  # px that a segment needs beside its label


class Control(QWidget):
    """The right half of a setting's row."""

    changed = Signal(str)

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        self.setFixedWidth(WIDTH)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)

    def set_field(self, field: SettingField) -> None:
        """Show a field's value."""
        raise NotImplementedError

    @property
    def target(self) -> QWidget:
        """What takes the keyboard."""
        raise NotImplementedError


class Segments(Control):
    """A few choices side by side."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(name, parent)
        self._segmented = Segmented(name)
        self._segmented.chosen.connect(self.changed)
        self._column.addWidget(self._segmented)

    def set_field(self, field: SettingField) -> None:
        choices = [Choice(key, label) for key, label in field.choices]
        self._segmented.set_choices(choices, field.value)
        self._segmented.setEnabled(not field.is_fixed)

    @property
    def target(self) -> QWidget:
        return next(each for each in self._segmented.segments if each.focusPolicy() & Qt.FocusPolicy.TabFocus)


class Select(QComboBox):
    """One of a list, in the look of the theme; the wheel scrolls the page, not the choice."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(name)
        self.setFont(theme.font("ui"))
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        theme.notifier().changed.connect(self._dress)
        self._dress()

    def _dress(self) -> None:
        colors = theme.palette()
        self.setStyleSheet(
            f"QComboBox QAbstractItemView {{ background: {colors.bg2.name()}; color: {colors.text1.name()};"
            f" border: 1px solid {colors.border.name()}; selection-background-color: {colors.bg3.name()};"
            f" selection-color: {colors.text1.name()}; outline: none; padding: 4px; }}"
        )
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = theme.palette()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        option = QStyleOptionComboBox()
        self.initStyleOption(option)
        is_hovered = bool(option.state & QStyle.StateFlag.State_MouseOver) and self.isEnabled()
        painter.setPen(colors.control)
        painter.setBrush(colors.bg3 if is_hovered else colors.bg2)
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)
        if self.hasFocus():
            theme.draw_focus_ring(painter, self.rect(), 8)
        ink = colors.text1 if self.isEnabled() else colors.text3
        painter.setFont(self.font())
        painter.setPen(ink)
        box = QRectF(self.rect()).adjusted(12, 0, -34, 0)
        text = QFontMetricsF(self.font()).elidedText(
            self.currentText(), Qt.TextElideMode.ElideRight, box.width()
        )
        painter.drawText(box, int(Qt.AlignmentFlag.AlignVCenter), text)
        place = QRectF(self.width() - 28, (self.height() - 16) / 2, 16, 16)
        theme.draw_icon(painter, place, "chevron-down", ink)

    def wheelEvent(self, event: QWheelEvent) -> None:
        event.ignore()

    def sizeHint(self) -> QSize:
        return QSize(WIDTH, _HEIGHT)

    def minimumSizeHint(self) -> QSize:
        return QSize(120, _HEIGHT)


class SelectControl(Control):
    """More choices than fit side by side."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(name, parent)
        self._select = Select(name)
        self._select.activated.connect(lambda _: self.changed.emit(str(self._select.currentData())))
        self._column.addWidget(self._select)

    def set_field(self, field: SettingField) -> None:
        if [self._select.itemData(row) for row in range(self._select.count())] != [
            key for key, _ in field.choices
        ]:
            self._select.clear()
            for key, label in field.choices:
                self._select.addItem(label, key)
        self._select.setCurrentIndex(self._select.findData(field.value))
        self._select.setEnabled(not field.is_fixed)

    @property
    def target(self) -> QWidget:
        return self._select


class _Line(QLineEdit):
    """Esc takes back what was typed; only where nothing was does it go on to the dialog."""

    def __init__(self) -> None:
        super().__init__()
        self.shown = ""

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Escape and self.text() != self.shown:
            self.setText(self.shown)
            return
        super().keyPressEvent(event)


class LineControl(Control):
    """A number or a few words, taken with Enter or when the keyboard goes elsewhere."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(name, parent)
        self._line = _Line()
        self._line.setAccessibleName(name)
        self._line.setFont(theme.font("ui", 400))
        self._line.setFixedHeight(_HEIGHT)
        self._line.setMaxLength(512)
        self._unit = Label("", "small", "text3")
        row = QHBoxLayout()
        row.setSpacing(8)
        row.addWidget(self._line, 1)
        row.addWidget(self._unit)
        self._column.addLayout(row)
        self._has_error = self._is_filled = False
        self._line.editingFinished.connect(self._on_finished)
        theme.notifier().changed.connect(self._dress)
        self._dress()

    def set_field(self, field: SettingField) -> None:
        self._unit.setText(field.unit)
        self._unit.setVisible(bool(field.unit))
        self._line.setPlaceholderText(field.none)
        self._line.setEnabled(not field.is_fixed)
        self._line.setAccessibleDescription(field.error or field.help)
        is_kept = self._is_filled and (bool(field.error) or self._line.text() != self._line.shown)
        if not is_kept:  # what was typed and not taken stays
            self._is_filled = True
            self._line.shown = field.value
            self._line.setText(field.value)
        if bool(field.error) != self._has_error:
            self._has_error = bool(field.error)
            self._dress()

    @property
    def target(self) -> QWidget:
        return self._line

    def _on_finished(self) -> None:
        if self._line.text() != self._line.shown or self._has_error:
            self._line.shown = self._line.text()
            self.changed.emit(self._line.text())

    def _dress(self) -> None:
        self._line.setStyleSheet(_box_style("QLineEdit", has_error=self._has_error))


class _Lines(QPlainTextEdit):
    left = Signal()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.left.emit()


class LinesControl(Control):
    """A longer text, taken when the keyboard goes elsewhere."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(name, parent)
        self._lines = _Lines()
        self._lines.setAccessibleName(name)
        self._lines.setFont(theme.font("ui", 400))
        self._lines.setTabChangesFocus(True)
        self._lines.setFixedHeight(_LINES_HEIGHT)
        self._shown = ""
        self._lines.left.connect(self._on_left)
        self._column.addWidget(self._lines)
        theme.notifier().changed.connect(self._dress)
        self._dress()

    def set_field(self, field: SettingField) -> None:
        self._lines.setReadOnly(field.is_fixed)
        self._lines.setPlaceholderText(field.none)
        self._lines.setAccessibleDescription(field.help)
        if field.value != self._shown:
            self._shown = field.value
            self._lines.setPlainText(field.value)

    @property
    def target(self) -> QWidget:
        return self._lines

    def _on_left(self) -> None:
        text = self._lines.toPlainText()
        if text != self._shown:
            self._shown = text
            self.changed.emit(text)

    def _dress(self) -> None:
        self._lines.setStyleSheet(_box_style("QPlainTextEdit"))


class FolderControl(Control):
    """A button to move a folder; ``ask`` opens the dialog for another place."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(name, parent)
        self._folder = self._question = ""
        self._move = Button(tr("Move…"), "folder", "secondary", is_small=True)
        self._move.setAccessibleName(tr("Move {name}").format(name=name))
        self._move.clicked.connect(self.ask)
        self._column.addWidget(self._move, 0, Qt.AlignmentFlag.AlignRight)

    def set_field(self, field: SettingField) -> None:
        self._folder, self._question = field.value, field.move
        self._move.setAccessibleDescription(tr("Now in {folder}").format(folder=field.value))
        self._move.setEnabled(not field.is_fixed)

    @property
    def target(self) -> QWidget:
        return self._move

    def ask(self) -> None:
        """Let the user choose an empty folder."""
        dialog = QFileDialog(self, self._question, self._folder)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.setLabelText(QFileDialog.DialogLabel.Accept, tr("Move here"))
        dialog.fileSelected.connect(self.changed)
        dialog.open()


class ActionControl(Control):
    """A button."""

    def __init__(self, name: str, parent: QWidget | None = None) -> None:
        super().__init__(name, parent)
        self._button = Button("", None, "secondary", is_small=True)
        self._button.clicked.connect(lambda: self.changed.emit(""))
        self._column.addWidget(self._button, 0, Qt.AlignmentFlag.AlignRight)

    def set_action(self, action: SettingAction) -> None:
        """Show another verb."""
        self._button.setText(action.verb)
        self._button.setAccessibleName(action.verb)
        self._button.setAccessibleDescription(action.help)
        self._button.setEnabled(not action.is_fixed)
        self._button.updateGeometry()

    @property
    def target(self) -> QWidget:
        return self._button


def control_for(field: SettingField) -> Control:
    """What a field is changed with."""
    if field.kind == "choice":
        font = QFontMetricsF(theme.font("ui", 600))
        width = sum(font.horizontalAdvance(label) + _SEGMENT_PADDING for _, label in field.choices)
        is_short = len(field.choices) <= _MOST_SEGMENTS and width < WIDTH
        return Segments(field.label) if is_short else SelectControl(field.label)
    return {"line": LineControl, "lines": LinesControl, "folder": FolderControl}[field.kind](field.label)


def _box_style(widget: str, *, has_error: bool = False) -> str:
    colors = theme.palette()
    edge = colors.bad if has_error else colors.control
    return (
        f"{widget} {{ background: {colors.bg2.name()}; color: {colors.text1.name()};"
        f" border: 1px solid {edge.name()}; border-radius: 8px; padding: 2px 8px; }}"
        f"{widget}:focus {{ border: 2px solid {colors.accent.name()}; }}"
        f"{widget}:disabled {{ color: {colors.text3.name()}; }}"
    )
