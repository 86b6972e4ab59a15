"""From the table of settings to what the dialog shows. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.setting_rules import Device, Folder, Number, OneOf, Text, written
from app.setting_table import ANSWERS, APPEARANCE, CARDS, COSTS, GROUPS, MODELS, REMEMBERED, Card, Settings
from ui.settings_values import FootView, SettingAction, SettingField, SettingGroup, SettingsView

RESET, UNDO_RESET, RELOAD, STOP_MOVE = "reset", "undo-reset", "reload", "stop-move"
MEASURE, FORGET_TOKEN = "measure", "forget-token"
TOKEN_STAYS = "The system's keyring or HF_TOKEN still has the token: remove it there."
_ICONS = {APPEARANCE: "monitor", MODELS: "memory-stick", ANSWERS: "message-square", COSTS: "zap"}
_PROGRAM = "This program"
_COUNTS_FROM = {"load": "Counts from the next load.", "start": "Counts from the next start of Decodeck."}
_FIXED = "The command line says what it is in this run."


@dataclass(frozen=True, slots=True)
class Around:
    """What the dialog shows beside the settings' own values."""

    folders: Mapping[str, str]
    fixed: frozenset[str] = frozenset()  # names that the command line has set
    gpus: tuple[tuple[str, str], ...] = ()  # word and name
    has_token: bool = False
    is_measuring: bool = False
    errors: Mapping[str, str] = field(default_factory=dict)


def view(settings: Settings, around: Around, foot: FootView | None = None) -> SettingsView:
    """All groups but the one that only remembers, and the actions."""
    groups = []
    for title in GROUPS:
        if title != REMEMBERED:
            names = [name for name, card in CARDS.items() if card.group == title]
            rows = tuple(_field(name, getattr(settings, name), around) for name in names)
            groups.append(SettingGroup(title, _ICONS[title], rows))
    groups.append(SettingGroup(_PROGRAM, "settings", _actions(around)))
    return SettingsView(tuple(groups), foot)


def foot_after(counts_from: set[str], *, needs_load: bool) -> FootView | None:
    """What is said of a change that does not count at once."""
    if "load" in counts_from and needs_load:
        return FootView("Counts when the model is loaded again.", RELOAD, "Reload now")
    if "start" in counts_from:
        return FootView("Counts when Decodeck starts again.")
    return None


def _field(name: str, value: object, around: Around) -> SettingField:
    card = CARDS[name]
    is_fixed = name in around.fixed
    return SettingField(
        name=name,
        label=card.label,
        help=card.help,
        kind=_kind(card),
        value=around.folders[name] if isinstance(card.rule, Folder) else written(value),
        choices=_choices(card, str(value), around),
        unit=card.unit,
        none=card.none,
        note=_FIXED if is_fixed else _COUNTS_FROM.get(card.counts_from, ""),
        error=around.errors.get(name, ""),
        is_fixed=is_fixed,
    )


def _kind(card: Card) -> str:
    match card.rule:
        case OneOf() | Device():
            return "choice"
        case Folder():
            return "folder"
        case Text(is_long=True):
            return "lines"
        case Text() | Number():
            return "line"
    raise ValueError(f"no control shows {card.label}")


def _choices(card: Card, value: str, around: Around) -> tuple[tuple[str, str], ...]:
    if isinstance(card.rule, OneOf):
        return tuple(zip(card.rule.choices, card.rule.labels or card.rule.choices, strict=True))
    if not isinstance(card.rule, Device):
        return ()
    known = (("auto", "Auto"), ("cpu", "Processor"), *around.gpus)
    is_known = value in [key for key, _ in known]
    return known if is_known else (*known, (value, f"{value}, not there now"))


def _actions(around: Around) -> tuple[SettingAction, ...]:
    no_token = "" if around.has_token else "No token is kept."
    return (
        SettingAction(
            MEASURE,
            "Speed of this computer",
            "What predictions rest on. Takes about 5 seconds, when nothing else is to be done.",
            "Measuring…" if around.is_measuring else "Measure again",
            is_fixed=around.is_measuring,
        ),
        SettingAction(
            FORGET_TOKEN,
            "Access token",
            "For models behind a licence; in the system's keyring.",
            "Remove token",
            no_token,
            is_fixed=not around.has_token,
        ),
        SettingAction(
            RESET,
            "All settings",
            "As at first; folders, models and chats stay.",
            "Reset settings",
        ),
    )
