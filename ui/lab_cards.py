"""The cards beside the Lab's chart: what the figures say, how they were measured, and what tokens cost."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import QFocusEvent
from PySide6.QtWidgets import (
    QBoxLayout,
    QGridLayout,
    QHBoxLayout,
    QLayout,
    QLineEdit,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from engine.words import tr
from ui import theme
from ui.card import Card
from ui.field_error import FieldError
from ui.gauge import is_keyboard_focus
from ui.lab_values import CostField, CostRow, CostView, Finding
from ui.label import Icon, Label, plain_tooltip

_SIDE = 20


class LabCard(Card):
    """A card with a title and a quiet detail beside it; ``head`` and ``column`` take the rest."""

    def __init__(self, title: str, parent: QWidget | None = None) -> None:
        super().__init__("bg1", "line", 10, parent=parent)
        self.title = Label(title, "title")
        self.detail = Label("", "small", "text3", elide=True)
        self.head = QHBoxLayout()
        self.head.setSpacing(8)
        self.head.addWidget(self.title)
        self.head.addWidget(self.detail, 1)
        self.column = QVBoxLayout(self)
        self.column.setContentsMargins(_SIDE, 14, _SIDE, 14)
        self.column.setSpacing(8)
        self.column.addLayout(self.head)


class FindingsCard(LabCard):
    """A number with a title and a sentence each, and a note below."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("What this says"), parent)
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(14)
        self._grid.setVerticalSpacing(2)
        self._grid.setColumnMinimumWidth(0, 34)
        self._grid.setColumnStretch(1, 1)
        self.column.addLayout(self._grid)
        note = QHBoxLayout()
        self._icon = Icon("info", "accent", 14)
        note.addWidget(self._icon, 0, Qt.AlignmentFlag.AlignTop)
        self._note = Label("", "small", "text2", wrap=True)
        note.addWidget(self._note, 1)
        self.column.addLayout(note)
        self.column.addStretch(1)
        self._shown: tuple[Finding, ...] | None = None

    def set_findings(self, findings: Sequence[Finding], note: str) -> None:
        """Show ``findings``, from the fewest copies to the most."""
        self._note.setText(note)
        self._note.setVisible(bool(note))
        self._icon.setVisible(bool(note))
        if tuple(findings) == self._shown:
            return
        self._shown = tuple(findings)
        _empty(self._grid)
        for number, finding in enumerate(findings):
            figure = Label(finding.figure, "title-l", "accent" if number == 1 else "text1", 500)
            self._grid.addWidget(figure, 3 * number, 0, 2, 1, Qt.AlignmentFlag.AlignTop)
            self._grid.addWidget(Label(finding.title, "ui", "text1", 600), 3 * number, 1)
            self._grid.addWidget(Label(finding.text, "small", "text2", wrap=True), 3 * number + 1, 1)
            self._grid.setRowMinimumHeight(3 * number + 2, 4)


