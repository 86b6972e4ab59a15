"""The settings dialog: groups on the left, their settings on the right, a search over all of them.

Shows a SettingsView and says what the user wants; keeps and knows no setting itself.
"""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtGui import (
    QAccessible,
    QAccessibleAnnouncementEvent,
    QCloseEvent,
    QKeySequence,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QShortcut,
)
from PySide6.QtWidgets import (
    QBoxLayout,
    QDialog,
    QFrame,
    QHBoxLayout,
    QScrollArea,
    QVBoxLayout,
    QWidget,
)

from engine.words import tr
from ui import theme
from ui.card import ProgressLine
from ui.controls import Button
from ui.field_error import FieldError
from ui.label import Label
from ui.library_field import Field
from ui.navigation import Navigation
from ui.settings_controls import ActionControl, control_for
from ui.settings_values import FootView, SettingAction, SettingField, SettingGroup, SettingsView

_SIDE_WIDTH = 204
_MARGIN = 24
_NARROW = 460  # px of a row, below which the control stands under its words
_SIZE = QSize(820, 620)


class SettingRow(QWidget):
    """Label and help on the left, the control on the right, and below what is wrong or to be known."""

    def __init__(self, shown: SettingField | SettingAction, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.name = shown.name
        self._shown: SettingField | SettingAction | None = None
        self._label = Label(shown.label, "ui", "text1", 600, wrap=True)
        self._help = Label(shown.help, "small", "text3", wrap=True)
        self._note = Label("", "small", "text2", wrap=True)
        self._error = FieldError(shown.label)
        is_action = isinstance(shown, SettingAction)
        self.control = ActionControl(shown.label) if isinstance(shown, SettingAction) else control_for(shown)
        self._lay_out(has_help=bool(shown.help) or is_action)
        self.set_shown(shown)

    @property
    def words(self) -> str:
        """What a search looks at."""
        shown = self._shown
        choices = " ".join(label for _, label in shown.choices) if isinstance(shown, SettingField) else ""
        return f"{self._label.text()} {self._help.text()} {self.name} {choices}".casefold()

    @property
    def error(self) -> str:
        """Why what was typed was not taken, "" where it was."""
        return self._error.text

    def set_shown(self, shown: SettingField | SettingAction) -> None:
        """Show another value, or what is wrong with what was typed."""
        if shown == self._shown:
            return
        error = shown.error if isinstance(shown, SettingField) else ""
        self._shown = shown
        if isinstance(shown, SettingField):
            self.control.set_field(shown)
        elif isinstance(self.control, ActionControl):
            self.control.set_action(shown)
        self._help.setText(shown.help)
        self._error.set_text(error)
        is_folder = isinstance(shown, SettingField) and shown.kind == "folder"
        note = shown.value if isinstance(shown, SettingField) and is_folder else shown.note
        self._note.setText(note)
        self._note.setVisible(bool(note) and (is_folder or not error))

    def _lay_out(self, *, has_help: bool) -> None:
        words = QVBoxLayout()
        words.setSpacing(2)
        words.addWidget(self._label)
        if has_help:
            words.addWidget(self._help)
        words.addWidget(self._error)
        words.addWidget(self._note)
        words.addStretch(1)
        self._row = QBoxLayout(QBoxLayout.Direction.LeftToRight, self)
        self._row.setContentsMargins(0, 10, 0, 10)
        self._row.setSpacing(20)
        self._row.addLayout(words, 1)
        self._row.addWidget(self.control, 0, Qt.AlignmentFlag.AlignTop)

    def resizeEvent(self, event: QResizeEvent) -> None:
        is_narrow = event.size().width() < _NARROW
        directions = QBoxLayout.Direction
        self._row.setDirection(directions.TopToBottom if is_narrow else directions.LeftToRight)
        self._row.setSpacing(8 if is_narrow else 20)


class _Group(QWidget):
    """A title and its rows."""

    def __init__(self, title: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.title = title
        self.rows: list[SettingRow] = []
        self.column = QVBoxLayout(self)
        self.column.setContentsMargins(0, 0, 0, 12)
        self.column.setSpacing(0)
        self.column.addWidget(Label(title, "title"))
        self.column.addSpacing(6)


class _Foot(QWidget):
    """A sentence with a button, or how far a move is."""

    pressed = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._key = ""
        self.words = Label("", "small", "text2", wrap=True)
        self.button = Button("", None, "secondary", is_small=True)
        self.button.clicked.connect(lambda: self.pressed.emit(self._key))
        self.bar = ProgressLine(tr("How far the move is"))
        row = QHBoxLayout(self)
        row.setContentsMargins(_MARGIN, 10, _MARGIN, 12)
        row.setSpacing(12)
        row.addWidget(self.words, 2, Qt.AlignmentFlag.AlignVCenter)
        row.addWidget(self.bar, 1)
        row.addWidget(self.button)
        self.set_view(None)

    def set_view(self, view: FootView | None) -> None:
        """Show ``view``; new words without progress are said to a screen reader."""
        self.setVisible(view is not None)
        if view is None:
            self.words.setText("")
            return
        if view.words != self.words.text() and view.progress is None and QAccessible.isActive():
            QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, view.words))
        self._key = view.key
        self.words.setText(view.words)
        self.words.set_color("warn" if view.is_warning else "text2")
        self.button.setText(view.verb)
        self.button.updateGeometry()
        self.button.setVisible(bool(view.verb))
        self.bar.setVisible(view.progress is not None)
        self.bar.setValue(round(1000 * (view.progress or 0)))

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), theme.palette().bg1)
        painter.fillRect(0, 0, self.width(), 1, theme.palette().line)


