"""What the user wishes in the Tuning panel: the settings of the next load, and drafting. Loads nothing.

Keeps the wish, its plan and the survey around it; ``ModelDesk`` says what is loaded and does the loading.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal

from app import paths
from app.draft_choice import DraftChoice, draft_choices, draft_rows
from app.io_thread import IoThread
from app.landscape import Ground, Landscape, Refusal, ground, survey
from app.preferences import Preferences
from app.quality_record import QualityFigure
from app.room import Room
from app.tuning_view import Scene, format_keys, tuning_view
from engine.errors import EngineError
from engine.events import Failed
from engine.fit import guard
from engine.fit.plan import plan
from engine.machine import Hardware
from engine.types import LoadPlan, LoadSpec, ModelSpec
from ui.main_window import MainWindow
from ui.values import NoticeView

SURVEY_EVERY_MS = 100
PLANS_LANE, DRAFTS_LANE = "plans", "drafts"
_Asked = tuple[ModelSpec, Hardware, LoadSpec, int, ModelSpec | None]  # what a plan is made of


@dataclass(frozen=True, slots=True)
class Standing:
    """What is loaded, or being loaded, and how far Apply is. ``apply`` is empty where the wish decides it."""

    loaded: LoadPlan
    apply: str = ""
    percent: int | None = None
    load_s: float | None = None
    left_s: float | None = None
    figures: Sequence[QualityFigure] = ()


class TuningDesk(QObject):
    """``changed`` fires when the user has changed the wish: what waited to be applied is not wanted then."""

    changed = Signal()

    def __init__(
        self, window: MainWindow, io: IoThread, preferences: Preferences, room: Room, parent: QObject
    ) -> None:
        super().__init__(parent)
        self._window, self._io, self._preferences, self._room = window, io, preferences, room
        self.wish: LoadSpec | None = None
        self.draft: ModelSpec | None = None  # the header of the wish's draft model
        self._is_model_wanted = False  # as the one that drafts, once it is loaded
        self._standing: Standing | None = None
        self._landscape: Landscape | None = None
        self._is_surveying = False
        self._drafts: tuple[DraftChoice, ...] = ()
        self._planned: tuple[_Asked, LoadPlan | Refusal] | None = None
        self._offered = ""  # what Apply says
        self._survey_timer = QTimer(self, singleShot=True, interval=SURVEY_EVERY_MS)
        self._survey_timer.timeout.connect(self.refresh)
        self._connect()

    def begin(self, made: LoadPlan) -> None:
        """A load begins: its wish is the wish from now on."""
        self.wish, self.draft = made.wish, made.draft.model if made.draft is not None else None
        self._is_model_wanted = self._is_model_wanted and self.draft is not None

    def finish(self, made: LoadPlan) -> None:
        """``made`` is loaded; a wish that has changed meanwhile stays."""
        if self.wish == made.wish:
            self.wish = replace(made.wish, format=made.format, context=made.context, anyway=False)
        if made.draft is None and self.wish is not None and self.wish.draft == made.wish.draft:
            self.wish, self.draft = replace(self.wish, draft=""), None
        if made.draft is not None and self._is_model_wanted:
            self._preferences.change(speculate="draft")
        self._is_model_wanted = False

    def show(self, standing: Standing | None) -> None:
        """Show the dock for what is loaded; None: nothing is."""
        self._standing = standing
        self.refresh()

    def refresh(self) -> None:
        """Show the dock as it is, and have what is around the wish surveyed where that has changed."""
        standing, wanted = self._standing, self.wanted()
        if standing is None or wanted is None:
            self._window.set_tuning(None)
            return
        self._offered = standing.apply or self._apply(standing.loaded, wanted)
        landscape = self._surveyed(standing.loaded, wanted)
        scene = Scene(
            loaded=standing.loaded,
            wanted=wanted,
            landscape=landscape,
            apply=self._offered,
            percent=standing.percent,
            load_s=standing.load_s,
            left_s=standing.left_s,
            speculate="draft" if self._is_model_wanted else self._preferences.speculation(standing.loaded),
            figures=standing.figures,
            is_recommended=landscape.advice is not None and is_same(wanted, landscape.advice.plan),
        )
        self._window.set_tuning(tuning_view(scene))

    def wanted(self) -> LoadPlan | None:
        """The plan of the wish; None while there is nothing to plan with, or no plan can meet it."""
        found = self._outcome()
        return found if isinstance(found, LoadPlan) else None

    def _outcome(self) -> LoadPlan | Refusal | None:
        """The plan of the wish, or why there is none; made once for as long as nothing changes."""
        hardware, standing = self._room.hardware, self._standing
        if standing is None or self.wish is None or hardware is None:
            return None
        asked = (standing.loaded.model, hardware, self.wish, self._room.held_bytes, self.draft)
        if self._planned is None or self._planned[0] != asked:
            try:
                self._planned = asked, plan(*asked)
            except EngineError as error:
                self._planned = asked, Refusal(error.message, error.hint)
        return self._planned[1]

    def applied_wish(self) -> LoadSpec | None:
        """The wish as Apply was offered: knowing that it does not fit, where it said so."""
        return self.wish and replace(self.wish, anyway=self._offered == "anyway")

    def is_applied(self) -> bool:
        """Whether nothing is wished that is not loaded."""
        standing, wanted = self._standing, self.wanted()
        return standing is None or wanted is None or is_same(standing.loaded, wanted)

    def _apply(self, loaded: LoadPlan, wanted: LoadPlan) -> str:
        if is_same(loaded, wanted):
            return "hidden"
        return "anyway" if guard.is_refused(wanted, self._preferences.value.guard) else "ready"

    # Around the wish

    def _surveyed(self, loaded: LoadPlan, wanted: LoadPlan) -> Landscape:
        """The newest survey there is of this model; another is asked for where it would find something new.
        What none has yet is worked out at once, for one context alone.
        """
        now, shown = self._ground(loaded, wanted), self._landscape
        if shown is None or shown.ground != now:
            self._ask(now)
        if shown is None or shown.ground.spec != now.spec or wanted.context not in shown.contexts:
            return survey(now, (wanted.context,))
        return shown

    def _ask(self, now: Ground) -> None:
        """One survey at a time, and ten a second at most; the timer asks again for what is new by then."""
        if self._is_surveying or self._survey_timer.isActive():
            return
        self._is_surveying = True
        self._survey_timer.start()
        done, failed = self._on_surveyed, self._on_unsurveyed
        self._io.submit(survey, now, on_done=done, on_error=failed, lane=PLANS_LANE)

    def _ground(self, loaded: LoadPlan, wanted: LoadPlan) -> Ground:
        hardware, wish = self._room.hardware, self.wish
        assert hardware is not None and wish is not None  # there is a plan of them
        formats = format_keys(loaded.model, hardware, {wanted.format, loaded.format})
        held, preference = self._room.held_bytes, self._preferences.value.preference
        places = {loaded.context, wanted.context}
        return ground(loaded.model, hardware, wish, held, self.draft, preference, formats, places)

    def _on_surveyed(self, found: Landscape) -> None:
        self._is_surveying, self._landscape = False, found
        if self._standing is not None and self._standing.loaded.model == found.ground.spec:
            self.refresh()

    def _on_unsurveyed(self, failed: Failed) -> None:
        self._is_surveying = False
        self._window.show_notice(NoticeView("error", failed.message, failed.hint, (), failed.details))

    # The user's wishes

    def _connect(self) -> None:
        window, dock = self._window, self._window.tuning
        window.format_chosen.connect(lambda format: self._change(format=format))
        window.context_chosen.connect(lambda context: self._change(context=context))
        dock.kv_chosen.connect(lambda kv: self._change(kv=kv))
        dock.layers_chosen.connect(self._on_layers_chosen)
        dock.cell_chosen.connect(lambda format, context: self._change(format=format, context=context))
        dock.recommended_clicked.connect(self._on_recommended)
        dock.preference_chosen.connect(self._on_preference_chosen)
        dock.drafting_chosen.connect(self._on_drafting_chosen)
        dock.draft_model_clicked.connect(self._open_drafts)
        window.drafts.model_chosen.connect(self._on_draft_chosen)
        window.closing.connect(self._survey_timer.stop)

    def _change(self, **values: Any) -> None:
        """Wish something else; where no plan can meet it, say why and keep the wish."""
        before = self.wish
        if before is None:
            return
        self.wish = replace(before, anyway=False, **values)
        refusal = self._outcome()
        if isinstance(refusal, Refusal):
            self.wish = before
            self._window.show_notice(NoticeView("warning", refusal.message, refusal.hint))
        self.changed.emit()

    def _on_layers_chosen(self, layers: int) -> None:
        """Back at what is loaded, the number is left to the plan again if it was."""
        loaded = self._standing.loaded if self._standing is not None else None
        is_back = loaded is not None and layers == loaded.gpu_layers
        self._change(gpu_layers=loaded.wish.gpu_layers if loaded is not None and is_back else layers)

    def _on_recommended(self) -> None:
        advice = self._landscape.advice if self._landscape is not None else None
        if advice is not None:
            best = advice.wish
            values = {"format": best.format, "context": best.context, "kv": best.kv}
            self._change(**values, gpu_layers=best.gpu_layers)

    def _on_preference_chosen(self, preference: str) -> None:
        self._preferences.change(preference=preference)
        self.refresh()

    def _on_drafting_chosen(self, way: str) -> None:
        """Holds from the next answer on, unless a draft model has to be loaded for it first."""
        standing = self._standing
        if standing is None or self.wish is None:
            return
        if way == "draft" and self.draft is None:
            self.refresh()  # the choice is made with the model
            self._open_drafts()
            return
        self._is_model_wanted = way == "draft" and standing.loaded.draft is None
        if way != "draft" and standing.loaded.draft is None:
            self._wish_draft(None)
        if not self._is_model_wanted:
            self._preferences.change(speculate=way)
        self.changed.emit()

    def _open_drafts(self) -> None:
        if self._standing is None:
            return
        self._window.open_drafts()
        target = self._standing.loaded.model
        self._io.submit(
            lambda: draft_choices(target, paths.models_dir()),
            on_done=self._on_drafts_found,
            on_error=lambda failed: self._window.show_notice(
                NoticeView("error", failed.message, failed.hint, (), failed.details)
            ),
            lane=DRAFTS_LANE,
        )

    def _on_drafts_found(self, found: tuple[DraftChoice, ...]) -> None:
        self._drafts = found
        chosen = self.wish.draft if self.wish is not None else ""
        self._window.drafts.set_models(draft_rows(found, chosen, self._loaded_draft))

    def _on_draft_chosen(self, path: str) -> None:
        chosen = next((each.spec for each in self._drafts if each.spec.path == path), None)
        is_loaded = chosen is not None and path == self._loaded_draft
        self._is_model_wanted = chosen is not None and not is_loaded
        if is_loaded:
            self._preferences.change(speculate="draft")
        self._wish_draft(chosen)
        self.changed.emit()

    @property
    def _loaded_draft(self) -> str:
        """The path of the draft model that is loaded; empty: none is."""
        loaded = self._standing.loaded if self._standing is not None else None
        return loaded.draft.model.path if loaded is not None and loaded.draft is not None else ""

    def _wish_draft(self, spec: ModelSpec | None) -> None:
        if self.wish is not None:
            self.wish = replace(self.wish, draft=spec.path if spec is not None else "", anyway=False)
            self.draft = spec


def is_same(loaded: LoadPlan, wanted: LoadPlan) -> bool:
    """Whether a plan wishes nothing that is not loaded. How many layers fit on a GPU changes by itself."""

    def settings(made: LoadPlan) -> tuple[object, ...]:
        return made.format, made.context, made.kv_bits, made.draft.model.path if made.draft else ""

    has_layers = wanted.wish.gpu_layers in (loaded.wish.gpu_layers, loaded.gpu_layers)
    return has_layers and settings(loaded) == settings(wanted)
