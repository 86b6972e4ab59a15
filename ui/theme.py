"""The look in one place: the theme shown, fonts, icons, the shared clock; knows no widget of the program."""

from __future__ import annotations

from functools import cache, lru_cache
from importlib.resources import files

from PySide6.QtCore import QByteArray, QObject, QRect, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import (
    QAccessibilityHints,
    QColor,
    QFont,
    QFontDatabase,
    QGuiApplication,
    QPainter,
    QPalette,
    QPen,
    QPixmap,
    QStyleHints,
)
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QApplication

from ui import palette as palettes
from ui.palette import Palette

CLOCK_MS = 100
_IDLE_TICKS = 12  # the clock stops after these without a change: the last spoken sentence took up to 10

_TEXT_FAMILIES = [
    "Inter",
    "Segoe UI Variable Text",
    "Segoe UI",
    "SF Pro Text",
    "Noto Sans",
    "DejaVu Sans",
    "Noto Color Emoji",
]
_DISPLAY_FAMILIES = ["Inter Display", *_TEXT_FAMILIES]
_CODE_FAMILIES = [
    "JetBrains Mono",
    "Cascadia Mono",
    "SF Mono",
    "Menlo",
    "Consolas",
    "Noto Sans Mono",
    "DejaVu Sans Mono",
    "Noto Color Emoji",
]
# style: families, pixel size, line height in pixels, weight
_STYLES: dict[str, tuple[list[str], int, int, int]] = {
    "display": (_DISPLAY_FAMILIES, 36, 42, 600),
    "title-l": (_DISPLAY_FAMILIES, 28, 36, 600),
    "title": (_TEXT_FAMILIES, 15, 20, 600),
    "body": (_TEXT_FAMILIES, 14, 22, 400),
    "ui": (_TEXT_FAMILIES, 13, 20, 500),
    "small": (_TEXT_FAMILIES, 12, 16, 400),
    "micro": (_TEXT_FAMILIES, 11, 14, 400),
    "code": (_CODE_FAMILIES, 13, 20, 400),
}


