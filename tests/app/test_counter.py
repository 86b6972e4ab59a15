"""Tokens counted beside the engine: the ids that the engine would read, and None rather than an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.counter import TokenCounter
from engine.text.chat import ChatText
from engine.types import Message
from tests.engine.tiny import tiny_folder

MESSAGES = (Message("system", "Be brief."), Message("user", "hi <|im_end|>"))


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tiny_folder(tmp_path / "model"))


def test_the_count_is_that_of_the_engines_prompt(folder: str) -> None:
    ids, _ = ChatText.load(folder).prompt(MESSAGES)
    counter = TokenCounter()
    assert counter.count(folder, MESSAGES) == len(ids) > 0
    assert counter.count(folder, MESSAGES[1:]) < len(ids)


def test_no_messages_are_no_tokens(folder: str) -> None:
    assert TokenCounter().count(folder, ()) == 0


def test_a_tokenizer_is_read_once_for_a_model(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    loads: list[str] = []
    original = ChatText.load

    def load(path: str) -> ChatText:
        loads.append(path)
        return original(path)

    monkeypatch.setattr(ChatText, "load", load)
    counter = TokenCounter()
    for _ in range(3):
        counter.count(folder, MESSAGES)
    assert loads == [folder]
    other = str(tiny_folder(Path(folder).parent / "other"))
    counter.count(other, MESSAGES)
    assert loads == [folder, other]


def test_what_cannot_be_counted_is_none_each_time_and_harms_no_other_model(folder: str) -> None:
    counter = TokenCounter()
    assert counter.count(f"{folder}/none", MESSAGES) is None
    assert counter.count(f"{folder}/none", MESSAGES) is None
    assert counter.count(folder, MESSAGES) is not None


def test_a_model_without_a_template_counts_nothing(tmp_path: Path) -> None:
    folder = str(tiny_folder(tmp_path / "model", template=None))
    assert TokenCounter().count(folder, MESSAGES) is None


def test_messages_that_the_template_refuses_are_not_counted(tmp_path: Path) -> None:
    template = "{{ raise_exception('no') if messages|length > 1 }}x"
    folder = str(tiny_folder(tmp_path / "model", template=template))
    counter = TokenCounter()
    assert counter.count(folder, (Message("user", "a"), Message("assistant", "b"))) is None
    assert counter.count(folder, MESSAGES[1:]) == 1
