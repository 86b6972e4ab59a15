"""The engine on the toy accelerator: the same answers, one wait a step, errors that leave it usable."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine.decode.sampler import Sampler
from engine.engine import Engine
from engine.errors import DeviceError, MemoryLimitError
from engine.events import Finished, Loaded
from engine.fit.plan import plan
from engine.hardware import gpus
from engine.hardware.probe import probe
from engine.machine import Gpu
from engine.models.spec import read_spec
from engine.types import GenerateRequest, LoadSpec, Message, SamplingParams
from tests.engine.models.built import WITH_TOY
from tests.engine.tiny import finished, tiny_folder
from tests.engine.toy_device import ToyDevice

GREEDY = SamplingParams(temperature=0.0)
LAYERS, TOKENS = 2, 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("tiny") / "model", num_hidden_layers=LAYERS)


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[ToyDevice]:
    """The toy is the machine's one accelerator; it draws by the processor's generator."""
    (gpu,) = WITH_TOY.gpus or ()
    found: tuple[Gpu, ...] = (gpu,)
    monkeypatch.setattr(gpus, "_find", lambda: found)
    monkeypatch.setattr(gpus, "_memory", lambda _: (gpu.free_bytes, gpu.total_bytes))
    make = torch.Generator
    monkeypatch.setattr(torch, "Generator", lambda device=None: make())
    with ToyDevice() as device:
        yield device


def loaded(folder: Path, sequences: int = 1, **wish: object) -> tuple[Engine, Loaded]:
    made = plan(read_spec(str(folder)), probe(), LoadSpec(str(folder), "f32", 128, **wish))  # type: ignore[arg-type]
    engine = Engine()
    (*_, last) = engine.load(replace(made, max_sequences=sequences))
    assert isinstance(last, Loaded)
    return engine, last


def answers(engine: Engine, *texts: str, sampling: SamplingParams = GREEDY) -> list[Finished]:
    for text in texts:
        engine.submit(GenerateRequest(text, (Message("user", text),), sampling, max_tokens=TOKENS))
    events = []
    while engine.is_busy:
        events += engine.step()
    ends = [finished(events, text) for text in texts]
    return [end for end in ends if end is not None]


def tokens(engine: Engine, *texts: str, sampling: SamplingParams = GREEDY) -> list[tuple[int, ...]]:
    return [end.stats.token_ids for end in answers(engine, *texts, sampling=sampling)]


@pytest.mark.parametrize("gpu_layers", [None, 1])
def test_greedy_answers_are_those_of_the_processor(
    gpu_layers: int | None, folder: Path, toy: ToyDevice
) -> None:
    expected = tokens(loaded(folder, device="cpu")[0], "one", "two")
    engine, last = loaded(folder, gpu_layers=gpu_layers)
    assert last.plan.gpu_layers == (gpu_layers or LAYERS)
    assert tokens(engine, "one", "two") == expected


def test_options_and_forms_give_the_processors_answers(folder: Path, toy: ToyDevice) -> None:
    sampling = SamplingParams(
        temperature=0,
        repeat_penalty=1.2,
        presence_penalty=1.0,
        frequency_penalty=0.5,
        logit_bias=((70, 5.0),),
        logprobs=2,
    )

    def answer(engine: Engine) -> Finished:
        message = (Message("user", "one"),)
        engine.submit(GenerateRequest("one", message, sampling, 12, regex="[a-z]{4,9}[.]"))
        events = []
        while engine.is_busy:
            events += engine.step()
        end = finished(events, "one")
        assert end is not None
        return end

    expected, found = answer(loaded(folder, device="cpu")[0]), answer(loaded(folder)[0])
    assert (found.text, found.stats.token_ids) == (expected.text, expected.stats.token_ids)
    assert found.text.endswith(".")
    for here, there in zip(expected.stats.logprobs, found.stats.logprobs, strict=True):
        assert here.chosen.logprob == pytest.approx(there.chosen.logprob, abs=1e-4)


def test_a_seed_repeats_on_a_device(folder: Path, toy: ToyDevice) -> None:
    engine, _ = loaded(folder)
    warm = SamplingParams(temperature=1.5, top_k=50, seed=7)
    first, second = tokens(engine, "one", sampling=warm), tokens(engine, "one", sampling=warm)
    assert first == second
    assert first != tokens(engine, "one", sampling=replace(warm, seed=8))


@pytest.mark.parametrize(
    "sampling",
    [
        GREEDY,
        SamplingParams(seed=1, repeat_penalty=1.3),
        SamplingParams(seed=1, top_k=0),
        SamplingParams(seed=1, presence_penalty=1.0, frequency_penalty=0.5, logit_bias=((3, 2.0),)),
    ],
)
def test_a_step_of_any_number_of_answers_waits_once(
    sampling: SamplingParams, folder: Path, toy: ToyDevice
) -> None:
    engine, _ = loaded(folder, sequences=3)
    for text in ("one", "two", "three"):
        engine.submit(GenerateRequest(text, (Message("user", text),), sampling, max_tokens=TOKENS))
    waits = []
    while engine.is_busy:
        toy.waits = 0
        engine.step()
        waits.append(toy.waits)
    assert max(waits) <= 2  # while a prompt is read beside the others' tokens, once for each
    assert waits[4:].count(1) == len(waits[4:])


def test_memory_is_told_by_device(folder: Path, toy: ToyDevice) -> None:
    engine, last = loaded(folder, gpu_layers=1)
    report, (_, share) = engine.memory(), last.plan.devices
    assert report.gpus == WITH_TOY.gpus
    assert report.on_gpus == share.bytes
    assert report.weights_bytes == last.plan.bytes.weights
    assert 0 < report.on_gpus.weights < report.weights_bytes


def test_unload_gives_a_devices_memory_back(folder: Path, toy: ToyDevice) -> None:
    for _ in range(3):
        engine, _ = loaded(folder)
        answers(engine, "one")
        assert toy.nbytes > 0
        engine.unload()
        gc.collect()
        assert toy.nbytes == 0
        assert engine.memory().on_gpus.total == 0


def test_a_device_without_memory_is_an_error_and_the_engine_goes_on(
    folder: Path, toy: ToyDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, _ = loaded(folder)
    expected = tokens(engine, "one")
    draw, calls = Sampler.draw, iter([True, False])

    def fail_once(*args: object) -> torch.Tensor:
        if next(calls, False):
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
        return draw(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(Sampler, "draw", fail_once)
    engine.submit(GenerateRequest("one", (Message("user", "one"),), GREEDY, max_tokens=TOKENS))
    with pytest.raises(MemoryLimitError):
        engine.step()
    engine.abort()
    engine.step()
    assert tokens(engine, "one") == expected


def test_a_device_that_stops_working_is_said_in_words(
    folder: Path, toy: ToyDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: object) -> torch.Tensor:
        raise torch.AcceleratorError("CUDA error: an illegal memory access was encountered\nmore")

    engine, _ = loaded(folder)
    monkeypatch.setattr(Sampler, "draw", fail)
    engine.submit(GenerateRequest("one", (Message("user", "one"),), GREEDY, max_tokens=TOKENS))
    with pytest.raises(DeviceError, match="illegal memory access") as error:
        engine.step()
    assert "cpu" in error.value.hint
    assert "more" not in error.value.message


def test_a_model_too_large_for_a_device_lies_there_in_part(
    folder: Path, toy: ToyDevice, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What does not fit on the device stays on the processor; what fits nowhere is refused."""
    whole = loaded(folder)[1].plan.devices[-1].bytes
    (gpu,) = WITH_TOY.gpus or ()
    # a card of which a margin of 3 % is less than one of these layers
    small = replace(gpu, free_bytes=whole.total - 1, total_bytes=whole.weights)
    monkeypatch.setattr(gpus, "_find", lambda: (small,))
    monkeypatch.setattr(gpus, "_memory", lambda _: (small.free_bytes, small.total_bytes))
    engine, last = loaded(folder)
    assert (last.plan.verdict, last.plan.gpu_layers) == ("spills", LAYERS - 1)
    assert tokens(engine, "one") == tokens(loaded(folder, device="cpu")[0], "one")
    with pytest.raises(MemoryLimitError, match="on Toy"):
        loaded(folder, gpu_layers=LAYERS)
