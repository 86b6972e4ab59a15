"""The window: joins the parts, shows the values it is given and emits what the user asked for.

It knows no program behind it: settings and states arrive through its methods, wishes leave as its signals.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from PySide6.QtCore import QSize, Qt, QUrl, Signal
from PySide6.QtGui import (
    QCloseEvent,
    QDesktopServices,
    QIcon,
    QKeyEvent,
    QShowEvent,
)
from PySide6.QtWidgets import QFileDialog, QMainWindow

from ui.about import AboutDialog
from ui.body import Body
from ui.chat_controls import ChatControls
from ui.command_palette import CommandPalette
from ui.commands import commands_of, give, install
from ui.composer_controls import ComposerControls
from ui.drop import DropTarget, describe_refused
from ui.explaining import Explaining
from ui.lab_page import LabPage
from ui.label import key_text
from ui.library import LibraryPage
from ui.picker import DraftPicker, ModelPicker
from ui.shortcut_sheet import ShortcutSheet
from ui.sidebar import logo_pixmap
from ui.tuning import TuningDock
from ui.values import (
    ChatRow,
    ChipView,
    ContextView,
    CounterView,
    DownloadView,
    MachineView,
    MemoryView,
    MessageView,
    ModelRow,
    ModelState,
    NoticeView,
    SpeedView,
    StatusView,
    TuningView,
)

CHOOSE_FILE = "choose-file"  # the key of a notice's button that the window itself answers
NO_ROOM = NoticeView(
    "info",
    "No longer context fits with room to spare.",
    "Choose a smaller precision in Tuning, or start a new chat.",
)
LAB, LAB_KEYS = "lab", "Ctrl+Shift+B"
LIBRARY, LIBRARY_KEYS = "library", "Ctrl+M"
SETTINGS, SETTINGS_KEYS = "settings", "Ctrl+,"
GGUF_FILTER = "Models (*.gguf *.safetensors config.json);;All files (*)"


class MainWindow(QMainWindow):
    """All parts together. Signals are intents; their strings are ids, paths or typed text as named.

    ``panels_changed`` carries (sidebar, tuning); ``closing`` fires once, when the window closes.
    """

    message_sent = Signal(str)
    stop_requested = Signal()
    text_typed = Signal(str)
    recall_requested = Signal()
    continue_requested = Signal(str)
    thinking_chosen = Signal(bool)
    new_chat_requested = Signal()
    chat_selected = Signal(str)
    chat_renamed = Signal(str, str)
    chat_delete_requested = Signal(str)
    model_chosen = Signal(str)
    picker_opened = Signal()
    models_folder_requested = Signal()
    starter_requested = Signal()
    download_cancelled = Signal()
    format_chosen = Signal(str)
    context_chosen = Signal(int)
    apply_requested = Signal()
    notice_action = Signal(str)
    theme_chosen = Signal(str)
    settings_requested = Signal()
    panels_changed = Signal(bool, bool)
    closing = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setWindowTitle("Decodeck")
        self.setMinimumSize(QSize(800, 600).boundedTo(self.screen().availableSize()))  # large texts
        self.resize(self._first_size())
        self.body = Body(self)
        self.setCentralWidget(self.body)
        self.library = LibraryPage()
        self.body.add_page(LIBRARY, "library", "Model library", self.library, key_text(LIBRARY_KEYS))
        self.lab = LabPage()
        self.body.add_page(LAB, "flask-conical", "Batch lab", self.lab, key_text(LAB_KEYS))
        settings_keys = key_text(SETTINGS_KEYS)
        self.body.add_command(SETTINGS, "settings", "Settings", self.settings_requested.emit, settings_keys)
        self.picker = ModelPicker(self)
        self.drafts = DraftPicker(self)
        self.drop = DropTarget(self)
        self.chats = ChatControls(self)
        self.composing = ComposerControls(self)
        self.palette_popup = CommandPalette(self)
        self.explaining = Explaining(self.body, self.focus_composer)
        for signal in (self.message_sent, self.new_chat_requested, self.chat_selected):
            signal.connect(self.explaining.close)  # what comes is to be seen
        self._is_generating = False
        self._is_loading = False
        self._is_closed = False
        self._connect_centre()
        self._connect_panels()
        self._connect_picker()
        self.commands = commands_of(self)
        install(self, self.commands)
        self.palette_popup.given.connect(give)
        self.setWindowIcon(QIcon(logo_pixmap(64)))

    # What is shown

    def set_chip(self, view: ChipView) -> None:
        """Show the model and its state in the chip."""
        self._is_loading = view.state == ModelState.LOADING
        self.body.centre.top_bar.set_chip(view)
        self.lab.set_chip(view)

    def set_chats(self, rows: Sequence[ChatRow], current_id: str | None) -> None:
        """List the chats; ``current_id`` is the one in the transcript."""
        self.body.sidebar.set_chats(rows, current_id)
        listed = any(row.chat_id == current_id for row in rows)
        self.body.centre.top_bar.set_chat(current_id if current_id and listed else "")

    def show_chat(self, messages: Sequence[MessageView]) -> None:
        """Show a chat's messages in place of the last chat's."""
        self.body.centre.transcript.show_messages(messages)

    def append_message(self, view: MessageView) -> None:
        """Add a message at the end."""
        self.body.centre.transcript.append_message(view)

    def append_text(self, message_id: str, text: str, *, is_thinking: bool = False) -> None:
        """Add text to the message that is being written, or to what the model thinks before it."""
        self.body.centre.transcript.append_text(message_id, text, is_thinking=is_thinking)

    def set_message(self, view: MessageView) -> None:
        """Show the final or changed state of a message."""
        self.body.centre.transcript.set_message(view)

    def set_left_out(self, message_ids: Collection[str]) -> None:
        """Set back the messages that the model does not know any more, and no others."""
        self.body.centre.transcript.set_left_out(message_ids)

    def set_generating(self, is_generating: bool) -> None:
        """Turn Send into Stop while an answer is written, and back."""
        self._is_generating = is_generating
        self.body.centre.composer.set_generating(is_generating)

    def set_download(self, view: DownloadView | None) -> None:
        """Show the starter's download; None where there is none to offer."""
        self.body.centre.first_start.set_download(view)

    def set_machine(self, view: MachineView) -> None:
        """Show this computer on the first-start screen."""
        self.body.centre.first_start.set_machine(view)

    def show_first_start(self, is_shown: bool) -> None:
        """Show the first-start screen in place of the transcript."""
        self.body.centre.show_first_start(is_shown)

    def set_models(self, rows: Sequence[ModelRow]) -> None:
        """List the models in the picker."""
        self.picker.set_models(rows)

    def set_speed(self, view: SpeedView) -> None:
        """Show the measured speed."""
        self.body.tuning.set_speed(view)
        self.body.centre.top_bar.tuning.set_speed(view)

    def set_memory(self, view: MemoryView) -> None:
        """Show what memory holds."""
        self.body.tuning.set_memory(view)

    def set_context(self, view: ContextView) -> None:
        """Show the context in use."""
        self.body.tuning.set_context(view)

    def set_tuning(self, view: TuningView | None) -> None:
        """Show the settings of the dock; None while there is no model."""
        self.body.tuning.set_tuning(view)

    def set_counter(self, view: CounterView) -> None:
        """Show the composer's counter."""
        self.body.centre.composer.set_counter(view)

    def set_thinking(self, is_on: bool | None) -> None:
        """Show whether the model thinks before it answers; None where it cannot be told."""
        self.body.centre.composer.set_thinking(is_on)

    def set_status(self, view: StatusView) -> None:
        """Show the status bar."""
        self.body.status.set_view(view)

    def show_notice(self, view: NoticeView) -> None:
        """Show a notice above the composer. Its action "choose-file" opens the file dialog here."""
        self.body.centre.notice.show_notice(view)

    def clear_notice(self, key: str | None = None) -> None:
        """Take the notice away; with ``key`` only if it is that one."""
        shown = self.body.centre.notice.view
        if key is None or (shown is not None and shown.key == key):
            self.body.centre.notice.clear()

    def notice_key(self) -> str | None:
        """The key of the notice that is shown, None where none is."""
        shown = self.body.centre.notice.view
        return shown.key if shown is not None else None

    def composer_text(self) -> str:
        """What is typed and attached, and not sent."""
        return self.body.centre.composer.content()

    def set_composer_text(self, text: str) -> None:
        """Put a message into the composer, in place of what is there."""
        self.body.centre.composer.set_content(text)

    def set_panels(self, sidebar: bool, tuning: bool) -> None:
        """Open or close the panels as an earlier run left them."""
        self.body.set_panels(sidebar, tuning)

    def choose_file(self) -> None:
        """Open the dialog for a model file; the choice leaves as ``model_chosen``."""
        self._open_dialog(QFileDialog.FileMode.ExistingFile, "Choose a model file")

    def choose_folder(self) -> None:
        """Open the dialog for a model folder; the choice leaves as ``model_chosen``."""
        self._open_dialog(QFileDialog.FileMode.Directory, "Choose a model folder")

    def open_picker(self) -> None:
        """Open the model picker under the chip; from the picker go to the library, from there to the chat."""
        if self.body.page == LIBRARY:
            self.show_chat_page()
            return
        if self.picker.isVisible():
            self.show_library()
            return
        chip = self.lab.chip if self.body.page == LAB else self.body.centre.top_bar.chip
        self.picker.open_under(chip.rect().translated(chip.mapTo(self, chip.rect().topLeft())))
        self.picker_opened.emit()

    def show_library(self) -> None:
        """Show the library in place of the chat."""
        self.picker.close_picker()
        if self.body.page != LIBRARY:
            self.body.show_page(LIBRARY)

    @property
    def tuning(self) -> TuningDock:
        """The dock; its signals are intents like the window's own."""
        return self.body.tuning

    def open_drafts(self) -> None:
        """Open the list of draft models at its control; the list is filled with ``drafts.set_models``."""
        control = self.tuning.settings.drafting
        self.drafts.open_under(control.rect().translated(control.mapTo(self, control.rect().topLeft())))

    def focus_composer(self) -> None:
        """Give the keyboard to the composer."""
        self.body.centre.composer.setFocus(Qt.FocusReason.ShortcutFocusReason)

    # How the parts are joined

    def _connect_centre(self) -> None:
        centre = self.body.centre
        centre.transcript.link_clicked.connect(_open_in_browser)
        centre.transcript.continue_clicked.connect(self._on_continue)
        centre.transcript.room_clicked.connect(self.make_room)
        centre.composer.submitted.connect(self.message_sent)
        centre.composer.stop_clicked.connect(self.stop_requested)
        centre.composer.text_changed.connect(self.text_typed)
        centre.composer.recall_requested.connect(self.recall_requested)
        centre.composer.thinking_chosen.connect(self.thinking_chosen)
        centre.first_start.starter_requested.connect(self._on_starter_requested)
        centre.first_start.download_cancelled.connect(self._on_download_cancelled)
        centre.first_start.file_requested.connect(self.choose_file)
        centre.first_start.folder_requested.connect(self.choose_folder)
        centre.notice.action_clicked.connect(self._on_notice_action)
        bar = centre.top_bar
        bar.chip_clicked.connect(self.open_picker)
        self.lab.chip_clicked.connect(self.open_picker)
        bar.theme_chosen.connect(self.theme_chosen)
        bar.file_requested.connect(self.choose_file)
        bar.folder_requested.connect(self.choose_folder)
        bar.models_folder_requested.connect(self.models_folder_requested)
        bar.about_requested.connect(self.show_about)
        bar.shortcuts_requested.connect(self.show_shortcuts)
        bar.palette_requested.connect(self.open_palette)

    def _connect_panels(self) -> None:
        sidebar, tuning = self.body.sidebar, self.body.tuning
        sidebar.new_chat_clicked.connect(self.new_chat)
        sidebar.chat_selected.connect(self._on_chat_selected)
        sidebar.chat_renamed.connect(self._on_renamed)
        sidebar.chat_delete_requested.connect(self.chat_delete_requested)
        tuning.format_chosen.connect(self.format_chosen)
        tuning.context_chosen.connect(self.context_chosen)
        tuning.apply_clicked.connect(self._on_apply)
        self.body.panels_changed.connect(self.panels_changed)
        self.body.page_changed.connect(self._on_page_changed)

    def _connect_picker(self) -> None:
        self.picker.model_chosen.connect(self.model_chosen)
        self.picker.file_requested.connect(self.choose_file)
        self.picker.folder_requested.connect(self.choose_folder)
        self.picker.closed.connect(self.focus_composer)
        self.picker.library_requested.connect(self.show_library)
        self.body.centre.first_start.library_requested.connect(self.show_library)
        self.library.close_clicked.connect(self.show_chat_page)
        self.drafts.closed.connect(self.tuning.focus_drafting)
        self.drop.model_dropped.connect(self.model_chosen)
        self.drop.refused.connect(lambda dropped: self.show_notice(describe_refused(dropped)))

    def open_palette(self) -> None:
        """List all commands, to be found by their words."""
        self.picker.close_picker()
        self.palette_popup.open_with(self.commands)

    def show_shortcuts(self) -> None:
        """Open the list of keyboard shortcuts."""
        ShortcutSheet(self.commands, self).open()

    def show_about(self) -> None:
        """Open the dialog about the program."""
        AboutDialog(self).open()

    def toggle_lab(self) -> None:
        """Show the Batch lab in place of the chat, or the chat again."""
        self.body.show_page(LAB)

    @property
    def is_generating(self) -> bool:
        """Whether an answer of the shown chat is being written."""
        return self._is_generating

    def go_on(self) -> None:
        """Continue the last answer, which is unfinished."""
        self._on_continue(self.body.centre.transcript.unfinished_answer())

    def show_chat_page(self) -> None:
        """Bring the chat back in place of a page."""
        self.body.show_page("")
        self.body.close_sidebar_drawer()
        self.focus_composer()

    def _on_page_changed(self, key: str) -> None:
        if key == LAB:
            self.lab.focus_region()
        elif key == LIBRARY:
            self.library.focus_region()
        elif not key:
            self.focus_composer()

    def new_chat(self) -> None:
        """Ask for an empty chat."""
        self.show_chat_page()
        self.new_chat_requested.emit()

    def _on_chat_selected(self, chat_id: str) -> None:
        self.show_chat_page()
        self.chat_selected.emit(chat_id)

    def _on_renamed(self, chat_id: str, title: str) -> None:
        self.body.close_sidebar_drawer()
        self.chat_renamed.emit(chat_id, title)
        self.focus_composer()

    def _on_starter_requested(self) -> None:
        self.starter_requested.emit()
        self.focus_composer()

    def _on_download_cancelled(self) -> None:
        self.download_cancelled.emit()
        self.focus_composer()  # where Enter resumes; the button that had the keyboard is gone

    def _on_notice_action(self, key: str) -> None:
        if key == CHOOSE_FILE:
            self.choose_file()
        else:
            self.notice_action.emit(key)
            self.focus_composer()

    def escape(self) -> None:
        """Close what is on top; with nothing open, stop the answer."""
        if self.picker.isVisible():
            self.picker.close_picker()
        elif self.body.close_drawers():
            self.focus_composer()
        elif self.body.page:
            self.show_chat_page()
        elif self.chats.cancel_edit():
            pass
        elif self.explaining.is_shown:
            self.explaining.close()
        elif self._is_generating or self._is_loading:
            self.stop_requested.emit()

    def _on_continue(self, message_id: str) -> None:
        self.continue_requested.emit(message_id)
        self.focus_composer()  # where Esc stops it; what was pressed is gone

    def make_room(self, least: int = 0) -> None:
        """Open Tuning with the next larger context chosen, of at least so many tokens; Apply loads it."""
        self.body.open_tuning()
        if not self.body.tuning.make_room(least):
            self.show_notice(NO_ROOM)

    def _on_apply(self) -> None:
        self.apply_requested.emit()
        self.focus_composer()  # the button goes, and would leave the keyboard to whatever comes next

    def rename_chat(self) -> None:
        """Rename the chat under the keyboard, else the one in the transcript."""
        if self.body.sidebar.is_rail:
            self.body.toggle_sidebar()
        self.body.sidebar.rename_chat()

    def _open_dialog(self, mode: QFileDialog.FileMode, title: str) -> None:
        dialog = QFileDialog(self, title)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setFileMode(mode)
        if mode == QFileDialog.FileMode.ExistingFile:
            dialog.setNameFilter(GGUF_FILTER)
        dialog.fileSelected.connect(self.model_chosen)
        dialog.open()

    def _first_size(self) -> QSize:
        screen = self.screen().availableSize()
        return QSize(min(1440, screen.width() * 9 // 10), min(900, screen.height() * 9 // 10))

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """A letter that no field took goes to the composer."""
        command = event.modifiers() & (Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier)
        is_alt_gr = command == (Qt.KeyboardModifier.ControlModifier | Qt.KeyboardModifier.AltModifier)
        is_text = event.text().isprintable() and event.text().strip() and (not command or is_alt_gr)
        if is_text and not self.picker.isVisible() and not self.body.page:
            self.body.centre.composer.insert(event.text())
        else:
            super().keyPressEvent(event)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        if not event.spontaneous():
            self.focus_composer()

    def closeEvent(self, event: QCloseEvent) -> None:
        if not self._is_closed:
            self._is_closed = True
            self.closing.emit()
        event.accept()


def _open_in_browser(address: str) -> None:
    """An address of a message that the user agreed to open; only those the transcript takes for links."""
    QDesktopServices.openUrl(QUrl.fromEncoded(address.encode()))
