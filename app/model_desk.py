"""The model's side of the window: loading, tuning, and the starter's download.

Owns the state of the model chip and the wish that the dock edits. Knows no chats.
"""

from __future__ import annotations

from dataclasses import replace

from PySide6.QtCore import QObject, Signal

from app import load_notices, readouts, starter
from app.engine_thread import CancelLoad, EngineThread, Load, Unload
from app.io_thread import IoThread
from app.model_choice import Choice, ModelChoice
from app.preferences import Preferences
from app.quality_figures import QualityFigures
from app.room import Room
from app.starter_download import StarterDownload
from app.tuning_desk import Standing, TuningDesk
from engine.errors import WishError
from engine.events import Calibrated, Failed, Loaded, LoadFailed, LoadProgress, MemoryReport, Unloaded
from engine.fit import guard
from engine.fit.plan import depends_on_gpus, plan
from engine.types import LoadPlan, LoadSpec, ModelSpec
from ui.gauge_values import ContextView
from ui.main_window import MainWindow
from ui.values import ChipView, ModelState, NoticeView

_BEGINNING = LoadProgress(0.0, "")


class ModelDesk(QObject):
    """Loads what the user chooses. ``loading`` carries the path, ``ready`` fires when a model can answer,
    ``calibrated`` when more is known of the machine's speed.
    """

    loading = Signal(str)
    ready = Signal()
    probed = Signal()
    calibrated = Signal()
    standing = Signal()  # whether a model is ready, coming or needed may be otherwise now

    def __init__(
        self, window: MainWindow, engine: EngineThread, io: IoThread, preferences: Preferences
    ) -> None:
        super().__init__()
        self._window = window
        self._engine = engine
        self._io = io
        self._preferences = preferences
        self._room = Room()
        self.choice = ModelChoice(io, preferences, self._room)
        self._loaded: LoadPlan | None = None
        self._loading: LoadPlan | None = None
        self._load_id = 0
        self._is_known = False  # whether there is a model to begin with
        self._has_chat = False  # whether a chat is in view, which is more than a welcome
        self._applied: LoadPlan | None = None  # came from the dock: its settings are kept
        self._waiting: LoadPlan | None = None  # applied when the answer ends
        self._previous: LoadPlan | None = None  # goes back in if the wished one fails
        self._resting: LoadPlan | None = None  # gave its memory back, and loads again when it is needed
        self._progress = _BEGINNING
        self._load_s: float | None = None  # what the loaded model took to load
        self._kernels = ""  # by their names, of the loaded model
        self._failed_name = ""
        self.download = StarterDownload(io)
        self._quality = QualityFigures(io)
        self.tuning = TuningDesk(window, io, preferences, self._room, self)
        self._refused: tuple[ModelSpec, LoadSpec, ModelSpec | None] | None = None
        self.is_answering = False
        self._is_fetching = False  # something of the library is coming from the network
        self._connect()

    @property
    def plan(self) -> LoadPlan | None:
        """The loaded plan, None while there is no model or one is being loaded."""
        return self._loaded if self._loading is None else None

    @property
    def known_plan(self) -> LoadPlan | None:
        """The loaded plan with what is known of the machine's speed by now."""
        made, known = self.plan, self._room.calibration
        if made is None or known is None or known == made.hardware.calibration:
            return made
        return replace(made, hardware=replace(made.hardware, calibration=known))

    @property
    def room(self) -> Room:
        """The machine, and the memory that is free now."""
        return self._room

    @property
    def is_ready(self) -> bool:
        """Whether a request would be answered now."""
        return self.plan is not None

    @property
    def is_loading(self) -> bool:
        """Whether a model is being read."""
        return self._loading is not None

    @property
    def is_coming(self) -> bool:
        """Whether a model will be there without the user doing anything more."""
        return self._loading is not None or self._resting is not None or self.download.is_running

    @property
    def needs_model(self) -> bool:
        """Whether nothing can answer until the user does something about it."""
        return self._is_known and self._loaded is None and not self.is_coming

    def start(self, path: str | None) -> None:
        """Load ``path``, else the last model, else an installed starter."""
        self.choice.start(path)

    def set_chat_shown(self, has_chat: bool) -> None:
        """Tell whether a chat is in view; the welcome stands where neither model nor chat is."""
        self._has_chat = has_chat
        self._show_first_start()

    def choose(self, path: str) -> None:
        """Load what the user chose; what was said of an earlier choice goes."""
        load_notices.forget(self._window)
        self.choice.choose(path)

    def set_answering(self, is_answering: bool) -> None:
        """Tell whether an answer is running; a waiting load begins when it ends."""
        self.is_answering = is_answering
        waiting, self._waiting = self._waiting, (self._waiting if is_answering else None)
        if waiting is not None and not is_answering:
            self._begin(waiting)
        self._window.set_chip(self._chip())

    def handle(self, event: object) -> bool:
        """Take an event that concerns the model; False for others."""
        match event:
            case Loaded() | LoadFailed() | LoadProgress() | Unloaded() if event.load_id != self._load_id:
                pass  # of a load that was replaced meanwhile
            case Loaded():
                self._on_loaded(event)
            case LoadFailed():
                self._on_load_failed(event)
            case LoadProgress():
                self._on_load_progress(event)
            case Unloaded():
                self._on_unloaded()
            case Calibrated():
                self._room.calibrate(event.calibration)
                self._show_tuning()
                self.calibrated.emit()
            case MemoryReport():
                self._room.take(event, is_loading=self._loading is not None)
                self._show_memory()
                if not self.is_answering:  # what is free changes, and with it the verdict
                    self._show_tuning()
            case _:
                return False
        return True

    def refresh(self) -> None:
        """Show the chip and the dock as they are."""
        self._window.set_chip(self._chip())
        self._show_tuning()
        self._show_memory()
        self._show_first_start()
        self._show_status()
        self.standing.emit()

    def _show_first_start(self) -> None:
        if self._is_known:  # before that, a returning user must not see the welcome flash by
            has_model = bool(self._loaded or self._loading or self._resting)
            self._window.show_first_start(not (has_model or self._failed_name or self._has_chat))

    # The user's wishes

    def _connect(self) -> None:
        window, choice = self._window, self.choice
        choice.probed.connect(self._on_probed)
        choice.read.connect(self._on_read)
        choice.unusable.connect(self._on_unusable)
        choice.none.connect(self._offer_starter)
        choice.failed.connect(self._on_error)
        window.model_chosen.connect(self.choose)
        window.starter_requested.connect(self.download.start)
        window.download_cancelled.connect(self.download.stop)
        self.download.changed.connect(self._on_download_changed)
        self.download.done.connect(self._on_downloaded)
        window.apply_requested.connect(self._on_apply)
        window.notice_action.connect(self._on_notice_action)
        self.tuning.changed.connect(self._on_wish_changed)
        self._quality.changed.connect(self._show_tuning)

    def _on_wish_changed(self) -> None:
        self._waiting = None  # what was to be applied is not wanted any more
        self.refresh()

    def _on_apply(self) -> None:
        wish = self.tuning.applied_wish()
        if self.plan is not None and wish is not None:
            self._load(self.plan.model, wish, self.tuning.draft, is_from_dock=True)

    def _on_notice_action(self, key: str) -> None:
        if key == load_notices.LOAD_ANYWAY and self._refused is not None:
            spec, wish, draft = self._refused
            self._load(spec, replace(wish, anyway=True), draft)
        elif key == load_notices.LOAD_USUAL:
            self._preferences.forget_choices(self.choice.path)
            self.choose(self.choice.path)

    def _on_downloaded(self, path: str) -> None:
        """The starter is here; it loads unless the user has chosen something else meanwhile."""
        if not (self._loaded or self._loading or self._resting):
            self.choice.choose(path)

    # Loading

    def _on_probed(self) -> None:
        assert self._room.probed is not None
        self._window.set_machine(readouts.machine_view(self._room.probed))
        self.refresh()
        self.probed.emit()

    def _offer_starter(self) -> None:
        """With nothing loaded and nothing coming, show the welcome with the starter."""
        self._is_known = True
        if self._loaded is None and self._loading is None and not self.download.is_running:
            self.download.offer()
        self.refresh()

    def _on_read(self, choice: Choice) -> None:
        self._load(choice.spec, choice.wish, choice.draft)
        if choice.no_draft:  # gone or damaged since it was chosen; the model alone is of use too
            self._window.show_notice(load_notices.no_draft(choice.no_draft))

    def _on_unusable(self, path: str, failed: Failed) -> None:
        self._window.show_notice(load_notices.unusable(path, failed))
        self._offer_starter()

    def _load(
        self, spec: ModelSpec, wish: LoadSpec, draft: ModelSpec | None = None, is_from_dock: bool = False
    ) -> None:
        """Plan and begin, now or when the running answer ends; say so where it cannot work."""
        load_notices.forget(self._window)
        hardware = self._room.hardware
        assert hardware is not None, "headers wait for the machine"
        try:
            made = plan(spec, hardware, wish, self._room.held_bytes, draft)
        except WishError as error:
            has_choices = not is_from_dock and self._preferences.has_choices(spec.path)
            self._window.show_notice(load_notices.unwished(error, has_choices))
            self._offer_starter()
            return
        level = self._preferences.value.guard
        is_refused = guard.is_refused(made, level) and not depends_on_gpus(made)
        self._applied = made if is_from_dock and not is_refused else self._applied
        if is_refused:
            self._refused = (spec, wish, draft)
            has_choices = not is_from_dock and self._preferences.has_choices(spec.path)
            self._window.show_notice(load_notices.refused(made, level, has_choices))
            self._offer_starter()
        elif self.is_answering:
            self._waiting = made
        else:
            self._begin(made)
        self.refresh()

    def _begin(self, made: LoadPlan) -> None:
        if self._loading is None:
            self._previous = self._loaded
        self._loading, self._progress, self._failed_name = made, _BEGINNING, ""
        self._resting, self._is_known = None, True
        self.tuning.begin(made)
        self._load_id += 1
        self._engine.post(Load(made, self._load_id))
        self._quality.read(made.model)
        self.loading.emit(made.model.path)
        self.refresh()

    def _on_load_progress(self, progress: LoadProgress) -> None:
        """Show how far the load is; in the dock, which costs more, only each percent."""
        before, self._progress = self._progress, progress
        if self._loading is not None:
            self._window.set_chip(self._chip())
            if self._previous is not None and progress.percent > before.percent:
                self._show_tuning()

    def _on_loaded(self, event: Loaded) -> None:
        # of the plan that was asked for: the loaded one may be another, for other kernels
        is_applied = self._loading is not None and self._loading is self._applied
        self._loaded, self._loading, self._previous = event.plan, None, None
        made, self._load_s, self._kernels = event.plan, event.seconds, event.kernels
        self._room.learn(made.hardware)
        self.tuning.finish(made)
        self._preferences.keep_model(made, is_applied)
        if event.warnings:
            self._window.show_notice(load_notices.warned(made, event.warnings))
        self.refresh()
        self.ready.emit()

    def _on_load_failed(self, failed: LoadFailed) -> None:
        wanted, previous = self._loading, self._previous
        self._loading = self._loaded = self._previous = None
        assert wanted is not None
        has_choices = self._preferences.has_choices(wanted.model.path)
        self._window.show_notice(load_notices.failed_load(failed, wanted, previous, has_choices))
        if previous is not None:
            self._begin(previous)
        else:
            self._failed_name = wanted.model.name
            self._offer_starter()

    def _on_unloaded(self) -> None:
        """A load was stopped; what was loaded before it comes back."""
        previous, self._previous = self._previous, None
        self._loaded = self._loading = None
        if previous is not None:
            self._begin(previous)
        else:
            self._offer_starter()

    def _on_error(self, failed: Failed) -> None:
        self._window.show_notice(NoticeView("error", failed.message, failed.hint, (), failed.details))

    def cancel_load(self) -> None:
        """Stop loading; nothing is loaded then."""
        if self._loading is not None:
            self._engine.post(CancelLoad())

    def rest(self) -> None:
        """Give the loaded model's memory back until ``wake``; not while it is needed."""
        if self.plan is not None and not self.is_answering:
            self._resting, self._loaded = self._loaded, None
            self._load_id += 1  # what the engine says of the unloading is no news
            self._engine.post(Unload())
            self.refresh()

    def wake(self) -> None:
        """Load what rests again."""
        if self._resting is not None:
            self._begin(self._resting)

    def reload(self) -> None:
        """Load the model anew, with the settings as they are now."""
        if (made := self._loaded or self._resting) is not None:
            self.choose(made.model.path)

    def _on_download_changed(self) -> None:
        """A download begins, moves or ends."""
        self._window.set_download(self.download.view)
        self._window.set_chip(self._chip())
        self._show_status()
        self.standing.emit()

    # What is shown

    def _chip(self) -> ChipView:
        if self._loading is not None:
            return readouts.chip_view(self._loading, ModelState.LOADING, self._progress)
        if self._loaded is not None:
            state = ModelState.GENERATING if self.is_answering else ModelState.READY
            return readouts.chip_view(self._loaded, state)
        if self._resting is not None:
            return readouts.chip_view(self._resting, ModelState.UNLOADED)
        if self.download.is_running:
            return ChipView(ModelState.DOWNLOADING, starter.NAME, "", self.download.percent)
        return ChipView(ModelState.FAILED if self._failed_name else ModelState.NO_MODEL, self._failed_name)

    def set_fetching(self, is_fetching: bool) -> None:
        """Tell whether the library asks the network for something: the status bar says so."""
        if is_fetching != self._is_fetching:
            self._is_fetching = is_fetching
            self._show_status()

    def _show_status(self) -> None:
        is_fetching = self.download.is_running or self._is_fetching
        kernels = self._kernels if self._loaded is not None else ""
        self._window.set_status(readouts.status_view(self._room.probed, is_fetching, kernels))

    def _show_tuning(self) -> None:
        loaded = self._loading or self._loaded
        if loaded is None or self._room.hardware is None:
            self.tuning.show(None)
            return
        apply, percent, left_s = "", None, None
        if self._loading is not None:
            apply = "hidden" if self._previous is None else "reloading"
            percent, left_s = self._progress.percent, self._progress.remaining_s
        elif self._waiting is not None:
            apply = "waiting"
        known = self._quality.of(loaded.model)
        self.tuning.show(Standing(loaded, apply, percent, self._load_s, left_s, known))

    def _show_memory(self) -> None:
        if (report := self._room.report) is not None:
            context = self._loaded.context if self._loaded else 0
            self._window.set_context(ContextView(report.kv_used_tokens, context, report.kv_answer_tokens))
            wished = None if self.tuning.is_applied() else self.tuning.wanted()
            pending = readouts.pending_bytes(report, self._loading or wished)
            self._window.set_memory(readouts.memory_view(report, pending))
