"""The bar above the transcript: model chip, menu and the button of Tuning. Knows no panel; it emits."""

from __future__ import annotations

from PySide6.QtCore import QElapsedTimer, QRectF, Qt, Signal
from PySide6.QtGui import QAction, QActionGroup, QKeySequence, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QHBoxLayout, QMenu, QWidget

from engine.words import mark, tr
from ui import numbers, theme
from ui.chip import ModelChip
from ui.controls import Button, IconButton
from ui.gauge_values import SpeedView
from ui.label import key_text
from ui.values import ChipView

HEIGHT = 48
_WORDS_FROM = 720  # px; narrower, buttons have icons alone
DIGITS_MS = 250  # the digits change at most four times a second
THEMES = (("system", mark("System")), ("light", mark("Light")), ("dark", mark("Dark")))


class TuningButton(IconButton):
    """Opens and closes Tuning. With Tuning closed, the speed takes the icon's place once there is one."""

    def __init__(self, parent: QWidget | None = None) -> None:
        tooltip = tr("Tuning ({keys})").format(keys=key_text("Ctrl+T"))
        super().__init__("gauge", tooltip, is_checkable=True, parent=parent)
        self._figure = ""
        self._since_change = QElapsedTimer()
        self.toggled.connect(self._show_words)

    def set_speed(self, view: SpeedView) -> None:
        """Take the newest speed; while an answer is written the digits change at most four times a second."""
        if view.is_live and self._since_change.isValid() and self._since_change.elapsed() < DIGITS_MS:
            return
        figure = "" if view.decode_tps is None else numbers.tps(view.decode_tps)
        if figure != self._figure:
            self._figure = figure
            self._since_change.restart()
            spoken = tr("{speed} tokens per second").format(speed=figure)
            self.setAccessibleDescription(spoken if figure else "")
            self._show_words()

    def _show_words(self) -> None:
        is_shown = self._figure and not self.isChecked()
        self.set_words(f"{self._figure}{numbers.NBSP}tok/s" if is_shown else "")


