"""The theme: fonts and icons come with the program, and a change reaches what is already shown."""

from __future__ import annotations

from importlib.resources import files

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QFont, QFontInfo, QFontMetricsF, QGuiApplication, QImage, QPalette
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QApplication

from ui import theme

STYLES = ("display", "title-l", "title", "body", "ui", "small", "micro", "code")
ICONS = sorted(
    item.name for item in files("assets").joinpath("icons").iterdir() if item.name.endswith(".svg")
)


def ink_of(image: QImage) -> set[str]:
    """Names of the fully opaque colours of an image."""
    pixels = (image.pixelColor(x, y) for x in range(image.width()) for y in range(image.height()))
    return {pixel.name() for pixel in pixels if pixel.alpha() == 255}


def test_all_shipped_fonts_load() -> None:
    assert {"Inter", "Inter Display", "JetBrains Mono"} <= set(theme.load_fonts())


@pytest.mark.parametrize("style", STYLES)
def test_every_style_is_drawn_in_a_shipped_font_of_at_least_11_pixels(style: str) -> None:
    info = QFontInfo(theme.font(style))
    assert info.family() in {"Inter", "Inter Display", "JetBrains Mono"}
    assert 11 <= theme.font(style).pixelSize() < theme.line_height(style)


@pytest.mark.parametrize("style", ["title", "body", "ui", "small", "micro"])
@pytest.mark.parametrize("weight", [400, 500, 600])
def test_figures_are_as_wide_as_each_other(style: str, weight: int) -> None:
    metrics = QFontMetricsF(theme.font(style, weight))
    assert metrics.horizontalAdvance("1111") == pytest.approx(metrics.horizontalAdvance("0000"))


def test_code_shows_no_ligatures() -> None:
    metrics = QFontMetricsF(theme.font("code"))
    assert theme.font("code").featureValue(QFont.Tag("calt")) == 0
    assert metrics.horizontalAdvance("!=") == pytest.approx(2 * metrics.horizontalAdvance("x"))


def test_an_unknown_style_is_refused() -> None:
    with pytest.raises(KeyError):
        theme.font("huge")


@pytest.mark.parametrize("name", ICONS)
def test_every_icon_is_a_valid_drawing_in_the_text_colour(name: str) -> None:
    text = files("assets").joinpath("icons", name).read_text(encoding="utf-8")
    assert "currentColor" in text
    assert QSvgRenderer(text.encode()).isValid()
    image = theme.icon_pixmap(name.removesuffix(".svg"), QColor("#ff0000"), 24, 2.0).toImage()
    assert "#ff0000" in ink_of(image)


def test_icons_are_sharp_on_scaled_screens() -> None:
    pixmap = theme.icon_pixmap("plus", QColor("#ffffff"), 16, 1.5)
    assert (pixmap.width(), pixmap.devicePixelRatio()) == (24, 1.5)


def test_an_icon_without_a_file_is_refused_by_name() -> None:
    with pytest.raises(FileNotFoundError, match="no-such-icon"):
        theme.icon_pixmap("no-such-icon", QColor("#ffffff"), 16)


def test_a_forced_theme_does_not_ask_the_system(qapp: QApplication) -> None:
    theme.apply(qapp, "light")
    assert not theme.is_dark()
    assert theme.palette().bg0.name() == "#ffffff"
    theme.apply(qapp, "dark")
    assert theme.is_dark()
    assert theme.palette().bg0.name() == "#0f1115"


def test_a_change_of_the_system_is_followed(qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> None:
    theme.apply(qapp, "light")
    theme.apply(qapp, "system")
    seen: list[str] = []
    note = lambda: seen.append(theme.palette().bg0.name())  # noqa: E731
    theme.notifier().changed.connect(note)
    try:
        for is_dark in (True, False, False):
            monkeypatch.setattr(theme.notifier(), "_wants_dark", lambda value=is_dark: value)
            QGuiApplication.styleHints().colorSchemeChanged.emit(Qt.ColorScheme.Dark)
        assert seen == ["#0f1115", "#ffffff"]
    finally:
        theme.notifier().changed.disconnect(note)


def test_a_change_of_the_system_leaves_a_forced_theme_alone(qapp: QApplication) -> None:
    theme.apply(qapp, "light")
    QGuiApplication.styleHints().colorSchemeChanged.emit(Qt.ColorScheme.Dark)
    assert not theme.is_dark()
    assert qapp.palette().color(QPalette.ColorRole.Base).name() == "#ffffff"


def test_there_is_one_clock_of_100_milliseconds_that_sleeps_when_nothing_changes() -> None:
    clock = theme.clock()
    assert clock is theme.clock()
    assert clock.interval() == 100
    clock.wake()
    assert clock.isActive()
    for _ in range(10):  # the last change is still spoken
        clock.timeout.emit()
    assert clock.isActive()
    for _ in range(20):
        clock.timeout.emit()
    assert not clock.isActive()


def test_every_asset_has_its_licence() -> None:
    names = {item.name for item in files("assets").joinpath("licences").iterdir()}
    assert {"Inter-OFL.txt", "JetBrainsMono-OFL.txt", "Lucide-ISC.txt"} <= names
