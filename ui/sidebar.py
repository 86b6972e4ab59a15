"""The left panel: brand, New chat and the list of chats, or a narrow rail of icons. Knows no chat itself."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent, QPen, QPixmap
from PySide6.QtWidgets import QHBoxLayout, QStackedWidget, QVBoxLayout, QWidget

from engine.words import tr
from ui import theme
from ui.chat_list import ChatList
from ui.chat_values import ChatRow, FolderRow, SearchView
from ui.controls import IconButton, ThemedButton
from ui.label import Label, key_text
from ui.navigation import Navigation
from ui.painting import with_alpha
from ui.panels import RAIL_WIDTH, SIDEBAR_WIDTH
from ui.search_panel import SearchPanel


def logo_pixmap(size: int) -> QPixmap:
    """The mark for the window's icon, ``size`` px square."""
    pixmap = QPixmap(size, size)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    painter.scale(size / 20, size / 20)
    _draw_logo(painter)
    painter.end()
    return pixmap


def _draw_logo(painter: QPainter) -> None:
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(theme.palette().accent)
    for left, height, opacity in ((1.0, 9.0, 0.5), (7.5, 13.0, 0.7), (14.0, 19.0, 1.0)):
        painter.setOpacity(opacity)
        painter.drawRoundedRect(QRectF(left, 19.5 - height, 5, height), 1.5, 1.5)


class Logo(QWidget):
    """Three rising bars, the mark of the program."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setFixedSize(20, 20)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        theme.notifier().changed.connect(self.update)

    def paintEvent(self, event: QPaintEvent) -> None:
        _draw_logo(QPainter(self))


class NewChatButton(ThemedButton):
    """The wide button at the top of the panel, with its key."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._keys = key_text("Ctrl+N").replace("+", " ")
        self.setText(tr("New chat"))
        self.setAccessibleName(tr("New chat"))
        self.setToolTip(tr("New chat ({keys})").format(keys=key_text("Ctrl+N")))
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFixedHeight(36)
        self.setMinimumWidth(180)

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = theme.palette()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(QPen(with_alpha(colors.accent, 0.85 if self.is_hovered else 0.5), 1))
        painter.setBrush(colors.accent_soft)
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 8, 8)
        if self.has_ring:
            theme.draw_focus_ring(painter, self.rect(), 8)
        theme.draw_icon(painter, QRectF(11, 10, 16, 16), "plus", colors.accent)
        painter.setFont(theme.font("ui", 600))
        painter.setPen(colors.text1)
        box = QRectF(self.rect()).adjusted(34, 0, -12, 0)
        painter.drawText(box, int(Qt.AlignmentFlag.AlignVCenter), self.text())
        painter.setFont(theme.font("micro", 600))
        painter.setPen(colors.text2)
        painter.drawText(box, int(Qt.AlignmentFlag.AlignVCenter | Qt.AlignmentFlag.AlignRight), self._keys)

    def sizeHint(self) -> QSize:
        return QSize(216, 36)


