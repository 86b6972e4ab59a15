"""The column of text that transcript and composer share: its width and where it begins."""

from __future__ import annotations

COLUMN_MAX = 720
MARGIN = 24
SCROLL_BAR_PX = 10  # free on the right, also where there is no bar, so that the two line up


def column(width: int) -> tuple[int, int]:
    """Left edge and width of the column in a widget that is ``width`` pixels wide."""
    size = max(120, min(COLUMN_MAX, width - 2 * MARGIN))
    return max(0, (width - SCROLL_BAR_PX - size) // 2), size
