"""Cases of public reports that need a whole engine: scripted tokens, heads, tokenizers and foreign code."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from engine.decode.sampler import Sampler
from engine.engine import Engine
from engine.events import Chunk, Event, Finished, StepStats
from engine.fit.bytes import weight_bytes
from engine.fit.plan import plan
from engine.hardware.probe import probe
from engine.models.spec import read_spec, scan_folder
from engine.types import GenerateRequest, LoadSpec, Message, SamplingParams
from tests.engine.tiny import VOCAB, oracle_logits, tiny_folder

GREEDY = SamplingParams(temperature=0.0)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("cases") / "model")


@pytest.fixture
def engine(folder: Path) -> Engine:
    return loaded(folder)


def loaded(folder: Path) -> Engine:
    engine = Engine()
    made = plan(read_spec(str(folder)), probe(), LoadSpec(str(folder), format="f32", context=256))
    list(engine.load(replace(made, prefill_piece=16)))
    return engine


def script(engine: Engine, monkeypatch: pytest.MonkeyPatch, text: bytes) -> None:
    """The model says these bytes, one a token, and then ends its answer."""
    assert engine._model is not None
    tokenizer = engine._model.text.tokenizer
    by_byte = {tokenizer.token_bytes(token): token for token in range(256)}
    tokens: Iterator[int] = iter([*(by_byte[bytes([byte])] for byte in text), *tokenizer.eos_ids])
    monkeypatch.setattr(Sampler, "draw", lambda *_: torch.tensor(next(tokens)))


def request(text: str = "hi", tokens: int | None = 100, **options: Any) -> GenerateRequest:
    """Without drafts: what is scripted comes one token a step."""
    options = {"speculate": "off"} | options
    return GenerateRequest("r", (Message("user", text),), max_tokens=tokens, **options)


def run(
    engine: Engine, asked: GenerateRequest, cancel_after: int | None = None
) -> tuple[list[str], Finished]:
    """The chunks as they came, and the end; Stop is pressed after so many tokens."""
    engine.submit(asked)
    events: list[Event] = []
    while engine.is_busy:
        events += engine.step()
        said = max((e.generated_tokens for e in events if isinstance(e, StepStats)), default=0)
        if cancel_after is not None and said >= cancel_after:
            engine.cancel(asked.request_id)
            cancel_after = None
    [end] = [event for event in events if isinstance(event, Finished)]
    return [event.text for event in events if isinstance(event, Chunk)], end


def test_no_half_character_is_ever_sent(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:  # B001
    script(engine, monkeypatch, " 🧊 ok 猫".encode())
    chunks, end = run(engine, request())
    assert chunks == [" ", "🧊", " ", "o", "k", " ", "猫"]
    assert (end.text, end.reason) == (" 🧊 ok 猫", "stop")


@pytest.mark.parametrize("is_stopped", [False, True], ids=["limit", "stop"])
def test_an_answer_that_ends_inside_a_character_ends_like_any_other(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, is_stopped: bool
) -> None:  # B002
    half = b"Bye " + "🧊".encode()[:2]
    script(engine, monkeypatch, half + b"x" * 50)
    asked = request(tokens=None if is_stopped else len(half))
    chunks, end = run(engine, asked, cancel_after=len(half) if is_stopped else None)
    assert end.text == "".join(chunks) == "Bye \ufffd"
    assert end.reason == ("cancelled" if is_stopped else "length")
    assert end.text.encode().decode() == end.text
    monkeypatch.undo()
    turns = (Message("user", "hi"), Message("assistant", end.text), Message("user", "go on"))
    _, after = run(engine, GenerateRequest("next", turns, GREEDY, 3))
    assert after.reason in ("length", "stop")


@pytest.mark.parametrize(
    ("stops", "said", "text", "reason"),
    [
        (("red car",), "A bored car runs", "A bo", "stop"),
        (("two three",), "one two four", "one two four", "stop"),
        (("aab",), "aaabc", "a", "stop"),
        (("XY", "XYZ"), "1XYZ", "1", "stop"),
        (("END",), "ENDING", "", "stop"),
        (("é!",), "caf é?é!.", "caf é?", "stop"),
    ],
)
def test_a_stop_string_is_cut_out_of_the_stream_exactly(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, stops: tuple[str, ...], said: str, text: str, reason: str
) -> None:  # B006
    script(engine, monkeypatch, said.encode())
    chunks, end = run(engine, request(stop=stops))
    assert (end.text, end.reason) == (text, reason)
    assert "".join(chunks) == text  # nothing was shown and taken back


def test_the_limit_gives_back_the_beginning_of_a_stop_string(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:  # B006
    script(engine, monkeypatch, b"one two thousand")
    chunks, end = run(engine, request(tokens=10, stop=("two three",)))
    assert end.text == "".join(chunks) == "one two th"
    assert end.reason == "length"


@pytest.mark.parametrize(
    ("said", "stop", "text"),
    [
        (b"the EN", ("END",), "the EN"),
        (b"cold \xf0\x9f\xa7", (), "cold \ufffd"),
        (b"a\xc3", ("é!",), "a\ufffd"),
    ],
)
def test_stop_gives_back_what_was_held(
    engine: Engine, monkeypatch: pytest.MonkeyPatch, said: bytes, stop: tuple[str, ...], text: str
) -> None:  # B077
    script(engine, monkeypatch, said + b"x" * 50)
    chunks, end = run(engine, request(stop=stop), cancel_after=len(said))
    assert end.reason == "cancelled"
    assert end.text == "".join(chunks) == text
    assert not engine.is_busy


def test_greedy_is_the_best_token_whatever_number_says_so(engine: Engine) -> None:  # B059
    wishes: list[Any] = [0, 0.0, -0.0, 1e-9]
    answers = [run(engine, request(sampling=replace(GREEDY, temperature=t)))[1] for t in wishes]
    assert len({end.stats.token_ids for end in answers}) == 1
    assert engine._model is not None
    prompt = engine._model.text.prompt((Message("user", "hi"),))[0]
    ids = list(answers[0].stats.token_ids)
    best = engine.logits(prompt + ids).argmax(-1).tolist()
    assert best[len(prompt) - 1 : len(prompt) - 1 + len(ids)] == ids
    for whole in (1, 2):
        end = run(engine, request(tokens=5, sampling=SamplingParams(temperature=whole, seed=1)))[1]
        assert end.reason in ("length", "stop")


def test_rows_the_tokenizer_does_not_know_do_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # B034 d
    engine = loaded(tiny_folder(tmp_path / "m", vocab_size=VOCAB + 29))
    tokens = iter([70, VOCAB + 5, 71, VOCAB - 1])
    monkeypatch.setattr(Sampler, "draw", lambda *_: torch.tensor(next(tokens)))
    chunks, end = run(engine, request())
    assert engine._model is not None
    assert end.text == "".join(chunks) == engine._model.text.tokenizer.decode([70, 71])
    assert end.stats.generated_tokens == 3
    assert end.reason == "stop"


def test_an_end_id_outside_the_vocabulary_ends_nothing_and_breaks_nothing(tmp_path: Path) -> None:  # B034 e
    place = tiny_folder(tmp_path / "m")
    (place / "generation_config.json").write_text(json.dumps({"eos_token_id": [VOCAB + 1000, -3]}))
    end = run(loaded(place), request(tokens=4))[1]
    assert end.reason in ("length", "stop")


def head_folder(tmp_path: Path, case: str) -> tuple[Path, torch.Tensor]:
    """The folder of a B041 case, and transformers' logits of the sound model that it is."""
    place = tiny_folder(tmp_path / case, tie_word_embeddings=case != "c")
    expected = oracle_logits(place, list(b"some words"))
    weights = load_file(place / "model.safetensors")
    assert ("lm_head.weight" in weights) == (case == "c")
    if case == "b":
        weights["lm_head.weight"] = torch.randn_like(weights["model.embed_tokens.weight"])
        save_file(weights, place / "model.safetensors")
    if case == "d":
        config = json.loads((place / "config.json").read_text())
        outer = {"model_type": "llava", "architectures": ["LlavaForConditionalGeneration"]}
        (place / "config.json").write_text(json.dumps(outer | {"text_config": config}))
    return place, expected


