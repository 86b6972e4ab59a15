"""What the window says of a model that was not loaded, and what can be done about it. Pure functions."""

from __future__ import annotations

from pathlib import Path

from engine.events import Failed, LoadFailed
from engine.fit import guard
from engine.types import LoadPlan
from ui.main_window import CHOOSE_FILE
from ui.values import NoticeAction, NoticeView

LOAD_ANYWAY = "load-anyway"
_ANYWAY = NoticeAction(LOAD_ANYWAY, "Load anyway")
_CHOOSE_OTHER = NoticeAction(CHOOSE_FILE, "Choose another file")


def unusable(path: str, failed: Failed) -> NoticeView:
    """A file that is no model we can read: its name in the title, the reason below, since paths are long."""
    reason = failed.message.removeprefix(f"{path}: ")
    text = f"{reason[:1].upper()}{reason[1:]} {failed.hint}".strip()
    title = f"{Path(path).name} cannot be used."
    return NoticeView("warning", title, text, (_CHOOSE_OTHER,), failed.details)


def refused(made: LoadPlan, level: str) -> NoticeView:
    """A plan that the guard does not let pass."""
    text = f"{made.reasons[0]} {guard.what_fits(made, level)}"
    return NoticeView("error", f"{made.model.name} does not fit in memory.", text, (_ANYWAY,))


def failed_load(failed: LoadFailed, wanted: LoadPlan, previous: LoadPlan | None) -> NoticeView:
    """A load that went wrong; ``previous`` is what comes back in."""
    is_same = previous is not None and previous.model.path == wanted.model.path
    title = "These settings did not load." if is_same else f"{wanted.model.name} could not be loaded."
    after = failed.hint if previous is None else "What was loaded before is coming back."
    actions = (_CHOOSE_OTHER,) if previous is None else ()
    return NoticeView("error", title, f"{failed.message} {after}", actions, failed.details)
