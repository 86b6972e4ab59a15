"""The engine with models that run through transformers: answers, reuse, memory, silence."""

from __future__ import annotations

import gc
import itertools
import json
import subprocess
import sys
import textwrap
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.calibration import Calibration
from engine.engine import Engine
from engine.errors import UnsupportedModelError
from engine.events import Finished, Loaded
from engine.fit.generic_bytes import layer_bytes
from engine.fit.plan import plan
from engine.fit.speed import step_s
from engine.hardware.probe import probe
from engine.models import generic_disk
from engine.models.spec import read_spec
from engine.types import GenerateRequest, LoadPlan, LoadSpec, Message, SamplingParams
from tests.engine.models.generic_models import generic_folder
from tests.engine.tiny import finished

GREEDY = SamplingParams(temperature=0.0)
WITH_STATE = "lfm2"
counter = itertools.count()


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    home = tmp_path_factory.mktemp("generic")
    return {name: generic_folder(home / name, name) for name in ("qwen3_moe", WITH_STATE)}


@pytest.fixture(params=["qwen3_moe", WITH_STATE])
def folder(request: pytest.FixtureRequest, folders: dict[str, Path]) -> Path:
    return folders[request.param]


@pytest.fixture(autouse=True)
def _threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def make_plan(folder: Path, **changes: object) -> LoadPlan:
    wish = LoadSpec(str(folder), format="f32", context=256, threads=1)
    return replace(plan(read_spec(str(folder)), probe(), wish), **changes)  # type: ignore[arg-type]


def loaded(folder: Path, **changes: object) -> tuple[Engine, Loaded]:
    engine = Engine()
    events = list(engine.load(make_plan(folder, **changes)))
    end = events[-1]
    assert isinstance(end, Loaded)
    return engine, end


def answer(engine: Engine, *texts: str, tokens: int = 8) -> Finished:
    roles = itertools.cycle(("user", "assistant"))
    messages = [Message(role, text) for role, text in zip(roles, texts, strict=False)]
    request = GenerateRequest(f"r{next(counter)}", tuple(messages), GREEDY, tokens)
    engine.submit(request)
    events = []
    while engine.is_busy:
        events += engine.step()
    end = finished(events, request.request_id)
    assert end is not None
    return end


def test_the_load_says_who_runs_the_model_and_what_it_cannot(folder: Path) -> None:
    _, event = loaded(folder)
    assert event.kernels.startswith("transformers")
    assert event.warnings[0].startswith("Runs through transformers, slower: the program has no decoder")
    assert set(event.capabilities.reasons) <= set(event.warnings)
    assert event.capabilities.can_trim == (folder.name != WITH_STATE)
    assert not event.capabilities.can_share_prefix
    assert not event.capabilities.can_batch
    assert event.capabilities == event.plan.model.capabilities


def test_the_measured_bytes_are_the_planned_ones(folder: Path) -> None:
    engine, event = loaded(folder)
    report = engine.memory()
    assert report.weights_bytes == event.plan.bytes.weights
    assert report.kv_reserved_bytes == event.plan.bytes.kv_reserved


def test_the_same_prompt_again_is_reused_where_a_cache_can_be_trimmed(folder: Path) -> None:
    engine, event = loaded(folder)
    first, second = answer(engine, "hello there"), answer(engine, "hello there")
    can_trim = event.capabilities.can_trim
    assert second.stats.reused_tokens == (first.stats.prompt_tokens - 1 if can_trim else 0)
    assert second.stats.token_ids == first.stats.token_ids


def test_an_edit_is_answered_as_by_a_fresh_engine(folder: Path) -> None:
    engine, event = loaded(folder)
    answer(engine, "hello there")
    edited = answer(engine, "hello you")
    fresh, _ = loaded(folder)
    assert edited.stats.token_ids == answer(fresh, "hello you").stats.token_ids
    assert (edited.stats.reused_tokens > 0) == event.capabilities.can_trim


def test_a_state_goes_on_where_a_prompt_begins_with_all_it_holds(folders: dict[str, Path]) -> None:
    engine, _ = loaded(folders[WITH_STATE])
    text = "tell me more"
    first = answer(engine, text, tokens=1)
    # nothing of the answer went into the cache: the next prompt begins with this one
    second = answer(engine, text, first.text, "and more")
    if second.stats.prompt_tokens > first.stats.prompt_tokens:
        fresh, _ = loaded(folders[WITH_STATE])
        again = answer(fresh, text, first.text, "and more")
        assert second.stats.reused_tokens == first.stats.prompt_tokens
        assert second.stats.token_ids == again.stats.token_ids


def test_answers_together_equal_answers_alone(folder: Path) -> None:
    texts = ["first question", "second", "a third and longer question here"]
    alone = [answer(loaded(folder)[0], text).stats.token_ids for text in texts]
    engine, _ = loaded(folder, max_sequences=3)
    requests = [GenerateRequest(f"t{i}", (Message("user", t),), GREEDY, 8) for i, t in enumerate(texts)]
    for request in requests:
        engine.submit(request)
    events = []
    while engine.is_busy:
        events += engine.step()
    ends = [finished(events, request.request_id) for request in requests]
    assert [end.stats.token_ids for end in ends if end] == alone


