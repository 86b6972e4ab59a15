"""From the table of settings to what the dialog shows. Pure functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from app.setting_rules import Device, Folder, Number, OneOf, Text
from app.setting_table import ANSWERS, APPEARANCE, CARDS, COSTS, GROUPS, MODELS, REMEMBERED, Card, Settings
from app.typed_setting import shown
from engine.words import mark, percent, tr
from ui.settings_values import FootView, SettingAction, SettingField, SettingGroup, SettingsView

RESET, UNDO_RESET, RELOAD, STOP_MOVE = "reset", "undo-reset", "reload", "stop-move"
MEASURE, FORGET_TOKEN = "measure", "forget-token"
TOKEN_STAYS = mark("The system's keyring or HF_TOKEN still has the token: remove it there.")
_ICONS = {APPEARANCE: "monitor", MODELS: "memory-stick", ANSWERS: "message-square", COSTS: "zap"}
_PROGRAM = mark("This program")
_COUNTS_FROM = {
    "load": mark("Counts from the next load."),
    "start": mark("Counts from the next start of Decodeck."),
}
_MOVES = {
    "models_folder": mark("Move models folder to an empty folder"),
    "data_folder": mark("Move data folder to an empty folder"),
}
_FIXED = mark("The command line says what it is in this run.")


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
            groups.append(SettingGroup(tr(title), _ICONS[title], rows))
    groups.append(SettingGroup(tr(_PROGRAM), "settings", _actions(around)))
    return SettingsView(tuple(groups), foot)


def foot_after(counts_from: set[str], *, needs_load: bool) -> FootView | None:
    """What is said of a change that does not count at once."""
    if "load" in counts_from and needs_load:
        return FootView(tr("Counts when the model is loaded again."), RELOAD, tr("Reload now"))
    if "start" in counts_from:
        return FootView(tr("Counts when Decodeck starts again."))
    return None


def _field(name: str, value: object, around: Around) -> SettingField:
    card = CARDS[name]
    is_fixed = name in around.fixed
    return SettingField(
        name=name,
        label=tr(card.label),
        help=tr(card.help),
        kind=_kind(card),
        value=around.folders[name] if isinstance(card.rule, Folder) else shown(value),
        choices=_choices(card, str(value), around),
        unit=tr(card.unit),
        none=tr(card.none),
        note=tr(_FIXED if is_fixed else _COUNTS_FROM.get(card.counts_from, "")),
        error=around.errors.get(name, ""),
        is_fixed=is_fixed,
        move=tr(_MOVES.get(name, "")),
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
        if card.rule.is_percent:
            return tuple((key, percent(key)) for key in card.rule.choices)
        labels = card.rule.labels or card.rule.choices
        return tuple((key, tr(label)) for key, label in zip(card.rule.choices, labels, strict=True))
    if not isinstance(card.rule, Device):
        return ()
    known = (("auto", tr("Auto")), ("cpu", tr("Processor")), *around.gpus)
    is_known = value in [key for key, _ in known]
    return known if is_known else (*known, (value, tr("{device}, not there now").format(device=value)))


def _actions(around: Around) -> tuple[SettingAction, ...]:
    no_token = "" if around.has_token else tr("No token is kept.")
    return (
        SettingAction(
            MEASURE,
            tr("Speed of this computer"),
            tr("What predictions rest on. Takes about 5 seconds, when nothing else is to be done."),
            tr("Measuring…") if around.is_measuring else tr("Measure again"),
            is_fixed=around.is_measuring,
        ),
        SettingAction(
            FORGET_TOKEN,
            tr("Access token"),
            tr("For models behind a licence; in the system's keyring."),
            tr("Remove token"),
            no_token,
            is_fixed=not around.has_token,
        ),
        SettingAction(
            RESET,
            tr("All settings"),
            tr("As at first; folders, models and chats stay."),
            tr("Reset settings"),
        ),
    )
