"""The real starter model against transformers on the same dequantized weights."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
import torch
from torch import Tensor

from engine.engine import Engine
from engine.events import Event, Finished
from engine.fit.plan import plan
from engine.hardware.probe import probe
from engine.models.spec import read_spec
from engine.types import GenerateRequest, LoadSpec, Message, SamplingParams
from tests.engine.tiny import finished

pytestmark = pytest.mark.starter
QUESTION = "Write a long story about a lighthouse keeper and the sea."
TEXT = (
    "The river had been rising since noon, and by the time the lamps were lit the lower meadow was a lake. "
    "def mean(values):\n    return sum(values) / len(values)\n"
    "In 1969, 12 people out of 384 wrote that they preferred tea; the others did not answer the question. "
)


def load(path: Path, format: str) -> Engine:
    engine = Engine()
    for _ in engine.load(
        plan(read_spec(str(path)), probe(), LoadSpec(str(path), format=format, context=1024))
    ):
        pass
    return engine


def answer(engine: Engine, tokens: int) -> Finished:
    request = GenerateRequest("r", (Message("user", QUESTION),), SamplingParams(temperature=0), tokens)
    engine.submit(request)
    events: list[Event] = []
    while engine.is_busy:
        events += engine.step()
    end = finished(events, "r")
    assert end is not None
    return end


@pytest.fixture(scope="module")
def exact(starter_path: Path) -> Engine:
    return load(starter_path, "f32")


@pytest.fixture(scope="module")
def ids(exact: Engine) -> list[int]:
    assert exact._model is not None
    return exact._model.text.tokenizer.encode(TEXT * 3)


@pytest.fixture(scope="module")
def exact_logits(exact: Engine, ids: list[int]) -> Tensor:
    return exact.logits(ids)


def test_greedy_tokens_equal_the_oracles(exact: Engine, starter_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    end = answer(exact, 64)
    assert exact._model is not None
    prompt, _ = exact._model.text.prompt((Message("user", QUESTION),))
    assert len(prompt) == end.stats.prompt_tokens
    oracle = transformers.AutoModelForCausalLM.from_pretrained(
        starter_path.parent, gguf_file=starter_path.name, dtype=torch.float32
    ).eval()
    with torch.no_grad():
        out = oracle.generate(
            torch.tensor([prompt]), max_new_tokens=64, do_sample=False, eos_token_id=[], pad_token_id=0
        )[0, len(prompt) :].tolist()
    del oracle
    gc.collect()
    assert len(out) == end.stats.generated_tokens == 64
    assert list(end.stats.token_ids) == out


@pytest.mark.parametrize("format", ["bf16", "file"])
def test_first_choices_hold_where_float32_is_clear(
    format: str, starter_path: Path, ids: list[int], exact_logits: Tensor
) -> None:
    best, second = exact_logits.topk(2).values.T
    clear = best - second > 0.25
    assert clear.sum() > 150
    held = load(starter_path, format).logits(ids)
    assert torch.equal(exact_logits.argmax(-1)[clear], held.argmax(-1)[clear])


def test_the_file_format_is_smaller_than_16_bits_and_counted_to_the_byte(starter_path: Path) -> None:
    engine = load(starter_path, "file")
    report, planned = engine.memory(), engine.plan
    assert planned is not None
    assert report.weights_bytes == planned.bytes.weights < 130_000_000
    assert report.kv_reserved_bytes == planned.bytes.kv_reserved
