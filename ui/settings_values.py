"""What the settings dialog shows. Values only: the widgets know no settings, and this knows no widget."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class SettingField:
    """One setting. ``value`` is written as a person types it; ``kind`` is choice, line, lines or folder.

    ``note`` says what else is to be known, as when a change counts; ``error`` why what was typed was not
    taken. One that ``is_fixed`` can be read, not changed.
    """

    name: str
    label: str
    help: str
    kind: str
    value: str
    choices: tuple[tuple[str, str], ...] = ()  # key and label
    unit: str = ""
    none: str = ""  # what is meant by an empty line
    note: str = ""
    error: str = ""
    is_fixed: bool = False
    move: str = ""  # of a folder: what is asked when it is to lie elsewhere


@dataclass(frozen=True, slots=True)
class SettingAction:
    """Something that is done, not set: a button with its verb."""

    name: str
    label: str
    help: str
    verb: str
    note: str = ""
    is_fixed: bool = False


@dataclass(frozen=True, slots=True)
class SettingGroup:
    """Settings that stand together; ``icon`` is one of assets/icons."""

    title: str
    icon: str
    rows: tuple[SettingField | SettingAction, ...]


@dataclass(frozen=True, slots=True)
class FootView:
    """The line below the settings: a sentence, and the verb of what can be done about it.

    ``progress`` (0 to 1) is that of a move; nothing can be changed meanwhile.
    """

    words: str
    key: str = ""
    verb: str = ""
    is_warning: bool = False
    progress: float | None = None


@dataclass(frozen=True, slots=True)
class SettingsView:
    """All of the dialog."""

    groups: tuple[SettingGroup, ...] = ()
    foot: FootView | None = None