class FactsCard(LabCard):
    """Names on the left, values on the right."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("This run"), parent)
        self._grid = QGridLayout()
        self._grid.setVerticalSpacing(6)
        self._grid.setColumnStretch(1, 1)
        self.column.addLayout(self._grid)
        self.column.addStretch(1)
        self._shown: tuple[tuple[str, str], ...] | None = None

    def set_facts(self, facts: Sequence[tuple[str, str]]) -> None:
        """Show names with their values."""
        if tuple(facts) == self._shown:
            return
        self._shown = tuple(facts)
        _empty(self._grid)
        for number, (name, value) in enumerate(facts):
            self._grid.addWidget(Label(name, "small", "text2"), number, 0)
            text = Label(value, "small", "text1", 600, elide=True)
            text.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
            self._grid.addWidget(text, number, 1)


class FigureField(QLineEdit):
    """A figure that is typed; ``typed`` carries its setting and the text when it is done."""

    typed = Signal(str, str)

    def __init__(self, field: CostField, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._key = field.key
        self._shown = ""
        self._has_ring = self._has_error = False
        self.setFixedHeight(28)
        self.setMinimumWidth(64)
        self.setMaximumWidth(110)
        self.setFont(theme.font("ui", 600))
        self.setPlaceholderText("–")
        self.setMaxLength(24)
        self.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.setToolTip(plain_tooltip(field.tooltip))
        self.editingFinished.connect(self._on_finished)
        theme.notifier().changed.connect(self._dress)
        self.set_field(field)
        self._dress()

    def set_field(self, field: CostField) -> None:
        """Show the value; what was typed and not taken stays."""
        self.setAccessibleName(f"{field.label}, {field.unit}" if field.unit else field.label)
        self.setAccessibleDescription(field.error or field.tooltip)
        if not field.error and self.text() == self._shown:
            self._shown = field.value
            self.setText(field.value)
        if bool(field.error) != self._has_error:
            self._has_error = bool(field.error)
            self._dress()

    def _on_finished(self) -> None:
        if self.text() != self._shown or self._has_error:
            self._shown = self.text()
            self.typed.emit(self._key, self._shown)

    def _dress(self) -> None:
        colors = theme.palette()
        edge = colors.accent if self._has_ring else colors.bad if self._has_error else colors.control
        width = 2 if self._has_ring else 1
        self.setStyleSheet(
            f"QLineEdit {{ color: {colors.text1.name()}; background: {colors.bg2.name()};"
            f" border: {width}px solid {edge.name()}; border-radius: 6px; padding: 0 {8 - width}px; }}"
        )

    def focusInEvent(self, event: QFocusEvent) -> None:
        super().focusInEvent(event)
        self._has_ring = is_keyboard_focus(event, True)
        self._dress()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self._has_ring = False
        self._dress()


class CostCard(LabCard):
    """What a million tokens cost by each way of counting, beside figures that the user types."""

    typed = Signal(str, str)  # setting, text

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(tr("Cost"), parent)
        self.detail.setText(tr("per million tokens"))
        self._fields: dict[str, FigureField] = {}
        self._units: dict[str, Label] = {}
        self._errors: dict[str, FieldError] = {}
        self._form = QGridLayout()
        self._form.setHorizontalSpacing(8)
        self._form.setVerticalSpacing(6)
        self._rows = QGridLayout()
        self._rows.setHorizontalSpacing(16)
        self._rows.setVerticalSpacing(8)
        self._rows.setColumnStretch(0, 1)
        self._basis = Label("", "small", "text3", wrap=True)
        self._answer = Label("", "small", "text2", wrap=True)
        self._missing = Label("", "small", "text3", wrap=True)
        self._right = QWidget()
        right = QVBoxLayout(self._right)
        right.setContentsMargins(0, 0, 0, 0)
        right.setSpacing(8)
        right.addLayout(self._rows)
        for label in (self._answer, self._missing, self._basis):
            right.addWidget(label)
        right.addStretch(1)
        self._left = QWidget()
        self._left.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Preferred)
        left = QVBoxLayout(self._left)
        left.setContentsMargins(0, 0, 0, 0)
        left.addLayout(self._form)
        left.addStretch(1)
        self._parts = QBoxLayout(QBoxLayout.Direction.LeftToRight)
        self._parts.setSpacing(32)
        self._parts.addWidget(self._left)
        self._parts.addWidget(self._right, 1)
        self.column.addLayout(self._parts)
        self._shown: tuple[CostRow, ...] | None = None

    def set_view(self, view: CostView) -> None:
        """Show ``view``; fields stay while their settings stay the same."""
        self._show_fields(view.fields)
        self._show_rows(view.rows)
        for label, text in (
            (self._answer, view.answer),
            (self._missing, view.missing),
            (self._basis, view.basis),
        ):
            label.setText(text)
            label.setVisible(bool(text))

    def set_stacked(self, is_stacked: bool) -> None:
        """Set costs below the fields where there is no room beside them."""
        down, along = QBoxLayout.Direction.TopToBottom, QBoxLayout.Direction.LeftToRight
        self._parts.setDirection(down if is_stacked else along)
        self._parts.setSpacing(16 if is_stacked else 32)

    def field(self, key: str) -> FigureField:
        """The field of a setting."""
        return self._fields[key]

    def error(self, key: str) -> str:
        """What is said below the field of a setting, "" for nothing."""
        return self._errors[key].text

    def _show_fields(self, fields: Sequence[CostField]) -> None:
        if list(self._fields) != [field.key for field in fields]:
            _empty(self._form)
            self._fields = {field.key: FigureField(field) for field in fields}
            self._units = {field.key: Label("", "small", "text3") for field in fields}
            self._errors = {field.key: FieldError(field.label) for field in fields}
            for number, field in enumerate(fields):
                self._form.addWidget(Label(field.label, "small", "text2"), 2 * number, 0)
                self._form.addWidget(self._fields[field.key], 2 * number, 1)
                self._form.addWidget(self._units[field.key], 2 * number, 2)
                self._form.addWidget(self._errors[field.key], 2 * number + 1, 0, 1, 3)
                self._fields[field.key].typed.connect(self.typed)
        for field in fields:
            self._fields[field.key].set_field(field)
            self._units[field.key].setText(field.unit)
            self._errors[field.key].set_text(field.error)

    def _show_rows(self, rows: Sequence[CostRow]) -> None:
        if tuple(rows) == self._shown:
            return
        self._shown = tuple(rows)
        _empty(self._rows)
        if not rows:
            return
        heads = ("", tr("Energy, read · written"), tr("Tokens read"), tr("Tokens written"))
        for column, head in enumerate(heads):
            self._rows.addWidget(_figure(Label(head, "micro", "text3", 600)), 0, column)
        for number, row in enumerate(rows, 1):
            name = Label(row.name, "ui", "text1", 500)
            name.setToolTip(plain_tooltip(row.tooltip))
            self._rows.addWidget(name, number, 0)
            for column, text in enumerate((row.energy, row.input, row.output), 1):
                self._rows.addWidget(_figure(Label(text, "ui", "text1", 600)), number, column)

    def sizeHint(self) -> QSize:
        return QSize(700, super().sizeHint().height())


def _figure(label: Label) -> Label:
    label.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
    return label


def _empty(layout: QLayout) -> None:
    """Take all widgets out of a layout."""
    while layout.count():
        item = layout.takeAt(0)
        widget = item.widget() if item is not None else None
        if widget is not None:
            widget.hide()
            widget.deleteLater()
