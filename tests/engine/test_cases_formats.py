"""Cases of public reports about formats that cannot run here, rounding, and where layers lie."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import GPT2Config, GPT2LMHeadModel

from app import tuning_view
from engine.engine import Engine
from engine.errors import EngineError, NumericsError, UnsupportedModelError, WishError
from engine.events import Loaded
from engine.fit.choices import lack
from engine.fit.plan import plan
from engine.fit.speed import predict
from engine.hardware.probe import probe
from engine.machine import Hardware
from engine.models.spec import read_spec
from engine.quant.dequantize import dequantize
from engine.quant.linear import Int8Linear
from engine.quant.packing import Int4Packer, Int8Packer, unpack_q4
from engine.quant.quantize import quantize
from engine.types import LoadPlan, LoadSpec
from tests.engine.models.built import TORCH
from tests.engine.models.generic_models import generic_folder
from tests.engine.tiny import tiny_folder

OLD = replace(TORCH, instruction_sets=("avx2",), has_bitsandbytes=True)  # a processor without AVX-512
NEW = replace(OLD, instruction_sets=("avx2", "avx512f", "avx512_bf16"))
BARE = replace(NEW, has_bitsandbytes=False)


# -- B105: a format where it cannot work -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("format", "hardware", "reason", "instead"),
    [
        ("nf4", OLD, "NVIDIA GPU (CUDA) or a processor with AVX-512 BF16", "int4"),
        ("nf4", BARE, "the library bitsandbytes, which is not installed", "pip install"),
        ("llm-int8", NEW, "NVIDIA GPUs (CUDA) only", "int8"),
        ("llm-int8", BARE, "NVIDIA GPUs (CUDA) only", "int8"),
    ],
)
def test_a_format_that_cannot_run_is_explained_by_its_true_cause_before_anything_is_read(
    format: str, hardware: Hardware, reason: str, instead: str, tmp_path: Path
) -> None:  # B105
    place = tiny_folder(tmp_path / "m")
    spec = read_spec(str(place))
    (place / "model.safetensors").unlink()
    with pytest.raises(WishError) as caught:
        plan(spec, hardware, LoadSpec(str(place), format=format))
    assert reason in caught.value.message
    assert instead in caught.value.hint
    found = lack(format, hardware, "cpu")
    assert found is not None
    assert found.words  # of the choice that is off


def test_a_format_that_only_names_a_missing_package_where_that_is_the_cause() -> None:  # B105
    for hardware in (OLD, NEW, BARE):
        found = lack("nf4", hardware, "cpu")
        assert (found is not None and "not installed" in found.sentence) == (hardware is BARE)
    assert lack("nf4", NEW, "cpu") is None
    for format in ("int8", "int4"):
        assert lack(format, BARE, "cpu") is None


@pytest.mark.parametrize("format", ["int8", "int4", "nf4", "llm-int8"])
def test_a_model_without_linear_layers_is_not_called_quantized(format: str, tmp_path: Path) -> None:  # B105
    """GPT-2 has Conv1D layers, which libraries that replace linear layers leave as they are."""
    config = GPT2Config(n_layer=2, n_head=2, n_embd=64, vocab_size=259, n_positions=64, bos_token_id=256)
    config.eos_token_id = 256
    GPT2LMHeadModel(config).save_pretrained(tmp_path / "m")
    spec = read_spec(str(tmp_path / "m"))
    with pytest.raises(WishError, match="runs through transformers"):
        plan(spec, NEW, LoadSpec(spec.path, format=format))
    made = plan(spec, NEW, LoadSpec(spec.path))
    assert (made.format, made.weight_bits) == ("bf16", 16)
    assert made.bytes.weights >= 2 * spec.num_params


@pytest.mark.parametrize("method", ["gptq", "awq", "bitsandbytes", "fp8", "mxfp4", "a new one"])
def test_a_checkpoint_quantized_by_another_method_is_refused_by_its_name(method: str, tmp_path: Path) -> None:
    """B105: its tensors are no weights that could be rounded again."""
    import json

    place = tiny_folder(tmp_path / "m")
    config = json.loads((place / "config.json").read_text())
    config["quantization_config"] = {"quant_method": method, "bits": 4}
    (place / "config.json").write_text(json.dumps(config))
    with pytest.raises(UnsupportedModelError, match=method):
        read_spec(str(place))


# -- B106: rounding ----------------------------------------------------------------------------------------


def values_of(kind: str) -> Tensor:
    generator = torch.Generator().manual_seed(3)
    normal = torch.randn(256, 256, generator=generator)
    if kind == "odd":
        return torch.randn(100, 96, generator=generator)
    if kind == "outlier":
        normal[17, 33] = 1000.0
    return torch.zeros(256, 256) if kind == "zeros" else normal


def by_blocks(type_name: str, values: Tensor) -> tuple[Tensor, int]:
    blocks = quantize(values, type_name)
    return dequantize(blocks.view(-1), type_name, (*values.shape,)), blocks.nbytes


def by_int4(values: Tensor) -> tuple[Tensor, int]:
    blocks = quantize(values, "Q4_1")
    packer = Int4Packer(*values.shape)
    packer.add(*unpack_q4(blocks.view(-1), "Q4_1", *values.shape))
    layer = packer.finish()
    product = layer(torch.eye(values.shape[1], dtype=torch.bfloat16)).float().T
    return product, layer.nbytes


def by_int8_rows(values: Tensor) -> tuple[Tensor, int]:
    packer = Int8Packer(*values.shape)
    packer.add(values)
    layer = packer.finish()
    assert isinstance(layer, Int8Linear)
    return layer.values.float() * layer.scales.float()[:, None], layer.nbytes


ROUNDED: dict[str, tuple[Any, float]] = {
    "8 bits, groups of 32": (lambda values: by_blocks("Q8_0", values), 0.006),
    "8 bits, rows": (by_int8_rows, 0.012),
    "4 bits, groups of 32": (lambda values: by_blocks("Q4_1", values), 0.08),
    "4 bits for torch": (by_int4, 0.09),
}


@pytest.mark.parametrize("name", ROUNDED)
@pytest.mark.parametrize("kind", ["normal", "odd", "zeros", "outlier"])
def test_rounding_keeps_shape_zeros_and_a_bound_on_its_error(kind: str, name: str) -> None:  # B106
    rounded, most = ROUNDED[name]
    values = values_of(kind)
    got, nbytes = rounded(values)
    assert got.shape == values.shape
    if kind == "zeros":
        assert torch.equal(got, values)
        return
    if kind == "outlier":  # it costs its own group, or row, alone
        group = values.shape[1] if "rows" in name else 32
        rest = torch.ones_like(values, dtype=torch.bool)
        rest[17, 33 // group * group : (33 // group + 1) * group] = False
        got, values = got[rest], values[rest]
    error = (got - values).square().mean().sqrt() / values.square().mean().sqrt()
    assert error < most
    assert nbytes < 0.6 * (4 if "8" in name else 2) * 256 * 256


def test_fewer_bits_and_larger_groups_err_more_and_never_by_a_jump() -> None:  # B106
    values = values_of("normal")
    errors = {
        name: (rounded(values)[0] - values).abs().mean().item() for name, (rounded, _) in ROUNDED.items()
    }
    eight, rows, four, stock = errors.values()
    assert eight < rows < 3 * eight
    assert 10 * eight < four < 30 * eight
    assert four <= stock < 1.2 * four


@pytest.mark.parametrize("format", ["f32", "bf16", "int8", "int4"])
@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_weights_that_are_no_numbers_are_refused_by_the_load(bad: float, format: str, tmp_path: Path) -> None:
    """B106: not at the first answer."""
    place = tiny_folder(tmp_path / "m")
    weights = load_file(place / "model.safetensors")
    weights["model.layers.1.mlp.down_proj.weight"][3, 5] = bad
    save_file(weights, place / "model.safetensors", {"format": "pt"})
    engine = Engine()
    with pytest.raises(NumericsError, match=f"no numbers as {format}"):
        list(engine.load(plan(read_spec(str(place)), probe(), LoadSpec(str(place), format=format))))
    assert engine.plan is None


# -- B107: where layers lie --------------------------------------------------------------------------------


def capped(path: str, spare: float) -> LoadPlan:
    """The plan on a machine with room for all of the model but its runtime, and so many of its layers."""
    spec = read_spec(path)
    whole = plan(spec, replace(TORCH, ram_total_bytes=1 << 30, ram_free_bytes=1 << 30), LoadSpec(path))
    layers = whole.bytes.weights / spec.num_layers
    need = whole.bytes.total - whole.bytes.overhead
    free = round(need + spare * layers)
    return plan(spec, replace(TORCH, ram_total_bytes=1 << 30, ram_free_bytes=free), LoadSpec(path))


@pytest.fixture(scope="module")
def experts(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A model of four layers that may lie on the disk."""
    return str(generic_folder(tmp_path_factory.mktemp("cases") / "m", "gpt_oss"))