class Theme(QObject):
    """The theme that is shown. ``changed`` fires after ``palette()`` has the new colours."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.choice = "system"
        self.is_dark = False
        self.colors = palettes.light()
        self.system_palette = QPalette()
        self._is_started = False
        self._hints: QStyleHints
        self._accessibility: QAccessibilityHints

    def follow(self, app: QApplication, choice: str) -> None:
        """Show ``choice`` (system, light or dark) and, for system, whatever the system changes to."""
        if not self._is_started:
            self._start(app)
        self.choice = choice
        scheme = {"light": Qt.ColorScheme.Light, "dark": Qt.ColorScheme.Dark}
        self._hints.setColorScheme(scheme.get(choice, Qt.ColorScheme.Unknown))
        self._show(app)

    def _start(self, app: QApplication) -> None:
        self.system_palette = QPalette(app.palette())
        app.setStyle("Fusion")  # the one style that is the same everywhere and takes a palette
        app.setFont(font("ui"))
        # Both are kept: PySide takes the second for deleted once its wrapper of the first is gone.
        self._hints = QGuiApplication.styleHints()
        self._accessibility = self._hints.accessibility()
        self._hints.colorSchemeChanged.connect(self._on_system_changed)
        self._accessibility.contrastPreferenceChanged.connect(self._on_system_changed)

    def _show(self, app: QApplication) -> None:
        is_dark = self._wants_dark()
        colors = palettes.dark() if is_dark else palettes.light()
        if self._accessibility.contrastPreference() == Qt.ContrastPreference.HighContrast:
            colors = palettes.high_contrast(self.system_palette, is_dark)
        if self._is_started and colors == self.colors:
            return  # what the system reports after our own wish
        self._is_started = True
        self.is_dark, self.colors = is_dark, colors
        app.setPalette(palettes.to_qt(self.colors))
        app.setStyleSheet(_style_sheet(self.colors))
        self.changed.emit()

    def _wants_dark(self) -> bool:
        if self.choice in {"light", "dark"}:
            return self.choice == "dark"
        scheme = self._hints.colorScheme()
        if scheme == Qt.ColorScheme.Unknown:
            return self.system_palette.color(QPalette.ColorRole.Window).lightness() < 128
        return scheme == Qt.ColorScheme.Dark

    def _on_system_changed(self) -> None:
        app = QApplication.instance()
        if isinstance(app, QApplication):
            self._show(app)


@cache
def notifier() -> Theme:
    """The one theme object; connect to its ``changed`` to repaint."""
    return Theme()


def apply(app: QApplication, choice: str) -> None:
    """Give the program its style, font and colours; ``choice`` is system, light or dark."""
    load_fonts()
    notifier().follow(app, choice)


def palette() -> Palette:
    """The colours of the theme that is shown; ask again after ``notifier().changed``."""
    return notifier().colors


def is_dark() -> bool:
    """Whether the dark theme is shown."""
    return notifier().is_dark


@cache
def load_fonts() -> tuple[str, ...]:
    """Register the fonts of the program with Qt, once; the families that came with them."""
    families: set[str] = set()
    for entry in sorted(files("assets").joinpath("fonts").iterdir(), key=lambda item: item.name):
        if entry.name.endswith((".otf", ".ttf")):
            font_id = QFontDatabase.addApplicationFontFromData(QByteArray(entry.read_bytes()))
            families.update(QFontDatabase.applicationFontFamilies(font_id))
    return tuple(sorted(families))


def font(style: str, weight: int | None = None) -> QFont:
    """A font of the scale: display, title-l, title, body, ui, small, micro or code.

    Figures are tabular, but for display and title-l, whose font has none that are equally wide.
    KeyError for a style that is not in the scale.
    """
    return QFont(_font(style, weight))


@lru_cache(maxsize=128)  # making one costs as much as drawing a short line with it
def _font(style: str, weight: int | None) -> QFont:
    families, size_px, _, default_weight = _STYLES[style]
    result = QFont(families)
    result.setPixelSize(size_px)
    result.setWeight(QFont.Weight(default_weight if weight is None else weight))
    result.setHintingPreference(QFont.HintingPreference.PreferNoHinting)
    if style == "code":
        for tag in ("calt", "liga"):  # ligatures would change what the code says
            result.setFeature(QFont.Tag(tag), 0)
        result.setStyleHint(QFont.StyleHint.Monospace)
    else:
        result.setFeature(QFont.Tag("tnum"), 1)
        result.setStyleHint(QFont.StyleHint.SansSerif)
    return result


def line_height(style: str) -> int:
    """Line height of a style, in pixels."""
    return _STYLES[style][2]


@lru_cache(maxsize=256)
def _svg(name: str, color: str, opacity: float) -> QSvgRenderer:
    text = files("assets").joinpath("icons", f"{name}.svg").read_text(encoding="utf-8")
    text = text.replace("currentColor", color)
    if opacity < 1:
        text = text.replace("<svg ", f'<svg opacity="{opacity:.3f}" ', 1)
    return QSvgRenderer(QByteArray(text.encode()))


def icon_pixmap(name: str, color: QColor, size: int, dpr: float = 1.0) -> QPixmap:
    """Icon ``name`` of assets/icons in one colour, ``size`` logical pixels square, for a screen of ``dpr``.

    FileNotFoundError for a name without a file.
    """
    _svg(name, color.name(), color.alphaF())  # an unknown name fails before anything is being painted
    pixmap = QPixmap(QSize(round(size * dpr), round(size * dpr)))
    pixmap.setDevicePixelRatio(dpr)
    pixmap.fill(Qt.GlobalColor.transparent)
    painter = QPainter(pixmap)
    draw_icon(painter, QRectF(0, 0, size, size), name, color)
    painter.end()
    return pixmap


def draw_icon(painter: QPainter, rect: QRect | QRectF, name: str, color: QColor) -> None:
    """Draw icon ``name`` in one colour, square and centred in ``rect``."""
    box = QRectF(rect)
    side = min(box.width(), box.height())
    target = QRectF(box.center().x() - side / 2, box.center().y() - side / 2, side, side)
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    _svg(name, color.name(), color.alphaF()).render(painter, target)
    painter.restore()


def draw_focus_ring(painter: QPainter, rect: QRect | QRectF, radius: float) -> None:
    """The 2 px accent ring of keyboard focus, drawn just inside ``rect``."""
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(QPen(palette().accent, 2))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.drawRoundedRect(QRectF(rect).adjusted(1, 1, -1, -1), radius, radius)
    painter.restore()


class Clock(QTimer):
    """Ticks every 100 ms while something changes; an idle program is not woken."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._idle_ticks = 0
        self.setInterval(CLOCK_MS)
        self.timeout.connect(self._on_tick)

    def wake(self) -> None:
        """Something changed: tick for the next second at least."""
        self._idle_ticks = 0
        if not self.isActive():
            self.start()

    def _on_tick(self) -> None:
        self._idle_ticks += 1
        if self._idle_ticks >= _IDLE_TICKS:
            self.stop()


@cache
def clock() -> Clock:
    """The one timer that repaints what changes by itself; connect to ``timeout`` and ``wake`` it."""
    timer = Clock(notifier())
    app = QGuiApplication.instance()
    if app is not None:
        app.aboutToQuit.connect(timer.stop)
    return timer


def _style_sheet(colors: Palette) -> str:
    """Rules for what Qt draws itself: tooltips, menus and scroll bars."""
    return f"""
QToolTip {{ color: {colors.text1.name()}; background: {colors.bg3.name()};
  border: 1px solid {colors.border.name()}; padding: 4px 6px; font-size: 12px; }}
QMenu {{ color: {colors.text1.name()}; background: {colors.bg2.name()};
  border: 1px solid {colors.border.name()}; padding: 4px; }}
QMenu::item {{ padding: 6px 20px 6px 10px; border-radius: 4px; }}
QMenu::item:selected {{ background: {colors.bg3.name()}; }}
QMenu::item:disabled {{ color: {colors.text3.name()}; }}
QMenu::separator {{ height: 1px; background: {colors.line.name()}; margin: 4px 6px; }}
QScrollBar {{ background: transparent; border: none; margin: 0; }}
QScrollBar:vertical {{ width: 10px; }}
QScrollBar:horizontal {{ height: 10px; }}
QScrollBar::handle {{ background: {colors.control.name()}; border-radius: 3px; margin: 2px; }}
QScrollBar::handle:vertical {{ min-height: 32px; }}
QScrollBar::handle:horizontal {{ min-width: 32px; }}
QScrollBar::handle:hover {{ background: {colors.text3.name()}; }}
QScrollBar::add-line, QScrollBar::sub-line {{ width: 0; height: 0; }}
QScrollBar::add-page, QScrollBar::sub-page {{ background: transparent; }}
"""