class TopBar(QWidget):
    """Chip on the left, menu and Tuning on the right. ``theme_chosen`` carries system, light or dark."""

    chip_clicked = Signal()
    tuning_clicked = Signal()
    theme_chosen = Signal(str)
    file_requested = Signal()
    folder_requested = Signal()
    models_folder_requested = Signal()
    about_requested = Signal()
    shortcuts_requested = Signal()
    palette_requested = Signal()
    instructions_clicked = Signal()
    export_requested = Signal(str, str)  # a chat, "" for all, and "md" or "json"
    import_requested = Signal()
    temporary_requested = Signal()

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedHeight(HEIGHT)
        self.setAccessibleName(tr("Model and view"))
        self.chip = ModelChip()
        self.chip.clicked.connect(self.chip_clicked)
        self.tuning = TuningButton()
        self.tuning.clicked.connect(self.tuning_clicked)
        self.menu = self._make_menu()
        self._more = IconButton("ellipsis", tr("More"))
        self._more.clicked.connect(lambda: _open_under(self.menu, self._more))
        self.export_menu = self._make_export_menu()
        self._export = IconButton("upload", tr("Export this chat"))
        self._export.clicked.connect(lambda: _open_under(self.export_menu, self._export))
        self._instructions = Button(tr("Instructions"), "file-text", "ghost")
        self._instructions_icon = IconButton("file-text", "")
        for each in (self._instructions, self._instructions_icon):
            each.clicked.connect(lambda _=False: self._on_instructions_clicked())
        self.set_own_options(False)
        self._chat_id = ""
        self.set_chat("")
        row = self._row = QHBoxLayout(self)
        row.setContentsMargins(24, 0, 12, 1)
        row.setSpacing(4)
        row.addWidget(self.chip)
        row.addStretch(1)
        row.addWidget(self._instructions)
        row.addWidget(self._instructions_icon)
        row.addWidget(self._export)
        row.addWidget(self._more)
        row.addWidget(self.tuning)
        theme.notifier().changed.connect(self.update)

    def set_chip(self, view: ChipView) -> None:
        """Show the model and its state."""
        self.chip.set_view(view)

    def set_tuning_open(self, is_open: bool) -> None:
        """Show whether Tuning is open."""
        self.tuning.setChecked(is_open)

    def set_margin(self, left: int) -> None:
        """Distance of the chip from the left edge."""
        self._row.setContentsMargins(left, 0, 12, 1)

    def focus_region(self) -> None:
        """Give the keyboard to the chip."""
        self.chip.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def set_chat(self, chat_id: str) -> None:
        """The chat that can be exported; "" where it has not begun."""
        self._chat_id = chat_id
        self._export.setEnabled(bool(chat_id))

    def set_own_options(self, has_any: bool) -> None:
        """Say whether the shown chat has instructions or sampling of its own."""
        name = tr("Instructions and sampling of this chat")
        tooltip = tr("Instructions and sampling of this chat ({keys})")
        if has_any:
            name = tr("Instructions and sampling of this chat: changed")
            tooltip = tr("Instructions and sampling of this chat: changed ({keys})")
        for each in (self._instructions, self._instructions_icon):
            each.setToolTip(tooltip.format(keys=key_text("Ctrl+I")))
            each.setAccessibleName(name)
        self.has_own_options = has_any
        self._instructions.set_role("secondary" if has_any else "ghost")
        self._instructions_icon.setCheckable(has_any)
        self._instructions_icon.setChecked(has_any)

    @property
    def instructions(self) -> Button | IconButton:
        """The button for what this chat is answered with, with its words where there is room."""
        return self._instructions_icon if self._instructions.isHidden() else self._instructions

    def _on_instructions_clicked(self) -> None:
        self._instructions_icon.setChecked(
            self.has_own_options
        )  # the tint says that there are some, not that it is open
        self.instructions_clicked.emit()

    @property
    def chat_id(self) -> str:
        """The shown chat, "" where it has not begun."""
        return self._chat_id

    def _make_export_menu(self) -> QMenu:
        menu = QMenu(self)
        for kind, label in (("md", tr("As Markdown…")), ("json", tr("As JSON, with all branches…"))):
            action = menu.addAction(label)
            action.triggered.connect(
                lambda _=False, kind=kind: self.export_requested.emit(self._chat_id, kind)
            )
        return menu

    def _make_menu(self) -> QMenu:
        menu = QMenu(self)
        for label, slot, keys in (
            (tr("New temporary chat"), self.temporary_requested.emit, "Ctrl+Shift+N"),
            (tr("Import chats…"), self.import_requested.emit, ""),
            (tr("Export all chats…"), lambda: self.export_requested.emit("", "json"), ""),
        ):
            action = menu.addAction(label)
            action.setShortcut(QKeySequence(keys))
            action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)  # the window has the key
            action.triggered.connect(lambda _=False, slot=slot: slot())
        menu.addSeparator()
        themes = self.themes = menu.addMenu(tr("Theme"))
        group = QActionGroup(themes)
        for key, label in THEMES:
            action = QAction(tr(label), group)
            action.setCheckable(True)
            action.setData(key)
            action.triggered.connect(lambda _=False, key=key: self.theme_chosen.emit(key))
            themes.addAction(action)
        themes.aboutToShow.connect(lambda: _check(group, theme.notifier().choice))
        menu.addSeparator()
        for label, signal in (
            (tr("Choose a model file…"), self.file_requested),
            (tr("Choose a model folder…"), self.folder_requested),
            (tr("Show models folder"), self.models_folder_requested),
        ):
            menu.addAction(label).triggered.connect(lambda _=False, signal=signal: signal.emit())
        menu.addSeparator()
        for label, asks, keys in (
            (tr("All commands…"), self.palette_requested, "Ctrl+Shift+P"),
            (tr("Keyboard shortcuts"), self.shortcuts_requested, "F1"),
        ):
            action = menu.addAction(label)
            action.setShortcut(QKeySequence(keys))
            action.setShortcutContext(Qt.ShortcutContext.WidgetShortcut)  # the window has the key
            action.triggered.connect(lambda _=False, asks=asks: asks.emit())
        menu.addAction(tr("About Decodeck")).triggered.connect(lambda _=False: self.about_requested.emit())
        return menu

    def resizeEvent(self, event: QResizeEvent) -> None:
        has_room = self.width() >= _WORDS_FROM
        self._instructions.setVisible(has_room)
        self._instructions_icon.setVisible(not has_room)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(QRectF(0, self.height() - 1, self.width(), 1), theme.palette().line)


def _check(group: QActionGroup, key: str) -> None:
    for action in group.actions():
        action.setChecked(action.data() == key)


def _open_under(menu: QMenu, button: IconButton) -> None:
    """Open a menu so that it ends where its button ends."""
    corner = button.mapToGlobal(button.rect().bottomRight())
    corner.setX(corner.x() - menu.sizeHint().width())
    menu.popup(corner)