def test_where_layers_lie_is_said_before_the_first_token(experts: str) -> None:  # B107
    made = capped(experts, 0.5)
    assert made.disk_layers == 0
    made = capped(experts, -0.1)
    assert 1 <= made.disk_layers < 4
    assert any(f"{made.disk_layers} of 4 layers stay on the disk" in reason for reason in made.reasons)
    assert sum(share.layers for share in made.devices) == 4 - made.disk_layers
    assert made.verdict == "spills"
    title = tuning_view.verdict_view(made, predict(made)).title
    assert title.startswith("Spills") and " to disk · " in title


def test_a_cap_below_one_layer_is_no_load(experts: str) -> None:  # B107
    spec = read_spec(experts)
    tiny = replace(TORCH, ram_total_bytes=1 << 20, ram_free_bytes=1 << 12)
    made = plan(spec, tiny, LoadSpec(experts))
    assert made.verdict == "no"
    assert "short" in made.reasons[0]


def test_layers_on_the_disk_answer_and_write_nothing(
    experts: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B107: they are read from the model's own files, so that a full disk does not matter."""
    made, all_here = capped(experts, -0.1), capped(experts, 0.5)
    ids = list(b"some words")
    engine = Engine()
    *_, loaded = engine.load(all_here)
    expected = engine.logits(ids)
    monkeypatch.chdir(tmp_path)
    for variable in ("TMPDIR", "HF_HOME"):
        monkeypatch.setenv(variable, str(tmp_path))
    before = {path: path.stat().st_mtime_ns for path in Path(experts).iterdir()}
    monkeypatch.setattr(engine, "_check_free", lambda _: None)  # the cap is the plan's, not this machine's
    *_, loaded = engine.load(made)
    assert isinstance(loaded, Loaded)
    assert loaded.plan.disk_layers == made.disk_layers
    torch.testing.assert_close(engine.logits(ids), expected)
    assert os.listdir(tmp_path) == []
    assert {path: path.stat().st_mtime_ns for path in Path(experts).iterdir()} == before


def test_no_weight_is_left_without_numbers(tmp_path: Path, experts: str) -> None:  # B107
    for path in (experts, str(tiny_folder(tmp_path / "m"))):
        engine = Engine()
        for _ in range(3):
            made = plan(read_spec(path), probe(), LoadSpec(path, context=64))
            assert not any("disk" in reason for reason in made.reasons)
            list(engine.load(made))
            assert engine.memory().weights_bytes == made.bytes.weights
            assert bool(engine.logits(list(b"abc")).isfinite().all())
        engine.unload()
        assert engine.memory().weights_bytes == 0
    with pytest.raises(EngineError):
        engine.logits([1])
