"""Where pieces stand."""

from __future__ import annotations

from ui.blocks import Item
from ui.flow import TOP_PX, Flow


class Box(Item):
    """A piece of a given height; counts how often it was laid out."""

    def __init__(self, height: int) -> None:
        super().__init__()
        self.real, self.num_layouts = height, 0

    def _guess(self, width: int) -> int:
        return 10

    def _lay_out(self, width: int) -> int:
        self.num_layouts += 1
        return self.real


def make(*heights: int) -> tuple[Flow, list[Box]]:
    flow = Flow()
    flow.set_width(100)
    boxes = [Box(height) for height in heights]
    flow.splice(0, 0, boxes)
    return flow, boxes


def test_pieces_stand_below_each_other_with_their_gaps() -> None:
    flow, _ = make(10, 10, 10)
    assert [flow.top(index) for index in range(3)] == [TOP_PX, TOP_PX + 22, TOP_PX + 44]
    assert flow.height == TOP_PX + 44 + 10 + 24


def test_only_pieces_between_the_heights_are_laid_out() -> None:
    flow, boxes = make(*[10] * 50)
    flow.fit(TOP_PX + 100, TOP_PX + 200)
    laid = [index for index, box in enumerate(boxes) if box.num_layouts]
    assert 0 < len(laid) < 10
    assert laid[0] >= 3


def test_a_changed_height_moves_what_is_below() -> None:
    flow, _ = make(30, 10)
    assert flow.fit(0, 20) == -1 or flow.top(1) == TOP_PX + 42
    flow.fit(0, 100)
    assert flow.top(1) == TOP_PX + 42


def test_index_at_finds_the_piece_that_holds_a_height() -> None:
    flow, _ = make(10, 10, 10)
    assert [flow.index_at(y) for y in (-5, TOP_PX, TOP_PX + 21, TOP_PX + 22, 9_999)] == [0, 0, 0, 1, 2]


def test_an_empty_flow_has_only_its_margins() -> None:
    flow = Flow()
    assert (flow.height, flow.index_at(5), flow.fit(0, 100)) == (TOP_PX + 24, 0, -1)


def test_splicing_keeps_the_order_and_a_new_width_forgets_heights() -> None:
    flow, boxes = make(30, 30, 30)
    flow.fit(0, 500)
    new = Box(5)
    flow.splice(1, 1, [new])
    assert flow.items == [boxes[0], new, boxes[2]]
    flow.set_width(50)
    assert boxes[0].height == 10
