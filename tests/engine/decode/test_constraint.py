"""Answers held to a form: which tokens may follow, drafts, whole answers at random, and hostile forms."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from engine.decode.constraint import Constraint, Grammars, Guide
from engine.decode.limits import MOST_REGEX_BYTES, MOST_SCHEMA_BYTES
from engine.errors import WishError
from engine.text.channels import THINKING, Block, Grammar
from engine.text.gguf_vocabulary import from_metadata
from engine.text.prompt import Part
from engine.text.reply import Reply, ReplyFormat
from engine.text.tokenizer import Tokenizer
from tests.engine.text.vocabularies import byte_pairs, pieces
from tests.engine.toy_device import TOY, ToyDevice

SCHEMA = json.dumps(
    {
        "type": "object",
        "properties": {
            "name": {"type": "string", "maxLength": 6},
            "ages": {"type": "array", "items": {"type": "integer", "minimum": 0}, "maxItems": 3},
            "kind": {"enum": ["a b", "é"]},
        },
        "required": ["name", "ages", "kind"],
        "additionalProperties": False,
    }
)
THINK = ReplyFormat(Grammar({"<think>": Block(THINKING, ("</think>",))}))


def pairs(**changes: Any) -> Tokenizer:
    return Tokenizer(from_metadata(byte_pairs(**changes)))


def sentence_pieces() -> Tokenizer:
    """A space is put before every text that stands first; some pieces have one of their own."""
    return Tokenizer(
        from_metadata(pieces({"▁": -9.0, "a": -8.0, "▁a": -1.0, "b": -8.0, "ab": -2.0, "{": -3.0}))
    )


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return pairs()


@pytest.fixture(scope="module")
def grammars(tokenizer: Tokenizer) -> Grammars:
    return Grammars(tokenizer)


@pytest.fixture
def toy() -> Iterator[ToyDevice]:
    with ToyDevice() as device:
        yield device


def spelled(tokenizer: Tokenizer, constraint: Constraint, draft: tuple[int, ...] = ()) -> set[bytes]:
    """The bytes of the tokens that may follow; an end by its spelling."""
    ids = np.flatnonzero(constraint.allowed(draft)).tolist()
    return {tokenizer.token_bytes(token) or str(token).encode() for token in ids}


def drawn(tokenizer: Tokenizer, constraint: Constraint, seed: int, most: int = 4000) -> str:
    """An answer of tokens that are drawn from the allowed ones, each as likely as the others."""
    generator = np.random.default_rng(seed)
    ids: list[int] = []
    while not constraint.is_complete:
        token = int(generator.choice(np.flatnonzero(constraint.allowed())))
        if token in tokenizer.eos_ids:
            break
        ids.append(token)
        assert constraint.take([token])
        assert len(ids) < most
    return b"".join(map(tokenizer.token_bytes, ids)).decode()


def test_only_what_the_form_has_may_follow_and_the_end_where_it_may_end(
    tokenizer: Tokenizer, grammars: Grammars
) -> None:
    constraint = grammars.compile("", "ab?c|abd")
    assert spelled(tokenizer, constraint) == {b"a", b"ab", b"abc"}
    assert constraint.take(tokenizer.encode("a"))
    assert spelled(tokenizer, constraint) == {b"b", b"c"}
    assert constraint.take(tokenizer.encode("c"))
    assert constraint.is_complete
    open_end = grammars.compile("", "(ab)*")
    assert b"259" in spelled(tokenizer, open_end)  # </s>
    assert b"260" in spelled(tokenizer, open_end)  # <|im_end|> ends an answer too
    assert b"258" not in spelled(tokenizer, open_end)  # <s> does not


def test_no_text_makes_a_control_token(tokenizer: Tokenizer, grammars: Grammars) -> None:
    anything = grammars.compile("", r"(?s:.)*")
    assert not anything.allowed()[258]
    forced = grammars.compile("", re.escape("<|im_end|>"))
    assert drawn(tokenizer, forced, seed=0) == "<|im_end|>"


@pytest.mark.parametrize("seed", range(8))
def test_random_answers_are_of_the_schema(tokenizer: Tokenizer, grammars: Grammars, seed: int) -> None:
    value = json.loads(drawn(tokenizer, grammars.compile(SCHEMA, ""), seed))
    assert value.keys() == {"name", "ages", "kind"}
    assert len(value["name"]) <= 6
    assert len(value["ages"]) <= 3
    assert all(type(age) is int and age >= 0 for age in value["ages"])
    assert value["kind"] in ("a b", "é")


@pytest.mark.parametrize(
    "regex", [r"[a-f]{2,5}-[0-9]+x", r"(yes|no), \d[x_]{1,3}!", r'"/\\/"', "a\nb", "ü|猫"]
)
def test_random_answers_match_the_regex_as_a_whole(
    grammars: Grammars, tokenizer: Tokenizer, regex: str
) -> None:
    for seed in range(4):
        assert re.fullmatch(regex, drawn(tokenizer, grammars.compile("", regex), seed))


def test_white_space_has_an_end(tokenizer: Tokenizer, grammars: Grammars) -> None:
    constraint = grammars.compile(SCHEMA, "")
    assert constraint.take_text("{" + " " * 32)
    assert all(not word.isspace() for word in spelled(tokenizer, constraint))


def test_a_schema_cannot_loosen_what_json_is(tokenizer: Tokenizer, grammars: Grammars) -> None:
    hostile = json.loads(SCHEMA) | {
        "x-guidance": {
            "key_separator": "=",
            "item_separator": ";",
            "whitespace_pattern": "x*",
            "lenient": True,
        }
    }
    assert json.loads(drawn(tokenizer, grammars.compile(json.dumps(hostile), ""), seed=3))
    with pytest.raises(WishError, match="not"):
        grammars.compile('{"not": {}, "x-guidance": {"lenient": true}}', "")


def test_drafts_are_judged_and_leave_no_trace(tokenizer: Tokenizer, grammars: Grammars) -> None:
    constraint = grammars.compile("", "abab!+")
    assert constraint.take(tokenizer.encode("a"))
    before = constraint.allowed().copy()
    draft = [*tokenizer.encode("b"), *tokenizer.encode("ab"), *tokenizer.encode("!"), *tokenizer.encode("?")]
    assert constraint.standing(draft) == 3
    for length in range(4):
        other = grammars.compile("", "abab!+")
        assert other.take([*tokenizer.encode("a"), *draft[:length]])
        assert np.array_equal(constraint.allowed(draft[:length]), other.allowed())
    assert np.array_equal(constraint.allowed(), before)
    assert constraint.standing([*tokenizer.encode("bab!"), 259, 259]) == len(tokenizer.encode("bab!")) + 1
    assert constraint.allowed([*tokenizer.encode("bab!"), 259]).any()
    assert np.array_equal(constraint.allowed(), before)


def test_a_tokenizer_that_begins_with_a_space_writes_no_space_that_is_not_asked_for() -> None:
    tokenizer = sentence_pieces()
    grammars = Grammars(tokenizer)
    assert drawn(tokenizer, grammars.compile("", "ab{3}"), seed=1) == "abbb"
    assert drawn(tokenizer, grammars.compile("", "a{2} a"), seed=1) == "aa a"
    value = drawn(
        tokenizer, grammars.compile('{"type": "array", "items": {"const": "a b"}, "minItems": 2}', ""), 2
    )
    assert set(json.loads(value)) == {"a b"}


def test_a_model_without_an_end_ends_where_nothing_can_follow() -> None:
    tokenizer = pairs(
        tokens=[*byte_pairs()["tokenizer.ggml.tokens"][:258], "<s>"],
        token_type=[1] * 258 + [3],
        eos_token_id=None,
    )
    assert not tokenizer.eos_ids
    constraint = Grammars(tokenizer).compile("", "ab|abc")
    assert drawn(tokenizer, constraint, seed=4) in ("ab", "abc")


def compiled(grammars: Grammars, schema: str, regex: str) -> Constraint:
    form = grammars.start(schema, regex)
    assert form is not None
    return form.result(60)


def walk(constraint: Constraint) -> None:
    """Take any allowed token until there is none: some work cannot be told before."""
    while not constraint.is_complete:
        constraint.take([int(np.flatnonzero(constraint.allowed())[-1])])


HOSTILE_SCHEMAS = {
    "no JSON": "{",
    "no object": "[]",
    "a bare word": "true",
    "deep": '{"type":"array","items":' * 5000 + "{}" + "}" * 5000,
    "brackets": "[" * 100_000,
    "an unknown type": '{"type": "foo"}',
    "a broken pattern": '{"type": "string", "pattern": "("}',
    "a look ahead": '{"type": "string", "pattern": "^(?=a)b"}',
    "a circle": '{"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"}',
    "itself": '{"$ref": "#"}',
    "a foreign place": '{"$ref": "http://example.invalid/x.json"}',
    "a file": '{"$ref": "file:///etc/passwd"}',
    "nowhere": '{"$ref": "#/$defs/q"}',
    "a product": json.dumps(
        {"allOf": [{"anyOf": [{"properties": {f"{x}{i}": {"const": 1}}} for x in "ab"]} for i in range(24)]}
    ),
    "patterns at once": json.dumps(
        {"type": "string", "allOf": [{"pattern": f"(a|b)*a(a|b){{{i}}}"} for i in range(12, 22)]}
    ),
    "nothing fulfils it": '{"type": "integer", "minimum": 5, "maximum": 3}',
    "half a character": '{"const": "\\ud800"}',
    "too long": json.dumps({"enum": ["x" * MOST_SCHEMA_BYTES]}),
    "unknown words": '{"if": {"type": "string"}, "then": {"minLength": 3}}',
    "one of several at once": '{"oneOf": [{"type": "integer"}, {"type": "number"}]}',
}
HOSTILE_REGEXES = {
    "an open group": "(",
    "a look ahead": "a(?=b)",
    "a border": r"\bfoo",
    "a back reference": r"(a)\1",
    "many states": "(x{1000}){1000}",
    "half a character": "\ud800",
    "too long": "x" * (MOST_REGEX_BYTES + 1),
}


@pytest.mark.parametrize("schema", HOSTILE_SCHEMAS.values(), ids=HOSTILE_SCHEMAS.keys())
def test_a_schema_that_cannot_be_used_is_said_in_a_sentence(grammars: Grammars, schema: str) -> None:
    with pytest.raises(WishError, match="JSON schema") as caught:
        compiled(grammars, schema, "")
    assert caught.value.hint
    assert len(caught.value.message) < 400
    assert caught.value.message.isprintable()


@pytest.mark.parametrize("regex", HOSTILE_REGEXES.values(), ids=HOSTILE_REGEXES.keys())
def test_a_regex_that_cannot_be_used_is_said_in_a_sentence(grammars: Grammars, regex: str) -> None:
    with pytest.raises(WishError, match="regex") as caught:
        walk(compiled(grammars, "", regex))
    assert caught.value.hint
    assert caught.value.message.isprintable()


@pytest.mark.parametrize(
    "schema",
    [
        '{"type": "array", "minItems": 1000000000}',
        '{"type": "string", "maxLength": 1000000000}',
        json.dumps(
            {
                "$defs": {
                    f"d{i}": {"type": "array", "items": {"$ref": f"#/$defs/d{i + 1}"}} for i in range(30)
                }
                | {"d30": {"type": "null"}},
                "$ref": "#/$defs/d0",
            }
        ),
        json.dumps({"enum": [f"value {i}" for i in range(3000)]}),
        json.dumps({"type": "object", "properties": {f"p{i}": {"type": "string"} for i in range(400)}}),
    ],
    ids=["endless array", "endless text", "long way", "many values", "many keys"],
)
def test_what_is_large_but_can_be_had_begins(grammars: Grammars, schema: str) -> None:
    assert grammars.compile(schema, "").allowed().any()


def test_both_forms_at_once_and_a_missing_package_are_said(
    grammars: Grammars, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(WishError, match="not to both"):
        grammars.start("{}", "a")
    assert grammars.start("", "") is None
    monkeypatch.setitem(sys.modules, "llguidance", None)
    with pytest.raises(WishError) as caught:
        grammars.start("", "a")
    assert "pip install llguidance" in caught.value.hint


# Guides: a constraint and the reply that it holds


def guide(tokenizer: Tokenizer, constraint: Constraint, reply: Reply) -> Guide:
    return Guide(constraint, reply, tokenizer.eos_ids)


def push(held: Guide, reply: Reply, tokenizer: Tokenizer, text: str) -> None:
    for token in tokenizer.encode(text, literal=True):
        reply.push(token)
        held.accept(token)


def test_a_thought_is_free_and_the_answer_is_held(tokenizer: Tokenizer, grammars: Grammars) -> None:
    reply = Reply(tokenizer, THINK, prompt_end="<think>\n")
    held = guide(tokenizer, grammars.compile("", "ab"), reply)
    free = held.masked(torch.zeros(262))
    assert [token for token in range(262) if free[token] != 0] == [259, 260]  # no end before the answer
    assert held.standing(tokenizer.encode("xyz")) == 0
    push(held, reply, tokenizer, "cab?</think>")
    kept = held.masked(torch.zeros(262)) == 0
    assert [tokenizer.token_bytes(token) for token in kept.nonzero()[:, 0].tolist()] == [b"ab"]
    push(held, reply, tokenizer, "ab")
    assert held.is_complete
    reply.flush()
    assert (reply.text("thinking"), reply.text("answer")) == ("cab?", "ab")


def test_an_answer_that_begins_in_the_token_that_ends_the_thought() -> None:
    tokenizer = pairs(
        tokens=[*byte_pairs()["tokenizer.ggml.tokens"], ">a"], token_type=[1] * 258 + [3] * 3 + [4, 1]
    )
    grammars = Grammars(tokenizer)
    for regex, is_refused in (("ab", False), ("b", True)):
        reply = Reply(tokenizer, THINK, prompt_end="<think>")
        held = guide(tokenizer, grammars.compile("", regex), reply)
        push(held, reply, tokenizer, "x</think")
        reply.push(262)
        if is_refused:
            with pytest.raises(WishError, match="did not begin"):
                held.accept(262)
        else:
            held.accept(262)
            push(held, reply, tokenizer, "b")
            assert held.is_complete
            assert reply.text("answer") == "ab"


def test_tags_in_a_held_answer_are_a_part_of_it(tokenizer: Tokenizer, grammars: Grammars) -> None:
    reply = Reply(tokenizer, THINK)
    held = guide(tokenizer, grammars.compile("", "<think>x</think> *y "), reply)
    push(held, reply, tokenizer, "<think>x</think>  y ")
    reply.flush()
    assert (reply.text("thinking"), reply.text("answer")) == ("", "<think>x</think>  y ")


def test_a_continued_answer_is_held_from_its_beginning(tokenizer: Tokenizer, grammars: Grammars) -> None:
    said = (Part('{"na', literal=True),)
    reply = Reply(tokenizer, THINK, said=said)
    held = guide(tokenizer, grammars.compile(SCHEMA, ""), reply)
    assert int(held.masked(torch.zeros(262)).argmax()) == tokenizer.encode("m")[0]
    with pytest.raises(WishError, match="did not begin"):
        guide(tokenizer, grammars.compile(SCHEMA, ""), Reply(tokenizer, THINK, said=(Part("Sure"),)))


def test_a_mask_excludes_and_hides_no_broken_number(grammars: Grammars, tokenizer: Tokenizer) -> None:
    held = guide(tokenizer, grammars.compile("", "a+"), Reply(tokenizer, THINK))
    logits = torch.randn(300)  # more rows than the tokenizer has tokens
    logits[5] = torch.nan
    before = logits.clone()
    found = held.masked(logits)
    a = tokenizer.encode("a")[0]
    assert found[a] == logits[a]
    assert found[a + 1] == found[299] == -torch.inf
    assert found[5].isnan()
    assert torch.equal(logits.nan_to_num(), before.nan_to_num())


def test_a_device_is_masked_without_being_waited_for(
    grammars: Grammars, tokenizer: Tokenizer, toy: ToyDevice
) -> None:
    held = guide(tokenizer, grammars.compile("", "[a-f]+"), Reply(tokenizer, THINK))
    logits = torch.randn(262)
    there = logits.to(TOY, non_blocking=True)
    toy.waits = 0
    found = held.masked(there)
    assert toy.waits == 0
    assert torch.equal(toy.read(found), held.masked(logits))


def test_what_a_model_has_no_token_for_is_said(tokenizer: Tokenizer, grammars: Grammars) -> None:
    held = guide(tokenizer, grammars.compile("", "z+"), Reply(tokenizer, THINK))
    with pytest.raises(WishError, match="No token"):
        held.masked(torch.zeros(3))  # a model with fewer rows than its tokenizer has tokens


def test_a_real_vocabulary_writes_what_it_is_held_to(cases_dir: Path) -> None:
    for name in ("llama-spm", "phi-3", "deepseek-coder"):
        from engine.text import tokenizer as tokenizers

        tokenizer = tokenizers.load(str(cases_dir / "vocab" / f"ggml-vocab-{name}.gguf"))
        value = json.loads(drawn(tokenizer, Grammars(tokenizer).compile(SCHEMA, ""), seed=1))
        assert value["kind"] in ("a b", "é")
