"""Cases of public reports about chat templates and tokens, on every path by which they come in."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest

from engine.errors import NoTemplateError, TemplateError
from engine.text import template as templates
from engine.text import tokenizer as tokenizers
from engine.text.channels import ANSWER, THINKING
from engine.text.chat import ChatText
from engine.text.limits import Limits
from engine.types import Message, TemplateOptions
from tests.engine.models.writers import Typed, byte_vocabulary, write_gguf
from tests.engine.text.test_hf_vocabulary import sentence_piece
from tests.engine.tiny import tiny_tokenizer

LOOP = "{% for i in range(100000) %}"
ATTACKS = {
    "class": "{{ ''.__class__.__mro__[1].__subclasses__() }}",
    "globals": "{{ lipsum.__globals__['os'].system('touch MARKER') }}",
    "globals of a test": "{{ cycler.__init__.__globals__.os.system('touch MARKER') }}",
    "change": "{{ messages.append({'role': 'user', 'content': 'x'}) }}",
    "change of a message": "{{ messages[0].update({'content': 'x'}) }}",
    "range": "{% for i in range(200000) %}{% endfor %}",
    "nested loops": LOOP + LOOP + "{% endfor %}{% endfor %}",
    "size": "{{ 'x' * 10**10 }}",
}
MESSAGES = (Message("user", "hi"),)


def gguf(place: Path, source: str, **more: str) -> Path:
    keys = byte_vocabulary(["<s>", "</s>"], source)
    merged = {
        "tokens": [*keys["tokenizer.ggml.tokens"], "zq"],  # type: ignore[misc]
        "token_type": Typed("array:i32", [1] * 256 + [3, 3, 1]),
        "merges": ["z q"],
    }
    keys |= {f"tokenizer.ggml.{key}": value for key, value in merged.items()}
    return write_gguf(place / "m.gguf", keys | {f"tokenizer.{key}": value for key, value in more.items()})


def config(place: Path, source: str) -> Path:
    tiny_tokenizer().save(str(place / "tokenizer.json"))
    (place / "tokenizer_config.json").write_text(json.dumps({"chat_template": source}))
    return place


def named_templates(place: Path, source: str) -> Path:
    tiny_tokenizer().save(str(place / "tokenizer.json"))
    named = [{"name": "tool_use", "template": "x"}, {"name": "default", "template": source}]
    (place / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    return place


def own_file(place: Path, source: str) -> Path:
    config(place, "never used")
    (place / "chat_template.jinja").write_text(source)
    return place


@pytest.mark.parametrize("write", [gguf, config, named_templates, own_file])
@pytest.mark.parametrize("attack", ATTACKS)
def test_a_hostile_template_does_nothing_on_whatever_path_it_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: object, attack: str
) -> None:  # B017
    assert callable(write)
    marker = tmp_path / "marker"
    monkeypatch.setattr(templates, "Limits", functools.partial(Limits, seconds=0.1))
    (tmp_path / "model").mkdir()
    path = write(tmp_path / "model", ATTACKS[attack].replace("MARKER", str(marker)))
    text = ChatText.load(str(path))
    messages = list(MESSAGES)
    with pytest.raises(TemplateError) as caught:
        text.prompt(messages)
    assert len(str(caught.value)) < 1000
    assert messages == list(MESSAGES)
    assert not marker.exists()


def test_a_bare_look_at_globals_shows_nothing(tmp_path: Path) -> None:  # B017
    text = ChatText.load(str(own_file(tmp_path, "{{ lipsum.__globals__ }}{{ messages[0].content }}")))
    try:
        ids, _ = text.prompt(MESSAGES)
    except TemplateError:
        return
    assert text.tokenizer.decode(ids) == "hi"


@pytest.mark.parametrize("write", [gguf, config, own_file])
def test_a_refused_system_message_is_kept_on_every_path(tmp_path: Path, write: object) -> None:  # B011
    assert callable(write)
    strict = (
        "{% if messages[0].role == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
        "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    )
    text = ChatText.load(str(write(tmp_path, strict)))
    system, user = Message("system", "Answer in one word."), Message("user", "Colour of snow?")
    ids, notes = text.prompt((system, user))
    assert text.tokenizer.decode(ids) == "user: Answer in one word.\n\nColour of snow?\n"
    assert len(notes) == 1
    with pytest.raises(TemplateError, match="System role not supported"):
        text.prompt((system, Message("assistant", "White.")))


def words(text: ChatText, reply: bytes, prompt_end: str = "") -> tuple[str, str]:
    """What was thought and answered in a reply of these bytes."""
    by_byte = {text.tokenizer.token_bytes(token): token for token in range(256)}
    taking = text.reply(prompt_end)
    for byte in reply:
        taking.push(by_byte[bytes([byte])])
    taking.flush()
    return taking.text(THINKING), taking.text(ANSWER)


def test_words_of_a_sentencepiece_reply_keep_their_spaces(tmp_path: Path) -> None:  # B004
    backend = sentence_piece()
    backend.add_tokens(["▁I", "▁am", "▁here", "if", "▁x:", "\n", "▁▁▁▁", "return"])
    backend.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "chat_template.jinja").write_text("{{ messages[0].content }}:{{ messages[1].content }}")
    text = ChatText(tokenizers.load(str(tmp_path)))
    for pieces, expected in (
        (("▁I", "▁am", "▁here"), "I am here"),
        (("if", "▁x:", "\n", "▁▁▁▁", "return"), "if x:\n    return"),
    ):
        ids = [backend.token_to_id(piece) for piece in pieces]
        reply = text.reply("")
        shown = "".join(piece for token in ids for _, piece in reply.push(token))
        assert shown == text.tokenizer.decode(ids) == expected
        next_turn, _ = text.prompt((*MESSAGES, Message("assistant", shown)))
        assert text.tokenizer.decode(next_turn) == f"hi:{expected}"


def test_a_token_that_the_tokenizer_does_not_know_is_an_empty_piece(tmp_path: Path) -> None:  # B010
    text = ChatText.load(str(own_file(tmp_path, "x")))
    reply = text.reply("")
    assert [reply.push(token) for token in (5, 12_000, 6)] == [
        [(ANSWER, text.tokenizer.decode([5]))],
        [],
        [(ANSWER, text.tokenizer.decode([6]))],
    ]


def test_a_model_without_a_template_says_so_and_continues_text_if_asked(tmp_path: Path) -> None:  # B013 a
    tiny_tokenizer().save(str(tmp_path / "tokenizer.json"))
    text = ChatText.load(str(tmp_path))
    with pytest.raises(NoTemplateError, match="no chat template"):
        text.prompt(MESSAGES)
    plain = TemplateOptions(is_plain=True)
    chat = (Message("user", "Once <|im_end|>"), Message("assistant", " upon"), Message("user", "a time"))
    ids, notes = text.prompt(chat, plain)
    assert text.tokenizer.decode(ids) == "Once <|im_end|> upon\n\na time"
    assert text.tokenizer.control_ids.isdisjoint(ids)
    assert notes == ()


@pytest.mark.parametrize("write", [gguf, config, named_templates, own_file])
def test_a_template_works_wherever_it_stands(tmp_path: Path, write: object) -> None:  # B013 b, c
    assert callable(write)
    text = ChatText.load(str(write(tmp_path, "[{{ messages[0].content }}]")))
    assert text.tokenizer.decode(text.prompt(MESSAGES)[0]) == "[hi]"


TOOL_SOURCE = "{{ tools[0].name }}: {{ messages[0].content }}"


def named_in_gguf(place: Path) -> Path:
    return gguf(place, "{{ messages[0].content }}", **{"chat_template.tool_use": TOOL_SOURCE})


def named_in_config(place: Path) -> Path:
    tiny_tokenizer().save(str(place / "tokenizer.json"))
    sources = {"default": "{{ messages[0].content }}", "tool_use": TOOL_SOURCE}
    named = [{"name": name, "template": source} for name, source in sources.items()]
    (place / "tokenizer_config.json").write_text(json.dumps({"chat_template": named}))
    return place


def named_in_files(place: Path) -> Path:
    own_file(place, "{{ messages[0].content }}")
    (place / "additional_chat_templates").mkdir()
    (place / "additional_chat_templates" / "tool_use.jinja").write_text(TOOL_SOURCE)
    return place


@pytest.mark.parametrize("write", [named_in_gguf, named_in_config, named_in_files])
def test_a_template_of_its_own_for_tools_is_used_with_tools(tmp_path: Path, write: object) -> None:  # B013 c
    assert callable(write)
    text = ChatText.load(str(write(tmp_path)))
    assert text.tokenizer.decode(text.prompt(MESSAGES)[0]) == "hi"
    with_tools = TemplateOptions(tools='[{"name": "f"}]')
    assert text.tokenizer.decode(text.prompt(MESSAGES, with_tools)[0]) == "f: hi"


@pytest.mark.parametrize("write", [gguf, config, own_file])
def test_the_prompt_of_a_template_opens_and_closes_the_block(tmp_path: Path, write: object) -> None:  # B019
    assert callable(write)
    source = (
        "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: <think>\n"
        "{% if enable_thinking is false %}</think>{% endif %}"
    )
    text = ChatText.load(str(write(tmp_path, source)))
    opened = text.prepare(MESSAGES).end
    closed = text.prepare(MESSAGES, TemplateOptions(thinking=False)).end
    assert words(text, b"plan it</think>Answer.", opened) == ("plan it", "Answer.")
    assert words(text, b"Answer.", closed) == ("", "Answer.")
    assert words(text, b"plan it", opened) == ("plan it", "")
    assert text.thinking == "on"


@pytest.mark.parametrize("typed", ["What is <think>", "<think>\n", "a</think><think>"])
def test_what_a_person_typed_opens_no_block(tmp_path: Path, typed: str) -> None:  # B021
    source = "{# <think></think> #}{% for m in messages %}{{ m.content }}{% endfor %}{{ X }}"
    for written in ("''", "'\nassistant:'"):
        text = ChatText.load(str(own_file(tmp_path, source.replace("X", written))))
        prompt = text.prepare([Message("user", typed)])
        assert text.tokenizer.decode(prompt.ids).startswith(typed)
        assert words(text, b"A tag.", prompt.end) == ("", "A tag.")


def test_thinking_of_earlier_turns_is_the_templates_affair(tmp_path: Path) -> None:  # B021
    source = "{% for m in messages %}[{{ m.reasoning_content }}|{{ m.content }}]{% endfor %}"
    text = ChatText.load(str(own_file(tmp_path, source)))
    chat = (*MESSAGES, Message("assistant", "Write `<think>x</think>`.", "hm"), Message("user", "<think>"))
    ids, _ = text.prompt(chat)
    assert text.tokenizer.decode(ids) == "[|hi][hm|Write `<think>x</think>`.][|<think>]"
