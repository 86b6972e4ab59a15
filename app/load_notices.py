"""What the window says of a model that was not loaded, and what can be done about it. Knows no loading."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from engine.errors import WishError
from engine.events import Failed, LoadFailed
from engine.fit import guard
from engine.types import LoadPlan
from engine.words import tr
from ui.main_window import CHOOSE_FILE, MainWindow
from ui.values import NoticeAction, NoticeView

CHOICE, LOADED = "choice", "loaded"  # keys of what is said of the model that was chosen, and loaded, last
LOAD_ANYWAY, LOAD_USUAL = "load-anyway", "load-usual"


def forget(window: MainWindow) -> None:
    """What was said of another model goes."""
    for key in (CHOICE, LOADED):
        window.clear_notice(key)


def no_draft(reason: str) -> NoticeView:
    """The draft model is gone or damaged; the model loads alone."""
    return NoticeView("warning", tr("No draft model is used."), reason, key=CHOICE)


def warned(made: LoadPlan, warnings: Sequence[str]) -> NoticeView:
    """A model that is loaded, and what is not as it should be."""
    return NoticeView("warning", made.model.name, " ".join(warnings), key=LOADED)


def unusable(path: str, failed: Failed) -> NoticeView:
    """A file that is no model we can read: its name in the title, the reason below, since paths are long."""
    reason = failed.message.removeprefix(f"{path}: ")
    text = f"{reason[:1].upper()}{reason[1:]} {failed.hint}".strip()
    title = tr("{name} cannot be used.").format(name=Path(path).name)
    return NoticeView("warning", title, text, (_choose_other(),), failed.details, CHOICE)


def unwished(error: WishError, has_choices: bool) -> NoticeView:
    """Settings that cannot work; those that are kept for the model can be given up."""
    return NoticeView("warning", error.message, error.hint, _usual(has_choices), key=CHOICE)


def refused(made: LoadPlan, level: str, has_choices: bool) -> NoticeView:
    """A plan that the guard does not let pass."""
    text = f"{made.reasons[0]} {guard.what_fits(made, level)}"
    title = tr("{model} does not fit in memory.").format(model=made.model.name)
    anyway = NoticeAction(LOAD_ANYWAY, tr("Load anyway"))
    return NoticeView("error", title, text, (*_usual(has_choices), anyway), key=CHOICE)


def failed_load(
    failed: LoadFailed, wanted: LoadPlan, previous: LoadPlan | None, has_choices: bool
) -> NoticeView:
    """A load that went wrong; ``previous`` is what comes back in."""
    is_same = previous is not None and previous.model.path == wanted.model.path
    title = tr("{model} could not be loaded.").format(model=wanted.model.name)
    title = tr("These settings did not load.") if is_same else title
    after = failed.hint if previous is None else tr("What was loaded before is coming back.")
    actions = (*_usual(has_choices), _choose_other()) if previous is None else ()
    return NoticeView("error", title, f"{failed.message} {after}", actions, failed.details, CHOICE)


def _usual(has_choices: bool) -> tuple[NoticeAction, ...]:
    return (NoticeAction(LOAD_USUAL, tr("Load with the usual settings")),) if has_choices else ()


def _choose_other() -> NoticeAction:
    return NoticeAction(CHOOSE_FILE, tr("Choose another file"))
