"""Holds the gauges to what they predict: past answers, drift, the machine's load, and the page behind "Why?".

Joins what measures, what predicts and what shows; has no arithmetic of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from statistics import median

from PySide6.QtCore import QObject, QTimer

from app import explain, paths, prediction_record, readouts
from app.answer_desk import AnswerDesk
from app.io_thread import IoThread
from app.machine_load import MachineWatch
from app.model_desk import ModelDesk
from app.prediction_record import Judged
from engine.events import Calibrated, CalibrationEnded, Failed
from engine.fit.speed import predict
from engine.types import Calibration, GpuReading, LoadPlan
from ui import numbers
from ui.main_window import MainWindow
from ui.numbers import NBSP
from ui.values import ExplainView, JudgedRow, NoticeAction, NoticeView, WhyView

LANE = "predictions"
MEASURE_AGAIN = "measure-again"  # the action of a notice
MEASURING = NoticeView(
    "info",
    "This computer is being measured.",
    "It takes about 5 seconds, after the answers that are being written.",
    key=MEASURE_AGAIN,
)
REFRESH_MS = 1_000
SHOWN_ROWS = 12
_OFFER_AGAIN = 5  # answers after an offer that was not taken
_BASES = {
    "measured": "what was measured of this computer",
    "corrected": "what was measured of this computer, corrected by real answers",
    "default": "rough figures for a computer of this kind: nothing was measured here yet",
}
_CAUSES = {
    "pages": "Memory was short.",
    "cores": "Another program used the cores.",
    "bus": "Another program used the memory bus.",
    "stolen": "Other machines of the host took processor time.",
    "reading": "Another chat's message was read meanwhile.",
    "throttled": "The processor slowed itself down.",
}


class PredictionDesk(QObject):
    """Must be told of the model and the answers by their desks; ``measure`` measures the machine again."""

    def __init__(
        self,
        window: MainWindow,
        io: IoThread,
        models: ModelDesk,
        answers: AnswerDesk,
        measure: Callable[[], None],
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__()
        self._window = window
        self._io = io
        self._models = models
        self._answers = answers
        self._measure = measure
        self._clock = clock
        self._rows: tuple[Judged, ...] = ()
        self._calibration: Calibration | None = None  # newer than that of the loaded plan
        self._is_asked = False  # to measure, by the user
        self._until_offer = 0
        self._watch = MachineWatch(io)
        answers.gauge.machine = lambda: self._watch.load
        answers.gauge.judged.connect(self._on_judged)
        answers.began.connect(self._on_answers_changed)
        answers.ended.connect(self._on_answers_changed)
        models.ready.connect(self._on_model_changed)
        models.loading.connect(self._on_model_changed)
        window.explaining.requested.connect(self._explain)
        window.notice_action.connect(self._on_notice_action)
        self._refresh = QTimer(self, interval=REFRESH_MS)
        self._refresh.timeout.connect(self._on_refresh)

    @property
    def rows(self) -> tuple[Judged, ...]:
        """Past answers, the newest last."""
        return self._rows

    def start(self) -> None:
        """Read what is kept of past answers."""
        self._io.submit(
            lambda: prediction_record.read(paths.predictions_file()), on_done=self._on_read, lane=LANE
        )

    def stop(self) -> None:
        """Ask for nothing any more; what was judged is written already, or on its way."""
        self._refresh.stop()
        self._watch.watch(False)
        self._answers.gauge.stop()

    def _on_read(self, rows: Sequence[Judged]) -> None:
        self._rows = (*rows, *self._rows)  # an answer may have ended meanwhile

    def _on_answers_changed(self) -> None:
        self._watch.watch(self._answers.count > 0)

    def _on_model_changed(self) -> None:
        self._answers.gauge.use(self._plan)

    @property
    def _plan(self) -> LoadPlan | None:
        """The loaded plan with what is known of this machine's speed by now."""
        plan = self._models.plan
        if plan is None or self._calibration is None:
            return plan
        return replace(plan, hardware=replace(plan.hardware, calibration=self._calibration))

    @property
    def _measured_s(self) -> float:
        """When the machine was measured: answers from before do not count for a drift."""
        plan = self._plan
        known = plan.hardware.calibration if plan else None
        return known.when if known else 0.0

    def handle(self, event: object) -> None:
        """Take what was measured of this machine; other events are none of its business."""
        match event:
            case Calibrated():
                self._calibration = event.calibration
                self._on_model_changed()
                self._tell(f"{numbers.gbps(event.calibration.read_gbps)}{NBSP}GB/s are read from memory.")
            case CalibrationEnded() if event.message:
                self._tell(f"{event.message} {event.hint}".strip())

    def take_gpus(self, readings: Sequence[GpuReading]) -> None:
        """Take what the GPUs of the loaded model tell of themselves."""
        over = sum(reading.spilled_bytes or 0 for reading in readings)
        self._answers.gauge.gpu_over_bytes = over

    def _tell(self, result: str) -> None:
        """What came of measuring, where the user had asked for it."""
        if self._is_asked:
            self._is_asked = False
            self._window.show_notice(
                NoticeView("info", "This computer was measured.", result, key=MEASURE_AGAIN)
            )

    # Predicted and measured

    def _on_judged(self, row: Judged) -> None:
        self._rows = (*self._rows, row)[-prediction_record.MOST_ROWS :]
        rows = self._rows
        self._io.submit(
            lambda: prediction_record.write(paths.predictions_file(), rows),
            on_error=self._on_unwritten,
            lane=LANE,
        )
        self._until_offer -= 1
        error = prediction_record.drift(rows, self._measured_s)
        if error is not None and self._until_offer <= 0:
            self._until_offer = _OFFER_AGAIN
            self._offer(error)

    def _on_unwritten(self, failed: Failed) -> None:
        self._window.show_notice(NoticeView("warning", "Past predictions could not be kept.", failed.message))

    def _offer(self, error: float) -> None:
        share, side = numbers.percent(abs(error)), "slower" if error < 0 else "faster"
        title = f"Answers are {share} {side} than predicted."
        text = "This computer may have changed. Measuring it again takes about 5 seconds."
        action = NoticeAction(MEASURE_AGAIN, "Measure again")
        self._window.show_notice(NoticeView("info", title, text, (action,), key=MEASURE_AGAIN))

    def _on_notice_action(self, key: str) -> None:
        if key == MEASURE_AGAIN:
            self.measure_again()

    @property
    def is_measuring(self) -> bool:
        """Whether the user waits for a measurement of this computer."""
        return self._is_asked

    def measure_again(self) -> None:
        """Measure this computer as soon as nothing else is to be done, and say what came of it."""
        self._is_asked = True
        self._window.show_notice(MEASURING)
        self._measure()

    # The page

    def _explain(self) -> None:
        self._show_page()
        self._refresh.start()

    def _on_refresh(self) -> None:
        if self._window.explaining.is_shown:
            self._show_page()
        else:
            self._refresh.stop()

    def _show_page(self) -> None:
        plan = self._answers.gauge.plan
        if plan is not None:
            self._window.explaining.show(self._view(plan))

    def _view(self, plan: LoadPlan) -> ExplainView:
        gauge = self._answers.gauge
        moment, verdict, drafting = gauge.moment, gauge.verdict, gauge.drafting
        tokens = moment.mean_tokens
        held = f"{numbers.count(tokens)} of {numbers.count(plan.context)} tokens in the chat"
        rows = explain.drafts(plan, tokens, *drafting) if drafting else ()
        words = "No drafts were checked in this answer, so nothing is known of how often they are right here."
        if drafting:
            words = _drafts_words(*drafting, explain.best(rows).drafted)
        return ExplainView(
            f"{plan.model.name} · {readouts.bits_label(plan)} · {held}",
            tokens,
            plan.context,
            _basis_words(plan),
            WhyView(verdict.sentence, verdict.is_warning),
            explain.step_view(plan, moment),
            explain.doors(plan, tokens),
            explain.batches(plan, tokens),
            rows,
            words,
            tuple(judged_row(row, self._clock()) for row in reversed(self._rows[-SHOWN_ROWS:])),
            _error_words(self._rows),
        )