class SettingsDialog(QDialog):
    """``changed`` carries a setting's name and what was chosen or typed, ``pressed`` the name of an action or
    the key of the line at the foot.
    """

    changed = Signal(str, str)
    pressed = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Settings"))
        self.setMinimumSize(480, 320)
        self.resize(_SIZE if parent is None else _SIZE.boundedTo(parent.window().size()))
        self._view = SettingsView()
        self._current = ""
        self._groups: dict[str, _Group] = {}
        self.search = Field("search", tr("Search settings"), tr("Search settings"))
        self.navigation = Navigation()
        self._none = Label("", "ui", "text2", wrap=True)
        self.foot = _Foot()
        self._lay_out()
        self.navigation.page_clicked.connect(self._on_group)
        self.search.typed.connect(self._filter)
        self.foot.pressed.connect(self.pressed)
        QShortcut(QKeySequence.StandardKey.Find, self).activated.connect(self._on_find)
        theme.notifier().changed.connect(self.update)
        self.search.setFocus(Qt.FocusReason.ShortcutFocusReason)

    @property
    def rows(self) -> tuple[SettingRow, ...]:
        """All rows, also those that are not shown."""
        return tuple(row for group in self._groups.values() for row in group.rows)

    def row(self, name: str) -> SettingRow:
        """The row of a setting or an action."""
        return next(row for row in self.rows if row.name == name)

    def set_view(self, view: SettingsView) -> None:
        """Show ``view``; rows stay while their names stay."""
        self._view = view
        for group in view.groups:
            self._show_group(group)
        if not self._current and view.groups:
            self._on_group(view.groups[0].title)
        self.foot.set_view(view.foot)
        for part in (self._body, self.search, self.navigation):
            part.setEnabled(not self._is_moving)

    def reveal(self, name: str) -> None:
        """Bring a setting into view and give it the keyboard."""
        self.search.set_text("")
        group = next(group for group in self._groups.values() if any(row.name == name for row in group.rows))
        self._on_group(group.title)
        row = self.row(name)
        row.control.target.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self._scroll.ensureWidgetVisible(row)

    def _show_group(self, shown: SettingGroup) -> None:
        group = self._groups.get(shown.title)
        if group is None:
            group = self._groups[shown.title] = _Group(shown.title)
            self.navigation.add_page(shown.title, shown.icon, shown.title)
            self._list.insertWidget(self._list.count() - 1, group)
        names = [row.name for row in group.rows]
        for each in shown.rows:
            if each.name in names:
                self.row(each.name).set_shown(each)
            else:
                self._add_row(group, each)

    def _add_row(self, group: _Group, shown: SettingField | SettingAction) -> None:
        row = SettingRow(shown)
        if isinstance(shown, SettingAction):
            row.control.changed.connect(lambda _: self.pressed.emit(row.name))
        else:
            row.control.changed.connect(lambda text: self.changed.emit(row.name, text))
        group.rows.append(row)
        group.column.addWidget(row)

    def _on_group(self, title: str) -> None:
        self._current = title
        self.search.set_text("")
        self._filter("")
        self._scroll.verticalScrollBar().setValue(0)

    def _on_find(self) -> None:
        self.search.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _filter(self, text: str) -> None:
        """Show what has all the words; without words, the chosen group."""
        words = text.casefold().split()
        has_any = False
        for group in self._groups.values():
            shown = [row for row in group.rows if all(word in row.words for word in words)]
            for row in group.rows:
                row.setVisible(row in shown)
            is_shown = bool(shown) and (bool(words) or group.title == self._current)
            group.setVisible(is_shown)
            has_any |= is_shown
        self.navigation.set_current("" if words else self._current)
        nothing = tr('No setting contains "{words}".').format(words=text.strip())
        self._none.setText("" if has_any else nothing)
        self._none.setVisible(not has_any)

    def _lay_out(self) -> None:
        side = QVBoxLayout()
        side.setContentsMargins(12, 16, 12, 12)
        side.setSpacing(8)
        side.addWidget(self.search)
        side.addWidget(self.navigation)
        side.addStretch(1)
        self._side = QWidget()
        self._side.setFixedWidth(_SIDE_WIDTH)
        self._side.setLayout(side)
        self._body = QWidget()
        self._list = QVBoxLayout(self._body)
        self._list.setContentsMargins(_MARGIN, 20, _MARGIN, 12)
        self._list.setSpacing(8)
        self._list.addWidget(self._none)
        self._list.addStretch(1)
        self._scroll = QScrollArea()
        self._scroll.setWidgetResizable(True)
        self._scroll.setFrameShape(QFrame.Shape.NoFrame)
        self._scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self._scroll.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._scroll.setWidget(self._body)
        for ground in (self._scroll.viewport(), self._body):  # the dialog's own shows through
            ground.setAutoFillBackground(False)
        top = QHBoxLayout()
        top.setSpacing(0)
        top.addWidget(self._side)
        top.addWidget(self._scroll, 1)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addLayout(top, 1)
        column.addWidget(self.foot)

    @property
    def _is_moving(self) -> bool:
        return self._view.foot is not None and self._view.foot.progress is not None

    def reject(self) -> None:
        """Close, unless a folder is being moved: that is seen to its end, or stopped with its button."""
        if not self._is_moving:
            super().reject()

    def closeEvent(self, event: QCloseEvent) -> None:
        if self._is_moving:
            event.ignore()
        else:
            super().closeEvent(event)

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = theme.palette()
        painter = QPainter(self)
        painter.fillRect(self.rect(), colors.bg0)
        painter.fillRect(0, 0, _SIDE_WIDTH, self.height(), colors.bg1)
        painter.fillRect(_SIDE_WIDTH, 0, 1, self.height(), colors.line)
