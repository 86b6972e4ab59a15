"""A tokenizer from a model folder: the same ids as the library's own reading, plain JSON only."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Backend

from engine.errors import ModelFileError, TokenizerError
from engine.text import growth
from engine.text import tokenizer as tokenizers
from engine.text.prompt import Part
from engine.text.vocabulary import BYTE_LETTERS

TEXTS = [
    "",
    "a",
    " ab abc",
    "ab  12 é🙂\n",
    "x<|im_end|>y",
    "<s>ab<|im_end|> ab<tool>ab",
    "ab <tool> ab",
    "<s> ab",
]


def byte_level() -> Backend:
    """All bytes, "ab" and "abc"; <s> is put first by the post-processor."""
    vocab = {text: number for number, text in enumerate([*BYTE_LETTERS, "ab", "abc"])}
    backend = Backend(models.BPE(vocab=vocab, merges=[("a", "b"), ("ab", "c")]))
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(r"\p{N}"), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens(["<s>", "<|im_end|>", "</s>"])
    backend.add_tokens([AddedToken("<tool>", normalized=False, rstrip=True)])
    backend.post_processor = processors.TemplateProcessing("<s> $A", "<s> $A <s> $B", [("<s>", 258)])
    return backend


def sentence_piece(scheme: str = "first", old: bool = False) -> Backend:
    """Letters, spaces as U+2581 and bytes; new ones by Metaspace, old ones by normalizers."""
    letters = [*"▁abxy12<>|_imendstol/", "ab", "▁ab"]
    pieces = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *dict.fromkeys(letters)]
    vocab = {text: number for number, text in enumerate(pieces)}
    merges = [("a", "b"), ("▁", "ab")]
    backend = Backend(
        models.BPE(vocab=vocab, merges=merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    )
    if old:
        backend.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    else:
        backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=False)
    backend.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    backend.add_special_tokens([AddedToken(text, normalized=False) for text in ("<s>", "<|im_end|>", "</s>")])
    backend.add_tokens([AddedToken("<tool>", normalized=False)])
    return backend


def write(folder: Path, backend: Backend, config: dict[str, Any] | None = None, **files: Any) -> str:
    backend.save(str(folder / "tokenizer.json"))
    default = {"bos_token": "<s>", "eos_token": {"content": "</s>"}, "chat_template": "{{ messages }}"}
    files = {"tokenizer_config": default if config is None else config, **files}
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return str(folder)


BACKENDS = {
    "byte level": byte_level,
    "sentence piece, first": sentence_piece,
    "sentence piece, always": lambda: sentence_piece("always"),
    "sentence piece, never": lambda: sentence_piece("never"),
    "sentence piece, old": lambda: sentence_piece(old=True),
}


@pytest.mark.parametrize("kind", BACKENDS)
def test_ids_and_text_are_those_of_the_library(tmp_path: Path, kind: str) -> None:
    backend = BACKENDS[kind]()
    tokenizer = tokenizers.load(write(tmp_path, backend))
    for text in TEXTS:
        ids = backend.encode(text, add_special_tokens=False).ids
        assert tokenizer.encode(text) == ids, text
        assert tokenizer.decode(ids) == backend.decode(ids, skip_special_tokens=True), text


@pytest.mark.parametrize("kind", BACKENDS)
def test_typed_control_spellings_stay_text(tmp_path: Path, kind: str) -> None:
    tokenizer = tokenizers.load(write(tmp_path, BACKENDS[kind]()))
    ids = tokenizer.encode_prompt([Part("<s>"), Part("<|im_end|>", literal=True), Part("<|im_end|>")])
    controls = [token_id for token_id in ids if token_id in tokenizer.control_ids]
    assert controls == [tokenizer.bos_id, tokenizer.encode("<|im_end|>")[0]]
    assert tokenizer.decode(ids).strip() == "<|im_end|>"


def test_a_file_inside_the_folder_stands_for_the_folder(tmp_path: Path) -> None:
    write(tmp_path, byte_level())
    for name in ("model.safetensors", "config.json"):
        (tmp_path / name).write_bytes(b"")
        assert tokenizers.load(str(tmp_path / name)).vocab_size == 262


def test_what_the_configs_say(tmp_path: Path) -> None:
    tokenizer = tokenizers.load(
        write(tmp_path, byte_level(), generation_config={"eos_token_id": [260, 257, 999]})
    )
    assert (tokenizer.bos_id, tokenizer.bos_token, tokenizer.eos_token) == (258, "<s>", "</s>")
    assert tokenizer.eos_ids == {259, 260, 257}  # <|im_end|> by its name
    assert tokenizer.add_bos
    assert "999" in tokenizer.warnings[0]
    assert tokenizer.control_ids == {258, 259, 260}


def test_a_tokenizer_alone_is_enough(tmp_path: Path) -> None:
    byte_level().save(str(tmp_path / "tokenizer.json"))
    tokenizer = tokenizers.load(str(tmp_path))
    assert (tokenizer.bos_id, tokenizer.add_bos, tokenizer.chat_template) == (None, False, None)
    assert tokenizer.eos_ids == {259, 260}


def test_the_chat_template_is_found_where_it_is(tmp_path: Path) -> None:  # B013
    named = [{"name": "tool_use", "template": "T"}, {"name": "default", "template": "D"}]
    folder = write(tmp_path, byte_level(), {"chat_template": named})
    assert tokenizers.load(folder).chat_template == "D"
    (tmp_path / "chat_template.jinja").write_text("J", encoding="utf-8")
    assert tokenizers.load(folder).chat_template == "J"


def test_remote_code_named_in_a_config_is_never_run(tmp_path: Path) -> None:  # B040
    (tmp_path / "modeling_x.py").write_text("open('MARKER', 'w')", encoding="utf-8")
    config = {"auto_map": {"AutoTokenizer": ["modeling_x.X", None]}, "trust_remote_code": True}
    tokenizers.load(write(tmp_path, byte_level(), config))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "modeling_x.py",
        "tokenizer.json",
        "tokenizer_config.json",
    ]


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TokenizerError, match=r"no tokenizer\.json"):
        tokenizers.load(str(tmp_path))


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("{", ModelFileError),
        ("[]", ModelFileError),
        ("[" * 100_000, ModelFileError),
        ("{}", TokenizerError),
        ('{"model": {"type": "Nothing"}}', TokenizerError),
        ('{"added_tokens": 7, "model": {"type": "BPE", "vocab": {}, "merges": []}}', TokenizerError),
        ('{"added_tokens": [7], "model": {"type": "BPE", "vocab": {}, "merges": []}}', TokenizerError),
        ('{"model": 7}', TokenizerError),
    ],
)
def test_a_broken_tokenizer_is_refused_by_name(tmp_path: Path, text: str, error: type[Exception]) -> None:
    (tmp_path / "tokenizer.json").write_text(text, encoding="utf-8")
    with pytest.raises(error, match=r"tokenizer\.json"):
        tokenizers.load(str(tmp_path))


@pytest.mark.parametrize("name", ["tokenizer", "tokenizer_config", "generation_config"])
def test_a_byte_order_mark_before_the_json_is_no_damage(tmp_path: Path, name: str) -> None:
    folder = write(tmp_path, byte_level(), generation_config={"eos_token_id": 257})
    path = tmp_path / f"{name}.json"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert tokenizers.load(folder).eos_ids == {257, 259, 260}


@pytest.mark.parametrize("part", ["pre_tokenizer", "normalizer"])
def test_a_pattern_whose_time_explodes_is_refused_before_any_text(tmp_path: Path, part: str) -> None:
    backend = byte_level()
    pattern = Regex(r"(a+)+$")
    if part == "normalizer":
        backend.normalizer = normalizers.Sequence([normalizers.Replace(pattern, "b")])
    else:
        split = pre_tokenizers.Split(pattern, "isolated")
        backend.pre_tokenizer = pre_tokenizers.Sequence([split, backend.pre_tokenizer])
    with pytest.raises(TokenizerError, match=r"pattern.*\(a\+\)\+"):
        tokenizers.load(write(tmp_path, backend))


def test_an_unknown_decoder_is_refused(tmp_path: Path) -> None:
    backend = byte_level()
    backend.decoder = decoders.WordPiece()
    with pytest.raises(TokenizerError, match="WordPiece"):
        tokenizers.load(write(tmp_path, backend))


def write_changed(folder: Path, backend: Backend, **changes: Any) -> str:
    """The folder of a backend whose tokenizer.json says something else in places."""
    path = write(folder, backend)
    data = json.loads((folder / "tokenizer.json").read_text(encoding="utf-8"))
    (folder / "tokenizer.json").write_text(json.dumps(data | changes), encoding="utf-8")
    return path


def test_padding_and_truncation_of_the_file_are_never_applied(tmp_path: Path) -> None:
    padding = {
        "direction": "Left",
        "pad_to_multiple_of": None,
        "pad_id": 0,
        "pad_type_id": 0,
        "pad_token": "a",
    }
    tokenizer = tokenizers.load(
        write_changed(
            tmp_path,
            byte_level(),
            padding=padding | {"strategy": {"Fixed": 5_000_000}},
            truncation={"direction": "Right", "max_length": 0, "strategy": "LongestFirst", "stride": 0},
        )
    )
    assert tokenizer.encode("abc") == [257]
    assert tokenizer.add_bos


@pytest.mark.parametrize(
    ("template", "adds"),
    [
        ("<s> $A", True),
        ("$A <s>", False),
        ("</s> $A", False),
        ("$A", False),
    ],
)
def test_a_bos_is_added_where_the_post_processor_puts_it_first(
    tmp_path: Path, template: str, adds: bool
) -> None:
    backend = byte_level()
    special = [("<s>", 258), ("</s>", 260)]
    first = processors.TemplateProcessing(template, f"{template} $B", special)
    for post_processor in (first, processors.Sequence([processors.ByteLevel(), first])):
        backend.post_processor = post_processor
        assert tokenizers.load(write(tmp_path, backend)).add_bos is adds
        with_specials = backend.encode("abc", add_special_tokens=True).ids
        assert (with_specials[0] == 258) is adds


def test_of_several_post_processors_the_last_stands_outermost(tmp_path: Path) -> None:
    backend = byte_level()
    inner = processors.TemplateProcessing("</s> $A", "</s> $A $B", [("</s>", 260)])
    outer = processors.TemplateProcessing("<s> $A", "<s> $A $B", [("<s>", 258)])
    for order in ([inner, outer], [outer, inner]):
        backend.post_processor = processors.Sequence(order)
        adds = backend.encode("abc", add_special_tokens=True).ids[0] == 258
        assert tokenizers.load(write(tmp_path, backend)).add_bos is adds


def test_a_post_processor_of_bert_s_kind_puts_its_first_token_first(tmp_path: Path) -> None:
    backend = byte_level()
    backend.post_processor = processors.RobertaProcessing(("</s>", 260), ("<s>", 258))
    assert tokenizers.load(write(tmp_path, backend)).add_bos


def test_a_post_processor_that_repeats_a_token_without_end_is_never_run(tmp_path: Path) -> None:
    piece = {"SpecialToken": {"id": "<s>", "type_id": 0}}
    text = {"Sequence": {"id": "A", "type_id": 0}}
    ids = {"id": "<s>", "ids": [258] * 1000, "tokens": ["<s>"] * 1000}
    processor = {"type": "TemplateProcessing", "single": [piece] * 20_000, "pair": [text, text]}
    folder = write_changed(
        tmp_path, byte_level(), post_processor=processor | {"special_tokens": {"<s>": ids}}
    )
    start = time.thread_time()
    assert tokenizers.load(folder).add_bos
    assert time.thread_time() - start < 2  # written out they are 20 million tokens, several gigabytes


@pytest.mark.parametrize("part", ["normalizer", "pre_tokenizer"])
def test_steps_that_multiply_a_text_are_refused_before_any_text(tmp_path: Path, part: str) -> None:
    step = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    name = "normalizers" if part == "normalizer" else "pretokenizers"
    folder = write_changed(tmp_path, byte_level(), **{part: {"type": "Sequence", name: [step] * 40}})
    with pytest.raises(TokenizerError, match=f"{part} can make a text many thousand times"):
        tokenizers.load(folder)


def test_a_text_that_a_normalizer_could_make_too_long_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(growth, "MOST_BYTES", 40)
    tokenizer = tokenizers.load(write(tmp_path, byte_level()))
    assert tokenizer.encode("abc" * 6)
    with pytest.raises(TokenizerError, match="too long"):
        tokenizer.encode("abc" * 7)


@pytest.mark.parametrize("name", ["bos_token", "eos_token"])
@pytest.mark.parametrize("value", ["\ud800", {"content": "a\udfff"}])
def test_a_token_that_is_half_a_character_is_ignored_with_a_warning(
    tmp_path: Path, name: str, value: object
) -> None:
    tokenizer = tokenizers.load(write(tmp_path, byte_level(), {name: value}))
    assert getattr(tokenizer, name) == ""
    assert name in tokenizer.warnings[0]


@pytest.mark.parametrize("name", [["x"], {"a": 1}, None])
def test_a_template_whose_name_is_no_text_is_ignored(tmp_path: Path, name: object) -> None:
    named = [{"name": name, "template": "X"}, {"name": "default", "template": "D"}]
    assert tokenizers.load(write(tmp_path, byte_level(), {"chat_template": named})).chat_template == "D"
    config = {"chat_template": [{"name": name, "template": "X"}]}
    assert tokenizers.load(write(tmp_path, byte_level(), config)).chat_template is None


@pytest.mark.parametrize(
    ("model", "words"),
    [
        (models.WordPiece({"a": 0}, unk_token="[UNK]"), "'WordPiece'"),
        (models.WordLevel({"a": 0}, unk_token="[UNK]"), "'WordLevel'"),
        (models.Unigram([("a", 0.0)], None, True), "unk_id"),
    ],
)
def test_a_tokenizer_model_that_fails_at_some_texts_is_refused(
    tmp_path: Path, model: models.Model, words: str
) -> None:
    backend = Backend(model)
    backend.decoder = decoders.ByteLevel()
    with pytest.raises(TokenizerError, match=words):
        tokenizers.load(write(tmp_path, backend))


def test_an_old_file_that_does_not_name_its_model_is_a_bpe(tmp_path: Path) -> None:
    folder = write(tmp_path, byte_level())
    data = json.loads((tmp_path / "tokenizer.json").read_text(encoding="utf-8"))
    del data["model"]["type"]
    (tmp_path / "tokenizer.json").write_text(json.dumps(data), encoding="utf-8")
    assert tokenizers.load(folder).encode("abc") == [257]


def test_special_tokens_beyond_all_measure_are_refused(tmp_path: Path) -> None:
    backend = byte_level()
    backend.add_special_tokens(["x" * 257])
    with pytest.raises(TokenizerError, match="257 characters"):
        tokenizers.load(write(tmp_path, backend))


def test_a_refusal_is_one_line_whatever_the_folder_is_called(tmp_path: Path) -> None:
    folder = tmp_path / "a\x1b]0;x\x07\nb"
    folder.mkdir()
    (folder / "tokenizer.json").write_text("{", encoding="utf-8")
    with pytest.raises(ModelFileError) as caught:
        tokenizers.load(str(folder))
    assert str(caught.value).isprintable()
    assert "a ]0;x  b" in caught.value.message
