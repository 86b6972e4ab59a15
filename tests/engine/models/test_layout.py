"""Places of tensors: apart from each other and inside the file."""

from __future__ import annotations

import pytest

from engine.errors import ModelFileError
from engine.models.layout import check_layout, in_order
from engine.types import TensorInfo


def place(name: str, offset: int, nbytes: int) -> TensorInfo:
    return TensorInfo(name, (nbytes,), "I8", 0, offset, nbytes)


def test_tensors_side_by_side_up_to_the_files_end_are_right() -> None:
    check_layout("m", [place("b", 10, 5), place("a", 0, 10), place("none", 10, 0)], 15)
    check_layout("m", [], 0)


@pytest.mark.parametrize(
    ("tensors", "reason"),
    [
        ([("a", 0, 11), ("b", 10, 5)], "m: tensors 'a' and 'b' overlap."),
        ([("b", 10, 9), ("a", 0, 10)], "m: the file is 4 bytes short: tensor 'b' is cut off."),
        ([("a", 0, 10), ("b", 16, 9), ("c", 25, 9)], "m: the file is 19 bytes short: tensor 'b' is cut off."),
    ],
)
def test_overlapping_and_cut_tensors_are_named(tensors: list[tuple[str, int, int]], reason: str) -> None:
    with pytest.raises(ModelFileError) as caught:
        check_layout("m", [place(*each) for each in tensors], 15)
    assert caught.value.message == reason
    assert "download it again" in caught.value.hint


def test_the_order_is_that_of_the_file() -> None:
    assert [each.name for each in in_order([place("b", 4, 2), place("c", 4, 9), place("a", 0, 4)])] == [
        "a",
        "b",
        "c",
    ]
