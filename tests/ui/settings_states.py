"""The designed states of the settings dialog, as functions that bring a window into one."""

from __future__ import annotations

from collections.abc import Callable

from ui.main_window import MainWindow
from ui.settings import SettingsDialog
from ui.settings_values import FootView, SettingAction, SettingField, SettingGroup, SettingsView

THEME = SettingField(
    *("theme", "Theme", "Dark or light, or as the system has it.", "choice", "system"),
    choices=(("system", "System"), ("light", "Light"), ("dark", "Dark")),
)
TEXT_SIZE = SettingField(
    *("text_size", "Text size", "All of the window grows with its text.", "choice", "125"),
    choices=tuple((size, f"{size}\u00a0%") for size in ("90", "100", "110", "125", "150")),
    note="Counts from the next start of Decodeck.",
)
FOLDER = SettingField(
    *("models_folder", "Models folder", "Moving it takes the models along, or leaves all as it is."),
    *("folder", "/home/someone/.local/share/decodeck/models"),
)
THREADS = SettingField(
    *("threads", "Threads", "More than the cores can feed only gets in the way.", "line", "4"),
    none="The quickest, as measured",
    note="Counts from the next load.",
)
IDLE = SettingField(
    *("unload_after", "Unload when idle", "Gives the memory back. The next message loads it again."),
    *("line", "0"),
    unit="minutes",
    none="Never",
    error="0 cannot be used. It must be a whole number from 1 to 1,440 or none.",
)
PROMPT = SettingField(
    *("system_prompt", "Instructions", "What every chat is told before its first message.", "lines"),
    "Answer in short sentences, and say so where you are not sure.",
)
TOKEN = SettingAction(
    *("forget-token", "Access token", "For models behind a licence; in the system's keyring."),
    *("Remove token", "No token is kept."),
    is_fixed=True,
)
RESET = SettingAction(
    "reset", "All settings", "As at first; folders, models and chats stay.", "Reset settings"
)
GROUPS = (
    SettingGroup("Appearance", "monitor", (THEME, TEXT_SIZE)),
    SettingGroup("Models and memory", "memory-stick", (FOLDER, THREADS, IDLE)),
    SettingGroup("Answers", "message-square", (PROMPT,)),
    SettingGroup("This program", "settings", (TOKEN, RESET)),
)
MOVING = FootView("Moving models: 1.20 of 4.03\u00a0GB", "stop-move", "Stop", progress=0.3)
AGAIN = FootView("Counts when the model is loaded again.", "reload", "Reload now")


def _open(window: MainWindow, name: str, foot: FootView | None = None, search: str = "") -> None:
    dialog = SettingsDialog(window)
    dialog.set_view(SettingsView(GROUPS, foot))
    dialog.open()
    dialog.reveal(name)
    dialog.search.set_text(search)


SETTINGS_STATES: dict[str, Callable[[MainWindow], None]] = {
    "settings": lambda window: _open(window, "theme"),
    "settings-error": lambda window: _open(window, "unload_after", AGAIN),
    "settings-moving": lambda window: _open(window, "models_folder", MOVING),
    "settings-search": lambda window: _open(window, "theme", search="folder a"),
    "settings-program": lambda window: _open(window, "reset"),
}
