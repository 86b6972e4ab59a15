"""Laws of models that run through transformers: its own full forward pass is the oracle."""

from __future__ import annotations

import shutil
import weakref
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM

from engine.events import LoadProgress
from engine.fit.bytes import kv_bytes, weight_bytes
from engine.fit.disk import disk_bytes
from engine.fit.generic_bytes import layer_bytes
from engine.models import generic_load
from engine.models.decoder import Runner, Segment
from engine.models.spec import read_spec
from tests.engine.models.built import EXACT, run, some_ids
from tests.engine.models.disk import Disk, disk
from tests.engine.models.generic_models import (
    GENERIC,
    MORE,
    build_generic,
    generic_folder,
    loading,
    plan_for,
)
from tests.engine.tiny import oracle_logits

__all__ = ["disk"]

pytestmark = pytest.mark.usefixtures("one_thread")

WITH_STATE = {"granitemoehybrid", "lfm2"}
DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("generic")
    return {name: generic_folder(home / name, name) for name in GENERIC}


@pytest.fixture(params=GENERIC)
def family(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def folder(family: str, folders: dict[str, Path]) -> Path:
    return folders[family]


def held(runner: Runner) -> dict[str, torch.Tensor]:
    state: dict[str, torch.Tensor] = runner._model.state_dict()  # type: ignore[attr-defined]
    return state


# -- logits ------------------------------------------------------------------------------------------------


def test_prefill_pieces_and_decode_give_the_oracles_logits(folder: Path) -> None:
    runner, ids = build_generic(folder), some_ids(40)
    expected = oracle_logits(folder, ids)
    for pieces in ([40], [7, 9, 1, 20], []):
        torch.testing.assert_close(run(runner, ids, pieces), expected, **EXACT)


@pytest.mark.parametrize("other", MORE)
def test_other_kinds_of_layers_give_the_oracles_logits(other: str, tmp_path: Path) -> None:
    folder, ids = generic_folder(tmp_path / "m", other), some_ids(40)
    runner, expected = build_generic(folder), oracle_logits(folder, ids)
    # running sums of many products: float32 of another order is a little farther apart
    near = {"rtol": 1e-3, "atol": 5e-3}
    for pieces in ([40], [7, 9, 1, 20]):
        torch.testing.assert_close(run(runner, ids, pieces), expected, **near)


def test_sequences_of_one_pass_get_what_each_gets_alone(folder: Path) -> None:
    runner = build_generic(folder)
    texts = [some_ids(n, seed=n) for n in (5, 23, 11)]
    alone = [run(runner, ids, [len(ids)])[-1] for ids in texts]
    caches = [runner.new_cache(64) for _ in texts]
    with torch.inference_mode():
        runner.forward([Segment(c, ids[:-1]) for c, ids in zip(caches, texts, strict=True)])
        together = runner.forward([Segment(c, ids[-1:]) for c, ids in zip(caches, texts, strict=True)])
    torch.testing.assert_close(together, torch.stack(alone), **EXACT)


def test_trimming_then_decoding_is_decoding_afresh(folder: Path, family: str) -> None:
    runner, ids = build_generic(folder), some_ids(40)
    assert runner.capabilities.can_trim == (family not in WITH_STATE)
    if not runner.capabilities.can_trim:
        return
    other = ids[:11] + some_ids(29, seed=9)
    cache = runner.new_cache(40)
    with torch.inference_mode():
        runner.forward([Segment(cache, ids)])
        cache.trim(11)
        again = runner.forward([Segment(cache, other[11:], wants_all_logits=True)])
    torch.testing.assert_close(again, oracle_logits(folder, other)[11:], **EXACT)


def test_an_emptied_cache_is_as_good_as_new(folder: Path) -> None:
    runner, ids = build_generic(folder), some_ids(20)
    cache = runner.new_cache(20)
    with torch.inference_mode():
        runner.forward([Segment(cache, some_ids(20, seed=5))])
        cache.trim(0)
        again = runner.forward([Segment(cache, ids, wants_all_logits=True)])
    torch.testing.assert_close(again, oracle_logits(folder, ids), **EXACT)


def test_only_the_wanted_rows_come_back(folder: Path) -> None:
    runner, ids = build_generic(folder), some_ids(9)
    caches = [runner.new_cache(9), runner.new_cache(9)]
    with torch.inference_mode():
        rows = runner.forward([Segment(caches[0], ids), Segment(caches[1], ids, wants_all_logits=True)])
        none = runner.forward([Segment(runner.new_cache(9), ids, wants_logits=False)])
    assert rows.shape == (10, 259) and none.shape == (0, 259)
    assert rows.dtype == torch.float32
    torch.testing.assert_close(rows[0], rows[-1], **EXACT)


# -- weights -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", DTYPES)
def test_the_weights_are_those_of_from_pretrained(folder: Path, format: str) -> None:
    expected = AutoModelForCausalLM.from_pretrained(folder, dtype=DTYPES[format]).state_dict()
    found = held(build_generic(folder, format))
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        assert found[name].dtype == tensor.dtype, name
        assert torch.equal(found[name], tensor), name


@pytest.mark.parametrize("format", DTYPES)
def test_layers_on_the_disk_give_the_same_logits(folder: Path, format: str) -> None:
    ids = some_ids(24)
    expected = run(build_generic(folder, format), ids, [10])
    for layers in (1, 3):
        runner = build_generic(folder, format, layers)
        assert torch.equal(run(runner, ids, [10]), expected)
        assert sum(tensor.device.type == "meta" for tensor in held(runner).values()) > layers


def test_layers_on_the_disk_take_turns_in_the_memory_of_the_widest(folder: Path) -> None:
    runner, spec = build_generic(folder, disk_layers=3), read_spec(str(folder))
    model = runner._model  # type: ignore[attr-defined]
    layers = next(each for each in model.modules() if isinstance(each, torch.nn.ModuleList))
    places: list[list[int]] = []

    def note(layer: torch.nn.Module) -> None:
        """Its weights are there while its first part computes."""
        part = next(iter(layer.children()))
        part.register_forward_pre_hook(
            lambda *_: places.append([each.data_ptr() for each in layer.parameters()])
        )

    for layer in layers[-3:]:
        note(layer)
    tables = build_generic(folder).bytes_by_part()[1]
    widest, padding = max(layer_bytes(spec, "f32")[-3:]), 1 << 12
    assert widest <= runner.bytes_by_part()[1] - tables < widest + padding
    run(runner, some_ids(6), [4])
    assert len(places) == 3 * 3
    begin, end = min(map(min, places)), max(map(max, places))
    assert begin > 0 and end < begin + widest + padding


def test_each_pass_reads_the_layers_on_the_disk_once(folder: Path, disk: Disk) -> None:
    runner, spec = build_generic(folder, disk_layers=2), read_spec(str(folder))
    before = disk.num_bytes
    run(runner, some_ids(6), [4])
    on_disk = disk_bytes(spec, 2)
    buffers = sum(tensor.nbytes for tensor in spec.tensors if tensor.name.endswith("e_score_correction_bias"))
    assert on_disk - buffers <= (disk.num_bytes - before) / 3 <= on_disk


def test_layers_on_the_disk_need_no_folder_once_they_are_open(tmp_path: Path) -> None:
    folder, ids = generic_folder(tmp_path / "m", "qwen3_moe"), some_ids(12)
    runner, expected = build_generic(folder, disk_layers=2), oracle_logits(folder, ids)
    shutil.rmtree(folder)
    torch.testing.assert_close(run(runner, ids, [8]), expected, **EXACT)


def test_shards_are_one_model(folder: Path, tmp_path: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.save_pretrained(tmp_path / "m", max_shard_size="200KB")
    assert len(list((tmp_path / "m").glob("*.safetensors"))) > 2
    found = held(build_generic(tmp_path / "m"))
    assert all(torch.equal(found[name], tensor) for name, tensor in model.state_dict().items())


# -- memory ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("format", ["f32", "bf16"])
def test_the_advisors_bytes_are_what_is_held(folder: Path, format: str) -> None:
    runner, spec = build_generic(folder, format), read_spec(str(folder))
    cache, bits = runner.new_cache(100), 32 if format == "f32" else 16
    assert runner.bytes_by_part()[0] == weight_bytes(spec, format)
    with torch.inference_mode():
        runner.forward([Segment(cache, some_ids(7))])
    assert cache.nbytes == kv_bytes(spec, 100, bits)
    assert cache.used_nbytes == kv_bytes(spec, 7, bits)


@pytest.mark.parametrize("other", ["qwen3_next", "kimi_linear", "jamba", "mamba"])
def test_states_of_other_kinds_are_counted_to_the_byte(other: str, tmp_path: Path) -> None:
    folder = generic_folder(tmp_path / "m", other)
    runner, spec = build_generic(folder, "bf16"), read_spec(str(folder))
    cache = runner.new_cache(50)
    with torch.inference_mode():
        runner.forward([Segment(cache, some_ids(7))])
    assert cache.nbytes == kv_bytes(spec, 50, 16)
    assert runner.bytes_by_part()[0] == weight_bytes(spec, "bf16")
    assert not runner.capabilities.can_trim


def test_the_header_says_what_the_runner_can_do(folder: Path) -> None:
    assert read_spec(str(folder)).capabilities == build_generic(folder).capabilities


@pytest.mark.parametrize("disk_layers", [0, 2])
def test_a_runner_that_is_gone_holds_no_weight(folder: Path, disk_layers: int) -> None:
    runner = build_generic(folder, disk_layers=disk_layers)
    run(runner, some_ids(5), [3])
    weights = [weakref.ref(tensor) for tensor in runner._model.parameters()]  # type: ignore[attr-defined]
    del runner
    assert not [ref for ref in weights if ref() is not None]


def test_a_load_can_be_dropped_anywhere(folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> None:
    made, models = plan_for(folders["mixtral"]), []
    make = generic_load._make

    def noted(*arguments: object) -> object:
        model = make(*arguments)  # type: ignore[arg-type]
        models.append(weakref.ref(model))
        return model

    monkeypatch.setattr(generic_load, "_make", noted)
    total = sum(1 for _ in loading(made))
    assert total > 20
    for count in range(0, total, 5):
        steps = loading(made)
        for _ in range(count):
            next(steps)
        steps.close()
        assert all(ref() is None for ref in models), count


def test_progress_never_goes_back(folders: dict[str, Path]) -> None:
    fractions = [event.fraction for event in loading(plan_for(folders["granitemoehybrid"]))]
    assert fractions == sorted(fractions)
    assert isinstance(next(loading(plan_for(folders["lfm2"]))), LoadProgress)
    assert 0 < fractions[0] < fractions[-1] <= 1
