"""The window: joins the parts, shows the values it is given and emits what the user asked for.

It knows no program behind it: settings and states arrive through its methods, wishes leave as its signals.
"""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QSize, Qt, QUrl, Signal
from PySide6.QtGui import (
    QCloseEvent,
    QDesktopServices,
    QIcon,
    QKeyEvent,
    QKeySequence,
    QResizeEvent,
    QShortcut,
    QShowEvent,
)
from PySide6.QtWidgets import QApplication, QFileDialog, QMainWindow, QWidget

from ui.about import AboutDialog
from ui.body import Body
from ui.centre import Centre
from ui.composer import Composer
from ui.drop import Dropped, DropTarget, describe_refused
from ui.picker import ModelPicker
from ui.sidebar import Sidebar, logo_pixmap
from ui.top_bar import TopBar
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
GGUF_FILTER = "Models (*.gguf *.safetensors config.json);;All files (*)"


class MainWindow(QMainWindow):
    """All parts together. Signals are intents; their strings are ids, paths or typed text as named.

    ``panels_changed`` carries (sidebar, tuning); ``closing`` fires once, when the window closes.
    """

    message_sent = Signal(str)
    stop_requested = Signal()
    text_typed = Signal(str)
    recall_requested = Signal()
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
    panels_changed = Signal(bool, bool)
    closing = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setWindowTitle("Decodeck")
        self.setMinimumSize(800, 600)
        self.resize(self._first_size())
        self.body = Body(self)
        self.setCentralWidget(self.body)
        self.picker = ModelPicker(self)
        self.drop = DropTarget(self)
        self._is_generating = False
        self._is_loading = False
        self._is_closed = False
        self._connect_centre()
        self._connect_panels()
        self._connect_picker()
        self._add_keys()
        self.setWindowIcon(QIcon(logo_pixmap(64)))

    # What is shown

    def set_chip(self, view: ChipView) -> None:
        """Show the model and its state in the chip."""
        self._is_loading = view.state == ModelState.LOADING
        self.body.centre.top_bar.set_chip(view)

    def set_chats(self, rows: Sequence[ChatRow], current_id: str | None) -> None:
        """List the chats; ``current_id`` is the one in the transcript."""
        self.body.sidebar.set_chats(rows, current_id)

    def show_chat(self, messages: Sequence[MessageView]) -> None:
        """Show a chat's messages in place of the last chat's."""
        self.body.centre.transcript.show_messages(messages)

    def append_message(self, view: MessageView) -> None:
        """Add a message at the end."""
        self.body.centre.transcript.append_message(view)

    def append_text(self, message_id: str, text: str) -> None:
        """Add text to the message that is being written."""
        self.body.centre.transcript.append_text(message_id, text)

    def set_message(self, view: MessageView) -> None:
        """Show the final or changed state of a message."""
        self.body.centre.transcript.set_message(view)

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
        """What is typed and not sent."""
        return self.body.centre.composer.text()

    def set_composer_text(self, text: str) -> None:
        """Put text into the composer, in place of what is there."""
        self.body.centre.composer.set_text(text)

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
        """Open the model picker under the chip, or close it."""
        if self.picker.isVisible():
            self.picker.close_picker()
            return
        chip = self.body.centre.top_bar.chip
        self.picker.open_under(chip.rect().translated(chip.mapTo(self, chip.rect().topLeft())))
        self.picker_opened.emit()

    def focus_composer(self) -> None:
        """Give the keyboard to the composer."""
        self.body.centre.composer.setFocus(Qt.FocusReason.ShortcutFocusReason)

    # How the parts are joined

    def _connect_centre(self) -> None:
        centre = self.body.centre
        centre.transcript.link_clicked.connect(_open_in_browser)
        centre.composer.submitted.connect(self.message_sent)
        centre.composer.stop_clicked.connect(self.stop_requested)
        centre.composer.text_changed.connect(self.text_typed)
        centre.composer.recall_requested.connect(self.recall_requested)
        centre.first_start.starter_requested.connect(self._on_starter_requested)
        centre.first_start.download_cancelled.connect(self._on_download_cancelled)
        centre.first_start.file_requested.connect(self.choose_file)
        centre.first_start.folder_requested.connect(self.choose_folder)
        centre.notice.action_clicked.connect(self._on_notice_action)
        bar = centre.top_bar
        bar.chip_clicked.connect(self.open_picker)
        bar.theme_chosen.connect(self.theme_chosen)
        bar.file_requested.connect(self.choose_file)
        bar.folder_requested.connect(self.choose_folder)
        bar.models_folder_requested.connect(self.models_folder_requested)
        bar.about_requested.connect(lambda: AboutDialog(self).open())

    def _connect_panels(self) -> None:
        sidebar, tuning = self.body.sidebar, self.body.tuning
        sidebar.new_chat_clicked.connect(self._on_new_chat)
        sidebar.chat_selected.connect(self._on_chat_selected)
        sidebar.chat_renamed.connect(self._on_renamed)
        sidebar.chat_delete_requested.connect(self.chat_delete_requested)
        tuning.format_chosen.connect(self.format_chosen)
        tuning.context_chosen.connect(self.context_chosen)
        tuning.apply_clicked.connect(self._on_apply)
        self.body.panels_changed.connect(self.panels_changed)

    def _connect_picker(self) -> None:
        self.picker.model_chosen.connect(self.model_chosen)
        self.picker.file_requested.connect(self.choose_file)
        self.picker.folder_requested.connect(self.choose_folder)
        self.picker.closed.connect(self.focus_composer)
        self.drop.model_dropped.connect(self.model_chosen)
        self.drop.refused.connect(self._on_drop_refused)

    def _add_keys(self) -> None:
        for keys, slot in (
            ("Ctrl+N", self._on_new_chat),
            ("Ctrl+L", self.focus_composer),
            ("Ctrl+M", self.open_picker),
            ("Ctrl+Shift+C", self.body.centre.transcript.copy_last_code),
            ("Ctrl+B", self.body.toggle_sidebar),
            ("Ctrl+T", self.body.toggle_tuning),
            ("F6", lambda: self._move_region(1)),
            ("Shift+F6", lambda: self._move_region(-1)),
            ("Esc", self._on_escape),
            ("F2", self._on_rename),
            ("Ctrl+Q", self.close),
        ):
            QShortcut(QKeySequence(keys), self).activated.connect(slot)

    def _on_new_chat(self) -> None:
        self.body.close_sidebar_drawer()
        self.new_chat_requested.emit()
        self.focus_composer()

    def _on_chat_selected(self, chat_id: str) -> None:
        self.body.close_sidebar_drawer()
        self.chat_selected.emit(chat_id)
        self.focus_composer()

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

    def _on_drop_refused(self, dropped: Dropped) -> None:
        self.show_notice(describe_refused(dropped))

    def _on_escape(self) -> None:
        """Close what is on top; with nothing open, stop the answer."""
        if self.picker.isVisible():
            self.picker.close_picker()
        elif self.body.close_drawers():
            self.focus_composer()
        elif self._is_generating or self._is_loading:
            self.stop_requested.emit()

    def _on_apply(self) -> None:
        self.apply_requested.emit()
        self.focus_composer()  # the button goes, and would leave the keyboard to whatever comes next

    def _on_rename(self) -> None:
        """Rename the chat under the keyboard, else the one in the transcript."""
        if self.body.sidebar.is_rail:
            self.body.toggle_sidebar()
        self.body.sidebar.rename_chat()

    def _move_region(self, step: int) -> None:
        centre = self.body.centre
        regions: list[Sidebar | TopBar | Centre | Composer | TuningDock]
        regions = [self.body.sidebar, centre.top_bar, centre, centre.composer]
        if self.body.tuning.isVisible():
            regions.append(self.body.tuning)
        focus = QApplication.focusWidget()
        held = [place for place, region in enumerate(regions) if focus and region.isAncestorOf(focus)]
        narrowest = [place for place in held if regions[place] is not centre] or held or [3]
        target = regions[(narrowest[0] + step) % len(regions)]
        if isinstance(target, TuningDock):
            _focus_first(target)
        elif isinstance(target, Composer):
            self.focus_composer()
        else:
            target.focus_region()

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
        if is_text and not self.picker.isVisible():
            self.body.centre.composer.insert(event.text())
        else:
            super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self.picker.isVisible():
            self.picker.close_picker()

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


def _focus_first(region: QWidget) -> None:
    """Give the keyboard to the first control of a region that Tab would reach."""
    for widget in region.findChildren(QWidget):
        takes_tab = widget.focusPolicy() & Qt.FocusPolicy.TabFocus == Qt.FocusPolicy.TabFocus
        if takes_tab and widget.isVisible() and widget.isEnabled():
            widget.setFocus(Qt.FocusReason.ShortcutFocusReason)
            return
