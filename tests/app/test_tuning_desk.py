"""The Tuning panel in the running program: nothing loads before Apply; what needs no load holds at once."""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import draft_choice, model_choice, settings
from app.draft_choice import DraftChoice
from app.room import Room
from engine.errors import MemoryLimitError
from engine.events import Calibrated, Loaded, LoadProgress
from engine.fit.plan import without_draft
from engine.types import LoadPlan
from tests.app.program import MODEL, Desk
from tests.fakes import HARDWARE, FakeEngine, make_spec, measured_at
from ui.tuning_values import TuningView
from ui.values import ModelState

LITTLE = make_spec("/models/little.gguf")


@pytest.fixture
def desk(qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> Desk:
    made = Desk(qtbot, qapp, monkeypatch, FakeEngine())
    choices = (DraftChoice(LITTLE), DraftChoice(make_spec("/models/far.gguf"), "Its vocabulary differs."))
    monkeypatch.setattr("app.tuning_desk.draft_choices", lambda target, folder: choices)
    made.start_ready()
    return made


def tuning(desk: Desk) -> TuningView:
    assert desk.tuning is not None
    return desk.tuning


def apply(desk: Desk) -> None:
    """Press Apply and wait until it is done."""
    count = len(desk.fake.loads)
    desk.window.tuning.apply_clicked.emit()
    desk.wait(lambda: len(desk.fake.loads) > count and desk.chip.state == ModelState.READY)


def wait_for_heat(desk: Desk) -> None:
    desk.wait(lambda: tuning(desk).heat is not None)


CHANGES: dict[str, tuple[Callable[[Desk], None], Callable[[Desk], None]]] = {
    "format": (
        lambda desk: desk.window.tuning.format_chosen.emit("int8"),
        lambda desk: desk.window.tuning.format_chosen.emit("file"),
    ),
    "context": (
        lambda desk: desk.window.tuning.context_chosen.emit(1024),
        lambda desk: desk.window.tuning.context_chosen.emit(4096),
    ),
    "kv": (
        lambda desk: desk.window.tuning.kv_chosen.emit("8"),
        lambda desk: desk.window.tuning.kv_chosen.emit("16"),
    ),
    "cell": (
        lambda desk: desk.window.tuning.cell_chosen.emit("f32", 512),
        lambda desk: desk.window.tuning.cell_chosen.emit("file", 4096),
    ),
    "draft": (
        lambda desk: choose_draft(desk, LITTLE.path),
        lambda desk: desk.window.tuning.drafting_chosen.emit("auto"),
    ),
}


def choose_draft(desk: Desk, path: str) -> None:
    desk.window.tuning.drafting_chosen.emit("draft")
    desk.wait(lambda: len(desk.window.drafts.list.models.rows) > 1)
    desk.window.drafts.close_popup()
    desk.window.drafts.model_chosen.emit(path)


@pytest.mark.parametrize("name", list(CHANGES))
def test_a_change_loads_nothing_and_changing_back_hides_apply(desk: Desk, name: str) -> None:
    there, back = CHANGES[name]
    assert tuning(desk).apply == "hidden"
    there(desk)
    assert tuning(desk).apply == "ready"
    back(desk)
    assert tuning(desk).apply == "hidden"
    assert len(desk.fake.loads) == 1


def test_apply_loads_what_was_wished_and_keeps_it_for_this_model(desk: Desk) -> None:
    desk.window.tuning.cell_chosen.emit("int8", 1024)
    desk.window.tuning.kv_chosen.emit("8")
    apply(desk)
    made = desk.fake.loads[-1]
    assert (made.format, made.context, made.kv_bits) == ("int8", 1024, 8)
    assert (tuning(desk).apply, tuning(desk).loaded_kv) == ("hidden", "8")
    desk.stop()
    kept = settings.load()[0].models[MODEL]
    assert (kept["format"], kept["context"], kept["kv"]) == ("int8", 1024, "8")


def test_the_heatmap_follows_the_choice_without_a_new_survey(desk: Desk) -> None:
    wait_for_heat(desk)
    before = tuning(desk).heat
    assert before is not None
    desk.window.tuning.cell_chosen.emit("int8", 2048)
    after = tuning(desk).heat
    assert after is not None
    assert after.chosen == ("int8", 2048)
    assert after.rows is not None and [row.cells for row in after.rows] == [row.cells for row in before.rows]


def test_other_kv_bits_are_surveyed_anew(desk: Desk) -> None:
    wait_for_heat(desk)
    before = tuning(desk).heat
    desk.window.tuning.kv_chosen.emit("8")
    desk.wait(lambda: tuning(desk).heat is not None and tuning(desk).heat.rows != before.rows)  # type: ignore[union-attr]


def test_recommended_sets_values_and_applies_nothing(desk: Desk) -> None:
    wait_for_heat(desk)
    assert tuning(desk).recommended
    desk.window.tuning.cell_chosen.emit("f32", 512)
    desk.window.tuning.kv_chosen.emit("8")
    assert not tuning(desk).is_recommended
    desk.window.tuning.recommended_clicked.emit()
    view = tuning(desk)
    assert view.is_recommended
    assert (view.chosen_format, view.chosen_context, view.chosen_kv) == ("file", 4096, "16")
    assert len(desk.fake.loads) == 1


def test_what_is_preferred_changes_the_advice_and_is_kept(desk: Desk) -> None:
    wait_for_heat(desk)
    before = tuning(desk).recommended
    desk.window.tuning.preference_chosen.emit("longest")
    desk.wait(lambda: tuning(desk).recommended != before)
    assert tuning(desk).preference == "longest"
    desk.stop()
    assert settings.load()[0].preference == "longest"


@pytest.mark.parametrize("way", ["off", "ngram", "auto"])
def test_drafting_holds_from_the_next_answer_on_without_a_load(desk: Desk, way: str) -> None:
    desk.window.tuning.drafting_chosen.emit(way)
    drafting = tuning(desk).drafting
    assert drafting is not None and drafting.chosen == way
    assert tuning(desk).apply == "hidden"
    desk.send("Hi")
    desk.wait_for_answer()
    assert desk.fake.requests[-1].speculate == way
    assert len(desk.fake.loads) == 1


def test_a_draft_model_is_chosen_from_those_that_can_and_loaded_with_apply(desk: Desk) -> None:
    before = tuning(desk)
    desk.window.tuning.drafting_chosen.emit("draft")
    assert tuning(desk) == before  # not before a model is chosen
    desk.wait(lambda: len(desk.window.drafts.list.models.rows) > 1)
    rows = desk.window.drafts.list.models.rows
    assert [(row.name, row.reason) for row in rows] == [("little", ""), ("far", "Its vocabulary differs.")]
    desk.window.drafts.model_chosen.emit(LITTLE.path)
    drafting = tuning(desk).drafting
    assert drafting is not None
    assert drafting.chosen == "draft" and drafting.model.startswith("little · ")
    desk.send("Hi")
    desk.wait_for_answer()
    assert desk.fake.requests[-1].speculate == "auto"  # it is not there yet
    apply(desk)
    assert desk.fake.loads[-1].draft is not None
    assert desk.fake.loads[-1].draft.model == LITTLE
    desk.send("Again")
    desk.wait(lambda: len(desk.fake.requests) == 2)
    assert desk.fake.requests[-1].speculate == "draft"
    desk.wait_for_answer()


def test_a_loaded_draft_model_can_rest_and_come_back_without_a_load(desk: Desk) -> None:
    choose_draft(desk, LITTLE.path)
    apply(desk)
    for way in ("ngram", "draft"):
        desk.window.tuning.drafting_chosen.emit(way)
        drafting = tuning(desk).drafting
        assert drafting is not None and drafting.chosen == way
        assert tuning(desk).apply == "hidden"
    assert not desk.window.drafts.isVisible()
    desk.window.tuning.draft_model_clicked.emit()
    desk.wait(lambda: any(not row.path for row in desk.window.drafts.list.models.rows))
    desk.window.drafts.model_chosen.emit("")
    assert tuning(desk).apply == "ready"
    apply(desk)
    assert desk.fake.loads[-1].draft is None
    drafting = tuning(desk).drafting
    assert drafting is not None and drafting.chosen == "auto"


def test_the_draft_model_of_an_earlier_run_is_loaded_again(
    desk: Desk, qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_draft(desk, LITTLE.path)
    apply(desk)
    desk.stop()
    again = Desk(qtbot, qapp, monkeypatch, FakeEngine())
    again.start_ready()
    assert again.fake.loads[-1].draft is not None
    assert again.fake.loads[-1].draft.model == LITTLE


def test_a_draft_model_that_is_gone_is_said_and_the_model_loads_alone(
    desk: Desk, qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose_draft(desk, LITTLE.path)
    apply(desk)
    desk.stop()
    again = Desk(qtbot, qapp, monkeypatch, FakeEngine())
    read = model_choice.read_spec

    def gone(path: str) -> object:
        if path == LITTLE.path:
            raise draft_choice.EngineError("There is no such file.")
        return read(path)

    monkeypatch.setattr(model_choice, "read_spec", gone)
    again.start_ready()
    assert again.fake.loads[-1].draft is None
    assert again.notice is not None and "No draft model" in again.notice.title


def test_what_the_guard_refuses_is_loaded_only_when_asked_for(desk: Desk) -> None:
    desk.window.tuning.context_chosen.emit(1 << 30)
    view = tuning(desk)
    assert view.verdict is not None
    assert (view.verdict.kind, view.apply) == ("no", "anyway")
    apply(desk)
    assert desk.fake.loads[-1].verdict == "no"
    assert desk.fake.loads[-1].wish.anyway


def test_a_model_that_does_not_fit_can_be_loaded_anyway(
    qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk(qtbot, qapp, monkeypatch, FakeEngine())
    desk.start_ready()
    monkeypatch.setattr(Room, "hardware", replace(HARDWARE, ram_free_bytes=0))
    monkeypatch.setattr(Room, "held_bytes", 0)
    desk.fake.loads.clear()
    desk.window.model_chosen.emit("/models/other.gguf")
    desk.wait(lambda: desk.notice is not None)
    assert desk.notice is not None and desk.fake.loads == []
    assert [action.label for action in desk.notice.actions] == ["Load anyway"]
    desk.window.notice_action.emit(desk.notice.actions[0].key)
    desk.wait(lambda: bool(desk.fake.loads))
    assert desk.fake.loads[-1].wish.anyway
    assert desk.fake.loads[-1].model.path == "/models/other.gguf"


def test_a_wish_that_cannot_be_is_refused_in_words_and_the_old_one_stays(desk: Desk) -> None:
    before = tuning(desk)
    desk.window.tuning.kv_chosen.emit("7")
    assert desk.notice is not None and "7" in desk.notice.title
    assert tuning(desk) == before


def test_what_was_measured_of_the_machine_changes_every_prediction(desk: Desk) -> None:
    wait_for_heat(desk)
    before = tuning(desk)
    desk.program.engine.events.emit((Calibrated(measured_at(1.0)),))
    desk.wait(lambda: tuning(desk).heat is not None and tuning(desk).heat != before.heat)
    verdict, old = tuning(desk).verdict, before.verdict
    assert verdict is not None and old is not None
    assert verdict.detail != old.detail
    assert "typical values" in old.tooltip and "typical values" not in verdict.tooltip


class PickyEngine(FakeEngine):
    """Cannot use any draft model."""

    def load(self, plan: LoadPlan) -> Generator[LoadProgress | Loaded, None, None]:
        for event in super().load(plan):
            if isinstance(event, Loaded) and plan.draft is not None:
                why = "No draft model is used. Its vocabulary differs."
                event = replace(event, plan=without_draft(plan), no_draft=why, warnings=(why,))
            yield event


def test_a_draft_model_that_the_engine_refuses_is_said_and_forgotten(
    qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("app.tuning_desk.draft_choices", lambda target, folder: (DraftChoice(LITTLE),))
    desk = Desk(qtbot, qapp, monkeypatch, PickyEngine())
    desk.start_ready()
    desk.window.tuning.drafting_chosen.emit("draft")
    desk.wait(lambda: len(desk.window.drafts.list.models.rows) == 1)
    desk.window.drafts.close_popup()
    desk.window.drafts.model_chosen.emit(LITTLE.path)
    apply(desk)
    assert desk.notice is not None and "vocabulary differs" in desk.notice.text
    view = tuning(desk)
    assert view.drafting is not None
    assert (view.drafting.chosen, view.drafting.model, view.apply) == ("auto", "", "hidden")
    desk.stop()
    assert settings.load()[0].models[MODEL]["draft"] == ""


def test_settings_that_do_not_load_bring_the_old_ones_back_with_their_drafting(desk: Desk) -> None:
    choose_draft(desk, LITTLE.path)
    desk.fake.fail_load = MemoryLimitError("It is too much.", "")
    desk.window.tuning.apply_clicked.emit()
    desk.wait(lambda: len(desk.fake.loads) == 3 and desk.chip.state == ModelState.READY)
    view = tuning(desk)
    assert view.drafting is not None
    assert (view.drafting.chosen, view.drafting.model, view.apply) == ("auto", "", "hidden")