class Sidebar(QWidget):
    """The panel in both widths; ``set_rail`` picks one. Signals carry chat ids, a rename the title too."""

    new_chat_clicked = Signal()
    toggle_clicked = Signal()
    chat_selected = Signal(str)
    chat_renamed = Signal(str, str)
    chat_delete_requested = Signal(str)
    page_clicked = Signal(str)
    search_changed = Signal(str)
    search_left = Signal()
    search_requested = Signal()
    hit_chosen = Signal(str, str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAccessibleName(tr("Sidebar"))
        self.list = ChatList()
        self.search = SearchPanel()
        self.navigation = Navigation()
        self.rail_navigation = Navigation(is_rail=True)
        self._current_chat: str | None = None
        self._titles: dict[str, str] = {}
        self._empty = self._make_empty()
        self._pages = QStackedWidget(self)
        self._pages.addWidget(self._make_full())
        self._pages.addWidget(self._make_rail())
        layout = QVBoxLayout(self)
        layout.setContentsMargins(0, 0, 1, 0)
        layout.addWidget(self._pages)
        self.list.chat_selected.connect(self.chat_selected)
        self.list.chat_renamed.connect(self.chat_renamed)
        self.list.chat_delete_requested.connect(self.chat_delete_requested)
        for navigation in (self.navigation, self.rail_navigation):
            navigation.page_clicked.connect(self.page_clicked)
        self.search.field.textChanged.connect(self.search_changed)
        self.search.left.connect(self.search_left)
        self.search.hit_chosen.connect(self.hit_chosen)
        self.set_chats((), None)
        self.set_rail(False)
        theme.notifier().changed.connect(self.update)

    @property
    def is_rail(self) -> bool:
        """Whether only the rail of icons is shown."""
        return self._pages.currentIndex() == 1

    def set_rail(self, is_rail: bool) -> None:
        """Show the rail of 56 px or the panel of 240 px."""
        self._pages.setCurrentIndex(1 if is_rail else 0)
        self.setFixedWidth(RAIL_WIDTH if is_rail else SIDEBAR_WIDTH)

    def set_chats(self, rows: Sequence[ChatRow], current_id: str | None) -> None:
        """Show these chats, newest first; ``current_id`` is the one in the transcript."""
        self._current_chat = current_id
        self.list.set_rows(rows, current_id)
        self._titles = {row.chat_id: row.title for row in rows}
        if not rows and self.list.hasFocus():  # the last chat was deleted: the keyboard stays here
            self._new_chat.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self._show_parts()

    def set_folders(self, folders: Sequence[FolderRow]) -> None:
        """Show these folders, with the chats that are in them."""
        self.list.set_folders(folders)
        self._show_parts()

    def set_search(self, view: SearchView | None) -> None:
        """Show what was found in place of the list; None brings that back."""
        self.search.set_view(view)
        self._show_parts()

    def focus_search(self) -> None:
        """Give the keyboard to the search field, its words chosen."""
        self.search.field.setFocus(Qt.FocusReason.ShortcutFocusReason)
        self.search.field.selectAll()

    def title_of(self, chat_id: str) -> str:
        """The title of a listed chat, "" for another."""
        return self._titles.get(chat_id, "")

    def _show_parts(self) -> None:
        """The list, what was found, or the words for a list without chats."""
        has_any, is_searching = self.list.model().rowCount() > 0, self.search.is_searching
        self.list.setVisible(has_any and not is_searching)
        self._empty.setVisible(not has_any and not is_searching)

    def add_page(self, key: str, icon: str, title: str, shortcut: str = "") -> None:
        """Offer a page of the window, in the panel and in the rail."""
        for navigation in (self.navigation, self.rail_navigation):
            navigation.add_page(key, icon, title, shortcut)

    def set_page(self, key: str) -> None:
        """Mark the page that is shown; empty for none."""
        for navigation in (self.navigation, self.rail_navigation):
            navigation.set_current(key)

    def rename_chat(self) -> None:
        """Edit the title of the chat under the keyboard, else of the one in the transcript."""
        if self.list.hasFocus():
            self.list.rename(self.list.currentIndex())
        else:
            self.list.rename(self.list.chats.index_of(self._current_chat))

    def focus_region(self) -> None:
        """Give the keyboard to what matters most here: the list, else New chat."""
        if self.is_rail:
            self._rail_toggle.setFocus(Qt.FocusReason.ShortcutFocusReason)
        elif self.search.is_searching:
            self.focus_search()
        elif self.list.isVisible():
            self.list.setFocus(Qt.FocusReason.ShortcutFocusReason)
        else:
            self._new_chat.setFocus(Qt.FocusReason.ShortcutFocusReason)

    def _make_full(self) -> QWidget:
        page = QWidget()
        brand = QHBoxLayout()
        brand.setContentsMargins(10, 0, 0, 0)
        brand.setSpacing(10)
        brand.addWidget(Logo())
        brand.addWidget(Label("Decodeck", "title"), 1)
        tooltip = tr("Close sidebar ({keys})").format(keys=key_text("Ctrl+B"))
        toggle = IconButton("panel-left", tooltip)
        toggle.clicked.connect(self.toggle_clicked)
        brand.addWidget(toggle)
        self._new_chat = NewChatButton()
        self._new_chat.clicked.connect(self.new_chat_clicked)
        column = QVBoxLayout(page)
        column.setContentsMargins(12, 8, 0, 0)
        column.setSpacing(0)
        for part in (brand, self._new_chat, self.search.field):
            row = QHBoxLayout()
            row.setContentsMargins(0, 0, 11, 0)
            row.addLayout(part) if isinstance(part, QHBoxLayout) else row.addWidget(part)
            column.addLayout(row)
            column.addSpacing(12 if part is brand else 8)
        column.addWidget(self.list, 1)
        column.addWidget(self.search, 1)
        column.addWidget(self._empty)
        column.addStretch(0)
        foot = QHBoxLayout()
        foot.setContentsMargins(0, 0, 11, 0)
        foot.addWidget(self.navigation)
        column.addLayout(foot)
        return page

    def _make_empty(self) -> QWidget:
        empty = QWidget()
        column = QVBoxLayout(empty)
        column.setContentsMargins(12, 32, 23, 0)
        column.setSpacing(2)
        title = Label(tr("No chats yet"), "ui", "text2", 600)
        sentence = tr("Chats you start are kept on this computer and listed here.")
        text = Label(sentence, "small", "text3", wrap=True)
        for label in (title, text):
            label.setAlignment(Qt.AlignmentFlag.AlignHCenter)
            column.addWidget(label)
        column.addStretch(1)
        return empty

    def _make_rail(self) -> QWidget:
        page = QWidget()
        column = QVBoxLayout(page)
        column.setContentsMargins(0, 14, 0, 0)
        column.setSpacing(4)
        column.addWidget(Logo(), 0, Qt.AlignmentFlag.AlignHCenter)
        column.addSpacing(14)
        tooltip = tr("Open sidebar ({keys})").format(keys=key_text("Ctrl+B"))
        self._rail_toggle = IconButton("panel-left", tooltip)
        self._rail_toggle.clicked.connect(self.toggle_clicked)
        new_chat = IconButton("plus", tr("New chat ({keys})").format(keys=key_text("Ctrl+N")))
        new_chat.clicked.connect(self.new_chat_clicked)
        search = IconButton("search", tr("Search chats ({keys})").format(keys=key_text("Ctrl+K")))
        search.clicked.connect(self.search_requested)
        for button in (self._rail_toggle, new_chat, search):
            column.addWidget(button, 0, Qt.AlignmentFlag.AlignHCenter)
            column.addSpacing(4)
        column.addStretch(1)
        column.addWidget(self.rail_navigation)
        return page

    def paintEvent(self, event: QPaintEvent) -> None:
        colors = theme.palette()
        painter = QPainter(self)
        painter.fillRect(self.rect(), colors.bg1)
        painter.fillRect(QRectF(self.width() - 1, 0, 1, self.height()), colors.line)
