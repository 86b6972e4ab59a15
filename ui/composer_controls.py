"""What a person does beside typing a message, as signals; and what the window shows of it.

Joins the composer's own controls, files dropped on the window and the dialog for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QPoint, Qt, Signal
from PySide6.QtWidgets import QFileDialog, QInputDialog

from engine.words import tr
from ui.attachment_text import AttachedText
from ui.chat_values import LengthView, PresetsView
from ui.presets_popover import PresetsPopover

if TYPE_CHECKING:
    from ui.main_window import MainWindow

_TITLE_ROOM = 240  # px of a title bar for what is beside the title, whose font may be larger
_ATTACHABLE = (
    "*.txt *.md *.csv *.tsv *.json *.jsonl *.xml *.html *.css *.yaml *.yml *.toml *.ini"
    " *.log *.py *.js *.ts *.c *.h *.cpp *.cs *.java *.kt *.go *.rs *.rb *.php *.swift *.sh *.sql"
    " *.tex *.pdf"
)


class ComposerControls(QObject):
    """``attach_requested`` carries paths; ``files_changed`` fires when attached texts came or went."""

    attach_requested = Signal(list)
    files_changed = Signal()
    length_chosen = Signal(object)  # tokens, or None for any length
    option_changed = Signal(str, object)  # the name of a setting, and what this chat is to have
    option_typed = Signal(str, str)  # the same, as it was typed
    options_reset = Signal()
    preset_chosen = Signal(str)
    preset_saved = Signal(str)  # what counts now, under this name
    preset_deleted = Signal(str)
    preset_exported = Signal(str)  # path
    presets_imported = Signal(str)  # path

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)
        self._window = window
        self._composer = window.body.centre.composer
        self._bar = window.body.centre.top_bar
        self.popover = PresetsPopover(window)
        self._connect_presets()
        self._composer.attach_clicked.connect(self.choose_files)
        self._composer.files_changed.connect(self.files_changed)
        self._composer.length_chosen.connect(self.length_chosen)
        window.drop.texts_dropped.connect(self._on_dropped)

    @property
    def files(self) -> tuple[AttachedText, ...]:
        """What is attached to the message being written."""
        return self._composer.files.files

    @property
    def num_files(self) -> int:
        """With those that are still being read."""
        return len(self.files) + len(self._composer.files.reading)

    def begin_reading(self, key: str, name: str) -> None:
        """Show that a file is on its way."""
        self._composer.files.begin(key, name)

    def end_reading(self, key: str) -> None:
        """The file is read, or cannot be."""
        self._composer.files.end(key)

    def add_file(self, file: AttachedText) -> None:
        """Attach a text to the message."""
        self._composer.files.add(file)

    def set_files(self, files: tuple[AttachedText, ...]) -> None:
        """Have these texts and no others."""
        self._composer.files.set_files(files)

    def set_costs(self, costs: Mapping[AttachedText, int]) -> None:
        """Show how many tokens each attached text takes."""
        self._composer.files.set_costs(costs)

    def set_length(self, view: LengthView) -> None:
        """Show how long the next answer may become."""
        self._composer.set_length(view)

    def choose_length(self) -> None:
        """Offer other lengths."""
        self._composer.open_length()

    def set_presets(self, view: PresetsView) -> None:
        """Show how this chat is answered."""
        self.popover.set_view(view)
        self._bar.set_own_options(bool(view.own))

    def open_presets(self) -> None:
        """Open what this chat is answered with, or close it again."""
        if self.popover.isVisible():
            self.popover.close_popup()
            return
        self._window.show_chat_page()
        button = self._bar.instructions
        self.popover.open_under(button.rect().translated(button.mapTo(self._window, QPoint(0, 0))))

    def choose_preset_name(self) -> None:
        """Ask for the name under which what counts now is to be kept."""
        dialog = QInputDialog(self._window)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setWindowTitle(tr("Save as a preset"))
        dialog.setLabelText(tr("Name of the preset"))
        dialog.resize(_title_width(dialog), dialog.sizeHint().height())
        dialog.textValueSelected.connect(self.preset_saved)
        dialog.open()

    def choose_preset_import(self) -> None:
        """Open the dialog for a preset's file."""
        dialog = QFileDialog(self._window, tr("Import a preset"))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.setNameFilters([tr("Presets (*.json)"), tr("All files (*)")])
        dialog.fileSelected.connect(self.presets_imported)
        dialog.open()

    def choose_preset_export(self) -> None:
        """Open the dialog for the file that a preset is written to."""
        dialog = QFileDialog(self._window, tr("Export as a preset"))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setNameFilters([tr("Presets (*.json)"), tr("All files (*)")])
        dialog.setDefaultSuffix("json")
        dialog.fileSelected.connect(self.preset_exported)
        dialog.open()

    def _connect_presets(self) -> None:
        popover = self.popover
        self._bar.instructions_clicked.connect(self.open_presets)
        popover.option_changed.connect(self.option_changed)
        popover.option_typed.connect(self.option_typed)
        popover.reset_clicked.connect(self.options_reset)
        popover.preset_chosen.connect(self.preset_chosen)
        popover.save_clicked.connect(self.choose_preset_name)
        popover.delete_clicked.connect(self.preset_deleted)
        popover.import_clicked.connect(self.choose_preset_import)
        popover.export_clicked.connect(self.choose_preset_export)
        popover.closed.connect(self._window.focus_composer)

    def choose_files(self) -> None:
        """Open the dialog for files to attach."""
        dialog = QFileDialog(self._window, tr("Attach files"))
        dialog.setFileMode(QFileDialog.FileMode.ExistingFiles)
        texts = tr("Text, code and PDF ({endings})").format(endings=_ATTACHABLE)
        dialog.setNameFilters([texts, tr("All files (*)")])
        dialog.filesSelected.connect(self._on_chosen)
        dialog.open()

    def _on_chosen(self, paths: list[str]) -> None:
        self.attach_requested.emit(paths)
        self._window.focus_composer()

    def _on_dropped(self, paths: list[str]) -> None:
        self._window.show_chat_page()
        self.attach_requested.emit(paths)


def _title_width(dialog: QInputDialog) -> int:
    """As wide as its title takes beside the system's buttons."""
    title = dialog.fontMetrics().horizontalAdvance(dialog.windowTitle())
    return max(dialog.sizeHint().width(), title + _TITLE_ROOM)
