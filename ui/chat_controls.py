"""What a person does with chats and their branches, as signals; and what the window shows of it.

Joins the sidebar's list and search, the transcript's actions, the line above the composer, export and import.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QFileDialog

from engine.words import tr
from ui.chat_values import FolderRow, SearchView
from ui.label import one_line

if TYPE_CHECKING:
    from ui.main_window import MainWindow

_KINDS = {"md": "Markdown (*.md)", "json": "JSON (*.json)"}
_NAME_CHARS = 60


class ChatControls(QObject):
    """Strings are ids, names, texts or paths as named; "" stands for the shown chat or the last answer.

    ``export_requested`` carries a chat ("" for all), "md" or "json", and a path.
    """

    temporary_requested = Signal()
    pin_requested = Signal(str)
    moved = Signal(str, str)  # chat, folder
    folder_added = Signal(str, str)  # name, chat
    folder_renamed = Signal(str, str)
    folder_toggled = Signal(str)
    folder_delete_requested = Signal(str)
    search_changed = Signal(str)
    hit_chosen = Signal(str, str)  # chat, message
    edit_requested = Signal(str)
    edit_cancelled = Signal()
    regenerate_requested = Signal(str)
    branch_requested = Signal(str, int)
    export_requested = Signal(str, str, str)
    import_requested = Signal(list)
    undo_requested = Signal()

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)
        self._window = window
        self._sidebar = window.body.sidebar
        self._transcript = window.body.centre.transcript
        self._bar = window.body.centre.edit_bar
        self.can_undo = False  # a deletion, by ``undo_requested``
        self._connect_sidebar()
        self._connect_centre()

    # What is shown

    def set_folders(self, folders: Sequence[FolderRow]) -> None:
        """List the folders; chats name the one they are in."""
        self._sidebar.set_folders(folders)

    def set_search(self, view: SearchView | None) -> None:
        """Show what was found in place of the list; None brings that back."""
        self._sidebar.set_search(view)

    def end_search(self) -> None:
        """Empty the search field; the list comes back."""
        self._sidebar.search.field.clear()

    def reveal(self, message_id: str) -> None:
        """Bring a message of the shown chat into view."""
        self._transcript.reveal(message_id)

    def begin_edit(self, message_id: str, *, is_answer: bool) -> None:
        """Say that the composer holds this message."""
        self._transcript.set_edited(message_id)
        self._bar.set_editing(True, is_answer=is_answer)

    def end_edit(self) -> None:
        """No message is edited any more."""
        self._transcript.set_edited("")
        self._bar.set_editing(False)

    def set_temporary(self, is_temporary: bool) -> None:
        """Say whether nothing of the shown chat is stored."""
        self._bar.set_temporary(is_temporary)

    def cancel_edit(self) -> bool:
        """Ask to leave a message as it is; False where none is edited."""
        if self._bar.is_editing:
            self.edit_cancelled.emit()
            return True
        return False

    # How it is joined

    def _connect_sidebar(self) -> None:
        chats, sidebar = self._sidebar.list, self._sidebar
        chats.pin_requested.connect(self.pin_requested)
        chats.chat_moved.connect(self.moved)
        chats.folder_added.connect(self.folder_added)
        chats.folder_renamed.connect(self.folder_renamed)
        chats.folder_toggled.connect(self.folder_toggled)
        chats.folder_delete_requested.connect(self.folder_delete_requested)
        chats.export_requested.connect(self.choose_export)
        sidebar.search_changed.connect(self.search_changed)
        sidebar.search_left.connect(self._window.focus_composer)
        sidebar.search_requested.connect(self.open_search)
        sidebar.hit_chosen.connect(self._on_hit_chosen)

    def _connect_centre(self) -> None:
        self._transcript.edit_clicked.connect(self.edit_requested)
        self._transcript.regenerate_clicked.connect(self.regenerate_requested)
        self._transcript.branch_clicked.connect(self.branch_requested)
        self._bar.cancelled.connect(self.edit_cancelled)
        bar = self._window.body.centre.top_bar
        bar.export_requested.connect(self.choose_export)
        bar.import_requested.connect(self.choose_import)
        bar.temporary_requested.connect(self.begin_temporary)

    def regenerate(self) -> None:
        """Ask for another answer in place of the chosen one, or of the last."""
        self.regenerate_requested.emit(self._transcript.chosen_answer())

    def pin(self) -> None:
        """Pin the chat under the keyboard, or the shown one; or let it go."""
        self.pin_requested.emit(self._sidebar.list.focused_chat())

    def has_branches(self) -> bool:
        """Whether there is another branch to go to."""
        return bool(self._transcript.branching_message())

    def open_search(self) -> None:
        """Give the keyboard to the search field."""
        if self._sidebar.is_rail:
            self._window.body.toggle_sidebar()
        self._sidebar.focus_search()

    def begin_temporary(self) -> None:
        """Begin a chat that is never stored."""
        self._window.show_chat_page()
        self.temporary_requested.emit()

    def step(self, by: int) -> None:
        """To the next branch of the chosen message, else of the last that has several."""
        message_id = self._transcript.branching_message()
        if message_id:
            self.branch_requested.emit(message_id, by)

    def undo(self) -> None:
        """Ask for what was deleted last; it comes back into the chat's page."""
        self._window.body.show_page("")
        self.undo_requested.emit()

    def _on_hit_chosen(self, chat_id: str, message_id: str) -> None:
        self._window.show_chat_page()
        self.hit_chosen.emit(chat_id, message_id)

    def choose_export(self, chat_id: str, kind: str) -> None:
        """Open the dialog for the file that chats are written to."""
        dialog = QFileDialog(self._window, tr("Export chat") if chat_id else tr("Export chats"))
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setNameFilter(_KINDS[kind])
        dialog.setDefaultSuffix(kind)
        dialog.selectFile(f"{_file_name(self._sidebar.title_of(chat_id))}.{kind}")
        dialog.fileSelected.connect(lambda path: self.export_requested.emit(chat_id, kind, path))
        dialog.open()

    def choose_import(self) -> None:
        """Open the dialog for files of chats, of this program and of others."""
        dialog = QFileDialog(self._window, tr("Import chats"))
        dialog.setFileMode(QFileDialog.FileMode.ExistingFiles)
        dialog.setNameFilters([tr("Chats (*.json *.jsonl *.zip)"), tr("All files (*)")])
        dialog.filesSelected.connect(self.import_requested.emit)  # Qt's list of texts is not Signal(list)
        dialog.open()


def _file_name(title: str) -> str:
    """A title as every system takes it for a name."""
    kept = "".join(char if char.isalnum() or char in " -_().," else " " for char in one_line(title))
    return " ".join(kept.split())[:_NAME_CHARS].strip(" .") or tr("Chats")
