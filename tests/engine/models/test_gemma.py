"""The real Gemma 3 270M, a file of five types of blocks, against transformers on its dequantized weights."""

from __future__ import annotations

import gc
import os
from pathlib import Path

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForCausalLM

from engine.engine import Engine
from engine.fit.plan import plan
from engine.hardware.probe import probe
from engine.models.decoder import Segment
from engine.models.spec import read_spec
from engine.types import LoadSpec

pytestmark = [
    pytest.mark.gemma,
    pytest.mark.skipif("DECODECK_NATIVE" in os.environ, reason="once is enough, with this machine's kernels"),
]
TEXT = (
    "The river had been rising since noon, and by the time the lamps were lit the lower meadow was a lake. "
    "def mean(values):\n    return sum(values) / len(values)\n"
    "In 1969, 12 people out of 384 wrote that they preferred tea; the others did not answer the question. "
)
WINDOW = 512
HEAD, TAIL = 40, 60  # rows whose logits are compared: the first, and the last, past the window
NEW = 24


def load(path: Path, format: str) -> Engine:
    engine = Engine()
    wish = LoadSpec(str(path), format=format, context=1024)
    for _ in engine.load(plan(read_spec(str(path)), probe(), wish)):
        pass
    return engine


def logits(engine: Engine, ids: list[int]) -> Tensor:
    """Of the first and last rows, read in three pieces."""
    cache, end = engine.new_cache(1024), len(ids) - TAIL
    first = engine.forward([Segment(cache, ids[:HEAD], wants_all_logits=True)])
    engine.forward([Segment(cache, ids[HEAD:end])])
    return torch.cat((first, engine.forward([Segment(cache, ids[end:], wants_all_logits=True)])))


def greedy(engine: Engine, ids: list[int]) -> list[int]:
    cache, new = engine.new_cache(1024), list[int]()
    while len(new) < NEW:
        rows = engine.forward([Segment(cache, new[-1:] or ids)])
        new.append(int(rows[-1].argmax()))
    return new


@pytest.fixture(scope="module")
def exact(gemma_model: Path) -> Engine:
    return load(gemma_model, "f32")


@pytest.fixture(scope="module")
def ids(exact: Engine) -> list[int]:
    assert exact._model is not None
    tokenizer = exact._model.text.tokenizer
    assert tokenizer.bos_id is not None
    found = [tokenizer.bos_id, *tokenizer.encode(TEXT * 10)][: WINDOW + 100]
    assert len(found) == WINDOW + 100
    return found


@pytest.fixture(scope="module")
def exact_logits(exact: Engine, ids: list[int]) -> Tensor:
    return logits(exact, ids)


def test_logits_and_greedy_tokens_are_the_oracles(
    exact: Engine, ids: list[int], exact_logits: Tensor, gemma_model: Path
) -> None:
    oracle = AutoModelForCausalLM.from_pretrained(
        gemma_model.parent, gguf_file=gemma_model.name, dtype=torch.float32, attn_implementation="eager"
    ).eval()
    with torch.no_grad():
        hidden = oracle.model(torch.tensor([ids])).last_hidden_state[0]
        expected = oracle.lm_head(torch.cat((hidden[:HEAD], hidden[-TAIL:])))
        out = oracle.generate(
            torch.tensor([ids]), max_new_tokens=NEW, do_sample=False, eos_token_id=[], pad_token_id=0
        )[0, len(ids) :].tolist()
    del oracle
    gc.collect()
    torch.testing.assert_close(exact_logits, expected, rtol=1e-3, atol=5e-3)
    assert greedy(exact, ids) == out


@pytest.mark.parametrize("format", ["bf16", "file"])
def test_first_choices_hold_where_float32_is_clear(
    format: str, gemma_model: Path, ids: list[int], exact_logits: Tensor
) -> None:
    best, second = exact_logits.topk(2).values.T
    clear = best - second > 0.5
    assert clear.sum() > 50
    engine = load(gemma_model, format)
    held = logits(engine, ids)
    assert torch.equal(exact_logits.argmax(-1)[clear], held.argmax(-1)[clear])
    planned = engine.plan
    assert planned is not None
    assert engine.memory().weights_bytes == planned.bytes.weights
