"""The tokens keep the contrast the design promises, in both themes."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QColor, QPalette

from ui import palette
from ui.palette import Palette


def luminance(color: QColor) -> float:
    """Relative luminance (WCAG 2)."""

    def linear(part: float) -> float:
        return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4

    return 0.2126 * linear(color.redF()) + 0.7152 * linear(color.greenF()) + 0.0722 * linear(color.blueF())


def contrast(one: QColor, other: QColor) -> float:
    """Contrast ratio (WCAG 2), 1 to 21."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


THEMES = pytest.mark.parametrize("colors", [palette.dark(), palette.light()], ids=["dark", "light"])


@THEMES
@pytest.mark.parametrize("ground", ["bg0", "bg1", "bg2", "bg3", "bubble", "well"])
@pytest.mark.parametrize("ink", ["text1", "text2", "text3", "accent"])
def test_text_has_a_contrast_of_4_5_on_every_ground(colors: Palette, ground: str, ink: str) -> None:
    assert contrast(getattr(colors, ink), getattr(colors, ground)) >= 4.5


@THEMES
@pytest.mark.parametrize("ink", ["text1", "text2", "warn", "bad"])
def test_the_words_of_the_chosen_segment_can_be_read(colors: Palette, ink: str) -> None:
    assert contrast(getattr(colors, ink), colors.chosen) >= 4.5


@THEMES
@pytest.mark.parametrize("token", ["ok", "warn", "bad"])
def test_health_colours_can_be_read_on_their_tint_and_on_panels(colors: Palette, token: str) -> None:
    ink = getattr(colors, token)
    for ground in (getattr(colors, f"{token}_soft"), colors.bg0, colors.bg1, colors.well):
        assert contrast(ink, ground) >= 4.5


@THEMES
def test_a_primary_button_can_be_read_at_rest_and_under_the_pointer(colors: Palette) -> None:
    assert contrast(colors.accent_ink, colors.accent) >= 4.5
    assert contrast(colors.accent_ink, colors.accent_hi) >= 4.5


@THEMES
@pytest.mark.parametrize(
    "token", ["control", "warn_fill", "bad_fill", "mem_weights", "mem_kv", "mem_working", "mem_other"]
)
def test_shapes_that_carry_meaning_have_a_contrast_of_3_on_panels(colors: Palette, token: str) -> None:
    assert contrast(getattr(colors, token), colors.bg1) >= 3


@THEMES
@pytest.mark.parametrize("part", ["keyword", "name", "string", "number", "comment", "operator"])
def test_code_colours_can_be_read_on_the_code_ground(colors: Palette, part: str) -> None:
    assert contrast(getattr(colors, f"code_{part}"), colors.bg1) >= 4.5


def test_high_contrast_drops_every_tint_and_uses_the_colours_of_the_system() -> None:
    system = QPalette()
    system.setColor(QPalette.ColorRole.Window, QColor("#000000"))
    system.setColor(QPalette.ColorRole.WindowText, QColor("#ffff00"))
    colors = palette.high_contrast(system, is_dark=True)
    for token in ("bg0", "bg1", "bg2", "bg3", "ok_soft", "warn_soft", "bad_soft", "accent_soft", "chosen"):
        assert getattr(colors, token).name() == "#000000"
    for token in ("text1", "text2", "text3", "line", "control"):
        assert getattr(colors, token).name() == "#ffff00"


def test_qt_widgets_get_the_same_colours() -> None:
    colors = palette.light()
    roles = palette.to_qt(colors)
    assert roles.color(QPalette.ColorRole.Base) == colors.bg0
    assert roles.color(QPalette.ColorRole.Text) == colors.text1
    assert roles.color(QPalette.ColorGroup.Disabled, QPalette.ColorRole.Text) == colors.text3
