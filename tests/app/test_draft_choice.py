"""Which models can draft for another, and how the list says why others cannot."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from app import draft_choice
from app.draft_choice import DraftChoice, draft_choices, draft_rows
from app.headers import read_headers
from engine.capabilities import Capabilities, GenericOptions
from engine.errors import ModelFileError
from engine.text.tokenizer import Tokenizer
from engine.types import ModelSpec, TensorInfo
from tests.fakes import make_spec

TARGET = make_spec("/models/target.gguf")


def sized(path: str, nbytes: int) -> ModelSpec:
    return replace(make_spec(path), tensors=(TensorInfo("t", (1,), "F32", 0, 0, nbytes),))


def test_those_that_can_come_first_and_the_lightest_of_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Vocabularies are stood in for by their models' names; the comparison has tests of its own."""
    stuck = Capabilities(no_trim="It cannot go back.")
    options = GenericOptions("a class", "not lean", (), capabilities=stuck)
    found: list[tuple[str, object]] = [
        ("/m/big.gguf", sized("/m/big.gguf", 900)),
        ("/m/far.gguf", sized("/m/far.gguf", 1)),
        ("/m/broken.gguf", ModelFileError("broken", "")),
        ("/models/../models/target.gguf", sized("/models/../models/target.gguf", 3)),  # drafts not for itself
        ("/m/scan", replace(sized("/m/scan", 2), generic=options)),
        ("/m/small.gguf", sized("/m/small.gguf", 90)),
        ("/m/unreadable.gguf", sized("/m/unreadable.gguf", 5)),
    ]

    def load(path: str) -> str:
        if "unreadable" in path:
            raise ModelFileError("It has no tokenizer.", "Choose another.")
        return path

    def difference(target: str, draft: str) -> str:
        assert target == TARGET.path
        return "its vocabulary differs in 3 tokens" if "far" in draft else ""

    monkeypatch.setattr(draft_choice, "scan_folder", lambda folder: found)
    monkeypatch.setattr(draft_choice.tokenizers, "load", load)
    monkeypatch.setattr(draft_choice, "difference", difference)
    choices = draft_choices(TARGET, tmp_path)
    assert [(each.spec.path, each.reason) for each in choices] == [
        ("/m/small.gguf", ""),
        ("/m/big.gguf", ""),
        ("/m/far.gguf", "Its vocabulary differs in 3 tokens."),
        ("/m/scan", "It cannot go back."),
        ("/m/unreadable.gguf", "It has no tokenizer. Choose another."),
    ]


def test_without_a_folder_there_are_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(draft_choice.tokenizers, "load", lambda path: Tokenizer)
    assert draft_choices(TARGET, tmp_path / "gone") == ()


def test_a_chosen_one_can_be_given_up_and_only_the_loaded_one_is_called_so() -> None:
    choices = (DraftChoice(make_spec("/m/a.gguf")), DraftChoice(make_spec("/m/b.gguf"), "It differs."))
    rows = draft_rows(choices, "", "")
    assert [(row.path, row.reason, row.is_loaded) for row in rows] == [
        ("/m/a.gguf", "", False),
        ("/m/b.gguf", "It differs.", False),
    ]
    rows = draft_rows(choices, "/m/a.gguf", "")
    assert [row.path for row in rows] == ["", "/m/a.gguf", "/m/b.gguf"]
    assert not any(row.is_loaded for row in rows)
    assert [row.is_loaded for row in draft_rows(choices, "/m/a.gguf", "/m/a.gguf")] == [False, True, False]


def test_a_draft_model_that_cannot_be_read_costs_no_model() -> None:
    def read(path: str) -> ModelSpec:
        if "gone" in path:
            raise ModelFileError("It is gone.", "")
        return make_spec(path)

    assert read_headers(read, "/m/a.gguf", "").draft is None
    found = read_headers(read, "/m/a.gguf", "/m/b.gguf")
    assert found.draft == make_spec("/m/b.gguf") and found.no_draft == ""
    found = read_headers(read, "/m/a.gguf", "/m/gone.gguf")
    assert found.draft is None and "gone" in found.no_draft
    with pytest.raises(ModelFileError):
        read_headers(read, "/m/gone.gguf", "")
