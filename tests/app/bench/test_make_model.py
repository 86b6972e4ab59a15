"""The files of random models: whole, repeatable, readable by both engines, and endless in their answers."""

from __future__ import annotations

import errno
import hashlib
import shutil
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from app import answer
from app.atomic_file import StorageError
from app.bench import make_model
from app.bench.blocks import TYPES
from app.bench.model_types import SHAPES, parse_mix
from app.bench.process import Worker
from app.bench.tokens import token_ids
from engine.engine import Engine
from engine.fit.plan import plan
from engine.hardware.probe import probe
from engine.models.spec import read_spec
from engine.types import GenerateRequest, LoadSpec, Message, SamplingParams
from tests.app.bench.conftest import needs_llama_cpp

MIXES = (*TYPES, "Q4_K_M", "Q4_0,head=Q8_0")
SHAPE = SHAPES["tiny"]
Write = Callable[[str], Path]


def loaded(path: Path, format: str = "auto") -> Engine:
    engine = Engine()
    answer.load(engine, plan(read_spec(str(path)), probe(), LoadSpec(str(path), format, 256, threads=1)))
    return engine


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("types", MIXES)
def test_the_engine_runs_every_mix(tiny: Write, types: str) -> None:
    logits = loaded(tiny(types)).logits(token_ids(0, 24, SHAPE.vocab))
    assert torch.isfinite(logits).all()
    assert logits.std(dim=-1).min() > 0.1


@needs_llama_cpp
def test_llama_cpp_runs_every_mix_and_mostly_agrees_on_the_best_token(tiny: Write) -> None:
    lengths, agreed = (1, 2, 5, 9, 17), 0
    with Worker("app.bench.llama_peer", "llama.cpp") as theirs:
        for types in MIXES:
            path = tiny(types)
            theirs.ask("load", path=str(path), context=256, threads=1)
            ours = loaded(path, "f32").logits(token_ids(0, max(lengths), SHAPE.vocab)).argmax(dim=-1)
            for length in lengths:
                agreed += theirs.ask("prefill", tokens=length)["token"] == ours[length - 1].item()
    # Theirs rounds activations to 8 bits, so two tokens that are almost equally good may change places.
    assert agreed >= 0.9 * len(MIXES) * len(lengths)


def test_the_same_seed_gives_the_same_bytes(tiny: Write) -> None:
    path = tiny("Q4_K_M")
    first = digest(path)
    path.unlink()
    assert digest(tiny("Q4_K_M")) == first


def test_another_seed_gives_another_file() -> None:
    paths = [make_model.ensure(SHAPE, parse_mix("Q4_0"), lambda _: None, seed) for seed in (0, 1)]
    assert paths[0] != paths[1]
    assert digest(paths[0]) != digest(paths[1])


def test_a_greedy_answer_never_ends_by_itself(tiny: Write) -> None:
    request = GenerateRequest("1", (Message("user", "hello"),), SamplingParams(temperature=0), max_tokens=150)
    result = answer.ask(loaded(tiny("Q4_0")), request)
    assert result.finished.reason == "length"
    assert result.finished.stats.generated_tokens == 150


def test_end_tokens_have_a_logit_of_zero(tiny: Write) -> None:
    path = tiny("Q6_K")
    engine = loaded(path)
    ends = make_model._end_ids(SHAPE)
    logits = engine.logits(token_ids(0, 8, SHAPE.vocab))
    assert not logits[:, ends].any()
    assert (logits.max(dim=-1).values > 0).all()


def test_a_file_that_is_there_is_used_again(tiny: Write) -> None:
    said: list[str] = []
    before = tiny("Q4_0").stat().st_mtime_ns
    path = make_model.ensure(SHAPE, parse_mix("Q4_0"), said.append)
    assert path.stat().st_mtime_ns == before
    assert said == []


def test_a_file_that_was_cut_is_written_again_and_said(tiny: Write) -> None:
    path = tiny("Q4_0")
    whole = digest(path)
    path.write_bytes(path.read_bytes()[:-100])
    said: list[str] = []
    make_model.ensure(SHAPE, parse_mix("Q4_0"), said.append)
    assert digest(path) == whole
    assert len(said) == 1 and str(path) in said[0] and "MB" in said[0]


def test_a_disk_without_room_is_told_before_anything_is_written(
    tiny: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage(10, 10, 1_000_000))
    with pytest.raises(StorageError, match="1 MB are free"):
        tiny("Q4_0")


def test_a_disk_that_fills_up_leaves_nothing_behind(tiny: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    folder = tiny("Q4_0").parent
    monkeypatch.setattr(make_model, "_write_tensor", fill)
    with pytest.raises(StorageError, match="disk is full"):
        tiny("Q4_1")
    assert [path.name for path in folder.iterdir()] == [make_model.file_name(SHAPE, parse_mix("Q4_0"))]


def test_the_name_says_what_the_bytes_depend_on() -> None:
    name = make_model.file_name(SHAPES["1B"], parse_mix("Q4_K_M,head=Q8_0"), seed=7)
    assert name == f"random-1B-Q4_K_M-head-Q8_0-seed7-v{make_model.WRITER_VERSION}.gguf"
