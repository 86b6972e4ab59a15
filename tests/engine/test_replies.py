"""Replies of a whole engine: where they end, and thinking parted from the answer. Tokens are scripted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from tokenizers import AddedToken, Tokenizer

from engine.decode.sampler import Sampler
from engine.engine import Engine
from engine.events import Chunk, Event, Finished, StepStats
from engine.types import GenerateRequest, Message
from tests.engine.test_cases_engine import GREEDY, loaded, request, run
from tests.engine.tiny import TEMPLATE, VOCAB, tiny_folder


def with_tokens(place: Path, *texts: str, template: str = TEMPLATE) -> Path:
    """The folder of a tiny model whose vocabulary has further control tokens, from VOCAB on."""
    tiny_folder(place, template=template, vocab_size=VOCAB + len(texts))
    tokenizer = Tokenizer.from_file(str(place / "tokenizer.json"))
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in texts])
    tokenizer.save(str(place / "tokenizer.json"))
    return place


def say(engine: Engine, monkeypatch: pytest.MonkeyPatch, *said: bytes | int) -> None:
    """The model says these bytes and ids; then its end."""
    assert engine._model is not None
    tokenizer = engine._model.text.tokenizer
    by_byte = {tokenizer.token_bytes(token): token for token in range(256)}
    ids = [
        token
        for each in said
        for token in ([each] if isinstance(each, int) else [by_byte[bytes([byte])] for byte in each])
    ]
    tokens = iter([*ids, *tokenizer.eos_ids])
    monkeypatch.setattr(Sampler, "draw", lambda *_: torch.tensor(next(tokens)))


def parted(
    engine: Engine, asked: GenerateRequest, cancel_after: int | None = None
) -> tuple[str, str, Finished]:
    """What was thought, what was answered, joined from the chunks, and the end."""
    engine.submit(asked)
    events: list[Event] = []
    while engine.is_busy:
        events += engine.step()
        if cancel_after is not None and sum(isinstance(event, StepStats) for event in events) >= cancel_after:
            engine.cancel(asked.request_id)
    [end] = [event for event in events if isinstance(event, Finished)]
    chunks = [event for event in events if isinstance(event, Chunk)]
    kinds = ("thinking", "answer")
    texts = ["".join(chunk.text for chunk in chunks if chunk.kind == kind) for kind in kinds]
    assert texts == [end.thinking, end.text]
    return texts[0], texts[1], end


@pytest.mark.parametrize("ends", [[256 + 2, VOCAB], None], ids=["listed", "by name alone"])
def test_every_token_that_ends_a_turn_ends_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends: list[int] | None
) -> None:  # B008
    place = with_tokens(tmp_path / "m", "<|eot|>", "<|user|>", "<|fim_middle|>")
    if ends:
        (place / "generation_config.json").write_text(json.dumps({"eos_token_id": ends}))
    engine = loaded(place)
    for end in (VOCAB, 258):
        say(engine, monkeypatch, b"Hi", end, VOCAB + 1, b"more")
        _, text, finished = parted(engine, request())
        assert (text, finished.reason, finished.stats.generated_tokens) == ("Hi", "stop", 2)


def test_a_control_token_amid_an_answer_is_not_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = loaded(with_tokens(tmp_path / "m", "<|fim_middle|>"))  # B008
    say(engine, monkeypatch, b"a", VOCAB, b"b")
    _, text, finished = parted(engine, request())
    assert (text, finished.raw, finished.stats.generated_tokens) == ("ab", "ab", 3)


OPENED = TEMPLATE.replace("<|im_start|>assistant\n{%", "<|im_start|>assistant\n<think>\n{%")


@pytest.fixture(scope="module")
def thinker(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """A model whose prompt opens the block of its thinking."""
    return loaded(tiny_folder(tmp_path_factory.mktemp("thinker") / "m", template=OPENED))


@pytest.mark.parametrize(
    ("said", "thinking", "answer"),
    [
        (b"plan it</think>Answer.", "plan it", "Answer."),  # B019
        (b"\nhmm, add them\n</think>\n\nIt is 7.", "hmm, add them", "It is 7."),  # B020
        (b"x</think>Write `<think>x</think>`.", "x", "Write `<think>x</think>`."),  # B021
        (b"plan it", "plan it", ""),
        (b"</think>", "", ""),
    ],
)
def test_a_reply_is_parted_into_thinking_and_answer(
    thinker: Engine, monkeypatch: pytest.MonkeyPatch, said: bytes, thinking: str, answer: str
) -> None:
    say(thinker, monkeypatch, said)
    thought, answered, end = parted(thinker, request("what is <think>?"))
    assert (thought, answered, end.raw) == (thinking, answer, said.decode())
    assert end.stats.generated_tokens == len(said)  # thinking counts
    assert end.stats.ttft_s is not None


def test_a_reply_that_is_stopped_while_thinking_breaks_nothing(
    thinker: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:  # B019
    say(thinker, monkeypatch, b"plan it and more")
    thought, answered, end = parted(thinker, request(), cancel_after=7)
    assert (thought, answered, end.reason) == ("plan it", "", "cancelled")
    monkeypatch.undo()
    turns = (Message("user", "hi"), Message("assistant", "", thought), Message("user", "go on"))
    assert run(thinker, GenerateRequest("next", turns, GREEDY, 3))[1].reason in ("length", "stop")


def test_a_long_stop_string_holds_nothing_back_of_thinking_or_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # B007
    engine = loaded(tiny_folder(tmp_path / "m"))
    say(engine, monkeypatch, b"<think>a</think>b")
    chunks, end = run(engine, request(stop=("#" * 40,)))
    assert (chunks, end.thinking, end.text, end.reason) == (["a", "b"], "a", "b", "stop")


def test_the_first_text_of_either_kind_is_the_first_token(
    thinker: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    say(thinker, monkeypatch, b"ab</think>c")
    thinker.submit(request())
    events: list[Event] = []
    while not any(isinstance(event, Chunk) for event in events):
        events = thinker.step()
    stats = next(event for event in events if isinstance(event, StepStats))
    assert (stats.generated_tokens, stats.ttft_s is not None) == (1, True)
    thinker.abort()
    thinker.step()


def test_tags_that_are_control_tokens_part_a_reply(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tags = ("[THINK]", "[/THINK]")
    source = TEMPLATE + "{# [THINK][/THINK] #}"
    engine = loaded(with_tokens(tmp_path / "m", *tags, template=source))
    say(engine, monkeypatch, VOCAB, b"hm", VOCAB + 1, b"Hi [THINK]")
    thought, answered, end = parted(engine, request())
    assert (thought, answered) == ("hm", "Hi [THINK]")
    assert end.raw == "[THINK]hm[/THINK]Hi [THINK]"
