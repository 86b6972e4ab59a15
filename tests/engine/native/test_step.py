"""Laws of the fused step in every held format, bit for bit: a row has the bits it has alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.models.decoder import Decoder, Segment
from engine.native.library import NativeLibrary
from engine.native.step import MAX_ROWS
from engine.quant.formats import NATIVE_FORMATS
from tests.engine.models.test_load import load, make_plan, write_model

IDS = [(7 * i + 3) % 190 for i in range(60)]
TYPES = ["BF16", *NATIVE_FORMATS]


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    """What a test changes ends with it."""
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def decoder(request: pytest.FixtureRequest, kernels: NativeLibrary, tmp_path: Path) -> Decoder:
    path = write_model(tmp_path / "m.gguf", {}, request.param)
    return load(make_plan(path, "file", kernels.instruction_set))


def forward(decoder: Decoder, *segments: Segment) -> Tensor:
    with torch.inference_mode():
        return decoder.forward(list(segments))


def one_by_one(decoder: Decoder, ids: list[int]) -> Tensor:
    cache = decoder.new_cache(64)
    return torch.cat([forward(decoder, Segment(cache, [token])) for token in ids])


@pytest.mark.parametrize("decoder", TYPES, indirect=True)
def test_rows_together_have_the_bits_they_have_alone(decoder: Decoder) -> None:
    alone = one_by_one(decoder, IDS[: MAX_ROWS + 1])
    for rows in (2, 3, 4, 5, 8, 9, MAX_ROWS):
        cache = decoder.new_cache(64)
        forward(decoder, Segment(cache, IDS[:1]))
        together = forward(decoder, Segment(cache, IDS[1 : 1 + rows], wants_all_logits=True))
        assert torch.equal(together, alone[1 : 1 + rows]), rows


@pytest.mark.parametrize("decoder", TYPES, indirect=True)
def test_sequences_together_have_the_bits_they_have_alone(decoder: Decoder) -> None:
    texts = [IDS[:5], IDS[10:33], IDS[40:51]]
    alone = [one_by_one(decoder, ids)[-1] for ids in texts]
    caches = [decoder.new_cache(64) for _ in texts]
    for cache, ids in zip(caches, texts, strict=True):
        for token in ids[:-1]:
            forward(decoder, Segment(cache, [token]))
    together = forward(decoder, *(Segment(c, ids[-1:]) for c, ids in zip(caches, texts, strict=True)))
    assert torch.equal(together, torch.stack(alone))


@pytest.mark.parametrize("decoder", ["Q4_0", "Q6_K"], indirect=True)
def test_the_number_of_threads_changes_no_bit(decoder: Decoder) -> None:
    torch.set_num_threads(1)
    expected = one_by_one(decoder, IDS[:10])
    for threads in (2, 3):
        torch.set_num_threads(threads)
        assert torch.equal(one_by_one(decoder, IDS[:10]), expected)


@pytest.mark.parametrize("decoder", ["Q4_0", "Q6_K"], indirect=True)
def test_trim_then_decode_has_the_bits_of_a_fresh_decode(decoder: Decoder) -> None:
    cache = decoder.new_cache(64)
    forward(decoder, Segment(cache, IDS[:6] + IDS[30:36]))
    cache.trim(6)
    again = forward(decoder, Segment(cache, IDS[6:12], wants_all_logits=True))
    assert torch.equal(again, one_by_one(decoder, IDS[:12])[6:])


@pytest.mark.parametrize("decoder", TYPES, indirect=True)
def test_a_prefill_leads_to_the_step_it_would_have_been(decoder: Decoder) -> None:
    """Prefill and step round activations alike but sum in another order."""
    cache = decoder.new_cache(64)
    read = forward(decoder, Segment(cache, IDS[:40], wants_all_logits=True))
    stepped = one_by_one(decoder, IDS[:42])
    assert torch.nn.functional.cosine_similarity(read, stepped[:40]).min() > 0.999
    following = forward(decoder, Segment(cache, IDS[40:42], wants_all_logits=True))
    assert torch.nn.functional.cosine_similarity(following, stepped[40:]).min() > 0.999


@pytest.mark.parametrize("decoder", ["Q4_0"], indirect=True)
def test_logits_of_the_last_rows_alone_are_those_of_all(decoder: Decoder) -> None:
    first, second = decoder.new_cache(64), decoder.new_cache(64)
    both = forward(decoder, Segment(first, IDS[:4]), Segment(second, IDS[5:8], wants_all_logits=True))
    assert both.shape[0] == 4
    expected = torch.cat((one_by_one(decoder, IDS[:4])[-1:], one_by_one(decoder, IDS[5:8])))
    assert torch.equal(both, expected)


@pytest.mark.parametrize("decoder", ["Q4_0"], indirect=True)
def test_what_lies_outside_the_weights_or_the_context_never_reaches_native_code(decoder: Decoder) -> None:
    for ids in ([200], [-1], []):
        with pytest.raises(AssertionError):
            forward(decoder, Segment(decoder.new_cache(64), ids))
    cache = decoder.new_cache(100)  # longer than the planned context of 64
    for start in range(0, 60, 10):
        forward(decoder, Segment(cache, IDS[start : start + 10]))
    with pytest.raises(AssertionError):
        forward(decoder, Segment(cache, IDS[:5]))
