"""Cases of public reports about chat templates, on every path by which a template comes in."""

from __future__ import annotations

import functools
import json
from pathlib import Path

import pytest

from engine.errors import TemplateError
from engine.text import template as templates
from engine.text.chat import ChatText
from engine.text.limits import Limits
from engine.types import Message
from tests.engine.models.writers import Typed, byte_vocabulary, write_gguf
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


def gguf(place: Path, source: str) -> Path:
    keys = byte_vocabulary(["<s>", "</s>"], source)
    merged = {
        "tokens": [*keys["tokenizer.ggml.tokens"], "zq"],  # type: ignore[misc]
        "token_type": Typed("array:i32", [1] * 256 + [3, 3, 1]),
        "merges": ["z q"],
    }
    keys |= {f"tokenizer.ggml.{key}": value for key, value in merged.items()}
    return write_gguf(place / "m.gguf", keys)


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
