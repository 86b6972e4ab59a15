"""The table of commands: each declared once, with its name, its key and when it can be given.

The window's shortcuts, the command palette and the list of shortcuts are made from it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from PySide6.QtGui import QKeySequence, QShortcut

from engine.words import mark, tr
from ui.regions import move_region
from ui.undo_key import UNDO_KEYS, UndoKey

if TYPE_CHECKING:
    from ui.main_window import MainWindow

CHAT, MESSAGE, MODEL, VIEW = mark("Chat"), mark("Message"), mark("Model"), mark("View")
GROUPS = (MESSAGE, CHAT, MODEL, VIEW)


def _always() -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Command:
    """One thing that can be done from anywhere in the window. ``keys`` are as Qt writes them, "" for none.

    ``group`` is one of ``GROUPS``, to be translated where it is shown. Those that are not ``is_named`` only
    move about and stand in no palette.
    """

    name: str
    group: str
    run: Callable[[], object]
    keys: str = ""
    is_enabled: Callable[[], bool] = _always
    is_named: bool = True


@dataclass(frozen=True, slots=True)
class LocalKey:
    """A key that one part of the window has while it has the keyboard; ``where`` within a sentence."""

    keys: str
    does: str
    where: str


LOCAL_KEYS = (
    LocalKey("Return", mark("Send; while an answer is written: queue"), mark("message field")),
    LocalKey("Shift+Return", mark("New line"), mark("message field")),
    LocalKey("Up", mark("Take the queued message back, or edit the last one"), mark("empty message field")),
    LocalKey("Del", mark("Remove"), mark("attached file")),
    LocalKey("Up", mark("Message before; Down the next"), mark("chat")),
    LocalKey("E", mark("Edit the chosen message"), mark("chat")),
    LocalKey("Tab", mark("Through all that can be pressed in a message"), mark("chat")),
    LocalKey("Del", mark("Delete the chosen chat"), mark("list of chats")),
    LocalKey("Ctrl+Return", mark("Apply"), mark("tuning")),
    LocalKey("Alt+R", mark("Use recommended settings"), mark("tuning")),
)


def commands_of(window: MainWindow) -> tuple[Command, ...]:
    """All commands of a window, group by group."""
    return (*_of_messages(window), *_of_chats(window), *_of_models(window), *_of_view(window))


def install(window: MainWindow, commands: tuple[Command, ...]) -> None:
    """Make the window's shortcuts; a key of what cannot be done now does nothing."""
    for command in commands:
        if command.keys:
            QShortcut(QKeySequence(command.keys), window).activated.connect(partial(give, command))
    UndoKey(window)


def give(command: Command) -> bool:
    """Do it, if it can be done now; whether it was."""
    if not command.is_enabled():
        return False
    command.run()
    return True


def _of_messages(window: MainWindow) -> tuple[Command, ...]:
    composing, chats, transcript = window.composing, window.chats, window.body.centre.transcript

    def has_answer() -> bool:
        return bool(transcript.last_answer())

    return (
        Command(tr("Go to the message field"), MESSAGE, window.focus_composer, "Ctrl+L"),
        Command(tr("Attach files"), MESSAGE, composing.choose_files, "Ctrl+U"),
        Command(tr("Longest answer"), MESSAGE, composing.choose_length),
        Command(tr("Instructions and sampling"), MESSAGE, composing.open_presets, "Ctrl+I"),
        Command(tr("Save as a preset"), MESSAGE, composing.choose_preset_name),
        Command(tr("Import a preset"), MESSAGE, composing.choose_preset_import),
        Command(tr("Export as a preset"), MESSAGE, composing.choose_preset_export),
        Command(tr("Stop the answer"), MESSAGE, window.stop_requested.emit, "", lambda: window.is_generating),
        Command(tr("Regenerate the answer"), MESSAGE, chats.regenerate, "Ctrl+R", has_answer),
        Command(
            tr("Continue the answer"), MESSAGE, window.go_on, "", lambda: bool(transcript.unfinished_answer())
        ),
        Command(tr("Edit your last message"), MESSAGE, window.recall_requested.emit),
        Command(tr("Copy the last answer"), MESSAGE, transcript.copy_last_answer, "", has_answer),
        Command(
            tr("Copy the last code block"), MESSAGE, transcript.copy_last_code, "Ctrl+Shift+C", has_answer
        ),
        Command(tr("Previous branch"), MESSAGE, partial(chats.step, -1), "Alt+Left", chats.has_branches),
        Command(tr("Next branch"), MESSAGE, partial(chats.step, 1), "Alt+Right", chats.has_branches),
    )


