"""Predicted steps and prompts: bytes as counted by hand, seconds that follow from them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.calibration import (
    AttentionSpeed,
    Calibration,
    Correction,
    KernelSpeed,
    PassSpeed,
    alone,
    together,
)
from engine.capabilities import CAN_ALL, CacheLayer, GenericOptions
from engine.fit.correction import fresh, place_of
from engine.fit.draft import with_draft
from engine.fit.plan import plan
from engine.fit.speed import limit_tps, predict, prefill_s, step_bytes, step_s, tokens_per_step
from engine.fit.step_parts import step_parts
from engine.machine import Gpu, Hardware
from engine.types import DecoderOptions as Options
from engine.types import LayerOptions, LoadPlan, LoadSpec, ModelSpec, TensorInfo
from tests.fakes import HARDWARE, make_spec

MB = 1_000_000
# Nothing but reading takes time here: a byte of weights 0.1 ns, of keys and values 0.2 ns.
READING = Calibration(
    read_gbps=10.0,
    threads=2,
    kernels=(KernelSpeed("torch bf16", 0.1, ((1, 0.0), (8, 0.0))),),
    attention=(AttentionSpeed("torch", 16, 16, ((1, 0.2), (8, 0.2))),),
    passes=(PassSpeed("torch", 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),),
    draw_ns=1e-12,
)


def made(known: Calibration | None = READING, spec: ModelSpec | None = None, **wish: object) -> LoadPlan:
    options: dict[str, object] = {"format": "bf16", "threads": 2} | wish
    hardware = replace(HARDWARE, calibration=known)
    return plan(spec or make_spec(), hardware, LoadSpec("/models/tiny.gguf", **options))  # type: ignore[arg-type]


def untied() -> ModelSpec:
    """A model with a head of its own."""
    spec = make_spec()
    head = TensorInfo("output.weight", spec.tensors[0].shape, "Q4_0", 0, 0, 100)
    return replace(spec, tensors=(*spec.tensors, head), tied_embeddings=False)


def generic_spec() -> ModelSpec:
    """A model of four layers that transformers runs."""
    names = ("model.embed_tokens", *(f"model.layers.{index}.mlp" for index in range(4)))
    tensors = tuple(TensorInfo(f"{name}.weight", (64, 64), "BF16", 0, 0, 8192) for name in names)
    cache = (CacheLayer(per_token=64),) * 4
    generic = GenericOptions("SomeForCausalLM", "it is another kind", cache, CAN_ALL)
    return replace(make_spec(), source="safetensors", num_layers=4, tensors=tensors, generic=generic)


def changed(**changes: object) -> Calibration:
    return replace(READING, **changes)  # type: ignore[arg-type]


def test_a_step_reads_its_weights_once_and_the_cache_of_every_chat() -> None:
    spec = make_spec()  # tied: the embedding is the head
    weights = sum(2 * t.shape[0] * t.shape[1] if len(t.shape) == 2 else 4 * t.shape[0] for t in spec.tensors)
    token = spec.num_layers * 2 * spec.num_kv_heads * spec.head_dim * 2
    found = step_bytes(made(), 100, sequences=3)
    assert (found.weights, found.kv) == (weights, 300 * token)
    assert found.total == weights + 300 * token


def test_an_embedding_that_is_not_the_head_is_not_read() -> None:
    assert step_bytes(made(spec=untied()), 1).weights == step_bytes(made(), 1).weights


def test_a_layer_with_a_window_reads_no_more_than_that() -> None:
    spec = make_spec()
    layers = (LayerOptions(16, spec.rope), LayerOptions(None, spec.rope))
    mixed = replace(spec, options=Options(layers=layers))
    token = 2 * spec.num_kv_heads * spec.head_dim * 2
    assert spec.num_layers == 2
    assert step_bytes(made(spec=mixed), 10).kv == 2 * 10 * token
    assert step_bytes(made(spec=mixed), 500).kv == (16 + 500) * token
    assert step_s(made(spec=mixed), 500) < step_s(made(spec=spec), 500)


def test_a_step_takes_the_bytes_over_the_speed_of_what_reads_them() -> None:
    read = step_bytes(made(), 1000)
    kv_ns = together(0.2, 0.1, READING.overlap)
    assert step_s(made(), 1000) == pytest.approx(1e-9 * (0.1 * read.weights + kv_ns * read.kv))


def test_what_is_fixed_is_added_for_the_step_and_each_layer() -> None:
    known = changed(passes=(PassSpeed("torch", 0.5, 0.25, 0.25, 0.0, 0.0, 0.0),))
    assert step_s(made(known), 1) - step_s(made(), 1) == pytest.approx(0.5 + 2 * 0.25)


def test_more_context_more_rows_and_more_chats_never_make_a_step_shorter() -> None:
    for known in (None, READING):
        plans = made(known)
        by_tokens = [step_s(plans, tokens) for tokens in (1, 10, 100, 1000, 2048)]
        by_rows = [step_s(plans, 100, rows) for rows in range(1, 40)]
        by_chats = [step_s(plans, 100, 1, chats) for chats in (1, 2, 4, 8)]
        for seconds in (by_tokens, by_rows, by_chats):
            assert seconds == sorted(seconds) and seconds[0] > 0


def test_chats_share_the_weights_of_a_step() -> None:
    assert step_s(made(), 100, sequences=4) < 4 * step_s(made(), 100)


def test_weights_that_fit_in_the_cache_are_read_from_there() -> None:
    kernel = KernelSpeed("torch bf16", 0.1, ((1, 0.01), (8, 0.01)))
    weights = step_bytes(made(), 1).total
    memory = changed(kernels=(kernel,), reads=((weights // 4, 50.0), (weights // 2, 10.0)))
    cached = changed(kernels=(kernel,), reads=((2 * weights, 50.0), (4 * weights, 10.0)))
    parts = [step_parts(made(known), 1, 1, 1, known) for known in (memory, cached)]
    assert parts[0].cache == 0.0 < parts[0].memory
    assert parts[1].memory == 0.0 < parts[1].cache < parts[0].memory / 5


def test_reading_and_arithmetic_overlap() -> None:
    for overlap in (1.0, 1.5, 3.0):
        assert together(1.0, 0.0, overlap) == pytest.approx(1.0)
        assert 2.0 < together(2.0, 1.0, overlap) <= 3.0
        assert alone(together(2.0, 3.0, overlap), 2.0, overlap) == pytest.approx(3.0)
        assert alone(1.0, 2.0, overlap) == 0.0
    assert together(2.0, 1.0, 1.0) == 3.0
    assert together(2.0, 1.0, 1.5) > together(2.0, 1.0, 3.0)


def test_a_kernel_that_computes_longer_than_it_reads_takes_that_long() -> None:
    slow = changed(kernels=(KernelSpeed("torch bf16", 0.1, ((1, 5.0), (8, 5.0))),))
    assert step_s(made(slow), 1) == pytest.approx(5e-9 * step_bytes(made(), 1).weights, rel=1e-2)


def test_fewer_threads_than_were_measured_take_longer_and_widen_the_band() -> None:
    kernel = KernelSpeed("torch bf16", 0.1, ((1, 0.05), (8, 0.1)))
    known = changed(kernels=(kernel,))
    assert step_s(made(known, threads=1), 100) > step_s(made(known, threads=2), 100)
    assert predict(made(known, threads=1)).band > predict(made(known, threads=2)).band


def test_drafts_of_a_draft_model_are_steps_of_its_own() -> None:
    target = made()
    both = with_draft(target, made())
    assert step_s(both, 100) == step_s(target, 100)  # nothing is drafted
    alone_s = step_s(target, 100, rows=4)
    assert step_s(both, 100, rows=4) == pytest.approx(alone_s + 3 * step_s(target, 100))


def test_tokens_of_a_step_with_drafts() -> None:  # the sum 1 + a + a² + a³
    assert tokens_per_step(0.5, 3) == pytest.approx(1 + 0.5 + 0.25 + 0.125)
    assert tokens_per_step(1.0, 3) == 4.0
    assert tokens_per_step(0.0, 3) == tokens_per_step(0.9, 0) == 1.0


@pytest.mark.parametrize("spec", [make_spec(), untied()], ids=["tied", "untied"])
def test_every_piece_reads_the_layers_and_the_last_one_the_head(spec: ModelSpec) -> None:
    plans = replace(made(spec=spec), prefill_piece=64)
    embedding = spec.tensors[0]
    head_s = 2e-10 * embedding.shape[0] * embedding.shape[1]
    layers_s = 1e-10 * step_bytes(plans, 0).weights - head_s
    assert prefill_s(plans, 192) == pytest.approx(3 * layers_s + head_s)


def test_torchs_products_of_many_rows_wait_for_their_weights() -> None:
    known = changed(kernels=(KernelSpeed("torch bf16", 0.1, ((1, 0.1), (64, 0.1))),))
    plans = made(known)
    weights = step_bytes(plans, 0).weights
    assert step_s(plans, 0, rows=8) == pytest.approx(1e-9 * weights * together(0.1, 0.1, known.overlap))
    assert step_s(plans, 0, rows=9) == pytest.approx(1e-9 * weights * 0.2)


def test_a_prompt_takes_longer_the_more_of_it_is_new() -> None:
    for known in (None, READING):
        plans = made(known)
        by_length = [prefill_s(plans, tokens) for tokens in (1, 16, 17, 100, 1000)]
        by_reuse = [prefill_s(plans, 1000, cached) for cached in (999, 900, 500, 0)]
        assert by_length == pytest.approx(sorted(by_length)) and by_reuse == pytest.approx(sorted(by_reuse))
        assert 0 < by_reuse[0] < by_reuse[-1]
        assert prefill_s(plans, 1000, 5000) == by_reuse[0]  # the last token is always read


def test_attention_over_a_prompt_grows_with_its_square() -> None:
    scores = PassSpeed("torch", 0.0, 0.0, 0.0, 0.0, 0.0, 1.0)
    plans = made(changed(passes=(scores,), kernels=(KernelSpeed("torch bf16", 0.0, ((1, 0.0),)),)))
    spec = plans.model
    numbers = spec.num_layers * spec.num_heads * spec.head_dim
    assert prefill_s(plans, 1000) == pytest.approx(1e-9 * numbers * 1000**2 / 2, rel=1e-3)
    layers = (LayerOptions(100, spec.rope),) * 2
    windowed = replace(plans, model=replace(spec, options=Options(layers=layers)))
    assert prefill_s(windowed, 1000) == pytest.approx(1e-9 * numbers * (100**2 / 2 + 900 * 100), rel=1e-3)


def test_the_limit_is_the_bandwidth_over_the_bytes_of_a_step() -> None:
    nbytes = step_bytes(made(), 100).total
    assert limit_tps(made(), 100) == pytest.approx(10e9 / nbytes)
    assert limit_tps(made(), 100, tokens_per_step=2.0) == pytest.approx(20e9 / nbytes)
    assert limit_tps(made(None), 100) is None


def test_no_kernel_goes_beyond_the_limit() -> None:
    quick = changed(kernels=(KernelSpeed("torch bf16", 0.05, ((1, 0.0),)),))
    assert limit_tps(made(quick), 1) == pytest.approx(2 * (limit_tps(made(), 1) or 0))


def test_a_prediction_says_what_it_rests_on() -> None:
    guessed, measured = predict(made(None)), predict(made())
    assert (guessed.basis, measured.basis) == ("default", "measured")
    assert guessed.band > measured.band
    learnt = replace(fresh(place_of(made())), answers=3, spread=0.03, factors=(2.0,) * 5)
    corrected = predict(made(changed(corrections=(learnt,))))
    assert corrected.basis == "corrected" and corrected.band < measured.band
    assert corrected.empty == pytest.approx(measured.empty / 2)
    other = replace(learnt, place="cpu torch f32")
    assert predict(made(changed(corrections=(other,)))) == measured


@pytest.mark.parametrize(
    "missing", [changed(kernels=(KernelSpeed("torch f32", 0.1, ((1, 0.0),)),)), changed(passes=())]
)
def test_what_a_plan_computes_with_was_measured_or_it_is_an_estimate(missing: Calibration) -> None:
    found = predict(made(missing))
    assert (found.basis, found.band) == ("default", predict(made(None)).band)


def test_a_correction_that_no_answer_stands_behind_changes_nothing() -> None:
    doubted = Correction(place_of(made()), (3.0,) * 5, fresh("").covariance, 0.1, 0, (0.9,))
    assert predict(made(changed(corrections=(doubted,)))) == predict(made())


def test_speeds_fall_as_the_context_fills() -> None:
    found = predict(made())
    assert found.empty > found.half > found.full > 0
    assert found.prefill_tps == pytest.approx(1024 / found.ttft_1k_s)


def test_what_was_not_measured_is_estimated_by_the_bandwidth() -> None:
    slow, quick = (Calibration(read_gbps=gbps) for gbps in (0.5, 5.0))
    slow_s, quick_s = (step_parts(made(known), 1, 1, 1, known).memory for known in (slow, quick))
    assert 5 * quick_s < slow_s < 11 * quick_s
    assert predict(made(slow)).basis == "default"


def test_keys_and_values_of_fewer_bits_are_fewer_bytes() -> None:
    wide, half, _, least = (step_bytes(made(kv=kv), 1000).kv for kv in ("32", "16", "8", "4"))
    assert wide == 2 * half > 2 * least
    assert all(step_s(made(kv=kv), 1000) > 0 for kv in ("32", "16", "8", "4"))
    recent = step_bytes(made(kv="4"), 100).kv  # all of them are in the rings still
    assert recent == step_bytes(made(kv="16"), 100).kv


def test_layers_on_the_disk_are_read_at_its_rate() -> None:
    spec = generic_spec()
    fits = plan(spec, replace(HARDWARE, calibration=READING), LoadSpec("/models/m"))
    short = replace(fits, disk_layers=1)
    layer = 8192  # bytes of it in the file, and in memory
    for gbps in (0.5, 2.0):
        parts = step_parts(short, 1, 1, 1, changed(disk_gbps=gbps))
        assert parts.away == pytest.approx(layer / gbps / 1e9)
    assert step_parts(fits, 1, 1, 1, READING).away == 0.0
    assert step_s(short, 1) > step_s(fits, 1)
    assert limit_tps(short, 1) is None


def test_a_plan_on_a_gpu_is_estimated_and_has_no_limit() -> None:
    gpu = Gpu(0, "Some GPU", "cuda", 8_000 * MB, 8_000 * MB, ("f32", "bf16"))
    hardware = replace(HARDWARE, calibration=READING, gpus=(gpu,))
    for layers in (None, 1):
        wish = LoadSpec("/models/tiny.gguf", format="bf16", device="cuda:0", gpu_layers=layers)
        away = plan(make_spec(), hardware, wish)
        found = predict(away)
        assert found.basis == "default" and found.full > 0
        assert limit_tps(away, 10) is None


def test_sequences_that_cannot_be_batched_run_one_after_another() -> None:
    spec = generic_spec()
    generic = spec.generic
    assert generic is not None
    alone_only = replace(generic, capabilities=replace(generic.capabilities, no_batch="It cannot."))
    single = plan(replace(spec, generic=alone_only), HARDWARE, LoadSpec("/models/m"))
    assert step_s(single, 10, sequences=3) == pytest.approx(3 * step_s(single, 10))


def test_of_experts_only_those_that_are_chosen_are_read() -> None:
    spec = generic_spec()
    generic = spec.generic
    assert generic is not None
    some = replace(spec, generic=replace(generic, read_fraction=0.25))
    whole_bytes, some_bytes = (
        step_bytes(plan(each, HARDWARE, LoadSpec("/models/m")), 1).weights for each in (spec, some)
    )
    assert some_bytes == pytest.approx(whole_bytes / 4, rel=1e-3)


@pytest.mark.parametrize("native", ["avx512vnni", "avx2", "neon", "scalar", None])
def test_every_machine_and_format_has_an_estimate(native: str | None) -> None:
    hardware = Hardware("A processor", 4, 16_000 * MB, 8_000 * MB, native=native)
    for format in ("file", "f32", "bf16", "f16", "int8", "int4"):
        found = predict(plan(make_spec(), hardware, LoadSpec("/models/tiny.gguf", format=format)))
        assert found.empty > 0 and found.ttft_1k_s > 0 and found.basis == "default"


def test_state_space_layers_read_the_same_at_any_length() -> None:
    spec = generic_spec()
    generic = spec.generic
    assert generic is not None
    states = replace(generic, cache=(CacheLayer(conv=8, recurrent=64),) * spec.num_layers)
    made_ = plan(replace(spec, generic=states), HARDWARE, LoadSpec("/models/m"))
    assert step_bytes(made_, 10).kv == step_bytes(made_, 1000).kv > 0
