"""Keys and values in 8 and 4 bits: near to 16 bits, the same alone and together, counted to the byte."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.engine import Engine
from engine.errors import WishError
from engine.events import ContextShifted, Finished
from engine.fit.choices import keys_round_badly
from engine.fit.kv_bits import KVBits
from engine.fit.kv_pages import MAX_SEQUENCES, kinds_bytes, pool_kinds
from engine.fit.plan import plan
from engine.hardware.probe import probe
from engine.models.decoder import Segment
from engine.models.spec import read_spec
from engine.types import LoadPlan, LoadSpec, SamplingParams
from tests.engine.models.built import some_ids
from tests.engine.test_context_full import long_chat
from tests.engine.test_engine import answer, ask, drain
from tests.engine.test_speculation import LOOP, always  # noqa: F401 - a fixture
from tests.engine.tiny import FAMILIES, tiny_folder

KINDS = {
    "llama": {},
    "windows": FAMILIES["gemma 3"],
    "heads of 48": {"family": "qwen3", "head_dim": 48},
    "biases": FAMILIES["qwen 2"],
}
NEAR = {"8": 4, "4": 10}  # times the error of 16 bits


@pytest.fixture(scope="module", params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("packed") / "model", **KINDS[request.param])


def planned(folder: Path, kv: str, kernels: str = "native", context: int = 512) -> LoadPlan:
    hardware = probe()
    if kernels == "torch":
        hardware = replace(hardware, native=None, native_missing="switched off")
    made = plan(read_spec(str(folder)), hardware, LoadSpec(str(folder), format="f32", context=context, kv=kv))
    return replace(made, prefill_piece=32)


def loaded(made: LoadPlan) -> Engine:
    engine = Engine()
    list(engine.load(made))
    return engine


def logits(engine: Engine, ids: list[int], pieces: list[int]) -> Tensor:
    cache, rows = engine.new_cache(len(ids)), []
    for count in pieces:
        piece = ids[cache.length : cache.length + count]
        rows.append(engine.forward([Segment(cache, piece, wants_all_logits=True)]))
    return torch.cat(rows)


@pytest.mark.parametrize("kernels", ["native", "torch"])
@pytest.mark.parametrize("kv", ["8", "4"])
def test_logits_are_near_those_of_exact_keys_and_values(kv: str, kernels: str, folder: Path) -> None:
    """In long pieces, in steps of one and of several rows, past the ring."""
    ids = some_ids(260)
    exact = loaded(planned(folder, "32")).logits(ids)
    usual = (loaded(planned(folder, "16")).logits(ids) - exact).norm()
    engine = loaded(planned(folder, kv, kernels))
    for pieces in ([100, 100, 60], [64, *[1] * 20, *[7] * 8, 120]):
        assert float((logits(engine, ids, pieces) - exact).norm()) <= NEAR[kv] * float(usual)


@pytest.mark.parametrize("kv", ["8", "4"])
@pytest.mark.parametrize("format", ["f32", "bf16", "f16", "int8", "int4"])
@pytest.mark.parametrize("kernels", ["native", "torch"])
def test_every_format_answers(kv: str, format: str, kernels: str, folder: Path) -> None:
    made = planned(folder, kv, kernels)
    made = plan(made.model, made.hardware, replace(made.wish, format=format))
    assert answer(loaded(made), ask("hi", tokens=4)).stats.generated_tokens > 0


@pytest.mark.parametrize("kv", ["8", "4"])
def test_both_roads_round_alike(kv: str, folder: Path) -> None:
    ids = some_ids(200)
    native, stock = (
        logits(loaded(planned(folder, kv, kernels)), ids, [150, 50]) for kernels in ("native", "torch")
    )
    assert float((native - stock).norm() / stock.norm()) <= 0.01


@pytest.mark.parametrize("kv", ["8", "4"])
def test_drafts_change_no_token(kv: str, folder: Path, always: None) -> None:  # noqa: F811
    made = planned(folder, kv)
    if not made.is_native:
        pytest.skip("the law is that of the native kernels")
    request = ask(LOOP * 2, tokens=60, sampling=SamplingParams(temperature=0.7, seed=3))
    found = answer(loaded(made), request)
    plain = answer(loaded(made), replace(request, request_id="plain", speculate="off"))
    assert found.stats.token_ids == plain.stats.token_ids
    assert found.stats.drafted_tokens > 0


@pytest.mark.parametrize("kv", ["16", "8", "4"])
def test_memory_is_planned_to_the_byte(kv: str, folder: Path) -> None:
    made = planned(folder, kv)
    made = plan(made.model, made.hardware, made.wish)
    engine = loaded(made)
    assert engine.memory().kv_reserved_bytes == made.bytes.kv_reserved


def test_fewer_bits_take_fewer_bytes_of_a_long_context(folder: Path) -> None:
    spec = replace(planned(folder, "16").model, head_dim=64)
    kinds = pool_kinds(spec, 32_768, 128, MAX_SEQUENCES)
    bits = (KVBits(16, 16), KVBits(8, 8), KVBits(8, 4), KVBits(4, 4))
    whole, *others = (kinds_bytes(spec, kinds, kv, MAX_SEQUENCES) for kv in bits)
    assert round(others[0] / whole, 2) == 0.52
    assert others == sorted(others, reverse=True)


@pytest.mark.parametrize("kv", ["8", "4"])
def test_a_chat_is_taken_up_again_where_it_was(kv: str, folder: Path) -> None:
    engine = loaded(planned(folder, kv))
    first = answer(engine, ask("x" * 100, tokens=20))
    again = answer(engine, ask("x" * 100, tokens=20))
    assert again.stats.reused_tokens == first.stats.prompt_tokens - 1


@pytest.mark.parametrize("kv", ["8", "4"])
def test_a_shift_reads_the_shorter_prompt_and_keeps_the_question(kv: str, folder: Path) -> None:  # B074
    engine = loaded(planned(folder, kv, context=200))
    request = ask(long_chat(6), tokens=10)
    engine.submit(request)
    events = drain(engine)
    [shift] = [event for event in events if isinstance(event, ContextShifted)]
    [end] = [event for event in events if isinstance(event, Finished)]
    left = (request.messages[0], *request.messages[1 + 2 * shift.dropped_turns :])
    fresh = answer(loaded(planned(folder, kv, context=200)), ask(left, tokens=10))
    assert end.stats.token_ids == fresh.stats.token_ids


@pytest.mark.parametrize("family", ["qwen 2", "gemma 3"])
def test_keys_that_round_badly_stay_at_8_bits_and_it_is_said(family: str, tmp_path: Path) -> None:
    rough = planned(tiny_folder(tmp_path / "rough", **FAMILIES[family]), "4")
    plain = planned(tiny_folder(tmp_path / "plain"), "4")
    assert keys_round_badly(rough.model)
    assert (rough.key_bits, rough.kv_bits, plain.key_bits) == (8, 4, 4)
    assert any("Keys stay at 8 bits" in reason for reason in rough.reasons)
    assert not any("Keys stay" in reason for reason in plain.reasons)


@pytest.mark.parametrize("kv", ["8", "4"])
def test_odd_heads_are_refused_in_words(kv: str, tmp_path: Path) -> None:
    folder = tiny_folder(tmp_path / "odd", **FAMILIES["qwen 3"])  # heads of 24 numbers
    with pytest.raises(WishError, match="24"):
        planned(folder, kv)
