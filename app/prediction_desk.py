"""Holds the gauges to what they predict: past answers, drift, the machine's load, and the page behind "Why?".

Joins what measures, what predicts and what shows; has no arithmetic of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
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
from engine.machine import GpuReading
from engine.types import LoadPlan
from engine.words import mark, tr
from ui import numbers
from ui.gauge_values import ExplainView, JudgedRow, WhyView
from ui.main_window import MainWindow
from ui.values import NoticeAction, NoticeView

LANE = "predictions"
MEASURE_AGAIN = "measure-again"  # the action of a notice
REFRESH_MS = 1_000
SHOWN_ROWS = 12
_OFFER_AGAIN = 5  # answers after an offer that was not taken
_BASES = {
    "measured": mark("Predictions rest on what was measured of this computer, ±{share}."),
    "corrected": mark(
        "Predictions rest on what was measured of this computer, corrected by real answers, ±{share}."
    ),
    "default": mark(
        "Predictions rest on rough figures for a computer of this kind:"
        " what this model computes with was not measured here, ±{share}."
    ),
}
_MONTHS = (
    mark("Jan"),
    mark("Feb"),
    mark("Mar"),
    mark("Apr"),
    mark("May"),
    mark("Jun"),
    mark("Jul"),
    mark("Aug"),
    mark("Sep"),
    mark("Oct"),
    mark("Nov"),
    mark("Dec"),
)
_CAUSES = {
    "pages": mark("Memory was short."),
    "cores": mark("Another program used the cores."),
    "bus": mark("Another program used the memory bus."),
    "stolen": mark("Other machines of the host took processor time."),
    "reading": mark("Another chat's message was read meanwhile."),
    "throttled": mark("The processor slowed itself down."),
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
        self._is_asked = False  # to measure, by the user
        self._until_offer = 0
        self._watch = MachineWatch(io)
        answers.gauge.machine = lambda: self._watch.load
        answers.gauge.judged.connect(self._on_judged)
        answers.began.connect(self._on_answers_changed)
        answers.ended.connect(self._on_answers_changed)
        models.ready.connect(self._on_model_changed)
        models.loading.connect(self._on_model_changed)
        models.calibrated.connect(self._on_model_changed)
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
        self._answers.gauge.use(self._models.known_plan)

    @property
    def _measured_s(self) -> float:
        """When the machine was measured: answers from before do not count for a drift."""
        known = self._models.room.calibration
        return known.when if known else 0.0

    def handle(self, event: object) -> None:
        """Take what was measured of this machine; other events are none of its business."""
        match event:
            case Calibrated():
                words = tr("{rate}\u00a0GB/s are read from memory.")
                self._tell(words.format(rate=numbers.gbps(event.calibration.read_gbps)))
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
                NoticeView("info", tr("This computer was measured."), result, key=MEASURE_AGAIN)
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
            self._offer(error, is_measured=row.basis != "default")

    def _on_unwritten(self, failed: Failed) -> None:
        self._window.show_notice(
            NoticeView("warning", tr("Past predictions could not be kept."), failed.message)
        )

    def _offer(self, error: float, *, is_measured: bool) -> None:
        slower = tr("Answers are {share} slower than predicted.")
        title = slower if error < 0 else tr("Answers are {share} faster than predicted.")
        title = title.format(share=numbers.percent(abs(error)))
        text = tr("This computer may have changed. Measuring it again takes about 5 seconds.")
        action = NoticeAction(MEASURE_AGAIN, tr("Measure again"))
        if not is_measured:
            text = tr("This computer was not measured yet. Measuring it takes about 5 seconds.")
            action = NoticeAction(MEASURE_AGAIN, tr("Measure"))
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
        self._window.show_notice(_measuring())
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
        held = tr("{tokens} of {context} tokens in the chat").format(
            tokens=numbers.count(tokens), context=numbers.count(plan.context)
        )
        rows = explain.drafts(plan, tokens, *drafting) if drafting else ()
        words = tr(
            "No drafts were checked in this answer, so nothing is known of how often they are right here."
        )
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


def _measuring() -> NoticeView:
    return NoticeView(
        "info",
        tr("This computer is being measured."),
        tr("It takes about 5 seconds, after the answers that are being written."),
        key=MEASURE_AGAIN,
    )


def judged_row(row: Judged, now_s: float) -> JudgedRow:
    """An answer as the page lists it."""
    when, today = datetime.fromtimestamp(row.when_s), datetime.fromtimestamp(now_s).date()
    shown = f"{when:%H:%M}"
    shown = tr("today {time}").format(time=shown) if when.date() == today else _day_words(when, shown)
    return JudgedRow(
        shown,
        f"{row.format} · {row.model}",
        row.tokens,
        row.chats,
        row.predicted_tps,
        row.measured_tps,
        row.error,
        tr(_CAUSES.get(row.cause, "")),
    )


def _day_words(when: datetime, time_words: str) -> str:
    """ "3 Nov 14:32"; the months by their short names in the window's language."""
    month = tr(_MONTHS[when.month - 1])
    return tr("{day} {month} {time}", "a date").format(day=when.day, month=month, time=time_words)


def _basis_words(plan: LoadPlan) -> str:
    found = predict(plan)
    return tr(_BASES[found.basis]).format(share=numbers.percent(found.band))


def _drafts_words(accepted: float, drafted: float, best: int) -> str:
    right = tr("{share} of {count} guesses a step were right here.").format(
        share=numbers.percent(accepted), count=numbers.decimal(drafted, 1)
    )
    quickest = tr("Quickest: {count} guesses a step.").format(count=best)
    quickest = quickest if best else tr("No guesses at all would be quickest.")
    return f"{right} {quickest}"


def _error_words(rows: Sequence[Judged]) -> str:
    if not rows:
        return tr("No answer was long enough yet. One of 16 tokens sets predicted beside measured.")
    same = [row.error for row in rows if row.place == rows[-1].place][-prediction_record.MOST_ROWS :]
    found = numbers.percent(median(abs(error) for error in same), 1)
    words = tr("Median error of the %n answer(s) like the last one: {error}.", "", len(same))
    return words.format(error=found)
