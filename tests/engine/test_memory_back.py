"""Unloading gives the memory back, after loads that ended, were dropped or failed."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from engine.engine import Engine
from engine.errors import ModelFileError, TokenizerError
from engine.events import LoadProgress
from engine.fit.plan import plan
from engine.hardware import heap
from engine.hardware.probe import probe, rss_bytes
from engine.models.spec import read_spec
from engine.types import GenerateRequest, LoadPlan, LoadSpec, Message
from tests.engine.load_cycles import CYCLES
from tests.engine.models.test_gguf_parts import CONFIG, KEYS
from tests.engine.models.writers import llama_metadata, llama_tensors, tiny_state, write_gguf
from tests.engine.tiny import tiny_folder

LARGE: dict[str, Any] = CONFIG | {
    "vocab_size": 4000,
    "hidden_size": 512,
    "intermediate_size": 1536,
    "num_hidden_layers": 6,
    "num_attention_heads": 8,
    "num_key_value_heads": 4,
    "max_position_embeddings": 2048,
}
TOKENIZER = {key: value for key, value in KEYS.items() if key.startswith("tokenizer.")}
MOST_GROWTH_BYTES = 4_000_000  # from the second to the tenth cycle: small pieces of the interpreter
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model of 46 MB of random weights."""
    state = {name: w if w.dim() == 1 else w / 20 for name, w in tiny_state(LARGE).items()}
    path = tmp_path_factory.mktemp("large") / "m.gguf"
    return write_gguf(path, llama_metadata(LARGE) | TOKENIZER, llama_tensors(state, LARGE, "BF16"))


@pytest.mark.skipif(sys.platform != "linux", reason="resident memory is exact on Linux alone")
@pytest.mark.parametrize("native", ["auto", pytest.param("off", marks=pytest.mark.slow)])
def test_after_ten_loads_no_more_is_held_than_after_two(native: str, large: Path) -> None:
    child = [sys.executable, "-m", "tests.engine.load_cycles", str(large), "bf16"]
    variables = os.environ | {"DECODECK_NATIVE": native} if native == "off" else dict(os.environ)
    done = subprocess.run(child, cwd=ROOT, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    weights = large.stat().st_size
    for name, rss in json.loads(done.stdout).items():
        high, low = rss["high"], rss["low"]
        assert len(high) == len(low) == CYCLES
        growth = low[-1] - low[1]
        assert growth < MOST_GROWTH_BYTES, f"{name}: {growth:,} bytes more after {CYCLES} cycles, {low}"
        back = [before - after for before, after in zip(high, low, strict=True)]
        least = 0.95 if name == "used" else 0.6  # of the weights: the other loads did not come to their end
        assert min(back[1:]) > least * weights, (
            f"{name}: only {min(back[1:]):,} of {weights:,} bytes came back"
        )


# -- without the garbage collector -------------------------------------------------------------------------


@pytest.fixture
def no_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def tensor_bytes() -> int:
    """Bytes of all tensors that Python knows, each memory once."""
    storages = {}
    for each in gc.get_objects():
        if type(each) is torch.Tensor:
            storage = each.untyped_storage()
            storages[storage.data_ptr()] = storage.nbytes()
    return sum(storages.values())


def make_plan(path: Path, format: str) -> LoadPlan:
    return plan(read_spec(str(path)), probe(), LoadSpec(str(path), format=format, context=256))


@pytest.mark.usefixtures("no_collector")
@pytest.mark.parametrize(
    ("source", "format", "native"),
    [
        ("gguf", "f32", "auto"),
        ("gguf", "int4", "auto"),
        ("gguf", "bf16", "off"),
        ("folder", "int8", "auto"),
        ("folder", "int4", "off"),
    ],
)
def test_no_weight_outlives_its_model(
    source: str, format: str, native: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if native == "off":
        monkeypatch.setenv("DECODECK_NATIVE", "off")
    path = tmp_path / "m.gguf"
    if source == "gguf":
        write_gguf(path, KEYS, llama_tensors(tiny_state(CONFIG), CONFIG))
    else:
        path = tiny_folder(tmp_path / "m")
    before = tensor_bytes()
    engine = Engine()
    made = make_plan(path, format)
    list(engine.load(made))
    assert tensor_bytes() > before + made.bytes.weights / 2
    engine.submit(GenerateRequest("r", (Message("user", "hello"),), max_tokens=3))
    while engine.is_busy:
        engine.step()
    engine.unload()
    assert tensor_bytes() == before
    for _ in dropped(engine, made):
        assert tensor_bytes() == before
    for _ in failing(engine, made, path if source == "gguf" else path / "model.safetensors"):
        assert tensor_bytes() == before


def dropped(engine: Engine, made: LoadPlan) -> Iterator[None]:
    """After loads that were dropped at every piece."""
    pieces = sum(1 for _ in engine.load(made))
    engine.unload()
    for piece in range(1, pieces, max(1, pieces // 6)):
        loading = engine.load(made)
        for _ in range(piece):
            if next(loading, None) is None:
                break
        loading.close()
        del loading
        engine.unload()
        yield


def failing(engine: Engine, made: LoadPlan, file: Path) -> Iterator[None]:
    """After loads whose file changed at some piece."""
    for piece in (3, 6, 12):
        status = file.stat()
        loading = engine.load(made)
        for _ in range(piece):
            assert isinstance(next(loading), LoadProgress)
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000_000))
        with pytest.raises(ModelFileError):
            list(loading)
        del loading
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
        yield


@pytest.mark.usefixtures("no_collector")
def test_an_error_of_the_text_side_leaves_no_weights(tmp_path: Path) -> None:
    place = tiny_folder(tmp_path / "m")
    made = make_plan(place, "f32")
    before = tensor_bytes()
    (place / "tokenizer.json").write_text("{}")
    with pytest.raises(TokenizerError):
        list(Engine().load(made))
    assert tensor_bytes() == before


@pytest.mark.skipif(sys.platform != "linux", reason="other C libraries give memory back by themselves")
def test_freed_blocks_of_the_heap_are_given_back() -> None:
    blocks = [torch.ones(1 << 20) for _ in range(64)]  # of 4 MB: the heap keeps such blocks
    kept = [torch.ones(10_000) for _ in range(64)]  # above and between them
    before = rss_bytes()
    del blocks
    heap.trim()
    assert before - rss_bytes() > 0.9 * 64 * (4 << 20)
    assert len(kept) == 64


def test_a_c_library_that_keeps_nothing_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Library:
        pass

    monkeypatch.setattr(heap.ctypes, "CDLL", lambda _: Library())
    heap.trim()
    heap.expect_blocks(1 << 20)


AGAIN = """
import resource, torch
from engine.hardware import heap
if {keeps}: heap.expect_blocks(16 << 20)
def piece(): return [torch.ones(1 << 18) for _ in range(8)]  # of 1 MB
def faults(): return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
piece(), piece()
before = faults()
for _ in range(10): piece()
print(faults() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other C libraries have rules of their own")
def test_memory_that_is_freed_and_taken_again_does_not_come_from_the_system() -> None:
    def faults(keeps: bool) -> int:
        command = [sys.executable, "-c", AGAIN.format(keeps=keeps)]
        return int(subprocess.run(command, capture_output=True, check=True, text=True).stdout)

    assert faults(keeps=False) > 1000 > 100 > faults(keeps=True)
