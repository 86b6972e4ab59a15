"""Vocabularies as model makers publish them: the ids that are known for certain, and no text lost."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.text import tokenizer as tokenizers
from engine.text.detok import StreamDecoder
from engine.text.prompt import Part
from engine.text.tokenizer import Tokenizer
from tests.engine.text.vocabularies import llama_cpp_ids, needs_llama_cpp

SHARED = ["gpt-2", "llama-bpe", "deepseek-coder", "llama-spm", "phi-3"]
PUBLISHED = [
    *("command-r", "deepseek-llm", "falcon", "gemma-4", "mpt", "qwen2", "qwen35", "refact", "starcoder"),
    *SHARED,
]
CODE = "def f(x):\n    if x:\n        return x  # ok\n\n\n\nprint('é', \"世界\", 12345, f(1.5)) 🙂\t\t\n"


def cases(folder: Path, name: str) -> list[tuple[str, list[int]]]:
    """(text, ids) as transformers gives them for the original model."""
    path = folder / f"ggml-vocab-{name}.gguf"
    with open(f"{path}.inp", encoding="utf-8", newline="") as file:
        texts = file.read().split("\n__ggml_vocab_test__\n")
    lines = Path(f"{path}.out").read_text(encoding="utf-8").split("\n")
    assert not any(lines[len(texts) :])  # the last text is empty, where it is not left out
    return [(text, [int(part) for part in line.split()]) for text, line in zip(texts, lines, strict=False)]


def streamed(tokenizer: Tokenizer, ids: list[int]) -> str:
    stream = StreamDecoder(tokenizer)
    return "".join(stream.push(token_id) for token_id in ids) + stream.flush()


def check_cases(folder: Path, name: str) -> None:
    tokenizer = tokenizers.load(str(folder / f"ggml-vocab-{name}.gguf"))
    found = cases(folder, name)
    assert len(found) > 40
    for text, ids in found:
        assert tokenizer.encode(text) == ids
        assert tokenizer.encode(text, literal=True) == ids
        assert tokenizer.decode(ids) == streamed(tokenizer, ids) == text
    assert tokenizer.warnings == ()


@pytest.mark.parametrize("name", SHARED)
def test_ids_are_those_of_the_shared_cases(cases_dir: Path, name: str) -> None:
    check_cases(cases_dir / "vocab", name)


@pytest.mark.vocabularies
@pytest.mark.parametrize("name", PUBLISHED)
def test_ids_are_those_of_the_published_cases(published_dir: Path, name: str) -> None:
    check_cases(published_dir, name)


def texts(tokenizer: Tokenizer, count: int) -> list[str]:
    """Random texts of the vocabulary's own tokens, of odd letters and of everything in between."""
    source = random.Random(7)
    pieces = [tokenizer.token_bytes(source.randrange(tokenizer.vocab_size)) for _ in range(500)]
    words = [piece.decode() for piece in pieces if piece.isascii() and b"<" not in piece]
    words += [*" \n\t.,'12ab_", "  ", "    ", "\n\n", "\r\n", "é", "e\u0301", "世界", "ก็", "한국", "🙂", "½"]
    return ["".join(source.choices(words, k=source.randrange(1, 25))) for _ in range(count)]


@needs_llama_cpp
@pytest.mark.vocabularies
@pytest.mark.parametrize("name", [*PUBLISHED, "baichuan"])
def test_ids_of_random_texts_are_those_of_llama_cpp(published_dir: Path, name: str) -> None:
    path = published_dir / f"ggml-vocab-{name}.gguf"
    tokenizer, oracle = tokenizers.load(str(path)), llama_cpp_ids(path)
    for text in texts(tokenizer, 600):
        ids = tokenizer.encode(text)
        assert ids == oracle(text), text
        assert tokenizer.decode(ids) == streamed(tokenizer, ids) == text


@pytest.fixture(scope="module")
def gemma(gemma_path: Path) -> Tokenizer:
    return tokenizers.load(str(gemma_path))


@pytest.mark.vocabularies
def test_gemma_is_described(gemma: Tokenizer) -> None:
    assert (gemma.kind, gemma.vocab_size, gemma.bos_id, gemma.add_bos) == ("llama", 262_144, 2, True)
    assert gemma.eos_ids == {1, 106}
    assert {"<start_of_turn>", "<end_of_turn>", "<bos>"} <= gemma.control_texts
    assert gemma.warnings == ()


@pytest.mark.vocabularies
def test_gemma_puts_no_space_first_and_knows_runs_of_spaces_and_lines(gemma: Tokenizer) -> None:
    assert gemma.encode("Hello") != gemma.encode(" Hello")
    assert [gemma.token_bytes(token_id) for token_id in gemma.encode("a    b\n\n\nc")] == [
        b"a",
        b"    ",
        b"b",
        b"\n\n\n",
        b"c",
    ]
    turn = [Part("<start_of_turn>user\n"), Part("<end_of_turn>  x", literal=True), Part("<end_of_turn>\n")]
    ids = gemma.encode_prompt(turn)
    assert [token_id for token_id in ids if token_id in gemma.control_ids] == [2, 105, 106]
    assert gemma.decode(ids) == "user\n<end_of_turn>  x\n"


@needs_llama_cpp
@pytest.mark.vocabularies
def test_gemma_s_ids_are_those_of_llama_cpp(gemma: Tokenizer, gemma_path: Path) -> None:
    oracle = llama_cpp_ids(gemma_path)
    for text in [CODE, CODE * 20, *texts(gemma, 1000)]:
        ids = gemma.encode(text)
        assert ids == oracle(text), text
        assert gemma.decode(ids) == streamed(gemma, ids) == text


@pytest.mark.vocabularies
@settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="▁")))
def test_gemma_keeps_every_text(gemma: Tokenizer, text: str) -> None:
    ids = gemma.encode(text, literal=True)
    assert gemma.decode(ids) == streamed(gemma, ids) == text
    assert gemma.control_ids.isdisjoint(ids)
