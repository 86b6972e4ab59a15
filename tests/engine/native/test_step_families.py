"""Every family's fused step: transformers and torch's operations as its oracles, past the window, in company,
with every instruction set.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.models.decoder import Decoder, Segment
from engine.native import library
from engine.native.library import NativeLibrary
from engine.native.step import MAX_ROWS
from tests.engine.models.built import EXACT, TORCH, build, run, some_ids
from tests.engine.tiny import FAMILIES, oracle_logits, tiny_folder

CONTEXT = 64  # the original context of the tiny models whose rotations are stretched
TEXTS = [some_ids(length, seed=length) for length in (40, 23, 11)]  # the first is five windows long


@pytest.fixture
def instruction_sets(kernels: NativeLibrary) -> Iterator[list[str]]:
    """What this processor has, unless one was asked for; the first choice runs again after the test."""
    names = [kernels.instruction_set] if library.is_forced() else library.INSTRUCTION_SETS
    yield [name for name in names if kernels.functions.dk_use(name.encode()) == 0]
    kernels.functions.dk_use(kernels.instruction_set.encode())


def sized(family: str) -> dict[str, object]:
    """A config of the family with sizes that the native kernels take: heads of 16s, an odd number of them."""
    options = FAMILIES.get(family, {})
    return options | {"head_dim": 48} if options.get("head_dim") == 24 else options


def fused(folder: Path, kernels: NativeLibrary, context: int = CONTEXT) -> Decoder:
    decoder = build(folder, context=context, hardware=replace(TORCH, native=kernels.instruction_set))
    assert decoder._fused is not None
    return decoder


def in_steps(decoder: Decoder, ids: list[int], rows: int) -> Tensor:
    """All logits of a text, no piece so long that it would be a prefill."""
    return run(decoder, ids, [min(rows, len(ids) - start) for start in range(0, len(ids), rows)])


def together(decoder: Decoder) -> list[Tensor]:
    """All logits of all texts, run at once: five rows of the first, three of the second, one of the third."""
    caches = [decoder.new_cache(len(ids)) for ids in TEXTS]
    out = [list[Tensor]() for _ in TEXTS]
    while live := [i for i, ids in enumerate(TEXTS) if caches[i].length < len(ids)]:
        pieces = [TEXTS[i][caches[i].length : caches[i].length + 5 - 2 * i] for i in live]
        segments = [Segment(caches[i], piece, True) for i, piece in zip(live, pieces, strict=True)]
        with torch.inference_mode():
            logits = decoder.forward(segments).split([len(piece) for piece in pieces])
        for i, rows in zip(live, logits, strict=True):
            out[i].append(rows)
    return [torch.cat(rows) for rows in out]


@pytest.mark.parametrize("family", ["llama", *FAMILIES])
def test_the_fused_step_of_every_instruction_set_gives_the_oracles_logits(
    family: str, kernels: NativeLibrary, instruction_sets: list[str], tmp_path: Path
) -> None:
    folder = tiny_folder(tmp_path / "m", **sized(family))
    step, torchs = fused(folder, kernels), build(folder, context=CONTEXT)
    expected = [run(torchs, ids, [len(ids)]) for ids in TEXTS]
    torch.testing.assert_close(expected[0], oracle_logits(folder, TEXTS[0]), **EXACT)
    for name in instruction_sets:
        assert kernels.functions.dk_use(name.encode()) == 0
        for rows in (1, 3, MAX_ROWS):
            torch.testing.assert_close(in_steps(step, TEXTS[0], rows), expected[0], **EXACT)
        for found, wanted in zip(together(step), expected, strict=True):
            torch.testing.assert_close(found, wanted, **EXACT)


@pytest.mark.parametrize("family", ["gemma 3", "olmo 3", "smollm 3 with windows", "phi 3 with a window"])
def test_windows_that_begin_and_end_within_stretches_of_keys(
    family: str, kernels: NativeLibrary, tmp_path: Path
) -> None:
    """A stretch is 256 positions: with a window of 200 most rows see parts of two, and none of the first."""
    changes = {"sliding_window": 200, "max_position_embeddings": 1024}
    folder, ids = tiny_folder(tmp_path / "m", **(FAMILIES[family] | changes)), some_ids(540)
    logits = []
    for decoder in (fused(folder, kernels, 1024), build(folder, context=1024)):
        cache = decoder.new_cache(len(ids))
        with torch.inference_mode():
            decoder.forward([Segment(cache, ids[:500])])
            steps = [decoder.forward([Segment(cache, [token])]) for token in ids[500:520]]
            steps.append(decoder.forward([Segment(cache, ids[520:532], True)]))
        logits.append(torch.cat(steps))
    torch.testing.assert_close(logits[0], logits[1], **EXACT)
