"""The Batch lab behind its page: runs measurements, keeps their results, and says what they show.

Owns the run under way. Predictions, drawing and the file are others'.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QObject, QTimer, Signal

from app import lab_export, lab_record, lab_view, paths
from app.chat_desk import ChatDesk
from app.engine_thread import EngineThread, Measure, StopMeasuring
from app.fingerprint import fingerprint
from app.io_thread import IoThread
from app.lab_points import CONTEXT_COPIES, chat_wish, sweep_wish
from app.lab_record import CHAT, SWEEP, KeptPoint, LabResult, LabRun
from app.lab_run import RunUnderWay, about
from app.lab_view import Spot
from app.model_desk import ModelDesk
from app.preferences import Preferences
from engine.events import Failed, Loaded, LoadFailed, Measured, MeasureEnded, Measuring, Unloaded
from engine.types import LoadPlan, MeasureWish, Message
from engine.words import mark, tr
from ui.lab_values import LabTable, LabView
from ui.main_window import MainWindow
from ui.window_view import LAB

LANE = "lab"
COPIES, TOKENS = "copies", "tokens"  # axes; the third is CHAT
AXES = ((COPIES, mark("Copies")), (TOKENS, mark("Context")), (CHAT, mark("This chat")))
_LETTERS_A_TOKEN = 4  # of English, about; only for how long a run may take
_NOTHING = mark("Nothing is measured yet: the dashed lines are what this computer should reach.")
_BUSY = mark("An answer is being written. The lab can run when it is done.")
_NO_CHAT = mark("Open a chat with a question in it: copies of it are what runs here.")


class LabDesk(QObject):
    """Must be told of every engine event through ``handle``. ``measured`` fires when a run has ended."""

    measured = Signal()

    def __init__(
        self,
        window: MainWindow,
        engine: EngineThread,
        io: IoThread,
        preferences: Preferences,
        models: ModelDesk,
        chats: ChatDesk,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._window = window
        self._page = window.lab
        self._engine = engine
        self._io = io
        self._preferences = preferences
        self._models = models
        self._chats = chats
        self._clock = clock
        self._axis = COPIES
        self._note = ""
        self._is_warning = False
        self._result: LabResult | None = None
        self._run: RunUnderWay | None = None
        self._num_runs = 0
        self._swept: tuple[LoadPlan, MeasureWish] | None = (
            None  # the plan that it was made for, which takes long
        )
        self._later = QTimer(window, singleShot=True, interval=0)  # never fires after the window is gone
        self._connect()

    @property
    def is_running(self) -> bool:
        """Whether something is being measured."""
        return self._run is not None

    def one_copy(self) -> KeptPoint | None:
        """What was measured last of one copy of the loaded model."""
        run = self._result.run(SWEEP) if self._result else None
        found = [each for each in run.points if each.copies == 1 and each.step_s] if run else []
        return min(found, key=lambda each: abs(each.tokens - 512), default=None)

    def handle(self, event: object) -> bool:
        """Take an event of a run; False for others."""
        match event:
            case Loaded() | LoadFailed() | Unloaded():
                self._later.start()  # when the model desk has heard of it too
                return False
            case Measuring() | Measured() | MeasureEnded():
                if self._run is not None and event.run_id == self._run.run_id:
                    self._on_event(self._run, event)
                return True
        return False

    def refresh(self) -> None:
        """Show everything as it is now; nothing while another page is shown."""
        if self._window.body.page == LAB:
            self._page.set_view(self._view())

    def _connect(self) -> None:
        page = self._page
        self._later.timeout.connect(self.refresh)
        page.run_clicked.connect(self._on_run)
        page.stop_clicked.connect(lambda: self._engine.post(StopMeasuring()))
        page.axis_chosen.connect(self._on_axis)
        page.export_wanted.connect(self._on_export)
        self._window.body.page_changed.connect(lambda _: self.refresh())
        self._models.ready.connect(self._on_ready)
        self._models.loading.connect(lambda _: self._later.start())
        self._models.calibrated.connect(self._later.start)
        for signal in (self._chats.answers.began, self._chats.answers.ended):
            signal.connect(lambda _: self._later.start())
        self._chats.shown.connect(self.refresh)

    # Results

    def _on_ready(self) -> None:
        made = self._models.plan
        self._result, self._note = None, ""
        if made is not None:

            def show(result: LabResult) -> None:
                if self._models.plan is made:
                    self._result = result
                    self.measured.emit()
                    self.refresh()

            self._io.submit(_read, made, on_done=show, lane=LANE)
        self.refresh()

    def _keep(self, made: LoadPlan, run: LabRun) -> None:
        loaded = self._models.plan

        def show(result: LabResult) -> None:
            if self._models.plan is loaded:
                self._result = result

        self._io.submit(_keep, made, run, on_done=show, on_error=self._on_failed, lane=LANE)

    def _on_failed(self, failed: Failed) -> None:
        self.say(f"{failed.message} {failed.hint}".strip(), is_warning=True)

    def say(self, note: str, *, is_warning: bool = False) -> None:
        """Show a sentence on the page until something else happens."""
        self._note, self._is_warning = note, is_warning
        self.refresh()

    # Running

    def _question(self) -> tuple[Message, ...]:
        """The shown chat up to its last question; empty where there is none."""
        conversation = self._chats.current_conversation
        if conversation is None:
            return ()
        messages = conversation.messages(self._preferences.value.system_prompt)
        while messages and messages[-1].role != "user":
            messages = messages[:-1]
        return messages

    def _wish(self, made: LoadPlan) -> MeasureWish | None:
        """What a run would measure now; None where there is nothing to."""
        if self._axis != CHAT:
            if self._swept is None or self._swept[0] != made:
                self._swept = made, sweep_wish(made)
            return self._swept[1]
        messages = self._question()
        if not messages:
            return None
        letters = sum(len(message.content) for message in messages)
        tokens = min(made.context // 2, max(16, letters // _LETTERS_A_TOKEN))
        settings, answers = self._preferences.value, self._chats.answers
        options = replace(settings.template(), is_plain=made.model.path == answers.plain_model)
        return chat_wish(messages, options, tokens)

    def _on_run(self) -> None:
        made = self._models.known_plan
        wish = self._wish(made) if made is not None else None
        if made is None or wish is None or self._models.is_answering or self._run is not None:
            self.refresh()
            return
        self._num_runs += 1
        kind, title = (CHAT, wish.messages[-1].content[:80]) if wish.messages else (SWEEP, "")
        self._run = RunUnderWay(self._num_runs, kind, title, made, wish, self._clock())
        self._note = ""
        self._engine.post(Measure(wish, self._num_runs))
        self._window.body.sidebar.navigation.set_note(LAB, tr("running", "the Batch lab"))
        self.refresh()

    def _on_event(self, run: RunUnderWay, event: Measuring | Measured | MeasureEnded) -> None:
        match event:
            case Measuring():
                run.move(event)
                self._page.set_running(run.view(self._clock()))
            case Measured():
                run.take(event)
                self.refresh()
            case MeasureEnded():
                self._end(run, event)

    def _end(self, run: RunUnderWay, event: MeasureEnded) -> None:
        self._run = None
        self._window.body.sidebar.navigation.set_note(LAB, "")
        note = run.end_words(event)
        if run.points:
            ended = run.as_run(self._clock(), event.reason, note)
            if self._result is not None:
                self._result = self._result.with_run(ended)
            self._keep(run.made, ended)
        self.say(note, is_warning=event.reason != "done" or bool(note))
        self.measured.emit()

    # What is shown

    def _on_axis(self, axis: str) -> None:
        self._axis = axis
        self._note = ""
        self.refresh()

    def _shown_run(self) -> LabRun | None:
        """The run whose points are shown: the one under way, else the last one of its kind."""
        kind = CHAT if self._axis == CHAT else SWEEP
        if self._run is not None and self._run.kind == kind:
            return self._run.as_run(self._clock())
        return self._result.run(kind) if self._result else None

    def _view(self) -> LabView:
        made = self._models.known_plan
        if made is None:
            return LabView()
        wish, run = self._wish(made), self._shown_run()
        is_idle = wish is not None and not self._models.is_answering and self._run is None
        note, is_warning = self._sentence(run, has_wish=wish is not None)
        verb = tr("Run this chat") if self._axis == CHAT else tr("Run again") if run else tr("Run")
        view = LabView(
            axes=tuple((key, tr(label)) for key, label in AXES),
            axis=self._axis,
            run=verb,
            run_detail=about(made, wish),
            can_run=is_idle,
            can_export=run is not None and self._run is None,
            note=note,
            is_warning=is_warning,
            running=self._run.view(self._clock()) if self._run is not None else None,
        )
        shown = wish or MeasureWish(())
        return self._with_points(view, made, shown, run)

    def _sentence(self, run: LabRun | None, *, has_wish: bool) -> tuple[str, bool]:
        """The note, and whether it warns."""
        if self._models.is_answering:
            return tr(_BUSY), False
        if self._note:
            return self._note, self._is_warning
        if not has_wish:
            return tr(_NO_CHAT), False
        if run is None:
            return tr(_NOTHING), False
        return run.note, run.ended not in ("done", "running") or any(point.failed for point in run.points)

    def _with_points(self, view: LabView, made: LoadPlan, wish: MeasureWish, run: LabRun | None) -> LabView:
        band = lab_view.band_of(made, run)
        spots = self._spots(made, wish, run)
        if self._axis == TOKENS:
            chart, table = lab_view.context_chart(spots, band), lab_view.context_table(made, spots)
            return replace(view, chart=chart, table=table, facts=lab_view.facts(made, wish, run, spots))
        title = tr("Speed by batch size") if self._axis == COPIES else tr("Copies of this chat")
        found, finding_note = lab_view.findings(spots) if self._run is None else ((), "")
        return replace(
            view,
            chart=lab_view.copies_chart(title, spots, band) if spots else None,
            table=lab_view.copies_table(made, spots) if spots else LabTable(),
            findings=found,
            finding_note=finding_note,
            facts=lab_view.facts(made, wish, run, spots),
        )

    def _spots(self, made: LoadPlan, wish: MeasureWish, run: LabRun | None) -> tuple[Spot, ...]:
        """Those of the axis: all copies at one length, or all lengths."""
        if self._axis == CHAT and run is not None and run.points:
            wish = replace(wish, points=())  # how long the chat is, the run knows and the wish guesses
        spots = lab_view.spots_of(made, wish, run)
        if self._axis != COPIES:
            own = [spot for spot in spots if self._axis == CHAT or spot.point.copies in CONTEXT_COPIES]
            return tuple(own)
        base = next((spot.point.tokens for spot in spots if spot.point.copies not in CONTEXT_COPIES), None)
        return tuple(spot for spot in spots if spot.point.tokens == base)

    # Exports

    def _on_export(self, kind: str, path: str) -> None:
        made, run = self._models.known_plan, self._shown_run()
        if made is None or run is None:
            return

        def saved(name: str) -> None:
            self.say(tr("Saved as {name}.").format(name=name))

        if kind == "png":
            write, content = lab_export.write_png, self._page.picture()
            self._io.submit(write, path, content, on_done=saved, on_error=self._on_failed, lane=LANE)
        else:
            spots = lab_view.spots_of(made, MeasureWish((), run.steps), run)
            text = lab_export.csv_text(made, spots)
            write_text = lab_export.write_csv
            self._io.submit(write_text, path, text, on_done=saved, on_error=self._on_failed, lane=LANE)


def _read(made: LoadPlan) -> LabResult:
    """What is kept of a plan. Raises ModelFileError. Waits for the disk."""
    return lab_record.read(paths.lab_file(), lab_record.key_of(made, fingerprint(made.model)))


def _keep(made: LoadPlan, run: LabRun) -> LabResult:
    """Keep a run of a plan; all that is kept of it. Raises ModelFileError, StorageError."""
    result = _read(made).with_run(run)
    lab_record.keep(paths.lab_file(), result)
    return result
