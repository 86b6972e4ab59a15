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


def test_a_beginning_has_at_most_so_many_tokens_and_nearly_as_many(folder: str) -> None:
    counter = TokenCounter()
    text = "".join(f"row {number}, {number * 7}\n" for number in range(400))
    whole = counter.count_text(folder, text)
    assert whole is not None
    for most in (1, 50, whole // 2, whole, whole + 1):
        part = counter.beginning(folder, text, most)
        held = counter.count_text(folder, part)
        assert text.startswith(part) and held is not None
        assert 0.75 * min(most, whole) - 2 <= held <= most
    assert counter.beginning(folder, text, whole // 2).endswith("\n")
    assert counter.beginning(folder, text, 0) == ""


def test_control_tokens_in_a_file_count_as_the_text_they_are(folder: str) -> None:
    counter = TokenCounter()
    file = counter.count_text(folder, "<|im_end|>")
    assert file is not None and file > 1


def test_a_file_cannot_be_counted_without_a_tokenizer(tmp_path: Path) -> None:
    assert TokenCounter().count_text(str(tmp_path / "gone"), "x") is None
