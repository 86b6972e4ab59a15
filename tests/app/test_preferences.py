"""What counts of saved settings and the command line: by model, by run, and what a plan chose."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from PySide6.QtWidgets import QApplication

from app import setting_rules, setting_table, settings
from app.io_thread import IoThread
from app.preferences import Preferences
from app.settings import Settings
from engine.fit.plan import plan
from engine.types import LoadPlan, LoadSpec
from tests.fakes import HARDWARE, make_spec

ONE, OTHER = "/models/one.gguf", "/models/other.gguf"


@pytest.fixture
def io(qapp: QApplication) -> Iterator[IoThread]:
    thread = IoThread()
    yield thread
    thread.stop()


def made(path: str, draft: str = "", **wish: object) -> LoadPlan:
    asked = LoadSpec(path, draft=draft, **wish)  # type: ignore[arg-type]
    return plan(make_spec(path), HARDWARE, asked, draft=make_spec(draft) if draft else None)


def test_what_was_applied_is_kept_for_each_model(io: IoThread) -> None:
    first = Preferences(io)
    first.keep_model(made(ONE, format="int8", context=1024, kv="8", draft=OTHER), is_applied=True)
    first.keep_model(made(OTHER, format="f32", context=2048), is_applied=True)
    io.stop()
    again = Preferences(io)
    assert again.value.last_model == OTHER
    assert again.wish_for(ONE) == LoadSpec(ONE, format="int8", context=1024, kv="8", draft=OTHER)
    assert again.wish_for(OTHER) == LoadSpec(OTHER, format="f32", context=2048)
    assert (again.draft_for(ONE), again.draft_for(OTHER)) == (OTHER, "")
    assert again.wish_for("/models/new.gguf") == LoadSpec("/models/new.gguf")


def test_a_load_that_nobody_tuned_keeps_what_was_tuned_before(io: IoThread) -> None:
    preferences = Preferences(io)
    preferences.keep_model(made(ONE, context=1024), is_applied=True)
    preferences.keep_model(made(OTHER), is_applied=False)
    preferences.keep_model(made(ONE, context=512), is_applied=False)
    assert preferences.value.last_model == ONE
    assert preferences.wish_for(ONE).context == 1024
    assert preferences.wish_for(OTHER) == LoadSpec(OTHER)


def test_a_draft_model_that_was_not_used_is_not_kept(io: IoThread) -> None:
    preferences = Preferences(io)
    refused = replace(made(ONE, draft=OTHER), draft=None)
    preferences.keep_model(refused, is_applied=True)
    assert preferences.draft_for(ONE) == ""


def test_what_earlier_versions_kept_holds_for_the_last_model_alone(io: IoThread) -> None:
    settings.save(Settings(last_model=ONE, format="int8", context=1024))
    preferences = Preferences(io)
    assert preferences.wish_for(OTHER) == LoadSpec(OTHER)
    assert preferences.wish_for(ONE) == LoadSpec(ONE, format="int8", context=1024)
    preferences.keep_model(made(OTHER), is_applied=False)
    assert preferences.wish_for(OTHER) == LoadSpec(OTHER)


def test_the_command_line_goes_before_what_is_kept(io: IoThread) -> None:
    kept = {ONE: {"format": "int8", "context": 1024, "kv": "8", "gpu_layers": 2}}
    settings.save(Settings(last_model=ONE, models=kept))
    given = LoadSpec(ONE, format="f32", kv="16", threads=1)
    preferences = Preferences(io, wish=given)
    first = LoadSpec(ONE, format="f32", context=1024, kv="16", gpu_layers=2, threads=1)
    assert preferences.wish_for(ONE) == first
    assert preferences.wish_for(ONE) == replace(first, format="int8")  # of one load; the rest of the run


def test_what_is_damaged_of_one_model_costs_nothing_else(io: IoThread) -> None:
    kept: dict[str, object] = {ONE: {"format": "int9", "context": "1024", "kv": 8}, OTHER: 5, "": {}}
    checked = setting_rules.ByModel(setting_table.OF_A_MODEL).read(kept)
    assert checked == {ONE: {"context": 1024}}


def test_the_oldest_models_go_first(io: IoThread) -> None:
    rule = setting_rules.ByModel(setting_table.OF_A_MODEL)
    many = {f"/models/{place}.gguf": {"context": 512} for place in range(setting_rules.MOST_MODELS + 5)}
    kept = rule.read(many)
    assert isinstance(kept, dict)
    assert list(kept) == list(many)[5:]


def test_a_draft_model_that_is_not_loaded_drafts_nothing(io: IoThread) -> None:
    preferences = Preferences(io)
    preferences.change(speculate="draft")
    assert preferences.speculation(made(ONE)) == "auto"
    assert preferences.speculation(made(ONE, draft=OTHER)) == "draft"
    preferences.change(speculate="off")
    assert preferences.speculation(made(ONE)) == "off"
