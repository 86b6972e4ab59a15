"""Public faults of other programs' estimates, with the right values: layers, experts, odd heads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.capabilities import CAN_ALL, CacheLayer, GenericOptions
from engine.fit import generic_bytes
from engine.fit.advice import longest_context, recommend
from engine.fit.bytes import kv_bytes, weight_bytes
from engine.fit.kv_bits import KV16
from engine.fit.kv_pages import PAGE_TOKENS, kinds_bytes, pool_kinds, whole_kinds
from engine.fit.plan import plan
from engine.fit.speed import step_bytes
from engine.machine import Gpu
from engine.types import LayerOptions, LoadSpec, ModelSpec, RopeSpec, TensorInfo
from tests.engine.fit.test_devices import ALL, machine, make
from tests.fakes import make_spec

GIB = 1 << 30
ROPE = RopeSpec()


def shaped(layers: int, kv_heads: int, dim: int, windows: tuple[int | None, ...] = ()) -> ModelSpec:
    kinds = tuple(LayerOptions(window, ROPE) for window in windows)
    base = make_spec()
    return replace(
        base,
        num_layers=layers,
        num_heads=4 * kv_heads,
        num_kv_heads=kv_heads,
        head_dim=dim,
        options=replace(base.options, layers=kinds),
    )


def generic(
    cache: tuple[CacheLayer, ...], tensors: tuple[TensorInfo, ...] = (), read: float = 1.0
) -> ModelSpec:
    """A model that transformers runs, of layers with such caches."""
    options = GenericOptions("AForCausalLM", "a test", cache, CAN_ALL, read_fraction=read)
    base = replace(make_spec(), source="safetensors", architecture="qwen3_moe", generic=options)
    return replace(base, num_layers=len(cache), tensors=tensors or base.tensors)


@pytest.mark.parametrize(
    ("layers", "kv_heads", "dim", "context", "bits", "expected"),
    [
        (36, 8, 128, 32_768, 16, 4_831_838_208),  # B045: not 32 heads, nor hidden / heads numbers
        (2, 2, 16, 100, 16, 25_600),
        (2, 2, 16, 100, 32, 51_200),
        (28, 8, 128, 40_960, 16, int(4.375 * GIB)),  # B046
    ],
)
def test_keys_and_values_are_counted_by_key_heads_and_their_own_size(
    layers: int, kv_heads: int, dim: int, context: int, bits: int, expected: int
) -> None:
    assert kv_bytes(shaped(layers, kv_heads, dim), context, bits) == expected


def test_windowed_layers_hold_their_window_and_the_others_all() -> None:  # B047: Gemma-3-27B
    windows = tuple(None if index % 6 == 5 else 1024 for index in range(62))
    spec = shaped(62, 16, 128, windows)
    context, token = 131_072, 2 * 16 * 128 * 2
    everything = kinds_bytes(spec, whole_kinds(spec, context), KV16, 1)
    assert everything == 62 * GIB  # what an estimate without windows says
    ideal = 10 * context * token + 52 * 1024 * token
    assert ideal / GIB == pytest.approx(10.41, abs=0.01)
    held = kinds_bytes(spec, pool_kinds(spec, context, 32, 1), KV16, 1)
    pages = (
        (1023 + 32) // PAGE_TOKENS + 2 + 1024 // PAGE_TOKENS + 1
    )  # a turn's window and the last turn's end
    assert held == 10 * context * token + 52 * (pages * PAGE_TOKENS) * token
    assert ideal < held < everything / 5


def test_a_model_whose_windows_are_kept_whole_is_counted_whole() -> (
    None
):  # B047: gpt-oss-20b, as it runs here
    spec = generic((CacheLayer(per_token=2 * 8 * 64),) * 24)
    assert kv_bytes(spec, 131_072, 16) == 6 * GIB


def test_key_heads_may_differ_from_layer_to_layer() -> None:  # B050
    spec = generic(tuple(CacheLayer(per_token=2 * heads * 64) for heads in (8, 8, 1)))
    assert kv_bytes(spec, 1000, 16) == 4_352_000
    with_states = generic(tuple(CacheLayer(per_token=2 * heads * 64) for heads in (8, 0, 0, 8)))
    assert kv_bytes(with_states, 1000, 16) == kv_bytes(with_states, 500, 16) * 2 == 4_096_000


def test_a_state_is_no_list_of_tokens_and_its_context_is_free() -> None:  # of hybrids and pure state spaces
    state = generic((CacheLayer(conv=4 * 64, recurrent=64 * 16),) * 24)
    assert kv_bytes(state, 100, 16) == kv_bytes(state, 1_000_000, 16) == 24 * (256 * 2 + 1024 * 4)


def test_latent_attention_holds_the_latent() -> None:  # DeepSeek-V2-Lite: 512 + 64 numbers a token and layer
    spec = generic((CacheLayer(per_token=576),) * 27)
    assert kv_bytes(spec, 32_768, 16) == 27 * 576 * 32_768 * 2


def experts(total: float, active: float) -> ModelSpec:
    """A mixture of so many parameters in all, and so many that a token reads."""
    size = int(total)
    matrix = TensorInfo(
        "model.layers.0.mlp.experts.gate_up_proj", (size // 1000, 1000), "BF16", 0, 0, 2 * size
    )
    return generic((CacheLayer(per_token=1024),) * 4, (matrix,), active / total)


@pytest.mark.parametrize(
    ("total", "active", "card", "fits"), [(125e9, 10e9, 180, False), (30e9, 3e9, 80, True)]
)
def test_all_experts_are_in_memory_and_the_chosen_ones_are_read(
    total: float, active: float, card: int, fits: bool
) -> None:  # B051
    spec = experts(total, active)
    gpu = Gpu(0, "A card", "cuda", card * GIB, card * GIB, ALL)
    made = plan(spec, machine(gpu, ram_free=8 * GIB), LoadSpec(spec.path, "bf16", 1024))
    assert weight_bytes(spec, "bf16") == pytest.approx(2 * total)
    assert (made.verdict == "fits") is fits
    assert step_bytes(made, 1).weights == generic_bytes.read_bytes(spec, "bf16") == pytest.approx(2 * active)


def test_an_absurd_trained_context_is_not_what_is_loaded() -> None:  # Mistral-Nemo: "needs 273 GB"
    spec = replace(make("Q4_0"), trained_context=1_024_000)
    hardware = machine(ram_free=4 * GIB)
    assert plan(spec, hardware, LoadSpec(spec.path)).context == 8192
    assert recommend(spec, hardware, LoadSpec(spec.path)).plan.context == 8192
    longest = longest_context(spec, hardware, LoadSpec(spec.path))
    assert longest is not None
    assert 8192 < longest < 1_024_000


def test_blocks_that_are_unpacked_on_load_are_counted_as_they_are_held() -> None:  # B057
    spec = make("Q4_K")
    in_file = sum(tensor.nbytes for tensor in spec.tensors)
    assert weight_bytes(spec, "file", is_native=True) < weight_bytes(spec, "file", is_native=False)
    packed, unpacked = (plan(spec, machine(native=native), LoadSpec(spec.path)) for native in ("avx2", None))
    assert in_file > 0
    assert unpacked.weight_bits == pytest.approx(16, abs=0.1)
    assert packed.weight_bits < 6
