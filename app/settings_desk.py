"""The settings dialog and what its settings change: applied at once, kept, or refused with the reason.

Builds the dialog from the table of settings; moves folders through `app.data_move`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QLocale, QObject
from PySide6.QtWidgets import QApplication

from app import language, paths, settings_view, typed_setting
from app.folder_desk import FolderDesk
from app.hub_token import HubToken
from app.io_thread import IoThread
from app.model_desk import ModelDesk
from app.preferences import Preferences
from app.setting_table import CARDS, REMEMBERED, Settings
from app.settings_view import FORGET_TOKEN, MEASURE, RELOAD, RESET, STOP_MOVE, UNDO_RESET, Around
from engine.errors import WishError
from engine.words import tr
from ui import theme
from ui.main_window import MainWindow
from ui.settings import SettingsDialog
from ui.settings_values import FootView

TOKEN_LANE = "token"
FOLDERS = ("data_folder", "models_folder")


@dataclass(frozen=True, slots=True)
class Effects:
    """What the rest of the program does when settings have changed; ``measure`` measures the machine."""

    refresh: Callable[[], None]
    measure: Callable[[], None]
    is_measuring: Callable[[], bool]


class SettingsDesk(QObject):
    """Opens the dialog and serves it while it is open."""

    def __init__(
        self,
        window: MainWindow,
        io: IoThread,
        preferences: Preferences,
        models: ModelDesk,
        folders: FolderDesk,
        token: HubToken,
        effects: Effects,
    ) -> None:
        super().__init__()
        self._window, self._io, self._preferences = window, io, preferences
        self._models, self._folders, self._token, self._effects = models, folders, token, effects
        self.dialog: SettingsDialog | None = None
        self._errors: dict[str, str] = {}
        self._before_reset: Settings | None = None
        self._has_token: bool | None = None  # None: nobody has looked yet
        self._needs_load = False
        self._foot: FootView | None = None
        window.settings_requested.connect(self.open)
        folders.changed.connect(self._on_move_changed)
        models.ready.connect(self._on_loaded)

    def open(self) -> None:
        """Show the dialog; where it is open already, bring it to the front."""
        if self.dialog is not None:
            self.dialog.raise_()
            self.dialog.activateWindow()
            return
        self.dialog = SettingsDialog(self._window)
        self.dialog.changed.connect(self._on_changed)
        self.dialog.pressed.connect(self._on_pressed)
        self.dialog.finished.connect(self._on_closed)
        self._io.submit(
            lambda: bool(self._token.get()), on_done=self._on_token, on_error=lambda _: None, lane=TOKEN_LANE
        )
        self.refresh()
        self.dialog.open()

    def refresh(self) -> None:
        """Show everything as it is now."""
        if self.dialog is None:
            return
        hardware = self._models.room.hardware
        around = Around(
            folders={"data_folder": str(paths.data_dir()), "models_folder": str(paths.models_dir())},
            fixed=frozenset(name for name in CARDS if self._preferences.is_overridden(name)),
            gpus=tuple((gpu.device, gpu.name) for gpu in (hardware.gpus if hardware else None) or ()),
            has_token=bool(self._has_token),
            is_measuring=self._effects.is_measuring(),
            errors=self._errors,
        )
        foot = self._folders.view or self._foot
        self.dialog.set_view(settings_view.view(self._preferences.value, around, foot))

    def _on_closed(self) -> None:
        dialog, self.dialog = self.dialog, None
        if dialog is not None:
            dialog.deleteLater()
        self._errors.clear()
        self._foot = self._before_reset = None
        self._window.focus_composer()

    def _on_changed(self, name: str, text: str) -> None:
        self._errors.pop(name, None)
        if name in FOLDERS:
            self._folders.move(name, text)
            self.refresh()
            return
        try:
            value = typed_setting.read(name, text)
        except WishError as error:
            self._errors[name] = f"{error.message} {error.hint}"
            self.refresh()
            return
        if value != getattr(self._preferences.value, name):
            self._before_reset = None
            self._change({name: value})

    def _change(self, values: dict[str, object]) -> None:
        """Keep values, and let them count."""
        self._preferences.change(**values)
        if "theme" in values:
            apply_theme(self._preferences.value)
        counts_from = {CARDS[name].counts_from for name in values}
        self._needs_load |= "load" in counts_from and self._models.is_ready
        self._foot = settings_view.foot_after(counts_from, needs_load=self._needs_load)
        self._effects.refresh()
        self.refresh()

    def _on_pressed(self, key: str) -> None:
        actions: dict[str, Callable[[], None]] = {
            RESET: self._reset,
            UNDO_RESET: self._undo_reset,
            RELOAD: self._models.reload,
            MEASURE: self._effects.measure,
            FORGET_TOKEN: self._forget_token,
            STOP_MOVE: self._folders.stop,
        }
        actions[key]()
        self.refresh()

    def _reset(self) -> None:
        """Everything in the dialog as at first; folders, models and the window stay."""
        self._errors.clear()
        before, first = self._preferences.saved, Settings()
        names = [name for name, card in CARDS.items() if card.group != REMEMBERED and name not in FOLDERS]
        changed = [name for name in names if getattr(before, name) != getattr(first, name)]
        self._change({name: getattr(first, name) for name in changed})
        self._before_reset = before
        self._foot = FootView(
            tr("All settings are as at first. Folders and models stay."), UNDO_RESET, tr("Undo")
        )

    def _undo_reset(self) -> None:
        before, self._before_reset = self._before_reset, None
        if before is not None:
            now = self._preferences.saved
            names = [name for name in CARDS if getattr(now, name) != getattr(before, name)]
            self._change({name: getattr(before, name) for name in names if CARDS[name].group != REMEMBERED})
            self._foot = FootView(tr("The settings are as they were."))

    def _forget_token(self) -> None:
        def done(is_gone: bool) -> None:
            self._has_token = not is_gone
            words = tr("The access token was removed.") if is_gone else tr(settings_view.TOKEN_STAYS)
            self._foot = FootView(words, is_warning=not is_gone)
            self.refresh()

        self._io.submit(self._token.forget, on_done=done, lane=TOKEN_LANE)

    def _on_token(self, has_token: bool) -> None:
        self._has_token = has_token
        self.refresh()

    def _on_loaded(self) -> None:
        self._needs_load = False
        if self._foot is not None and self._foot.key == RELOAD:
            self._foot = None
        self.refresh()

    def _on_move_changed(self) -> None:
        self._errors |= self._folders.errors
        if self._folders.done_words:
            self._foot = FootView(self._folders.done_words)
        self.refresh()


def apply_look(chosen: Settings) -> None:
    """Theme and the writing of figures, as the settings have them; figures stay as the words do."""
    apply_theme(chosen)
    QLocale.setDefault(language.locale(chosen.language))


def apply_theme(chosen: Settings) -> None:
    """Dark or light, at once."""
    application = QApplication.instance()
    if isinstance(application, QApplication):
        theme.apply(application, chosen.theme)
