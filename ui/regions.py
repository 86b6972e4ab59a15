"""The regions that F6 goes through: which one has the keyboard, and which is next."""

from __future__ import annotations

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QWidget

from ui.body import Body
from ui.centre import Centre
from ui.composer import Composer
from ui.sidebar import Sidebar
from ui.top_bar import TopBar
from ui.tuning import TuningDock


def move_region(body: Body, step: int) -> None:
    """Give the keyboard to the region ``step`` places after the one that has it, else after the composer.
    Beside a page there is the sidebar alone.
    """
    focus, page = QApplication.focusWidget(), body.page_widget
    if page is not None:
        if focus and body.sidebar.isAncestorOf(focus):
            _focus_first(page)
        else:
            body.sidebar.focus_region()
        return
    centre = body.centre
    regions: list[Sidebar | TopBar | Centre | Composer | TuningDock]
    regions = [body.sidebar, centre.top_bar, centre, centre.composer]
    if body.tuning.isVisible():
        regions.append(body.tuning)
    held = [place for place, region in enumerate(regions) if focus and region.isAncestorOf(focus)]
    narrowest = [place for place in held if regions[place] is not centre] or held or [3]
    target = regions[(narrowest[0] + step) % len(regions)]
    if isinstance(target, TuningDock):
        _focus_first(target)
    elif isinstance(target, Composer):
        target.setFocus(Qt.FocusReason.ShortcutFocusReason)
    else:
        target.focus_region()


def _focus_first(region: QWidget) -> None:
    """Give the keyboard to the first control of a region that Tab would reach."""
    for widget in region.findChildren(QWidget):
        takes_tab = widget.focusPolicy() & Qt.FocusPolicy.TabFocus == Qt.FocusPolicy.TabFocus
        if takes_tab and widget.isVisible() and widget.isEnabled():
            widget.setFocus(Qt.FocusReason.ShortcutFocusReason)
            return
