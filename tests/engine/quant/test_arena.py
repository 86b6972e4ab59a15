"""Memory for held matrices: aligned slices of one mapping that is given back."""

from __future__ import annotations

import mmap
import weakref

import pytest
import torch

from engine.quant import arena as module
from engine.quant.arena import ALIGNMENT, Arena, aligned


def test_slices_begin_on_a_line_and_do_not_overlap() -> None:
    arena = Arena(64 + 64 + 128)
    slices = [arena.take(n) for n in (1, 64, 128)]
    for number, taken in enumerate(slices):
        assert taken.data_ptr() % ALIGNMENT == 0
        taken.fill_(number)
    assert [int(taken.unique()) for taken in slices] == [0, 1, 2]
    assert [taken.numel() for taken in slices] == [1, 64, 128]


def test_an_arena_that_begins_again_hands_out_the_same_memory() -> None:
    arena = Arena(aligned(100) + aligned(30))
    assert arena.nbytes == 128 + 64
    first = [arena.take(n).data_ptr() for n in (100, 30)]
    arena.restart()
    assert [arena.take(n).data_ptr() for n in (100, 30)] == first


@pytest.mark.skipif(not hasattr(mmap, "MADV_HUGEPAGE"), reason="torch's own memory here")
def test_memory_is_given_back_with_the_last_slice(monkeypatch: pytest.MonkeyPatch) -> None:
    class Pages(mmap.mmap):
        pass

    monkeypatch.setattr(module.mmap, "mmap", Pages)
    made: list[weakref.ref[Pages]] = []
    reserve = torch.frombuffer

    def watch(pages: Pages, dtype: torch.dtype) -> torch.Tensor:
        made.append(weakref.ref(pages))
        return reserve(pages, dtype=dtype)

    monkeypatch.setattr(torch, "frombuffer", watch)
    arena = Arena(1 << 20)
    taken = arena.take(100)
    view = taken[:10].view(2, 5)
    del arena, taken
    assert made[0]() is not None
    view += 1
    del view
    assert made[0]() is None


def test_no_memory_is_told_as_such() -> None:
    with pytest.raises((MemoryError, RuntimeError)):
        Arena(1 << 60)


def test_an_empty_arena_is_allowed() -> None:
    assert Arena(0).take(0).numel() == 0