def make_poor_plan(folder: Path, known: Calibration | None) -> LoadPlan:
    """Some layers have no room in memory."""
    whole = make_plan(folder)
    free = whole.bytes.total - whole.bytes.overhead - 1
    wish = LoadSpec(str(folder), format="f32", context=256, threads=1)
    poor = plan(whole.model, replace(probe(), ram_free_bytes=free, calibration=known), wish)
    assert poor.disk_layers > 0
    return poor


@pytest.mark.parametrize("known", [None, Calibration(read_gbps=10.0)])
def test_a_model_with_layers_on_the_disk_answers_the_same(
    known: Calibration | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether the rate of the disk is measured for a calibration or waits for one."""
    monkeypatch.setattr(generic_disk, "LEAST_BYTES", 1)
    expected = answer(loaded(folder)[0], "on disk").stats.token_ids
    poor, engine = make_poor_plan(folder, known), Engine()
    list(engine.load(poor))
    report = engine.memory()
    assert report.weights_bytes == poor.bytes.weights
    assert report.working_bytes >= max(layer_bytes(poor.model, "f32")[-poor.disk_layers :])
    assert answer(engine, "on disk").stats.token_ids == expected


def test_a_load_measures_the_disk_that_layers_come_from(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(generic_disk, "LEAST_BYTES", 1)
    path, poor = tmp_path / "kernel-times.json", make_poor_plan(folder, Calibration(read_gbps=10.0))
    *_, end = Engine(kernel_times=path).load(poor)
    assert isinstance(end, Loaded)
    known = end.plan.hardware.calibration
    assert known is not None and known.disk_gbps is not None and known.disk_gbps > 0
    assert probe(path).calibration == known
    assert end.plan.disk_layers == poor.disk_layers
    assert step_s(end.plan, 1) != step_s(poor, 1)


def test_cancel_leaves_a_usable_engine(folder: Path) -> None:
    engine, _ = loaded(folder)
    expected = answer(engine, "after").stats.token_ids
    request = GenerateRequest("c", (Message("user", "x" * 60),), GREEDY, 50)
    engine.submit(request)
    for _ in range(3):
        engine.step()
    engine.cancel("c")
    end = finished(engine.step(), "c")
    assert end is not None
    assert end.reason == "cancelled"
    assert answer(engine, "after").stats.token_ids == expected


@pytest.mark.parametrize("disk_layers", [0, 2])
def test_unload_gives_weights_and_caches_back(folder: Path, disk_layers: int) -> None:
    engine, _ = loaded(folder, disk_layers=disk_layers)
    answer(engine, "hello")
    model = engine._require_model()
    held: list[object] = [*model.runner._model.parameters()]  # type: ignore[attr-defined]
    for cache in model.store._caches:  # type: ignore[attr-defined]
        held += cache.held.layers
    refs = [weakref.ref(each) for each in held]
    assert len(refs) > 10
    del model, held, cache
    engine.unload()
    assert not [ref for ref in refs if ref() is not None]


def test_a_cycle_of_loads_does_not_grow(folder: Path) -> None:
    engine = Engine()
    counts = []
    for _ in range(3):
        list(engine.load(make_plan(folder)))
        answer(engine, "hi", tokens=2)
        engine.unload()
        gc.collect()
        counts.append(sum(issubclass(type(each), torch.Tensor) for each in gc.get_objects()))
    assert counts[2] <= counts[1]


def test_a_model_the_library_fails_on_is_an_error_and_no_bug(tmp_path: Path) -> None:
    folder = generic_folder(tmp_path / "m", "qwen3_moe")
    config = json.loads((folder / "config.json").read_text())
    config["rope_parameters"] = {"rope_type": "none such", "rope_theta": 1e4}
    (folder / "config.json").write_text(json.dumps(config))
    engine = Engine()
    with pytest.raises(UnsupportedModelError, match="transformers cannot run this qwen3_moe"):
        list(engine.load(make_plan(folder)))
    assert engine.plan is None


def test_a_load_prints_nothing_and_asks_no_network(folder: Path) -> None:
    """In a process of its own, where the library is imported by the load itself."""
    code = f"""
        import os, socket, sys
        os.environ.pop("HF_HUB_OFFLINE", None)
        def refuse(*arguments):
            raise AssertionError(f"network: {{arguments}}")
        socket.socket.connect = socket.getaddrinfo = refuse
        from engine.engine import Engine
        from engine.fit.plan import plan
        from engine.hardware.probe import probe
        from engine.models.spec import read_spec
        from engine.types import GenerateRequest, LoadSpec, Message
        engine, path = Engine(), {str(folder)!r}
        made = plan(read_spec(path), probe(), LoadSpec(path, context=64))
        assert "transformers" not in sys.modules
        events = list(engine.load(made))
        engine.submit(GenerateRequest("1", (Message("user", "hi"),), max_tokens=3))
        while engine.is_busy:
            events += engine.step()
        assert "transformers" in sys.modules
        assert "HF_HUB_OFFLINE" not in os.environ
        print(type(events[-1]).__name__)
    """
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(code)], capture_output=True, text=True
    )
    assert done.stderr == ""
    assert done.stdout == "Finished\n"
