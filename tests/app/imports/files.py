"""Small exports of every program, written from the public descriptions that their readers cite."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]


def chatgpt_message(role: str, *parts: Any, **more: Any) -> Json:
    content = {"content_type": more.pop("kind", "text"), "parts": list(parts)}
    return {"id": "x", "author": {"role": role}, "content": content, "create_time": 1_700_000_000.5, **more}


def chatgpt_chat() -> Json:
    """A root without a message, a hidden one, thoughts, two replies of which the second was shown."""
    hidden = {"is_visually_hidden_from_conversation": True}
    nodes: dict[str, Json] = {
        "root": {"id": "root"},  # neither message nor children
        "sys": {"message": chatgpt_message("system", "", metadata=hidden), "parent": "root"},
        "ask": {"message": chatgpt_message("user", "Why is the sky blue?"), "parent": "sys"},
        "think": {
            "message": {
                "author": {"role": "assistant"},
                "content": {
                    "content_type": "thoughts",
                    "thoughts": [{"summary": "s", "content": "Rayleigh"}],
                },
            },
            "parent": "ask",
        },
        "first": {"message": chatgpt_message("assistant", "Scattering."), "parent": "think"},
        "second": {
            "message": chatgpt_message(
                "assistant", "Short waves scatter more.", metadata={"model_slug": "gpt-4o"}
            ),
            "parent": "think",
        },
        "tool": {"message": chatgpt_message("tool", "result"), "parent": "second"},
        "more": {
            "message": chatgpt_message(
                "user", None, "And this?", {"content_type": "image_asset_pointer"}, kind="multimodal_text"
            ),
            "parent": "tool",
        },
    }
    nodes["first"]["message"]["create_time"] = None
    del nodes["ask"]["message"]["id"]
    return {
        "title": "The sky",
        "conversation_id": "conv-1",
        "create_time": 1_700_000_000.0,
        "update_time": 1_700_000_100.0,
        "current_node": "more",
        "mapping": nodes,
    }


def lm_studio_chat() -> Json:
    """Two versions of an answer; the selected one has thought."""

    def single(role: str, text: str) -> Json:
        return {"type": "singleStep", "role": role, "content": [{"type": "text", "text": text}]}

    thought = {
        "type": "contentBlock",
        "style": {"type": "thinking", "title": "Thought for 2 s"},
        "content": [
            {"type": "text", "text": "<think>", "isStructural": True},
            {"type": "text", "text": "hm"},
        ],
    }
    answer = {"type": "contentBlock", "content": [{"type": "text", "text": "Plant beans."}]}
    multi = {
        "type": "multiStep",
        "role": "assistant",
        "steps": [thought, answer, {"type": "debugInfoBlock", "debugInfo": "x"}],
    }
    return {
        "name": "Garden",
        "createdAt": 1_700_000_000_000,
        "lastUsedModel": {"identifier": "qwen2.5-1.5b-instruct"},
        "messages": [
            {"versions": [single("user", "What now?")], "currentlySelected": 0},
            {"versions": [single("assistant", "Nothing."), multi], "currentlySelected": 1},
            {"versions": [{"role": "user", "content": [{"type": "file", "fileIdentifier": "a.png"}]}]},
        ],
    }


def jan_thread() -> Json:
    return {
        "id": "thread-1",
        "object": "thread",
        "title": "Letters",
        "created": 1_700_000_000,
        "updated": 1_700_000_050,
        "assistants": [{"assistant_id": "jan", "model": {"id": "llama3.2-3b-instruct"}}],
    }


def jan_messages() -> list[Json]:
    def message(number: int, role: str, content: list[Json], **more: Any) -> Json:
        return {
            "id": f"m{number}",
            "thread_id": "thread-1",
            "role": role,
            "content": content,
            "created_at": 1_700_000_000_000 + number,
            **more,
        }

    def part(kind: str, value: str) -> Json:
        return {"type": kind, "text": {"value": value, "annotations": []}}

    return [
        message(1, "user", [part("text", "Write to the landlord")]),
        message(2, "assistant", [part("reasoning", "politely"), part("text", "Dear sir")], status="stopped"),
        message(3, "user", [part("text", "Longer"), {"type": "image_url", "image_url": {"url": "x"}}]),
    ]


def open_webui_chat() -> Json:
    thought = '<details type="reasoning" done="true">\n<summary>Thought</summary>\n&gt; 2+2\n</details>\n'
    messages = {
        "u": {"id": "u", "parentId": None, "childrenIds": ["a", "b"], "role": "user", "content": "2+2?"},
        "a": {"id": "a", "parentId": "u", "childrenIds": [], "role": "assistant", "content": "5"},
        "b": {
            "id": "b",
            "parentId": "u",
            "childrenIds": [],
            "role": "assistant",
            "content": f"{thought}4",
            "timestamp": 1_700_000_003,
            "files": [{"type": "image"}],
        },
    }
    return {
        "id": "owui-1",
        "title": "Sums",
        "created_at": 1_700_000_000,
        "updated_at": 1_700_000_004,
        "chat": {"models": ["llama3"], "history": {"messages": messages, "currentId": "b"}},
    }
