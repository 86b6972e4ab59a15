"""Where the panels stand at each window width, as plain arithmetic. Knows no widget."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

SIDEBAR_WIDTH, RAIL_WIDTH, TUNING_WIDTH = 240, 56, 360


class WidthClass(IntEnum):
    """Width of the window: both panels beside the text, a rail and Tuning, or Tuning over the text."""

    NARROW = 800
    MEDIUM = 1024
    WIDE = 1280


def width_class(width: int) -> WidthClass:
    """The class of a window ``width`` px wide."""
    return WidthClass.WIDE if width >= 1280 else WidthClass.MEDIUM if width >= 1024 else WidthClass.NARROW


@dataclass(frozen=True, slots=True)
class Arrangement:
    """What is shown: ``left`` and ``right`` px are taken from the text, drawers lie over it."""

    left: int
    right: int
    is_rail: bool
    is_sidebar_drawer: bool
    is_tuning_shown: bool
    is_tuning_drawer: bool


@dataclass(slots=True)
class Panels:
    """What the user wants: the choice for windows with room, and what is drawn over the text for a moment."""

    wants_sidebar: bool = True
    wants_tuning: bool = True
    has_sidebar_drawer: bool = False
    has_tuning_drawer: bool = False
    last_class: WidthClass | None = None

    def toggle_sidebar(self, width: int) -> bool:
        """Open or close the sidebar; whether that is a lasting choice."""
        if width_class(width) is WidthClass.WIDE:
            self.wants_sidebar = not self.wants_sidebar
            return True
        self.has_sidebar_drawer = not self.has_sidebar_drawer
        return False

    def toggle_tuning(self, width: int) -> bool:
        """Open or close Tuning; whether that is a lasting choice."""
        if width_class(width) is WidthClass.NARROW:
            self.has_tuning_drawer = not self.has_tuning_drawer
            return False
        self.wants_tuning = not self.wants_tuning
        return True

    def close_drawers(self) -> bool:
        """Put away what lies over the text; whether something did."""
        had = self.has_sidebar_drawer or self.has_tuning_drawer
        self.has_sidebar_drawer = self.has_tuning_drawer = False
        return had

    def arrange(self, width: int) -> Arrangement:
        """The arrangement at ``width``; a window that changes its class closes what lay over the text."""
        size = width_class(width)
        if self.last_class not in (None, size):
            self.close_drawers()
        self.last_class = size
        has_full = size is WidthClass.WIDE and self.wants_sidebar
        is_docked = size is not WidthClass.NARROW and self.wants_tuning
        return Arrangement(
            left=SIDEBAR_WIDTH if has_full else RAIL_WIDTH,
            right=TUNING_WIDTH if is_docked else 0,
            is_rail=not has_full and not self.has_sidebar_drawer,
            is_sidebar_drawer=self.has_sidebar_drawer and not has_full,
            is_tuning_shown=is_docked or self.has_tuning_drawer,
            is_tuning_drawer=self.has_tuning_drawer and not is_docked,
        )
