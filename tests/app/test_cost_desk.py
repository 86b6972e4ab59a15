"""Cost in the window: typed figures are kept and shown at once, and a wrong one is a sentence."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import lab_desk, paths, settings
from app.conversation import Turn
from app.cost_desk import mean_answer_tokens
from app.store import Store
from tests.app.program import Desk
from tests.fakes import FakeEngine
from ui.lab_values import CostView
from ui.values import ReadingsView
from ui.window_view import LAB


class Shown:
    """What the page and the status bar were told."""

    def __init__(self) -> None:
        self.cost = CostView()
        self.readings = ReadingsView()
        self.note = ""


@pytest.fixture
def shown() -> Shown:
    return Shown()


@pytest.fixture
def desk(qtbot: QtBot, qapp: QApplication, monkeypatch: pytest.MonkeyPatch, shown: Shown) -> Iterator[Desk]:
    monkeypatch.setattr(lab_desk, "fingerprint", lambda spec: spec.path)
    made = Desk(qtbot, qapp, monkeypatch, FakeEngine())
    page, status = made.window.lab, made.window.body.status
    monkeypatch.setattr(page, "set_cost", lambda view: setattr(shown, "cost", view))
    monkeypatch.setattr(page, "set_view", lambda view: setattr(shown, "note", view.note))
    monkeypatch.setattr(status, "set_readings", lambda view: setattr(shown, "readings", view))
    made.start_ready()
    made.window.body.show_page(LAB)
    yield made
    assert made.stop()


def test_without_watts_no_cost_is_shown(desk: Desk, shown: Shown) -> None:
    assert shown.readings.cost == ""
    assert shown.cost.rows == ()
    assert shown.cost.missing


def test_typed_figures_are_shown_and_kept(desk: Desk, shown: Shown) -> None:
    for key, text in (("power_watts", "65"), ("electricity_price", "0.30"), ("api_output_price", "0.6")):
        desk.window.lab.cost_typed.emit(key, text)
    assert [row.name for row in shown.cost.rows] == ["Electricity, at the wall", "API"]
    assert "kWh/M" in shown.readings.cost
    assert "$" in shown.readings.cost
    desk.flush()
    kept, _ = settings.load(paths.settings_file())
    assert (kept.power_watts, kept.electricity_price, kept.api_output_price) == (65.0, 0.3, 0.6)
    desk.window.lab.cost_typed.emit("power_watts", "")
    assert shown.readings.cost == ""


@pytest.mark.parametrize("text", ["much", "-1", "1e99", "nan"])
def test_a_figure_that_cannot_be_is_said_and_not_kept(desk: Desk, shown: Shown, text: str) -> None:
    desk.window.lab.cost_typed.emit("power_watts", text)
    words = f"{text} cannot be used. It must be a number from 0 to 1,000,000,000 or none."
    assert (shown.cost.fields[1].error, shown.cost.fields[1].value) == (words, "")
    desk.window.lab.cost_typed.emit("power_watts", "65")
    assert (shown.cost.fields[1].error, shown.cost.fields[1].value) == ("", "65")


def test_the_speed_is_the_last_answer_s(desk: Desk, shown: Shown) -> None:
    desk.window.lab.cost_typed.emit("power_watts", "36")
    assert shown.cost.basis.endswith("as predicted.")
    desk.send("hello")
    desk.wait_for_answer()
    desk.wait(lambda: shown.cost.basis.endswith("as the last answer was written."))
    assert shown.readings.cost == "0.20\u00a0kWh/M\u00a0tok"  # 36 W at 50 tok/s are 0.72 J a token


def test_the_mean_is_of_answers_that_were_written_to_their_end() -> None:
    store = Store(paths.chats_db())
    assert mean_answer_tokens(store) is None
    chat = store.create_chat("A chat")
    for number, (status, tokens) in enumerate((("done", 100), ("stopped", 5), ("done", 300), ("done", None))):
        store.add_message(Turn(str(number), chat.id, None, "assistant", "x", status, {"tokens": tokens}))
    assert mean_answer_tokens(store) == 200
    store.close()