def judged_row(row: Judged, now_s: float) -> JudgedRow:
    """An answer as the page lists it."""
    when, today = datetime.fromtimestamp(row.when_s), datetime.fromtimestamp(now_s).date()
    shown = f"today {when:%H:%M}" if when.date() == today else f"{when.day} {when:%b %H:%M}"
    return JudgedRow(
        shown,
        f"{row.format} · {row.model}",
        row.tokens,
        row.chats,
        row.predicted_tps,
        row.measured_tps,
        row.error,
        _CAUSES.get(row.cause, ""),
    )


def _basis_words(plan: LoadPlan) -> str:
    found = predict(plan)
    return f"Predictions rest on {_BASES[found.basis]}, ±{numbers.percent(found.band)}."


def _drafts_words(accepted: float, drafted: float, best: int) -> str:
    right = f"{numbers.percent(accepted)} of {numbers.decimal(drafted, 1)} guesses a step were right here."
    quickest = f"Quickest: {best} guesses a step." if best else "No guesses at all would be quickest."
    return f"{right} {quickest}"


def _error_words(rows: Sequence[Judged]) -> str:
    if not rows:
        return "No answer was long enough yet. One of 16 tokens sets predicted beside measured."
    same = [row.error for row in rows if row.place == rows[-1].place][-prediction_record.MOST_ROWS :]
    found = numbers.decimal(100 * median(abs(error) for error in same), 1)
    return f"Median error of the {numbers.count(len(same))} answers like the last one: {found}%."
