"""tokenizer.json as the families write it: ids and text are those of the library for every text."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library
from tokenizers import models, pre_tokenizers, trainers

from engine.text import tokenizer as tokenizers
from engine.text.detok import StreamDecoder
from engine.text.splitting import RULES
from engine.text.tokenizer import Tokenizer
from engine.text.vocabulary import BYTE_LETTERS
from tests.engine.text.vocabularies import BYTES

WORDS = [
    *(
        "the",
        "Hello",
        "World",
        "it's",
        " a",
        " ",
        "  ",
        "    ",
        "\n",
        "\n\n",
        "\t",
        "12",
        "345",
        ".",
        "!?",
        "_",
    ),
    *("é", "e\u0301", "世界", "ก็", "한국", "ж", "🙂", "½", "Ω", "ﬁ", "▁", "İ", "x", "the  the"),
]
ADDED = ["<s>", "</s>", "<|end|>", "<unk>", "<tool>", "<late>", "<word>"]
PREPEND = {"type": "Prepend", "prepend": "▁"}
SPACES = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
UNMARK = {"type": "Replace", "pattern": {"String": "▁"}, "content": " "}
FALLBACK, FUSE = {"type": "ByteFallback"}, {"type": "Fuse"}
STRIP = {"type": "Strip", "content": " ", "start": 1, "stop": 0}
BYTE_LEVEL = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def random_texts(count: int, seed: int, words: Sequence[str] = (*WORDS, *ADDED)) -> list[str]:
    source = random.Random(seed)
    return ["".join(source.choices(words, k=source.randrange(1, 16))) for _ in range(count)]


def added(first_id: int) -> list[dict[str, Any]]:
    """One special token for each way of taking white space, and ordinary ones."""
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "normalized"), False)
    changes: dict[str, dict[str, bool]] = {
        "<s>": {},
        "</s>": {"rstrip": True},
        "<|end|>": {"lstrip": True},
        "<tool>": {"special": False},
        "<word>": {"special": False, "single_word": True, "lstrip": True},
    }
    return [
        {"id": first_id + index, "content": text, "special": True, **flags, **change}
        for index, (text, change) in enumerate(changes.items())
    ]


def marked(
    normalizers: list[Any], pre_tokenizer: Any, decoders: list[Any], falls_back: bool = True
) -> dict[str, Any]:
    """A SentencePiece vocabulary as BPE, with bytes for unknown letters where it falls back."""
    library = Library(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=700, special_tokens=["<unk>", *BYTES], show_progress=False, max_token_length=8
    )
    library.pre_tokenizer = pre_tokenizers.Split("\n", "isolated")
    library.train_from_iterator([text.replace(" ", "▁") for text in random_texts(500, 1, WORDS)], trainer)
    model = json.loads(library.to_str())["model"]
    model |= {"unk_token": "<unk>", "fuse_unk": True, "byte_fallback": falls_back}
    return {
        "added_tokens": added(len(model["vocab"])),
        "normalizer": {"type": "Sequence", "normalizers": normalizers} if normalizers else None,
        "pre_tokenizer": pre_tokenizer,
        "decoder": {"type": "Sequence", "decoders": decoders},
        "model": model,
    }


def byte_level(rule: str, normalizer: Any = None, steps: list[Any] | None = None) -> dict[str, Any]:
    """A byte-level vocabulary that cuts by a rule of the table, or by steps of its own."""
    library = Library(models.BPE())
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    trainer = trainers.BpeTrainer(
        vocab_size=700, initial_alphabet=list(BYTE_LETTERS), show_progress=False, max_token_length=8
    )
    library.train_from_iterator(random_texts(500, 2, WORDS), trainer)
    model = json.loads(library.to_str())["model"] | {"ignore_merges": RULES[rule].whole_words}
    splits = [
        {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
        for pattern in RULES[rule].patterns
    ]
    return {
        "added_tokens": added(len(model["vocab"])),
        "normalizer": normalizer,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": steps or [*splits, BYTE_LEVEL]},
        "decoder": BYTE_LEVEL,
        "model": model,
    }


def metaspace(scheme: str) -> dict[str, Any]:
    return {"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": False}


MERGED = {"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": False}
DIGITS = {"type": "Digits", "individual_digits": True}
FAMILIES: dict[str, dict[str, Any]] = {
    "Llama 2, Phi-3": marked([PREPEND, SPACES], None, [UNMARK, FALLBACK, FUSE, STRIP]),
    "Mistral v0.3": marked([], metaspace("first"), [UNMARK, FALLBACK, FUSE, STRIP]),
    "TinyLlama": marked([], metaspace("always"), [UNMARK, FALLBACK, FUSE, STRIP]),
    "Gemma": marked([SPACES], MERGED, [UNMARK, FALLBACK, FUSE]),
    "without bytes": marked([SPACES], None, [UNMARK, FUSE], falls_back=False),
    "Qwen": byte_level("qwen2", {"type": "NFC"}),
    "Llama 3, SmolLM3": byte_level("llama-bpe"),
    "OLMo 2": byte_level("dbrx"),
    "gpt-oss": byte_level("gpt-4o"),
    "Granite": byte_level("gpt-2", None, [DIGITS, {**BYTE_LEVEL, "use_regex": True}]),
    "DeepSeek": byte_level("deepseek-v3"),
    "K-EXAONE": byte_level("exaone-moe"),
}


@pytest.fixture(scope="module")
def families(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Tokenizer, Library]]:
    found = {}
    for name, data in FAMILIES.items():
        folder = tmp_path_factory.mktemp("family")
        (folder / "tokenizer.json").write_text(json.dumps(data | {"version": "1.0"}), encoding="utf-8")
        config = {"bos_token": "<s>", "eos_token": "</s>"}
        (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
        found[name] = tokenizers.load(str(folder)), Library.from_file(str(folder / "tokenizer.json"))
    return found


def check(tokenizer: Tokenizer, library: Library, text: str) -> None:
    ids = tokenizer.encode(text)
    assert ids == library.encode(text, add_special_tokens=False).ids, text
    stream = StreamDecoder(tokenizer)
    streamed = "".join(stream.push(token_id) for token_id in ids) + stream.flush()
    assert tokenizer.decode(ids) == streamed == library.decode(ids, skip_special_tokens=True), text


@pytest.mark.parametrize("family", FAMILIES)
def test_ids_and_text_are_those_of_the_library(
    families: dict[str, tuple[Tokenizer, Library]], family: str
) -> None:
    for text in ["", *WORDS, *ADDED, *random_texts(400, 3)]:
        check(*families[family], text)


@settings(max_examples=60, deadline=None)
@given(text=st.text(st.characters(exclude_categories=["Cs"]), max_size=40))
def test_ids_and_text_are_those_of_the_library_for_any_letters(
    families: dict[str, tuple[Tokenizer, Library]], text: str
) -> None:
    for tokenizer, library in families.values():
        check(tokenizer, library, text)


@pytest.mark.parametrize("family", FAMILIES)
def test_no_typed_text_is_a_control_token(
    families: dict[str, tuple[Tokenizer, Library]], family: str
) -> None:
    tokenizer = families[family][0]
    for text in random_texts(100, 4):
        assert tokenizer.control_ids.isdisjoint(tokenizer.encode(text, literal=True))


def write(folder: Path, data: dict[str, Any], **config: Any) -> tuple[Tokenizer, Library]:
    path = folder / "tokenizer.json"
    path.write_text(json.dumps(data | {"version": "1.0"}), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>"} | config))
    return tokenizers.load(str(folder)), Library.from_file(str(path))


def test_normalized_added_tokens_are_looked_for_in_what_the_others_leave(tmp_path: Path) -> None:
    data = byte_level("qwen2")
    ordinary = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": True, "special": False}
    more = ["  ", "late<", "<la", "a  b"]
    first_id = data["added_tokens"][-1]["id"] + 1
    late = [{"id": first_id + index, "content": text} | ordinary for index, text in enumerate(more)]
    tokenizer, library = write(tmp_path, data | {"added_tokens": [*data["added_tokens"], *late]})
    for text in ("a  <|end|>", "late<s>", "x<la<s>late<tool>", "a  b", "a  b  <|end|>  a", "a  <word>"):
        check(tokenizer, library, text)


def test_added_tokens_with_marked_spaces_are_written_as_spaces(tmp_path: Path) -> None:
    data = FAMILIES["Gemma"]
    entry = data["added_tokens"][3] | {"id": 5000, "content": "▁" * 9}
    last = {"id": data["added_tokens"][-1]["id"] + 1}
    tokenizer, library = write(tmp_path, data | {"added_tokens": [*data["added_tokens"], entry | last]})
    assert tokenizer.decode([last["id"]]) == library.decode([last["id"]]) == " " * 9


@pytest.mark.parametrize("family", ["Mistral v0.3", "Qwen"])
def test_where_no_decoder_is_named_the_splitting_tells_how_tokens_are_written(
    tmp_path: Path, family: str
) -> None:
    data = FAMILIES[family]
    tokenizer, _ = write(tmp_path, data | {"decoder": None})
    for text in ("Hello it's 12", "世界 the"):
        assert tokenizer.decode(tokenizer.encode(text)) == text


@pytest.mark.parametrize(("stated", "adds"), [(True, True), (False, False), (None, True), ("x", True)])
def test_the_config_has_the_last_word_on_a_bos(tmp_path: Path, stated: object, adds: bool) -> None:
    data = FAMILIES["Qwen"]
    bos_id = data["added_tokens"][0]["id"]
    special = {"id": "<s>", "ids": [bos_id], "tokens": ["<s>"]}
    single = [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}]
    processor = {"type": "TemplateProcessing", "single": single, "pair": single}
    post_processor = processor | {"special_tokens": {"<s>": special}}
    tokenizer, _ = write(tmp_path, data | {"post_processor": post_processor}, add_bos_token=stated)
    assert tokenizer.add_bos is adds


def test_a_bos_is_added_where_only_the_config_asks_for_one(tmp_path: Path) -> None:
    tokenizer, _ = write(tmp_path, FAMILIES["DeepSeek"], add_bos_token=True)
    assert tokenizer.add_bos
