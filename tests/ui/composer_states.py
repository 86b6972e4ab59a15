"""The designed states of the composer, its popovers and attached files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from tests.ui import states
from ui.attachment_text import attached, compose
from ui.chat_values import CounterView, LengthView, PresetsView
from ui.main_window import MainWindow
from ui.values import NoticeAction, NoticeView

SALES = attached(
    "sales-2023.csv", "month,amount\n" + "\n".join(f"{at},{at * 731 % 97}.50" for at in range(1, 49))
)
NOTES = attached("notes-from-the-planning-call-in-november.md", "# Notes\n\n- one\n- two")
REPORT = attached("report.pdf", "Text of the first pages", "pages 1 to 40 of 212")


def _attach(window: MainWindow) -> None:
    states.finish(window)
    window.set_composer_text(compose((SALES,), "Summarise the second column"))
    window.composing.set_costs({SALES: 1204})
    window.set_counter(CounterView(2635, 8192))


def _attach_many(window: MainWindow) -> None:
    states.finish(window)
    more = [attached(f"part-{number}.py", f"x = {number}") for number in range(4)]
    window.set_composer_text(compose((SALES, NOTES, REPORT, *more), ""))
    window.composing.set_costs({SALES: 1204, NOTES: 812, REPORT: 3310} | dict.fromkeys(more, 211))
    window.composing.begin_reading("k", "thesis.pdf")
    window.set_counter(CounterView(7431, 8192))


def _attach_too_much(window: MainWindow) -> None:
    _attach(window)
    window.composing.set_costs({SALES: 9204})
    window.set_counter(CounterView(10_635, 8192))
    actions = ("Attach the beginning", "Leave it out", "Raise the context")
    words = "It has 9,204 tokens, 2,443 too many. Its first 6,249 fit and leave room for an answer."
    title = "sales-2023.csv does not fit into the context."
    buttons = tuple(NoticeAction(label, label) for label in actions)
    window.show_notice(NoticeView("warning", title, words, buttons))


def _have_attached(window: MainWindow) -> None:
    states.finish(window)
    asked = replace(states.MESSAGES[0], text=compose((SALES, REPORT), "Summarise the second column"))
    alone = replace(states.MESSAGES[2], text=compose((NOTES,), ""))
    window.show_chat((asked, states.MESSAGES[1], alone, replace(states.MESSAGES[3], status="done")))


def _open_attached(window: MainWindow) -> None:
    states.finish(window)
    asked = replace(states.MESSAGES[2], text=compose((SALES, REPORT), "Summarise the second column"))
    window.show_chat((asked, replace(states.MESSAGES[3], status="done", stats="44 tokens")))
    window.body.centre.transcript.toggle_file("m3", 0)
    window.body.centre.transcript.verticalScrollBar().setValue(0)


LENGTHS = ((128, 3.0), (256, 6.0), (512, 12.0), (1024, 24.5), (2048, 51.0), (4096, 110.0), (None, None))
VALUES = {
    "system_prompt": "You are a patient statistician. Answer in short sentences and name every assumption.",
    **{"temperature": 0.6, "top_k": 40, "top_p": 0.95, "min_p": 0.05, "repeat_penalty": 1.0},
    **{"presence_penalty": 0.0, "frequency_penalty": 0.0, "seed": None, "max_tokens": 512},
}


def _limit_length(window: MainWindow) -> None:
    states.fill(window)
    window.composing.set_length(LengthView(512, 12.0, LENGTHS))
    window.set_counter(CounterView(7431, 8192))
    window.set_thinking(True)


def _open_presets(window: MainWindow) -> None:
    states.finish(window)
    window.composing.set_length(LengthView(512, 12.0, LENGTHS))
    own = frozenset({"system_prompt", "max_tokens"})
    window.composing.set_presets(PresetsView(VALUES, own, ("Careful", "Poet"), "Careful"))
    window.composing.open_presets()


def _open_palette(window: MainWindow) -> None:
    states.finish(window)
    window.open_palette()


def _search_palette(window: MainWindow) -> None:
    states.finish(window)
    window.open_palette()
    window.palette_popup.field.set_text("chat")


def _list_shortcuts(window: MainWindow) -> None:
    states.finish(window)
    window.show_shortcuts()


COMPOSER_STATES: dict[str, Callable[[MainWindow], None]] = {
    "attached": _attach,
    "attached-many": _attach_many,
    "attached-too-long": _attach_too_much,
    "attached-shown": _have_attached,
    "attached-open": _open_attached,
    "answer-length": _limit_length,
    "presets": _open_presets,
    "palette": _open_palette,
    "palette-search": _search_palette,
    "shortcuts": _list_shortcuts,
}
