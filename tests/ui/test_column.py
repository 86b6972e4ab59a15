"""The shared column."""

from __future__ import annotations

import pytest

from ui.column import COLUMN_MAX, MARGIN, SCROLL_BAR_PX, column


@pytest.mark.parametrize(("width", "expected"), [(840, (55, 720)), (608, (19, 560)), (2_000, (635, 720))])
def test_it_is_centred_beside_the_scroll_bar(width: int, expected: tuple[int, int]) -> None:
    assert column(width) == expected
    left, size = expected
    assert abs((width - SCROLL_BAR_PX - size) - 2 * left) <= 1


def test_it_never_leaves_the_widget() -> None:
    for width in range(2 * MARGIN + 130, 1_500):
        left, size = column(width)
        assert left >= 0
        assert left + size <= width - SCROLL_BAR_PX
        assert size <= COLUMN_MAX
