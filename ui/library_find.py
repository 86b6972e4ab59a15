"""Finding models on the hub: what was found, a model's files, and why it did not work. Asks nothing."""

from __future__ import annotations

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QDesktopServices
from PySide6.QtWidgets import QHBoxLayout, QStackedWidget, QVBoxLayout, QWidget

from engine.words import mark, tr
from ui.card import Card
from ui.controls import Button, IconButton
from ui.label import Icon, Label
from ui.library_field import Field
from ui.library_rows import Row, RowAction, RowList, framed, in_the_middle
from ui.library_values import FileRow, FindView, RepoRow
from ui.segmented import Choice, Segmented

KINDS = (Choice("gguf", "GGUF"), Choice("safetensors", "safetensors"))
OPEN = RowAction("open", mark("Files"), tooltip=mark("Show this model's files (Enter)"))
DOWNLOAD = RowAction("download", mark("Download"), "download")
USE = RowAction("use", mark("Use"), tooltip=mark("Load this model"))
PAGE = RowAction("page", mark("Open the model page"))
_STATES = {"downloading": mark("Downloading")}


def repo_row(row: RepoRow) -> Row:
    """How a model that was found looks in a list."""
    owner, _, name = row.repo.rpartition("/")
    return Row(
        key=row.repo,
        title=name,
        tag=owner,
        detail=row.detail,
        action=OPEN.translated(),
        menu=(PAGE.translated(),),
        icon="lock" if row.is_gated else "",
        tooltip=tr("Its licence has to be accepted first.") if row.is_gated else row.repo,
    )


def file_row(row: FileRow) -> Row:
    """How files that are one model look in a list."""
    action = {"offered": DOWNLOAD, "here": USE}.get(row.state)
    return Row(
        key=row.key,
        title=row.label,
        detail=row.detail,
        fit=row.fit,
        warning=row.reason if row.state == "blocked" else "",
        state=tr(_STATES.get(row.state, "")),
        action=action.translated() if action else None,
        tooltip=row.key,
    )


class Failure(Card):
    """Why it did not work, and what to do. ``retry_clicked``; ``token_given`` carries what was typed."""

    retry_clicked = Signal()
    token_given = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__("warn_soft", "warn_line", 8, parent=parent)
        self._page = ""
        self._title = Label("", "ui", "warn", 600, wrap=True)
        self._text = Label("", "ui", "text2", 400, wrap=True)
        self.retry = Button(tr("Try again"), "refresh-cw", "secondary")
        self.open_page = Button(tr("Open the model page"), "external-link", "secondary")
        self.token = Field("lock", tr("Paste an access token"), tr("Access token"), is_secret=True)
        self.save = Button(tr("Save token"), None, "primary")
        self.retry.clicked.connect(self.retry_clicked)
        self.open_page.clicked.connect(lambda: QDesktopServices.openUrl(QUrl(self._page)))
        self.save.clicked.connect(self._on_save)
        self.token.entered.connect(lambda _: self._on_save())
        self._lay_out()

    def set_view(self, view: FindView) -> None:
        """Show this failure; where a licence is to be accepted, its page and a place for the token."""
        self._page = view.page
        self._title.setText(view.title)
        self._text.setText(view.text)
        self._text.setVisible(bool(view.text))
        self._access.setVisible(bool(view.page))
        self.open_page.setVisible(bool(view.page))
        if view.title != self.accessibleName() and QAccessible.isActive():
            QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self, f"{view.title} {view.text}"))
        self.setAccessibleName(view.title)
        self.setAccessibleDescription(view.text)

    def _on_save(self) -> None:
        text = self.token.text()
        self.token.set_text("")
        self.token_given.emit(text)

    def _lay_out(self) -> None:
        row = QHBoxLayout(self)
        row.setContentsMargins(14, 12, 14, 12)
        row.setSpacing(12)
        row.addWidget(Icon("triangle-alert", "warn"), 0, Qt.AlignmentFlag.AlignTop)
        column = QVBoxLayout()
        column.setSpacing(6)
        column.addWidget(self._title)
        column.addWidget(self._text)
        self._access = QWidget()
        access = QHBoxLayout(self._access)
        access.setContentsMargins(0, 4, 0, 0)
        access.setSpacing(8)
        access.addWidget(self.token, 1)
        access.addWidget(self.save)
        column.addWidget(self._access)
        buttons = QHBoxLayout()
        buttons.setContentsMargins(0, 4, 0, 0)
        buttons.setSpacing(8)
        buttons.addWidget(self.retry)
        buttons.addWidget(self.open_page)
        buttons.addStretch(1)
        column.addLayout(buttons)
        row.addLayout(column, 1)


