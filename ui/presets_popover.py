"""The popover that says how this chat is answered: instructions, sampling, length, and the presets of these.

Shows values and emits what the user chose; knows neither ranges nor chats.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from PySide6.QtCore import QRect, Qt, QTimer, Signal
from PySide6.QtGui import QFocusEvent
from PySide6.QtWidgets import (
    QGridLayout,
    QHBoxLayout,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QVBoxLayout,
    QWidget,
)

from engine.words import mark, tr
from ui import numbers, theme
from ui.card import Card
from ui.chat_values import PresetsView
from ui.controls import Button
from ui.field_error import FieldError
from ui.label import Label
from ui.popup import Popup

WIDTH, TEXT_PX = 480, 108
TYPING_MS = 400  # after the last key of the instructions
MOST_CHARS = 20_000
_SHOWN_NAME = 28  # characters
_IN_A_ROW = 3  # numbers
# name, label, what stands in an empty field ("" where there is always a value), tooltip
FIELDS = (
    (
        "temperature",
        mark("Temperature"),
        "",
        mark("0 takes the likeliest token each time; more is more varied"),
    ),
    ("top_k", mark("Top k"), "", mark("Only so many of the likeliest tokens; 0 is off")),
    ("top_p", mark("Top p"), "", mark("Only the likeliest tokens that make up this share; 1 is off")),
    ("min_p", mark("Min p"), "", mark("Only tokens with this share of the likeliest one's chance; 0 is off")),
    (
        "repeat_penalty",
        mark("Repeat penalty"),
        "",
        mark("Above 1 what was said becomes less likely; 1 is off"),
    ),
    (
        "presence_penalty",
        mark("Presence penalty"),
        "",
        mark("Taken from each token the answer has; 0 is off"),
    ),
    (
        "frequency_penalty",
        mark("Frequency penalty"),
        "",
        mark("Taken as often as the answer has the token; 0 is off"),
    ),
    ("seed", mark("Seed"), mark("New each time"), mark("The same seed gives the same answer")),
    (
        "max_tokens",
        mark("Longest answer"),
        mark("No limit"),
        mark("In tokens; an answer ends there, Continue goes on"),
    ),
)


class NumberLine(QLineEdit):
    """A number; ``typed`` carries what was typed. What was not taken stays until it is right."""

    typed = Signal(str)

    def __init__(self, label: str, none: str) -> None:
        super().__init__()
        self._shown = ""
        self._has_error = False
        self.setAccessibleName(label)
        self.setPlaceholderText(none)
        self.setFont(theme.font("ui", 500))
        self.setFixedHeight(32)
        self.setMaxLength(24)
        self.editingFinished.connect(self._on_finished)

    def show_value(self, value: object, error: str, help: str) -> None:
        """Show a number, or None; with an error what was typed is still there."""
        if not error and self.text() == self._shown:
            self._shown = numbers.typed(value) if isinstance(value, int | float) else ""
            self.setText(self._shown)
        self.setAccessibleDescription(error or help)
        if bool(error) != self._has_error:
            self._has_error = bool(error)
            self.dress()

    def dress(self) -> None:
        """Its edge is red while what was typed is wrong."""
        edge = theme.palette().bad.name()
        self.setStyleSheet(f"QLineEdit:!focus {{ border-color: {edge}; }}" if self._has_error else "")

    def _on_finished(self) -> None:
        if self.text() != self._shown or self._has_error:
            self._shown = self.text()
            self.typed.emit(self._shown)


class InstructionsEdit(QPlainTextEdit):
    """``changed_to`` carries the text when typing pauses, and when the keyboard leaves."""

    changed_to = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self._shown = ""
        self._timer = QTimer(self, singleShot=True, interval=TYPING_MS)
        self._timer.timeout.connect(self.give)
        self.setAccessibleName(tr("Instructions"))
        self.setPlaceholderText(tr("What the model is told before the first message"))
        self.setTabChangesFocus(True)
        self.setFont(theme.font("ui", 400))
        self.setFixedHeight(TEXT_PX)
        self.textChanged.connect(self._timer.start)

    def show_text(self, text: str) -> None:
        """Show a text, unless one is being typed."""
        self._shown = text
        if not self.hasFocus() and text != self.toPlainText():
            self.setPlainText(text)

    def give(self) -> None:
        """Say what is typed, if that is new."""
        self._timer.stop()
        text = self.toPlainText()[:MOST_CHARS]
        if text != self._shown:
            self._shown = text
            self.changed_to.emit(text)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.give()


class PresetsPopover(Popup):
    """``option_changed`` carries the name of a setting and a value, ``option_typed`` the name and a text; the
    others carry a preset's name.
    """

    option_changed = Signal(str, object)
    option_typed = Signal(str, str)
    reset_clicked = Signal()
    preset_chosen = Signal(str)
    save_clicked = Signal()
    delete_clicked = Signal(str)
    import_clicked = Signal()
    export_clicked = Signal()

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._view = PresetsView({})
        self.setAccessibleName(tr("How this chat is answered"))
        self.instructions = InstructionsEdit()
        self.lines = {name: NumberLine(tr(label), tr(none)) for name, label, none, _ in FIELDS}
        self.errors = {name: FieldError(tr(label)) for name, label, _, _ in FIELDS}
        self.preset = Button(tr("Preset"), "chevron-down", "secondary", is_small=True)
        self.reset = Button(tr("Reset"), None, "ghost", is_small=True)
        self.reset.setToolTip(tr("Answer this chat as the settings say"))
        self._build()
        self.instructions.changed_to.connect(partial(self.option_changed.emit, "system_prompt"))
        for name, line in self.lines.items():
            line.typed.connect(partial(self.option_typed.emit, name))
        self.preset.clicked.connect(lambda _=False: self.open_presets())
        self.reset.clicked.connect(lambda _=False: self.reset_clicked.emit())
        theme.notifier().changed.connect(self._dress)

    def set_view(self, view: PresetsView) -> None:
        """Show how the chat is answered now."""
        self._view = view
        self.instructions.show_text(str(view.values.get("system_prompt", "")))
        for name, _, _, tooltip in FIELDS:
            error = view.errors.get(name, "")
            self.lines[name].show_value(view.values.get(name), error, tr(tooltip))
            self.errors[name].set_text(error)
        text = tr("Preset: {name}") if view.chosen else _unsaved(view)
        self.preset.setText(text.format(name=_shortened(view.chosen)))
        self.preset.setAccessibleName(text.format(name=view.chosen))
        self.reset.setEnabled(bool(view.own or view.errors))
        if self.isVisible():
            self.place()  # errors take room

    def open_under(self, anchor: QRect) -> None:
        super().open_under(anchor)
        self._dress()

    def place(self) -> None:
        """It ends where the anchor ends."""
        shadow = Card.SHADOW
        width = min(WIDTH, self.width() - 32) + 2 * shadow
        needed = self.panel.heightForWidth(width)  # errors are broken into lines; without any it is not known
        height = min(needed if needed > 0 else self.panel.sizeHint().height(), self.height() - 16)
        left = max(16 - shadow, self._anchor.right() - width + shadow)
        self.panel.setGeometry(left, self._anchor.bottom() + 7 - shadow, width, height)

    def focus_region(self) -> None:
        self.instructions.setFocus(Qt.FocusReason.PopupFocusReason)

    def close_popup(self) -> None:
        """Close it; what is typed counts."""
        if self.isVisible():
            self.instructions.give()
        super().close_popup()

    def open_presets(self) -> QMenu:
        """List the presets and what can be done with them."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        for name in self._view.names:
            action = menu.addAction(name.replace("&", "&&"))
            action.setCheckable(True)
            action.setChecked(name == self._view.chosen)
            action.triggered.connect(partial(self._choose, name))
        if self._view.names:
            menu.addSeparator()
        menu.addAction(tr("Save as a preset…")).triggered.connect(lambda _=False: self.save_clicked.emit())
        if chosen := self._view.chosen:
            deleting = menu.addAction(tr("Delete “{name}”").format(name=chosen.replace("&", "&&")))
            deleting.triggered.connect(lambda _=False: self.delete_clicked.emit(chosen))
        menu.addSeparator()
        menu.addAction(tr("Import from a file…")).triggered.connect(
            lambda _=False: self.import_clicked.emit()
        )
        menu.addAction(tr("Export to a file…")).triggered.connect(lambda _=False: self.export_clicked.emit())
        menu.popup(self.preset.mapToGlobal(self.preset.rect().bottomLeft()))
        return menu

    def _dress(self) -> None:
        """The fields' look, once there is somebody to see it: a style sheet costs time at every change."""
        if self.isHidden():
            return
        colors = theme.palette()
        ground, edge = colors.bg1.name(), colors.control.name()
        self.panel.setStyleSheet(
            f"QLineEdit, QPlainTextEdit {{ color: {colors.text1.name()}; background: {ground};"
            f" border: 1px solid {edge}; border-radius: 6px; }}"
            "QLineEdit { padding: 0 8px; } QPlainTextEdit { padding: 4px; }"
            f"QLineEdit:focus, QPlainTextEdit:focus {{ border: 2px solid {colors.accent.name()}; }}"
            "QLineEdit:focus { padding: 0 7px; } QPlainTextEdit:focus { padding: 3px; }"
        )
        for line in self.lines.values():
            line.dress()

    def _choose(self, name: str, _: bool = False) -> None:
        self.preset_chosen.emit(name)

    def _build(self) -> None:
        edge = Card.SHADOW + 16
        column = QVBoxLayout(self.panel)
        column.setContentsMargins(edge, edge - 4, edge, edge - 4)
        column.setSpacing(8)
        head = QHBoxLayout()
        head.addWidget(Label(tr("This chat"), "title"))
        head.addStretch(1)
        head.addWidget(self.reset)
        head.addWidget(self.preset)
        column.addLayout(head)
        column.addWidget(Label(tr("Instructions"), "small", "text2", 600))
        column.addWidget(self.instructions)
        grid = QGridLayout()
        grid.setHorizontalSpacing(12)
        grid.setVerticalSpacing(4)
        for at, (name, label, _, tooltip) in enumerate(FIELDS):
            row, place = divmod(at, _IN_A_ROW)
            caption = Label(tr(label), "small", "text2", 600)
            self.lines[name].setToolTip(tr(tooltip))
            first = row * (2 + _IN_A_ROW)  # captions, lines, and the errors of these below each other
            grid.addWidget(caption, first, place)
            grid.addWidget(self.lines[name], first + 1, place)
            grid.addWidget(self.errors[name], first + 2 + place, 0, 1, _IN_A_ROW)
            grid.setColumnStretch(place, 1)
        column.addLayout(grid)
        words = tr("Counts from the next answer, and is kept with this chat.")
        column.addWidget(Label(words, "small", "text3"))

    def stops(self) -> Sequence[QWidget]:
        return self.instructions, *self.lines.values(), self.reset, self.preset


def _unsaved(view: PresetsView) -> str:
    return tr("Preset: own values") if view.own else tr("Preset: none")


def _shortened(name: str) -> str:
    """A name that leaves room for what stands beside it."""
    return name if len(name) <= _SHOWN_NAME else f"{name[: _SHOWN_NAME - 1]}…"
