"""Prose in pictures: markers and bars stand at the side where the text begins."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QImage, QPainter

from ui import theme
from ui.blocks import Look, ProseItem
from ui.markdown import Prose, Span

pytestmark = pytest.mark.usefixtures("qapp")
WIDTH = 400


def inked(block: Prose) -> set[int]:
    """The columns of pixels that are painted."""
    item = ProseItem(block)
    item.fit(WIDTH)
    image = QImage(WIDTH, item.height, QImage.Format.Format_RGB32)
    image.fill(theme.palette().bg0)
    painter = QPainter(image)
    item.paint(painter, QRectF(0, 0, WIDTH, item.height), Look())
    painter.end()
    ground = QColor(theme.palette().bg0)
    rows = range(item.height)
    return {x for x in range(WIDTH) if any(image.pixelColor(x, y) != ground for y in rows)}


@pytest.mark.parametrize("shape", [{"marker": "•", "level": 1}, {"quote": 1}], ids=["list", "quote"])
def test_what_stands_before_the_text_stands_where_it_begins(shape: dict[str, int]) -> None:
    from_left = inked(Prose((Span("one"),), **shape))
    from_right = inked(Prose((Span("שלום"),), **shape))
    assert min(from_left) < 24 and max(from_left) < WIDTH / 2
    assert max(from_right) > WIDTH - 24 and min(from_right) > WIDTH / 2


def test_a_link_in_a_list_item_that_reads_from_the_right_is_found_where_it_is() -> None:
    item = ProseItem(Prose((Span("שלום", href="https://a.org"),), level=2, marker="•"))
    item.fit(WIDTH)
    assert item.link_at(QPointF(WIDTH - 2 * 24 - 6, 12)) == "https://a.org"
    assert item.hit(QPointF(WIDTH - 2, 12)) == 0
