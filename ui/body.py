"""Places sidebar, centre, Tuning and status bar for the window's width; panels may lie over the text."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import Signal
from PySide6.QtGui import QMouseEvent, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import QWidget

from ui import theme
from ui.centre import Centre
from ui.painting import with_alpha
from ui.panels import TUNING_WIDTH, Panels, WidthClass, width_class
from ui.sidebar import Sidebar
from ui.status_bar import StatusBar
from ui.tuning import TuningDock

STATUS_HEIGHT = 24


class Scrim(QWidget):
    """Darkens the text under the opened sidebar; a click on it says ``pressed``."""

    pressed = Signal()

    def paintEvent(self, event: QPaintEvent) -> None:
        QPainter(self).fillRect(self.rect(), with_alpha(theme.palette().bg0, 0.6))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.pressed.emit()


class Body(QWidget):
    """The window's contents. ``panels_changed`` carries the lasting choice (sidebar, tuning).

    A page (``add_page``) takes the place of centre and Tuning while it is shown; ``page_changed`` carries its
    key, empty for the chat.
    """

    panels_changed = Signal(bool, bool)
    page_changed = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._panels = Panels()
        self.sidebar = Sidebar(self)
        self.centre = Centre(self)
        self.tuning = TuningDock(self)
        self.status = StatusBar(self)
        self._scrim = Scrim(self)
        self._scrim.hide()
        self._pages: dict[str, QWidget] = {}
        self._commands: dict[str, Callable[[], None]] = {}
        self._page = ""
        self._scrim.pressed.connect(self.close_drawers)
        self.sidebar.toggle_clicked.connect(self.toggle_sidebar)
        self.sidebar.page_clicked.connect(self._on_page_clicked)
        self.tuning.close_clicked.connect(self.toggle_tuning)
        self.centre.top_bar.tuning_clicked.connect(self.toggle_tuning)

    @property
    def page(self) -> str:
        """The key of the page that is shown, empty for the chat."""
        return self._page

    @property
    def page_widget(self) -> QWidget | None:
        """The page that is shown, None while the chat is."""
        return self._pages.get(self._page)

    def add_page(self, key: str, icon: str, title: str, page: QWidget, shortcut: str = "") -> None:
        """Offer a page in the sidebar, below those there are."""
        page.setParent(self)
        page.hide()
        self._pages[key] = page
        self.sidebar.add_page(key, icon, title, shortcut)

    def add_command(
        self, key: str, icon: str, title: str, command: Callable[[], None], shortcut: str
    ) -> None:
        """Offer something that is no page in the sidebar, below those there are."""
        self._commands[key] = command
        self.sidebar.add_page(key, icon, title, shortcut)
        self.sidebar.navigation.set_note(key, shortcut.replace("+", " "))

    def _on_page_clicked(self, key: str) -> None:
        if key in self._commands:
            self.close_sidebar_drawer()
            self._commands[key]()
        else:
            self.show_page(key)

    def show_page(self, key: str) -> None:
        """Show a page in place of the chat; none, or the page that is shown already, brings the chat back."""
        key = "" if key == self._page else key
        self.close_sidebar_drawer()
        if key == self._page:
            return
        self._page = key
        self.sidebar.set_page(key)
        self._arrange()
        self.page_changed.emit(key)

    def set_panels(self, sidebar: bool, tuning: bool) -> None:
        """Take the choice of an earlier run."""
        self._panels.wants_sidebar = sidebar
        self._panels.wants_tuning = tuning
        self._arrange()

    def toggle_sidebar(self) -> None:
        """Open or close the sidebar."""
        is_lasting = self._panels.toggle_sidebar(self.width())
        self._arrange()
        self._tell(is_lasting)
        if self._panels.has_sidebar_drawer:
            self.sidebar.focus_region()

    def toggle_tuning(self) -> None:
        """Open or close Tuning."""
        is_lasting = self._panels.toggle_tuning(self.width())
        self._arrange()
        self._tell(is_lasting)

    def open_tuning(self) -> None:
        """Show Tuning, unless it is shown."""
        if not self._panels.arrange(self.width()).is_tuning_shown:
            self.toggle_tuning()

    def close_drawers(self) -> bool:
        """Put away what lies over the text; whether something did."""
        had = self._panels.close_drawers()
        self._arrange()
        return had

    def close_sidebar_drawer(self) -> None:
        """Put the sidebar away where it lies over the text: a chat was picked from it."""
        self._panels.has_sidebar_drawer = False
        self._arrange()

    def _tell(self, is_lasting: bool) -> None:
        if is_lasting:
            self.panels_changed.emit(self._panels.wants_sidebar, self._panels.wants_tuning)

    def _arrange(self) -> None:
        plan = self._panels.arrange(self.width())
        height = self.height() - STATUS_HEIGHT
        self.status.setGeometry(0, height, self.width(), STATUS_HEIGHT)
        self.sidebar.set_rail(plan.is_rail)
        self.sidebar.setGeometry(0, 0, self.sidebar.width(), height)
        self.centre.setGeometry(plan.left, 0, self.width() - plan.left - plan.right, height)
        self.centre.top_bar.set_margin(24 if width_class(self.width()) is WidthClass.WIDE else 16)
        self.centre.top_bar.set_tuning_open(plan.is_tuning_shown)
        self.tuning.setGeometry(self.width() - TUNING_WIDTH, 0, TUNING_WIDTH, height)
        self.tuning.setVisible(plan.is_tuning_shown and not self._page)
        self.centre.setVisible(not self._page)
        for key, page in self._pages.items():
            page.setGeometry(plan.left, 0, self.width() - plan.left, height)
            page.setVisible(key == self._page)
        self._scrim.setGeometry(plan.left, 0, self.width() - plan.left, height)
        self._scrim.setVisible(plan.is_sidebar_drawer)
        if plan.is_tuning_drawer:
            self.tuning.raise_()
        if plan.is_sidebar_drawer:
            self._scrim.raise_()
            self.sidebar.raise_()

    def resizeEvent(self, event: QResizeEvent) -> None:
        self._arrange()
