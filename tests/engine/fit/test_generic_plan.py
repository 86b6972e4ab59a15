"""Plans of models that run through transformers: what they can be, what they cost, where their layers go."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from engine.errors import WishError
from engine.fit import generic_bytes
from engine.fit.bytes import kv_bytes, weight_bytes
from engine.fit.kernels import kernel_pair
from engine.fit.plan import plan
from engine.machine import Gpu, Hardware
from engine.models.spec import read_spec
from engine.types import LoadPlan, LoadSpec, ModelSpec
from tests.engine.models.generic_models import generic_folder

MACHINE = Hardware("test", 2, 10**12, 10**12)


@pytest.fixture(scope="module")
def spec(tmp_path_factory: pytest.TempPathFactory) -> ModelSpec:
    return read_spec(str(generic_folder(tmp_path_factory.mktemp("m") / "m", "qwen3_moe")))


@pytest.fixture(scope="module")
def hybrid(tmp_path_factory: pytest.TempPathFactory) -> ModelSpec:
    return read_spec(str(generic_folder(tmp_path_factory.mktemp("h") / "h", "granitemoehybrid")))


def made(spec: ModelSpec, hardware: Hardware = MACHINE, **wish: object) -> LoadPlan:
    return plan(spec, hardware, LoadSpec(spec.path, **wish))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("wish", "format", "kv_bits"),
    [("auto", "bf16", 16), ("16", "bf16", 16), ("f16", "f16", 16), ("f32", "f32", 32), ("file", "bf16", 16)],
)
def test_such_a_model_is_held_at_16_or_32_bits(wish: str, format: str, kv_bits: int, spec: ModelSpec) -> None:
    found = made(spec, format=wish)
    assert (found.format, found.kv_bits, found.kernels) == (format, kv_bits, "torch")
    assert found.bytes.weights == weight_bytes(spec, format)
    assert found.bytes.kv_reserved == kv_bytes(spec, found.context, kv_bits)
    assert kernel_pair(spec, format, 2) is None


@pytest.mark.parametrize("wish", [{"format": each} for each in ("int8", "int4", "4", "nf4", "llm-int8")])
def test_other_formats_are_refused_with_the_reason(wish: dict[str, str], spec: ModelSpec) -> None:
    with pytest.raises(WishError, match="runs through transformers") as caught:
        made(spec, **wish)
    assert "bf16" in caught.value.hint


@pytest.mark.parametrize(("format", "kv"), [("bf16", "32"), ("f32", "16"), ("bf16", "8"), ("f32", "4")])
def test_the_cache_is_as_precise_as_the_weights(format: str, kv: str, spec: ModelSpec) -> None:
    with pytest.raises(WishError, match=f"KV precision {kv}"):
        made(spec, format=format, kv=kv)


def test_the_reasons_say_who_runs_it_and_what_is_lacking(spec: ModelSpec, hybrid: ModelSpec) -> None:
    said = " ".join(made(spec).reasons)
    assert "through transformers, slower: the program has no decoder of its own for qwen3_moe" in said
    assert "running state" not in said
    assert "running state" in " ".join(made(hybrid).reasons)
    assert "trained for 512 tokens" in " ".join(made(spec, context=2000).reasons)


def test_a_token_reads_only_the_experts_it_chooses(spec: ModelSpec) -> None:
    experts = sum(tensor.nbytes for tensor in spec.tensors if ".experts." in tensor.name)
    whole = weight_bytes(spec, "f32")
    assert generic_bytes.read_bytes(spec, "f32") == pytest.approx(whole - experts / 2)


def test_a_state_has_one_size_for_any_length(hybrid: ModelSpec) -> None:
    one, two, three = (kv_bytes(hybrid, tokens, 16) for tokens in (1, 2, 3))
    per_token = 2 * 2 * 16 * 2  # of its one layer of attention: keys and values, heads, numbers, bytes
    assert two - one == three - two == per_token
    conv, state = (128 + 2 * 2 * 16) * 4, 128 * 16
    assert one - per_token == 2 * (2 * conv + 4 * state)


def test_layers_go_to_the_disk_until_the_rest_fits(spec: ModelSpec) -> None:
    whole = made(spec, format="f32")
    need = whole.bytes.total - whole.bytes.overhead
    layers = generic_bytes.layer_bytes(spec, "f32")
    assert sum(layers) < whole.bytes.weights
    for free, count in ((need, 0), (need - 1, 2), (need - layers[-1], 2), (need - 2 * layers[-1] + 1, 3)):
        found = made(spec, replace(MACHINE, ram_free_bytes=free), format="f32")
        assert found.disk_layers == count, free
        assert found.verdict == ("spills" if count else "tight")
        assert found.bytes.total - found.bytes.overhead <= free
        assert ("stay on the disk" in " ".join(found.reasons)) == bool(count)
    found = made(spec, replace(MACHINE, ram_free_bytes=need // 3), format="f32")
    assert (found.verdict, found.disk_layers) == ("no", 0)
    assert found.reasons[0].endswith("short.")


def test_what_a_replaced_model_holds_counts_as_free(spec: ModelSpec) -> None:
    whole = made(spec, format="f32")
    need = whole.bytes.total - whole.bytes.overhead
    poor = replace(MACHINE, ram_free_bytes=need - 1000)
    assert plan(spec, poor, LoadSpec(spec.path, format="f32"), held_bytes=1000).disk_layers == 0


@pytest.mark.parametrize(
    ("free", "wish", "device"),
    [(10**10, "auto", "cuda:0"), (10, "auto", "cpu"), (None, "auto", "cpu"), (10**10, "cpu", "cpu")],
)
def test_a_gpu_takes_the_whole_model_or_nothing(
    free: int | None, wish: str, device: str, spec: ModelSpec
) -> None:
    gpu = Gpu(0, "test", "cuda", 10**10, free, ("f32", "bf16"))
    found = made(spec, replace(MACHINE, gpus=(gpu,)), device=wish)
    assert found.device == device
    assert found.gpu_layers == (spec.num_layers if device == "cuda:0" else 0)
    assert found.bytes.weights == weight_bytes(spec, "bf16")


@pytest.mark.parametrize("free", [10**10, 10**8])
def test_what_is_spare_is_what_the_device_of_the_model_has_left(free: int, spec: ModelSpec) -> None:
    gpu = Gpu(0, "test", "cuda", 10**10, free, ("f32", "bf16"))
    found = made(spec, replace(MACHINE, gpus=(gpu,)), device="cuda:0")
    spare = found.devices[-1].spare_bytes
    assert spare is not None
    assert (found.verdict == "no") == (spare < 0) == (free == 10**8)
    assert f"{abs(spare) / 1e9:.2f} GB" in found.reasons[0]


def test_a_model_is_not_split_between_devices(spec: ModelSpec) -> None:
    gpu = Gpu(0, "test", "cuda", 10**10, 10**10, ("f32", "bf16"))
    with pytest.raises(WishError, match="cannot be split"):
        made(spec, replace(MACHINE, gpus=(gpu,)), gpu_layers=1)


def test_pieces_of_a_prompt_are_shorter_for_larger_models(spec: ModelSpec, tmp_path: Path) -> None:
    assert made(spec).prefill_piece == 256
    huge = replace(spec, tensors=tuple(replace(each, shape=(10**5, 10**5)) for each in spec.tensors))
    assert made(huge).prefill_piece == 8
