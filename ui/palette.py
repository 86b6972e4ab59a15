"""The colours of both themes as named tokens; knows no widget and does not decide which theme is shown."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtGui import QColor, QPalette


@dataclass(frozen=True, slots=True)
class Palette:
    """Every colour token of one theme. Text on ``bg*`` has a contrast of 4.5 or more, shapes 3 or more.

    Do not change a colour in place: ask for a copy, ``QColor(palette.accent)``.
    """

    bg0: QColor  # transcript
    bg1: QColor  # sidebar, Tuning, status bar, code
    bg2: QColor  # cards, composer
    bg3: QColor  # hover, selected row, inline code
    line: QColor  # hairlines, never the only sign of anything
    control: QColor  # border of the composer, scroll bar
    track: QColor  # unfilled part of bars and dials
    text1: QColor  # text, values
    text2: QColor  # labels, second lines
    text3: QColor  # captions, hints, quiet stats
    accent: QColor  # focus, chosen, live value, primary button
    accent_ink: QColor  # text on accent
    accent_hi: QColor  # accent under the pointer
    accent_soft: QColor  # tinted ground
    ok: QColor
    ok_soft: QColor
    ok_line: QColor  # border of a card on ok_soft
    warn: QColor
    warn_soft: QColor
    warn_line: QColor
    bad: QColor
    bad_soft: QColor
    bad_line: QColor
    warn_fill: QColor  # shapes only, no text
    bad_fill: QColor  # shapes only, no text
    heat_ok: QColor
    heat_warn: QColor
    heat_bad: QColor
    mem_weights: QColor
    mem_kv: QColor  # reserved is the same colour, hatched
    mem_working: QColor
    mem_other: QColor
    mem_free: QColor
    code_keyword: QColor
    code_name: QColor
    code_string: QColor
    code_number: QColor
    code_comment: QColor
    code_operator: QColor
    bubble: QColor  # ground of the user's messages and of chips
    border: QColor  # border of secondary buttons, chips and cards
    well: QColor  # ground of a segmented control
    well_line: QColor  # its border
    chosen: QColor  # ground of the chosen segment
    knob: QColor  # handle of a slider
    shadow: QColor  # under the composer and popups; no alpha means none is drawn


_DARK: dict[str, str] = {
    "bg0": "#0F1115",
    "bg1": "#14171C",
    "bg2": "#1C2027",
    "bg3": "#272C36",
    "line": "#262B33",
    "control": "#626B79",
    "track": "#2C323C",
    "text1": "#ECEEF2",
    "text2": "#B7BEC9",
    "text3": "#949CAA",
    "accent": "#93A5FF",
    "accent_ink": "#0B1130",
    "accent_hi": "#AEBBFF",
    "accent_soft": "#20263F",
    "ok": "#62D29B",
    "ok_soft": "#14271F",
    "ok_line": "#356A52",
    "warn": "#EDB458",
    "warn_soft": "#2C2314",
    "warn_line": "#755B31",
    "bad": "#FF8A80",
    "bad_soft": "#301B1C",
    "bad_line": "#7D4744",
    "warn_fill": "#D9A24A",
    "bad_fill": "#EF7469",
    "heat_ok": "#1D4434",
    "heat_warn": "#5A4215",
    "heat_bad": "#3A2022",
    "mem_weights": "#93A5FF",
    "mem_kv": "#5C6FD6",
    "mem_working": "#8F98A8",
    "mem_other": "#5F6777",
    "mem_free": "#242932",
    "code_keyword": "#B7A6FF",
    "code_name": "#8FC7FF",
    "code_string": "#9FD8A4",
    "code_number": "#F0B98A",
    "code_comment": "#8992A1",
    "code_operator": "#B7BEC9",
    "bubble": "#1C2027",
    "border": "#2C323C",
    "well": "#0F1115",
    "well_line": "#262B33",
    "chosen": "#343B49",
    "knob": "#ECEEF2",
    "shadow": "#00000000",
}

_LIGHT: dict[str, str] = {
    "bg0": "#FFFFFF",
    "bg1": "#F5F6F9",
    "bg2": "#FFFFFF",
    "bg3": "#E7EAF1",
    "line": "#E2E5EC",
    "control": "#868E9C",
    "track": "#DDE1E9",
    "text1": "#14171D",
    "text2": "#434B59",
    "text3": "#5F6877",
    "accent": "#3B4FD8",
    "accent_ink": "#FFFFFF",
    "accent_hi": "#2C3DB8",
    "accent_soft": "#E8EBFD",
    "ok": "#0E7040",
    "ok_soft": "#E6F5EC",
    "ok_line": "#A5CBB8",
    "warn": "#855000",
    "warn_soft": "#FCF1DC",
    "warn_line": "#D7C2A1",
    "bad": "#B3261E",
    "bad_soft": "#FCEAE8",
    "bad_line": "#E5B2AF",
    "warn_fill": "#C07600",
    "bad_fill": "#D0392F",
    "heat_ok": "#C3E8D2",
    "heat_warn": "#F7DDA6",
    "heat_bad": "#F6D3D0",
    "mem_weights": "#3B4FD8",
    "mem_kv": "#7482EB",
    "mem_working": "#5F6877",
    "mem_other": "#858D9C",
    "mem_free": "#E7EAF1",
    "code_keyword": "#6A2FC4",
    "code_name": "#0B5CAD",
    "code_string": "#16703C",
    "code_number": "#9A4A00",
    "code_comment": "#5F6877",
    "code_operator": "#434B59",
    "bubble": "#F5F6F9",
    "border": "#CDD2DC",
    "well": "#E7EAF1",
    "well_line": "#D5DAE4",
    "chosen": "#FFFFFF",
    "knob": "#FFFFFF",
    "shadow": "#0F000000",
}


def dark() -> Palette:
    """The dark theme."""
    return _from_hex(_DARK)


def light() -> Palette:
    """The light theme."""
    return _from_hex(_LIGHT)


def high_contrast(system: QPalette, is_dark: bool) -> Palette:
    """The system's own colours: grounds are one colour, tints are gone, lines are as strong as text."""
    role = QPalette.ColorRole
    ground, ink = system.color(role.Window), system.color(role.WindowText)
    accent, accent_ink = system.color(role.Highlight), system.color(role.HighlightedText)
    base = _DARK if is_dark else _LIGHT
    colors = {name: QColor(value) for name, value in base.items()}
    grounds = {"bubble", "mem_free", "well", "chosen"}
    for name in colors:
        if name.startswith("bg") or name.endswith("_soft") or name in grounds:
            colors[name] = ground
        elif name.startswith("text") or name.endswith("_line") or name in {"line", "control", "border"}:
            colors[name] = ink
    colors |= {"accent": accent, "accent_hi": accent, "accent_ink": accent_ink, "mem_weights": accent}
    return Palette(**colors)


def to_qt(colors: Palette) -> QPalette:
    """The same colours as the roles that Qt's own widgets read."""
    role, group = QPalette.ColorRole, QPalette.ColorGroup
    result = QPalette()
    for target, color in (
        (role.Window, colors.bg1),
        (role.Base, colors.bg0),
        (role.AlternateBase, colors.bg1),
        (role.Button, colors.bg2),
        (role.Mid, colors.line),
        (role.Dark, colors.line),
        (role.WindowText, colors.text1),
        (role.Text, colors.text1),
        (role.ButtonText, colors.text1),
        (role.BrightText, colors.bad),
        (role.PlaceholderText, colors.text3),
        (role.Highlight, colors.accent),
        (role.Accent, colors.accent),
        (role.HighlightedText, colors.accent_ink),
        (role.Link, colors.accent),
        (role.LinkVisited, colors.accent),
        (role.ToolTipBase, colors.bg3),
        (role.ToolTipText, colors.text1),
    ):
        result.setColor(target, color)
    for target in (role.WindowText, role.Text, role.ButtonText):
        result.setColor(group.Disabled, target, colors.text3)
    return result


def _from_hex(table: dict[str, str]) -> Palette:
    return Palette(**{name: QColor(value) for name, value in table.items()})
