"""The model's side of the window: which one is chosen, loading, tuning, and the starter's download.

Owns the state of the model chip and the wish that the dock edits. Knows no chats.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from PySide6.QtCore import QObject, Signal

from app import paths, readouts, starter
from app.engine_thread import CancelLoad, EngineThread, Load
from app.io_thread import IoThread
from app.preferences import Preferences
from app.room import Room
from app.starter_download import StarterDownload
from engine.errors import EngineError, WishError
from engine.fit.plan import default_context, plan, resolve_format
from engine.hardware.probe import physical_cores, probe
from engine.models.spec import read_spec, scan_folder
from engine.types import (
    Failed,
    Hardware,
    Loaded,
    LoadFailed,
    LoadPlan,
    LoadProgress,
    LoadSpec,
    MemoryReport,
    ModelSpec,
    Unloaded,
)
from ui.main_window import CHOOSE_FILE, MainWindow
from ui.values import ChipView, ContextView, ModelState, NoticeAction, NoticeView

FILES_LANE = "files"
CHOOSE_OTHER = NoticeAction(CHOOSE_FILE, "Choose another file")
T = TypeVar("T")


class ModelDesk(QObject):
    """Loads what the user chooses. ``loading`` carries the path, ``ready`` fires when a model can answer."""

    loading = Signal(str)
    ready = Signal()

    def __init__(
        self, window: MainWindow, engine: EngineThread, io: IoThread, preferences: Preferences
    ) -> None:
        super().__init__()
        self._window = window
        self._engine = engine
        self._io = io
        self._preferences = preferences
        self._room = Room()
        self._loaded: LoadPlan | None = None
        self._loading: LoadPlan | None = None
        self._load_id = 0
        self._is_known = False  # whether there is a model to begin with
        self._has_chat = False  # whether a chat is in view, which is more than a welcome
        self._applied: LoadPlan | None = None  # came from the dock: its settings are kept
        self._waiting: LoadPlan | None = None  # applied when the answer ends
        self._previous: LoadPlan | None = None  # goes back in if the wished one fails
        self._wish: LoadSpec | None = None
        self._percent = 0
        self._load_s: float | None = None  # what the loaded model took to load
        self._kernels = ""  # by their names, of the loaded model
        self._failed_name = ""
        self.download = StarterDownload(io)
        self.is_answering = False
        self._connect()

    @property
    def plan(self) -> LoadPlan | None:
        """The loaded plan, None while there is no model or one is being loaded."""
        return self._loaded if self._loading is None else None

    @property
    def is_ready(self) -> bool:
        """Whether a request would be answered now."""
        return self.plan is not None

    @property
    def is_coming(self) -> bool:
        """Whether a model will be there without the user doing anything more."""
        return self._loading is not None or self.download.is_running

    def start(self, path: str | None) -> None:
        """Look at the machine, then load ``path``, else the last model, else an installed starter."""
        self._files(
            lambda: probe(paths.kernel_times_file()), on_done=self._on_probed, on_error=self._on_error
        )
        if path:
            self._read(path)
        else:
            last = self._preferences.value.last_model
            self._files(starter.usable, last, on_done=self._on_startup_model, on_error=self._on_error)

    def set_chat_shown(self, has_chat: bool) -> None:
        """Tell whether a chat is in view; the welcome stands where neither model nor chat is."""
        self._has_chat = has_chat
        self._show_first_start()

    def choose(self, path: str) -> None:
        """Load what the user chose; what was said of an earlier choice goes."""
        self._window.clear_notice()
        self._read(path)

    def _read(self, path: str) -> None:
        """Read the header of ``path`` off this thread, then load it."""
        self._files(
            read_spec,
            path,
            on_done=self._on_spec,
            on_error=lambda failed: self._on_spec_error(path, failed),
        )

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
                self._on_load_progress(event.fraction)
            case Unloaded():
                self._on_unloaded()
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

    def _show_first_start(self) -> None:
        if self._is_known:  # before that, a returning user must not see the welcome flash by
            has_model = self._loaded is not None or self._loading is not None
            self._window.show_first_start(not (has_model or self._failed_name or self._has_chat))

    # The user's wishes

    def _connect(self) -> None:
        window = self._window
        window.model_chosen.connect(self.choose)
        window.picker_opened.connect(self._on_picker_opened)
        window.starter_requested.connect(self.download.start)
        window.download_cancelled.connect(self.download.stop)
        self.download.changed.connect(self._on_download_changed)
        self.download.done.connect(self._on_downloaded)
        window.format_chosen.connect(lambda format: self._change_wish(format=format))
        window.context_chosen.connect(lambda context: self._change_wish(context=context))
        window.apply_requested.connect(self._on_apply)

    def _change_wish(self, **values: Any) -> None:
        if self._wish is not None:
            self._wish = replace(self._wish, **values)
            self._waiting = None  # what was to be applied is not wanted any more
            self.refresh()

    def _on_apply(self) -> None:
        if self.plan is not None and self._wish is not None:
            self._load(self.plan.model, self._wish, is_from_dock=True)

    def _on_downloaded(self, path: str) -> None:
        """The starter is here; it loads unless the user has chosen something else meanwhile."""
        if self._loaded is None and self._loading is None:
            self._read(path)

    def _on_picker_opened(self) -> None:
        def scan() -> list[tuple[str, ModelSpec | EngineError]]:
            return scan_folder(str(paths.models_dir()))  # may have to make the folder first

        self._files(scan, on_done=self._on_scanned, on_error=self._on_error)

    def _on_scanned(self, found: list[tuple[str, ModelSpec | EngineError]]) -> None:
        loaded = self._loaded.model if self._loaded else None
        if loaded is not None and all(path != loaded.path for path, _ in found):
            found = [(loaded.path, loaded), *found]  # it lies elsewhere
        self._window.set_models(
            [readouts.model_row(path, result, loaded.path if loaded else "") for path, result in found]
        )

    # Loading

    def _on_probed(self, hardware: Hardware) -> None:
        self._room.probed = hardware
        self._window.set_machine(readouts.machine_view(hardware))
        self.refresh()

    def _on_startup_model(self, path: Path | None) -> None:
        if path is not None:
            self._read(str(path))
        else:
            self._offer_starter()

    def _offer_starter(self) -> None:
        """With nothing loaded and nothing coming, show the welcome with the starter."""
        self._is_known = True
        if self._loaded is None and self._loading is None and not self.download.is_running:
            self.download.offer()
        self.refresh()

    def _on_spec(self, spec: ModelSpec) -> None:
        self._load(spec, self._preferences.wish_for(spec.path))

    def _on_spec_error(self, path: str, failed: Failed) -> None:
        """The name in the title, the reason below: paths are long."""
        reason = failed.message.removeprefix(f"{path}: ")
        text = f"{reason[:1].upper()}{reason[1:]} {failed.hint}".strip()
        title = f"{Path(path).name} cannot be used."
        self._window.show_notice(NoticeView("warning", title, text, (CHOOSE_OTHER,), failed.details))
        self._offer_starter()

    def _load(self, spec: ModelSpec, wish: LoadSpec, is_from_dock: bool = False) -> None:
        """Plan and begin, now or when the running answer ends; say so where it cannot work."""
        hardware = self._room.hardware or Hardware("", physical_cores(), None, None)
        try:
            made = plan(spec, hardware, wish, self._room.held_bytes)
        except WishError as error:
            self._window.show_notice(NoticeView("warning", error.message, error.hint))
            self._offer_starter()
            return
        self._applied = made if is_from_dock and made.verdict != "no" else self._applied
        if made.verdict == "no":
            text = f"{made.reasons[0]} Choose a smaller format or a shorter context."
            self._window.show_notice(NoticeView("error", f"{spec.name} does not fit in memory.", text))
            self._offer_starter()
        elif self.is_answering:
            self._waiting = made
        else:
            self._begin(made)
        self.refresh()

    def _begin(self, made: LoadPlan) -> None:
        if self._loading is None:
            self._previous = self._loaded
        self._loading, self._percent, self._failed_name = made, 0, ""
        self._is_known = True
        self._wish = made.wish
        self._load_id += 1
        self._engine.post(Load(made, self._load_id))
        self.loading.emit(made.model.path)
        self.refresh()

    def _on_load_progress(self, fraction: float) -> None:
        """Move the percentage; it never goes back."""
        percent = int(100 * fraction)
        if self._loading is not None and percent > self._percent:
            self._percent = percent
            self._window.set_chip(self._chip())
            if self._previous is not None:
                self._show_tuning()

    def _on_loaded(self, event: Loaded) -> None:
        # of the plan that was asked for: the loaded one may be another, for other kernels
        is_applied = self._loading is not None and self._loading is self._applied
        self._loaded, self._loading, self._previous = event.plan, None, None
        made, self._load_s, self._kernels = event.plan, event.seconds, event.kernels
        self._room.learn(made.hardware)
        if self._wish == made.wish:  # else the user has chosen something new meanwhile
            self._wish = replace(made.wish, format=made.format, context=made.context)
        self._keep_choice(made, is_applied)
        if event.warnings:
            self._window.show_notice(NoticeView("warning", made.model.name, " ".join(event.warnings)))
        self.refresh()
        self.ready.emit()

    def _keep_choice(self, made: LoadPlan, is_applied: bool) -> None:
        """Save the model, and its settings where they were chosen in the window."""
        if is_applied:
            self._preferences.change(last_model=made.model.path, format=made.format, context=made.context)
        elif self._preferences.value.last_model != made.model.path:
            self._preferences.change(last_model=made.model.path, format="auto", context=None)

    def _on_load_failed(self, failed: LoadFailed) -> None:
        wanted, previous = self._loading, self._previous
        self._loading = self._loaded = self._previous = None
        assert wanted is not None
        is_same = previous is not None and previous.model.path == wanted.model.path
        title = "These settings did not load." if is_same else f"{wanted.model.name} could not be loaded."
        after = failed.hint if previous is None else "What was loaded before is coming back."
        actions = (CHOOSE_OTHER,) if previous is None else ()
        text = f"{failed.message} {after}"
        self._window.show_notice(NoticeView("error", title, text, actions, failed.details))
        if previous is not None:
            self._begin(previous)
        else:
            self._failed_name = wanted.model.name
        self.refresh()

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

    def _files(self, function: Callable[..., T], *args: object, **callbacks: Any) -> None:
        """Reading headers may take long on a slow disk: it has a lane of its own, apart from the chats."""
        self._io.submit(function, *args, lane=FILES_LANE, **callbacks)

    def _on_download_changed(self) -> None:
        """A download begins, moves or ends."""
        self._window.set_download(self.download.view)
        self._window.set_chip(self._chip())
        self._show_status()

    # What is shown

    def _chip(self) -> ChipView:
        if self._loading is not None:
            return readouts.chip_view(self._loading, ModelState.LOADING, self._percent)
        if self._loaded is not None:
            state = ModelState.GENERATING if self.is_answering else ModelState.READY
            return readouts.chip_view(self._loaded, state)
        if self.download.is_running:
            return ChipView(ModelState.DOWNLOADING, starter.NAME, "", self.download.percent)
        return ChipView(ModelState.FAILED if self._failed_name else ModelState.NO_MODEL, self._failed_name)

    def _show_status(self) -> None:
        kernels = self._kernels if self._loaded is not None else ""
        view = readouts.status_view(self._room.probed, self.download.is_running, kernels)
        self._window.set_status(view)

    def _show_tuning(self) -> None:
        loaded, hardware = self._loading or self._loaded, self._room.hardware
        if loaded is None or self._wish is None or hardware is None:
            self._window.set_tuning(None)
            return
        try:
            held = self._room.held_bytes
            apply = self._apply_state()
            view = readouts.tuning_view(loaded, self._wish, hardware, held, *apply, self._load_s)
        except EngineError:  # a wish that no plan can meet has been refused in words already
            view = None
        self._window.set_tuning(view)

    def _apply_state(self) -> tuple[str, int | None]:
        if self._loading is not None:
            return ("reloading", self._percent) if self._previous is not None else ("hidden", None)
        if self._waiting is not None:
            return "waiting", None
        loaded, wish = self._loaded, self._wish
        assert loaded is not None and wish is not None
        context = wish.context or default_context(loaded.model)
        is_same = (resolve_format(loaded.model, wish.format), context) == (loaded.format, loaded.context)
        return ("hidden", None) if is_same else ("ready", None)

    def _show_memory(self) -> None:
        report = self._room.report
        if report is not None:
            context = self._loaded.context if self._loaded else 0
            self._window.set_context(ContextView(report.kv_used_tokens, context))
            pending = readouts.pending_bytes(report, self._loading or self._wished_plan())
            self._window.set_memory(readouts.memory_view(report, pending))

    def _wished_plan(self) -> LoadPlan | None:
        hardware = self._room.hardware
        if not (self._loaded and self._wish and hardware) or self._apply_state()[0] == "hidden":
            return None
        try:
            return plan(self._loaded.model, hardware, self._wish, self._room.held_bytes)
        except EngineError:
            return None