def _of_chats(window: MainWindow) -> tuple[Command, ...]:
    chats, bar = window.chats, window.body.centre.top_bar

    def has_chat() -> bool:
        return bool(bar.chat_id)

    return (
        Command(tr("New chat"), CHAT, window.new_chat, "Ctrl+N"),
        Command(tr("New temporary chat"), CHAT, chats.begin_temporary, "Ctrl+Shift+N"),
        Command(tr("Search chats"), CHAT, chats.open_search, "Ctrl+K"),
        Command(tr("Pin or unpin the chat"), CHAT, chats.pin, "Ctrl+P"),
        Command(tr("Rename the chat"), CHAT, window.rename_chat, "F2"),
        Command(
            tr("Export the chat as Markdown"),
            CHAT,
            lambda: chats.choose_export(bar.chat_id, "md"),
            "",
            has_chat,
        ),
        Command(
            tr("Export the chat as JSON"),
            CHAT,
            lambda: chats.choose_export(bar.chat_id, "json"),
            "",
            has_chat,
        ),
        Command(tr("Undo the deletion"), CHAT, chats.undo, UNDO_KEYS, lambda: chats.can_undo),
        Command(tr("Export all chats"), CHAT, lambda: chats.choose_export("", "json")),
        Command(tr("Import chats"), CHAT, chats.choose_import),
    )


def _of_models(window: MainWindow) -> tuple[Command, ...]:
    return (
        Command(tr("Choose a model, or open the library"), MODEL, window.open_picker, "Ctrl+M"),
        Command(tr("Choose a model file"), MODEL, window.choose_file),
        Command(tr("Choose a model folder"), MODEL, window.choose_folder),
        Command(tr("Show the models folder"), MODEL, window.models_folder_requested.emit),
        Command(tr("Use a longer context"), MODEL, window.make_room),
    )


def _of_view(window: MainWindow) -> tuple[Command, ...]:
    body = window.body
    themes = (
        (tr("Theme: System"), "system"),
        (tr("Theme: Light"), "light"),
        (tr("Theme: Dark"), "dark"),
    )
    return (
        Command(tr("Show or hide the sidebar"), VIEW, body.toggle_sidebar, "Ctrl+B"),
        Command(tr("Show or hide Tuning"), VIEW, body.toggle_tuning, "Ctrl+T"),
        Command(tr("Why this speed"), VIEW, window.explain, "", lambda: window.explaining.can_open),
        Command(tr("Batch lab"), VIEW, window.toggle_lab, "Ctrl+Shift+B"),
        *(Command(name, VIEW, partial(window.theme_chosen.emit, key)) for name, key in themes),
        Command(tr("All commands"), VIEW, window.open_palette, "Ctrl+Shift+P", is_named=False),
        Command(tr("Settings"), VIEW, window.settings_requested.emit, "Ctrl+,"),
        Command(tr("Keyboard shortcuts"), VIEW, window.show_shortcuts, "F1"),
        Command(tr("Keyboard shortcuts"), VIEW, window.show_shortcuts, "Ctrl+/", is_named=False),
        Command(tr("Next part of the window"), VIEW, partial(move_region, body, 1), "F6", is_named=False),
        Command(tr("Part before"), VIEW, partial(move_region, body, -1), "Shift+F6", is_named=False),
        Command(tr("Close what is open, then stop the answer"), VIEW, window.escape, "Esc", is_named=False),
        Command(tr("About Decodeck"), VIEW, window.show_about),
        Command(tr("Quit"), VIEW, window.close, "Ctrl+Q"),
    )
