"""Selected text over several pieces."""

from __future__ import annotations

from ui.blocks import Item
from ui.selection import Selection


class Words(Item):
    """A piece with text."""

    def __init__(self, text: str, gap: int = 12) -> None:
        super().__init__()
        self._text, self.gap, self.length = text, gap, len(text)

    def text(self, start: int, end: int) -> str:
        return self._text[start:end]


ITEMS = [Words("first words"), Words("second"), Words("third", gap=0)]


def test_a_selection_takes_the_parts_between_its_ends() -> None:
    made = Selection()
    made.begin(0, 6)
    made.extend(2, 3)
    assert made.text(ITEMS) == "words\n\nsecond\nthi"


def test_the_direction_does_not_matter() -> None:
    made = Selection()
    made.begin(1, 3)
    made.extend(0, 6)
    assert made.text(ITEMS) == "words\n\nsec"
    assert made.part_of(0, ITEMS[0]) == (6, 11)


def test_a_word_is_found_around_a_position() -> None:
    made = Selection()
    made.take_word(0, 8, ITEMS[0])
    assert made.text(ITEMS) == "words"


def test_pieces_made_again_behind_it_leave_it_alone() -> None:
    made = Selection()
    made.begin(0, 0)
    made.extend(1, 6)
    made.spliced(2, 1, 5)
    assert made.text(ITEMS) == "first words\n\nsecond"


def test_pieces_put_in_before_it_move_it() -> None:
    made = Selection()
    made.take_item(1, ITEMS[1])
    made.spliced(0, 1, 3)
    assert made.part_of(3, ITEMS[1]) == (0, 6)


def test_pieces_that_go_take_the_end_with_them() -> None:
    made = Selection()
    made.begin(0, 0)
    made.extend(2, 5)
    made.spliced(1, 2, 0)
    assert made.text(ITEMS[:1]) == "first words"
    assert Selection().is_empty