class FindModels(QWidget):
    """``searched`` carries words and kind, ``opened`` a repository, ``triggered`` a file's key and what to do
    with it, ``left`` that the files are no longer looked at.
    """

    searched = Signal(str, str)
    opened = Signal(str)
    triggered = Signal(str, str)
    left = Signal()
    retried = Signal()
    token_given = Signal(str)

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._view = FindView()
        self.field = Field("search", tr("A model's name, or owner/name"), tr("Search for models"))
        self.kind = Segmented(tr("Kind of files"))
        self.kind.set_choices(KINDS, "gguf")
        self.search = Button(tr("Search"), None, "primary")
        self.repos = RowList(tr("Models found"))
        self.files = RowList(tr("Files of the model"))
        self.failure = Failure()
        self._note = Label("", "ui", "text2", wrap=True)
        self._note.setAlignment(Qt.AlignmentFlag.AlignHCenter)
        self._name = Label("", "title", elide=True)
        self._detail = Label("", "small", "text3", elide=True)
        self._notes = Label("", "small", "text3", wrap=True)
        self._busy = Label("", "small", "text3")
        self.back = IconButton("chevron-left", tr("Back to what was found"), size=28, icon_size=16)
        self._stack = QStackedWidget()
        self._lay_out()
        self._connect()
        self.set_view(FindView())

    def set_view(self, view: FindView) -> None:
        """Show the state of the search."""
        self._view = view
        self.repos.set_rows([repo_row(row) for row in view.repos])
        self.files.set_rows([file_row(row) for row in view.files])
        self._name.setText(view.repo)
        self._detail.setText(view.detail)
        self._notes.setText("\n".join(view.notes))
        self._notes.setVisible(bool(view.notes))
        self._busy.setText(tr("Asking {host}…").format(host=view.host) if view.state == "busy" else "")
        self._busy.setVisible(view.state == "busy")
        self.failure.setVisible(view.state == "failed")
        if view.state == "failed":
            self.failure.set_view(view)
        self._note.setText(self._note_text(view))
        page = self._files_page if view.repo else self._found_page if view.repos else self._note_page
        self._stack.setCurrentWidget(page)

    def focus_region(self) -> None:
        """Give the keyboard to where one types."""
        self.field.setFocus(Qt.FocusReason.ShortcutFocusReason)

    @staticmethod
    def _note_text(view: FindView) -> str:
        if view.state == "empty":
            return tr('Nothing on {host} matches "{words}".').format(host=view.host, words=view.words)
        if view.state == "idle":
            return tr(
                "Search {host} for models. Nothing is asked before you search, and only model files "
                "come from there; chats stay on this computer."
            ).format(host=view.host)
        return ""

    def _connect(self) -> None:
        self.search.clicked.connect(self._on_search)
        self.field.entered.connect(lambda _: self._on_search())
        self.kind.chosen.connect(self._on_kind)
        self.repos.triggered.connect(self._on_repo)
        self.files.triggered.connect(self.triggered)
        self.back.clicked.connect(self._on_back)
        self.failure.retry_clicked.connect(self.retried)
        self.failure.token_given.connect(self.token_given)

    def _on_search(self) -> None:
        words = self.field.text().strip()
        if words:
            self.searched.emit(words, self.kind.chosen_key or "gguf")

    def _on_kind(self, key: str) -> None:
        if self._view.state != "idle":
            self._on_search()

    def _on_repo(self, repo: str, action: str) -> None:
        if action == PAGE.key:
            QDesktopServices.openUrl(QUrl(f"{self._view.site}/{repo}"))
        else:
            self.opened.emit(repo)

    def _on_back(self) -> None:
        self.left.emit()
        self.repos.focus_first()

    def _lay_out(self) -> None:
        head = QHBoxLayout()
        head.setSpacing(8)
        head.addWidget(self.field, 1)
        self.kind.setFixedWidth(220)
        head.addWidget(self.kind)
        head.addWidget(self.search)
        self._found_page = framed(self.repos)
        self._note_page = QWidget()
        note = QVBoxLayout(self._note_page)
        note.setContentsMargins(24, 56, 24, 0)
        note.addLayout(in_the_middle(self._note))
        note.addStretch(1)
        self._files_page = self._make_files()
        for page in (self._found_page, self._note_page, self._files_page):
            self._stack.addWidget(page)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(12)
        column.addLayout(head)
        column.addWidget(self._busy)
        column.addWidget(self.failure)
        column.addWidget(self._stack, 1)

    def _make_files(self) -> QWidget:
        page = QWidget()
        column = QVBoxLayout(page)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(8)
        head = QHBoxLayout()
        head.setSpacing(8)
        words = QVBoxLayout()
        words.setSpacing(0)
        words.addWidget(self._name)
        words.addWidget(self._detail)
        head.addWidget(self.back)
        head.addLayout(words, 1)
        column.addLayout(head)
        column.addWidget(self._notes)
        column.addWidget(framed(self.files), 1)
        return page
