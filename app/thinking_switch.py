"""Whether the loaded model can be told to think or not, and what the user wants of it."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal

from app.preferences import Preferences
from engine.events import Event, Loaded, LoadFailed, Unloaded
from ui.main_window import MainWindow


class ThinkingSwitch(QObject):
    """Must be told of every engine event. ``changed`` fires when the user has switched."""

    changed = Signal()

    def __init__(self, window: MainWindow, preferences: Preferences) -> None:
        super().__init__()
        self._window = window
        self._preferences = preferences
        self._by_itself = ""  # what the loaded model's template does; "": it has no switch
        window.thinking_chosen.connect(self._on_chosen)

    def handle(self, event: Event) -> None:
        """A model that came may have a switch, one that went has none."""
        if isinstance(event, Loaded):
            self._by_itself = event.thinking
            self.refresh()
        elif isinstance(event, Unloaded | LoadFailed):
            self._by_itself = ""
            self.refresh()

    def refresh(self) -> None:
        """Show the switch as the settings have it."""
        chosen = self._preferences.value.thinking
        is_on = (self._by_itself if chosen == "auto" else chosen) == "on"
        self._window.set_thinking(is_on if self._by_itself else None)

    def _on_chosen(self, is_on: bool) -> None:
        self._preferences.change(thinking="on" if is_on else "off")
        self.changed.emit()
