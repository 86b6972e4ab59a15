"""The window: joins the parts that ``WindowView`` shows, and emits what the user asked for.

It knows no program behind it: settings and states arrive through its methods, wishes leave as its signals.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtGui import QCloseEvent, QDesktopServices, QKeyEvent, QShowEvent
from PySide6.QtWidgets import QFileDialog

from engine.words import mark, tr
from ui import numbers
from ui.about import AboutDialog
from ui.chat_controls import ChatControls
from ui.command_palette import CommandPalette
from ui.commands import commands_of, give, install
from ui.composer_controls import ComposerControls
from ui.drop import DropTarget, describe_refused
from ui.explaining import Explaining
from ui.label import key_text
from ui.picker import DraftPicker, ModelPicker
from ui.shortcut_sheet import ShortcutSheet
from ui.values import ModelRow, NoticeView
from ui.window_view import LAB, LIBRARY, WindowView

CHOOSE_FILE = "choose-file"  # keys of a notice's buttons that the window itself answers
CLOSE = "close-anyway"  # also of the notice itself
SETTINGS, SETTINGS_KEYS = "settings", "Ctrl+,"
GGUF_FILTER = mark("Models (*.gguf *.safetensors config.json);;All files (*)")


class MainWindow(WindowView):
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
        words, keys = tr("Settings"), key_text(SETTINGS_KEYS)
        self.body.add_command(SETTINGS, "settings", words, self.settings_requested.emit, keys)
        self.picker = ModelPicker(self)
        self.drafts = DraftPicker(self)
        self.drop = DropTarget(self)
        self.chats = ChatControls(self)
        self.composing = ComposerControls(self)
        self.palette_popup = CommandPalette(self)
        self.explaining = Explaining(self.body, self.focus_composer)
        for signal in (self.message_sent, self.new_chat_requested, self.chat_selected):
            signal.connect(self.explaining.close)  # what comes is to be seen
        self._is_closed = False
        self.close_question: Callable[[], NoticeView | None] = lambda: None  # said before it closes, if any
        self._connect_centre()
        self._connect_panels()
        self._connect_picker()
        self.commands = commands_of(self)
        install(self, self.commands)
        self.palette_popup.given.connect(give)

    def set_models(self, rows: Sequence[ModelRow]) -> None:
        """List the models in the picker."""
        self.picker.set_models(rows)

    def choose_file(self) -> None:
        """Open the dialog for a model file; the choice leaves as ``model_chosen``."""
        self._open_dialog(QFileDialog.FileMode.ExistingFile, tr("Choose a model file"))

    def choose_folder(self) -> None:
        """Open the dialog for a model folder; the choice leaves as ``model_chosen``."""
        self._open_dialog(QFileDialog.FileMode.Directory, tr("Choose a model folder"))

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
        self.picker.close_popup()
        if self.body.page != LIBRARY:
            self.body.show_page(LIBRARY)

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
        self.picker.starter_requested.connect(self._on_starter_requested)
        self.picker.library_requested.connect(self.show_library)
        self.body.centre.first_start.library_requested.connect(self.show_library)
        self.library.close_clicked.connect(self.show_chat_page)
        self.drafts.closed.connect(self.tuning.focus_drafting)
        self.drop.model_dropped.connect(self.model_chosen)
        self.drop.refused.connect(lambda dropped: self.show_notice(describe_refused(dropped)))

    def open_palette(self) -> None:
        """List all commands, to be found by their words."""
        self.picker.close_popup()
        self.palette_popup.open_with(self.commands)

    def show_shortcuts(self) -> None:
        """Open the list of keyboard shortcuts."""
        ShortcutSheet(self.commands, self).open()

    def show_about(self) -> None:
        """Open the dialog about the program."""
        AboutDialog(self).open()

    def explain(self) -> None:
        """Show why the speed is as it is, in place of the transcript, or the transcript again."""
        if self.body.page:
            self.show_chat_page()
        self.explaining.toggle()

    def toggle_lab(self) -> None:
        """Show the Batch lab in place of the chat, or the chat again."""
        self.body.show_page(LAB)

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
        elif key == CLOSE:
            self.close()
        else:
            self.notice_action.emit(key)
            self.focus_composer()

    def escape(self) -> None:
        """Close what is on top; with nothing open, stop the answer."""
        if self.picker.isVisible():
            self.picker.close_popup()
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
        self.body.centre.transcript.jump_to_end()  # what comes is to be seen
        self.continue_requested.emit(message_id)
        self.focus_composer()  # where Esc stops it; what was pressed is gone

    def lack_of_room(self, least: int = 0) -> str:
        """Why no longer context of at least so many tokens can be had, a sentence; "" where one can."""
        lack = self.body.tuning.lack_of_room(least)
        if lack == "model":
            longest = numbers.count(self.body.tuning.settings.context.stops[-1])
            return tr("This model's context ends at {tokens} tokens.").format(tokens=longest)
        return tr("No longer context fits with room to spare.") if lack else ""

    def make_room(self, least: int = 0) -> bool:
        """Open Tuning with the next larger context chosen, of at least so many tokens; Apply loads it. False
        where there is none, and why is said.
        """
        self.body.open_tuning()
        if self.body.tuning.make_room(least):
            return True
        hint = tr("Choose a smaller precision in Tuning, or start a new chat.")
        if self.body.tuning.lack_of_room(least) == "model":
            hint = tr("Choose another model, or start a new chat.")
        self.show_notice(NoticeView("info", self.lack_of_room(least), hint))
        return False

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
            dialog.setNameFilter(tr(GGUF_FILTER))
        dialog.fileSelected.connect(self.model_chosen)
        dialog.open()

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

    def close_for_good(self) -> None:
        """Close without a question: nobody is there to answer it."""
        self.close_question = lambda: None
        self.close()

    def closeEvent(self, event: QCloseEvent) -> None:
        question = None if self._is_closed else self.close_question()
        shown = None if self.body.page else self.body.centre.notice.view  # a page covers it
        if question is not None and (shown is None or shown.key != question.key):
            self.show_chat_page()
            self.show_notice(question)
            event.ignore()  # while it stands there the window closes
            return
        if not self._is_closed:
            self._is_closed = True
            self.closing.emit()
        event.accept()


def _open_in_browser(address: str) -> None:
    """An address of a message that the user agreed to open; only those the transcript takes for links."""
    QDesktopServices.openUrl(QUrl.fromEncoded(address.encode()))