@pytest.mark.parametrize("case", ["a", "b", "c", "d"])
def test_a_tied_head_is_the_embedding_in_logits_and_in_bytes(tmp_path: Path, case: str) -> None:  # B041
    place, expected = head_folder(tmp_path, case)
    engine = loaded(place)
    torch.testing.assert_close(engine.logits(list(b"some words")), expected, rtol=1e-4, atol=2e-4)
    spec = read_spec(str(place))
    sizes = [weight.numel() for name, weight in load_file(place / "model.safetensors").items()]
    redundant = VOCAB * 64 if case == "b" else 0
    assert engine.memory().weights_bytes == weight_bytes(spec, "f32") == 4 * (sum(sizes) - redundant)


class Marks:
    """A pickle that leaves a file behind when it is opened as one."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return open, (str(self.marker), "w")


def test_examining_loading_and_answering_run_nothing_that_lies_in_the_folder(tmp_path: Path) -> None:
    """B039, B040: code and pickles beside good weights, named by every file that can name them."""
    place, marker = tiny_folder(tmp_path / "models" / "m"), tmp_path / "marker"
    for name in ("modeling_x.py", "tokenization_x.py", "configuration_x.py", "__init__.py", "x.py"):
        (place / name).write_text(f"open({str(marker)!r}, 'w')\n")
    for name in ("optimizer.pt", "training_args.bin", "pytorch_model.bin", "rng_state.pth", "scheduler.pt"):
        (place / name).write_bytes(pickle.dumps(Marks(marker)))
    code = {"AutoConfig": "configuration_x.X", "AutoModelForCausalLM": "modeling_x.X"}
    for name in ("config.json", "tokenizer_config.json", "generation_config.json"):
        changes = {"auto_map": code, "trust_remote_code": True, "model_file": "x.py"}
        data = json.loads((place / name).read_text()) | changes
        if name == "tokenizer_config.json":
            data["auto_map"] = {"AutoTokenizer": ["tokenization_x.X", None]}
        (place / name).write_text(json.dumps(data))
    [(path, _)] = scan_folder(str(tmp_path / "models"))
    assert path == str(place)
    assert run(loaded(place), request(tokens=3))[1].reason in ("length", "stop")
    assert not marker.exists()
