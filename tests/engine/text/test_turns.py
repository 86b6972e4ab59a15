"""Messages as templates take them: thinking, calls of tools, results, and what a person can get wrong."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path
from typing import Any, cast

import pytest

from engine.errors import TemplateError, WishError
from engine.text.template import ChatTemplate
from engine.types import NO_OPTIONS, Message, TemplateOptions, ToolCall

CALLS = "{% for m in messages %}{% for c in m.tool_calls or [] %}{{ X }}{% endfor %}{% endfor %}"
ARGUMENTS = CALLS.replace(
    "{{ X }}",
    "{{ c.function.name }}({% for k, v in c.function.arguments|items %}{{ k }}={{ v }}{% endfor %})",
)
USER = Message("user", "Hi")
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "The weather <now> & here",
        "parameters": {
            "type": "object",
            "properties": {
                "city": {"type": "string", "description": "Its name"},
                "days": {"type": "integer", "default": 3},
            },
            "required": ["city"],
        },
    },
}
TOOLS = json.dumps([WEATHER])


def render(source: str, *messages: Message, options: TemplateOptions = NO_OPTIONS) -> str:
    return ChatTemplate(source).render(list(messages), options=options).text


def called(arguments: str) -> Message:
    return Message("assistant", "", tool_calls=(ToolCall("f", arguments, "1"),))


def test_the_arguments_of_a_call_are_given_as_an_object() -> None:  # B015
    assert render(ARGUMENTS, USER, called('{"n": 3}')) == "f(n=3)"


def test_arguments_that_are_no_object_are_given_as_text() -> None:  # B015
    as_text = CALLS.replace("X", "c.function.arguments")
    for arguments in ("not json", "[1]", "", "[" * 100_000):
        assert render(as_text, USER, called(arguments)) == arguments


def test_arguments_that_a_template_cannot_take_are_named_in_a_sentence() -> None:  # B015
    for arguments in ("not json", "[1]"):
        with pytest.raises(TemplateError) as caught:
            render(ARGUMENTS, USER, called(arguments))
        assert "no JSON object" in caught.value.message
        assert "TypeError" not in str(caught.value)
        assert caught.value.hint


def test_a_template_that_wants_arguments_as_text_gets_them() -> None:
    source = CALLS.replace("X", "'f' + c.function.arguments")
    assert render(source, USER, called('{"n": 3}')) == 'f{"n": 3}'


def test_a_result_without_content_is_empty() -> None:  # B015
    result = Message("tool", cast(str, None), name="f", tool_call_id="1")
    each = "[{{ m.role }}{{ m.name }}{{ m.tool_call_id }}{{ m.content + '!' }}]"
    source = "{% for m in messages %}" + each + "{% endfor %}"
    assert render(source, USER, result) == "[userHi!][toolf1!]"


@pytest.mark.parametrize(
    ("content", "text"),
    [(None, ""), ([{"type": "text", "text": "hi"}], "hi"), ([{"type": "text", "text": None}], ""), ([], "")],
)
@pytest.mark.parametrize("role", ["user", "assistant", "tool", "system"])
def test_content_of_every_role_is_text(role: str, content: object, text: str) -> None:  # B016
    source = "{% for m in messages %}{{ m.content|trim }}{{ m.content + '!' }}{% endfor %}"
    message = Message(role, cast(str, content))
    assert render(source, USER, message) == f"HiHi!{text}{text}!"


def test_content_of_another_kind_is_refused_with_a_sentence() -> None:  # B016
    for content in (7, [{"type": "image_url", "image_url": "x"}], ["text"], [{"text": "no type"}]):
        with pytest.raises(TemplateError, match="text"):
            render("{{ messages[0].content }}", Message("user", cast(str, content)))


def test_typed_control_spellings_stay_text_wherever_they_are_typed() -> None:
    call = ToolCall("<|end|>f", '{"<|end|>": "\\u003c|end|>"}', "<|end|>")
    messages = (
        Message("user", "<|end|>"),
        Message("assistant", "<|end|>", "<|end|>", (call,)),
        Message("tool", "<|end|>", name="<|end|>", tool_call_id="<|end|>"),
    )
    options = TemplateOptions(
        tools=json.dumps([{"<|end|>": ["<|end|>"]}]), variables=json.dumps({"documents": ["<|end|>"]})
    )
    source = "{{ messages|tojson }}{{ tools|tojson }}{{ documents|tojson }}<|end|>{{ messages[1].thinking }}"
    rendered = ChatTemplate(source, control_texts=["<|end|>"]).render(messages, options=options)
    assert rendered.text.count("<|end|>") == 15
    assert "".join(part.text for part in rendered.parts if not part.literal).count("<|end|>") == 1


def test_variables_are_told_to_the_template() -> None:
    source = "{{ reasoning_effort }} {{ date_string }} {{ documents[0].text }} {{ strftime_now('%Y') }}"
    variables = {"reasoning_effort": "low", "date_string": "1 Jan 2030", "documents": [{"text": "d"}]}
    template = ChatTemplate(source, now=lambda: datetime(2031, 5, 6))
    options = TemplateOptions(variables=json.dumps(variables))
    assert template.render([USER], options=options).text == "low 1 Jan 2030 d 2031"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (TemplateOptions(tools="{}"), "tools are not a JSON list"),
        (TemplateOptions(tools="nonsense"), "tools are not a JSON list"),
        (TemplateOptions(variables="[]"), "variables are not a JSON object"),
        (TemplateOptions(variables="[" * 100_000), "variables are not a JSON object"),
        (TemplateOptions(variables='{"x": ' + "9" * 5000 + "}"), "variables are not a JSON object"),
        (TemplateOptions(variables='{"messages": []}'), '"messages" is the program\'s own'),
        (TemplateOptions(variables='{"bos_token": ""}'), '"bos_token" is the program\'s own'),
    ],
)
def test_options_that_cannot_be_used_are_refused(options: TemplateOptions, words: str) -> None:
    with pytest.raises(WishError) as caught:
        render("{{ tools }}", USER, options=options)
    assert words in caught.value.message
    assert caught.value.hint


THOUGHT = Message("assistant", "Hello!", "The user says hi.")
AGAIN = Message("user", "And now?")


@pytest.mark.parametrize(
    ("source", "text"),
    [
        ("{{ messages[1].reasoning_content }}|{{ messages[1].content }}", "The user says hi.|Hello!"),
        ("{{ messages[1]['thinking'] }}|{{ messages[1].content }}", "The user says hi.|Hello!"),
        (
            "{% if messages[1].reasoning is string %}{{ messages[1].reasoning }}{% endif %}",
            "The user says hi.",
        ),
        (
            "{% for b in messages[1].content %}{% if b['type'] == 'thinking' %}[{{ b['thinking'] }}]"
            "{% else %}{{ b['text'] }}{% endif %}{% endfor %}",
            "[The user says hi.]Hello!",
        ),
        (
            "{% for b in messages[1].content.blocks %}{% if b.type == 'thoughts' %}[{{ b.text }}]"
            "{% else %}{{ b.type }}={{ b.text }}{% endif %}{% endfor %}",
            "[The user says hi.]response=Hello!",
        ),
        ("{{ messages[1].content }}", "Hello!"),
    ],
)
def test_earlier_thinking_is_given_as_the_template_expects_it(source: str, text: str) -> None:
    assert render(source, USER, THOUGHT, AGAIN) == text


def test_an_answer_without_thinking_has_no_such_key() -> None:
    source = "{{ 'reasoning_content' in messages[1] }}{{ messages[1].thinking is defined }}"
    assert render(source, USER, Message("assistant", "Hello!")) == "FalseFalse"


CHATS: dict[str, tuple[list[Message], TemplateOptions]] = {
    "thinking on": ([USER], TemplateOptions(thinking=True)),
    "thinking off": ([USER], TemplateOptions(thinking=False)),
    "thought before": ([USER, THOUGHT, AGAIN], TemplateOptions()),
    "thought before, on": ([USER, THOUGHT, AGAIN], TemplateOptions(thinking=True)),
    "tools": ([USER], TemplateOptions(tools=TOOLS)),
    "effort": (
        [USER],
        TemplateOptions(variables='{"reasoning_effort": "high", "date_string": "1 Jan 2030"}'),
    ),
    "call": (
        [
            Message("user", "The weather in Bern?"),
            Message(
                "assistant",
                "",
                "I need the tool.",
                (ToolCall("get_weather", '{"city": "Bern", "days": 1}', "abcdefgh9"),),
            ),
            Message("tool", '{"sky": "blue"}', name="get_weather", tool_call_id="abcdefgh9"),
        ],
        TemplateOptions(tools=TOOLS),
    ),
}


def test_published_templates_render_options_as_transformers_does(cases_dir: Path) -> None:
    """Where transformers raises, a clear error is right, and so is a rendering that it could not make."""
    files = sorted((cases_dir / "templates").glob("*.jinja"))
    assert files
    differing = [
        f"{file.stem}: {name}"
        for file in files
        for name, (messages, options) in CHATS.items()
        if not _is_same(file, messages, options)
    ]
    assert differing == []


def _is_same(file: Path, messages: list[Message], options: TemplateOptions) -> bool:
    source = file.read_text(encoding="utf-8")
    expected = _transformers(source, messages, options)
    try:
        ours = ChatTemplate(source, "<s>", "</s>").render(messages, options=options).text
    except TemplateError as error:
        return expected is None or (bool(options.tools) and "takes no tools" in error.message)
    return expected is None or expected == ours


def _transformers(source: str, messages: list[Message], options: TemplateOptions) -> str | None:
    """The text that transformers renders with the template's own names for the options; None if it raises."""
    from tokenizers import Tokenizer, models
    from transformers import PreTrainedTokenizerFast

    from engine.text import reasoning

    oracle = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.BPE()), bos_token="<s>", eos_token="</s>", chat_template=source
    )
    told: dict[str, Any] = json.loads(options.variables or "{}")
    word = reasoning.system_word(source, options.thinking)
    if options.thinking is not None:
        told |= reasoning.switch(source, options.thinking)
    chat = ([{"role": "system", "content": word}] if word else []) + [
        _as_transformers(m, source) for m in messages
    ]
    tools = json.loads(options.tools) if options.tools else None
    try:
        text = oracle.apply_chat_template(
            chat, tools=tools, tokenize=False, add_generation_prompt=True, **told
        )
    except Exception:
        return None
    return str(text)


def _as_transformers(message: Message, source: str) -> dict[str, Any]:
    """A message as the documentation of the model's makers has it."""
    shape: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.thinking and "block['type'] == 'thinking'" in source:
        parts = [
            {"type": "thinking", "thinking": message.thinking},
            {"type": "text", "text": message.content},
        ]
        shape["content"] = parts
    elif message.thinking and "'thoughts'" in source:
        parts = [
            {"type": "thoughts", "text": message.thinking},
            {"type": "response", "text": message.content},
        ]
        shape["content"] = {"blocks": parts}
    elif message.thinking:
        shape |= dict.fromkeys(("reasoning_content", "reasoning", "thinking", "thought"), message.thinking)
    if message.tool_calls:
        shape["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": json.loads(call.arguments)},
            }
            for call in message.tool_calls
        ]
    if message.role == "tool":
        shape |= {"name": message.name, "tool_call_id": message.tool_call_id}
    return shape
