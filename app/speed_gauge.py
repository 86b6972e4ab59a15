"""The gauges of speed: every answer has its own figures, and the window shows those of the one in view.

Answers that are written at the same time are added up apart from that, under a name of their own. What is
predicted for a moment stands beside what is measured in it.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from PySide6.QtCore import QObject, QTimer, Signal

from app import live_prediction, readouts
from app.live_prediction import Moment, Pace, PaceMeter
from app.machine_load import MachineLoad
from app.prediction_record import Judged
from app.reading import reading_of
from app.why import (
    HOLD_S,
    NOT_MEASURED,
    READING,
    SLOWER,
    Situation,
    Slowness,
    SteadyVerdict,
    Verdict,
    explain,
)
from engine.events import AnswerStats, StepStats
from engine.fit.speed import predict, prefill_s
from engine.types import LoadPlan
from engine.words import tr
from ui import numbers
from ui.gauge_values import SpeedView, WhyView
from ui.latency import NUM_STEPS
from ui.main_window import MainWindow

SETTLED_TOKENS = 5  # the first steps of an answer say little about its speed
JUDGED_TOKENS = 16  # a shorter answer is no test of a prediction
SUM_EVERY_S = 0.5
READING_S = 0.5  # a piece of a prompt takes about 0.1 s
MOST_KEPT = 100  # answers of this run; of older ones the stored figures are shown
FIGURES_EVERY_S = 0.25  # predictions and bandwidth: their digits may change four times a second


@dataclass(slots=True)
class _Answer:
    """Figures of an answer, with the steps that the latency line has."""

    view: SpeedView
    slowness: Slowness
    steps_ms: deque[float] = field(default_factory=lambda: deque(maxlen=NUM_STEPS))
    tokens: int = 0  # in its chat's context
    pace: PaceMeter = field(default_factory=PaceMeter)
    generated: int = 0
    predicted_s: float = 0.0  # of the tokens that were predicted one after another
    predicted_tokens: int = 0
    most_chats: int = 1
    is_paused: bool = False
    verdict: Verdict = NOT_MEASURED
    cause: str = ""  # of its being slower, where something outside is to blame
    figures_s: float = float("-inf")


class SpeedGauge(QObject):
    """``is_shown`` tells whether an answer is the last one in view; ``show`` must be called when another one
    comes there.

    ``judged`` carries a Judged for every ended answer that was long enough. ``machine`` gives the newest
    reading of the machine's load, ``gpu_over_bytes`` what is reserved on a GPU above the memory it has.
    """

    judged = Signal(object)

    def __init__(
        self,
        window: MainWindow,
        is_shown: Callable[[str], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__()
        self._window = window
        self._is_shown = is_shown
        self._clock = clock
        self.machine: Callable[[], MachineLoad] = MachineLoad
        self.gpu_over_bytes = 0
        self._answers: dict[str, _Answer] = {}
        self._rates: dict[str, float | None] = {}  # tok/s of the answers that are being written
        self._shown = SpeedView()
        self._together = ""
        self._added_s = float("-inf")
        self._read_s: dict[str, float] = {}  # when a piece of its prompt was read last
        self._plan: LoadPlan | None = None
        self._pace = Pace()  # of the last answer
        self._ratios: dict[str, float] = {}  # measured over predicted, of a model's last answer in this run
        self._verdict = NOT_MEASURED  # of what is shown, whether the line says it already or not
        self._why = SteadyVerdict(clock)
        self.why_timer = QTimer(self, singleShot=True, interval=int(1000 * HOLD_S))
        self.why_timer.timeout.connect(self._push_again)

    @property
    def plan(self) -> LoadPlan | None:
        """What is predicted by."""
        return self._plan

    @property
    def verdict(self) -> Verdict:
        """What the line says that is shown."""
        return self._why.shown

    @property
    def moment(self) -> Moment:
        """The chats that are being answered, else the one in view, as it was left."""
        shown = next((answer for key, answer in self._answers.items() if self._is_shown(key)), None)
        pace = shown.pace.pace if shown else Pace()  # what drafts bring in a chat, it has to show itself
        running = [self._answers[each] for each in self._rates]
        tokens = tuple(answer.tokens for answer in running if not answer.is_paused)
        return Moment(tokens or (max(1, shown.tokens if shown else 1),), pace)

    @property
    def drafting(self) -> tuple[float, float] | None:
        """Of the answer in view: the share of drafted tokens that stood, and how many a step checks."""
        accepted, rows = self._shown.drafts_accepted, self.moment.pace.rows
        return None if accepted is None or rows <= 1.0 else (accepted, rows - 1.0)

    def use(self, plan: LoadPlan | None) -> None:
        """Another model, or the same with what was measured meanwhile: predict for it from now on."""
        before, self._plan = self._plan, plan
        is_same = before is not None and plan is not None and before.model == plan.model
        if not is_same:
            self._pace = Pace()
        if not self._rates and not (is_same and self._is_answered):
            self._show_idle(replace(self._shown, step_ms=(), is_new_answer=False))

    @property
    def _is_answered(self) -> bool:
        """Whether the answer in view is one of this run: what was predicted of it stands beside it."""
        return any(self._is_shown(answer_id) for answer_id in self._answers)

    def has(self, answer_id: str) -> bool:
        """Whether there are figures of an answer of this run."""
        return answer_id in self._answers

    def _keep(self, answer_id: str, answer: _Answer) -> None:
        self._answers.pop(answer_id, None)  # one that goes on is the newest again
        self._answers[answer_id] = answer
        ended = [each for each in self._answers if each not in self._rates and each != answer_id]
        for each in ended[: max(0, len(self._answers) - MOST_KEPT)]:
            del self._answers[each]

    def stop(self) -> None:
        """Show nothing any more by itself."""
        self.why_timer.stop()

    def step(self, answer_id: str, event: StepStats, tokens: int = 0, text: Callable[[], str] = str) -> None:
        """Take the live figures of an answer whose chat holds ``tokens``; ``text`` gives what is written."""
        is_new = answer_id not in self._rates
        if is_new:
            slowness, pace = Slowness(self._clock), PaceMeter(self._pace)
            self._keep(answer_id, _Answer(SpeedView(), slowness, pace=pace, verdict=self._verdict))
        answer = self._answers[answer_id]
        answer.is_paused = False
        answer.steps_ms.extend(event.step_ms)
        answer.pace.take(event)
        rate = event.recent_tps if event.generated_tokens >= SETTLED_TOKENS else None
        self._rates[answer_id] = rate
        new_tokens = event.generated_tokens - answer.generated
        answer.generated, answer.tokens = event.generated_tokens, tokens
        answer.view = replace(
            answer.view,
            decode_tps=rate,
            is_live=True,
            ttft_s=event.ttft_s,
            drafts_accepted=readouts.drafts_accepted(event),
            drafting_off=event.drafting_off,
        )
        self._predict(answer, new_tokens, text)
        if self._clock() - self._added_s >= SUM_EVERY_S:
            self._add_up(except_for=answer_id)
        if self._is_shown(answer_id):
            self._push(replace(answer.view, step_ms=event.step_ms, is_new_answer=is_new), answer.verdict)

    def _predict(self, answer: _Answer, new_tokens: int, text: Callable[[], str]) -> None:
        """Predict this moment of ``answer``, four times a second, and add it to what it takes in all."""
        now, plan = self._clock(), self._plan
        if plan is not None and now - answer.figures_s >= FIGURES_EVERY_S:
            answer.figures_s = now
            self._show_figures(answer, plan, text())
        if answer.generated > 1 and answer.view.predicted_tps:  # the first token is the prompt's
            answer.predicted_tokens += new_tokens
            answer.predicted_s += new_tokens / answer.view.predicted_tps

    def _show_figures(self, answer: _Answer, plan: LoadPlan, text: str) -> None:
        moment = Moment(self.moment.tokens, answer.pace.pace)
        rate = answer.view.decode_tps
        predicted = live_prediction.predicted_tps(plan, moment)
        is_reading = self._is_reading(answer)
        sure = predicted * min(1.0, (1 - predict(plan).band) / SLOWER)  # rough figures accuse nobody
        is_slower = answer.slowness.observe(None if is_reading else rate, sure)
        answer.most_chats = max(answer.most_chats, moment.num_chats)
        if rate is not None:  # until then the last answer's holds
            situation = self._situation(plan, moment, rate, predicted, is_slower)
            answer.verdict = READING if is_reading else explain(situation)
        if is_reading or (is_slower and answer.verdict.is_outside):
            answer.cause = answer.verdict.kind
        answer.view = replace(
            answer.view,
            predicted_tps=predicted,
            limit_tps=live_prediction.bandwidth_limit_tps(plan, moment),
            is_slower=is_slower,
            reading_tps=reading_of(text, answer.generated),
            read_gbps=None if rate is None else live_prediction.measured_gbps(plan, moment, rate),
            peak_gbps=live_prediction.peak_gbps(plan),
        )

    def _situation(
        self, plan: LoadPlan, moment: Moment, rate: float | None, predicted: float, is_slower: bool
    ) -> Situation:
        return Situation(
            measured_tps=rate,
            predicted_tps=predicted,
            is_slower=is_slower,
            parts=live_prediction.parts(plan, moment),
            machine=self.machine(),
            threads=plan.threads,
            num_chats=moment.num_chats,
            disk_layers=plan.disk_layers,
            num_layers=plan.model.num_layers,
            gpu_over_bytes=self.gpu_over_bytes,
            spilled_layers=plan.model.num_layers - plan.gpu_layers if plan.verdict == "spills" else 0,
            kernels=plan.kernels,
            native_missing=plan.hardware.native_missing,
            drafts_gain=live_prediction.drafts_gain(plan, moment) if plan.hardware.calibration else None,
        )

    def read(self, answer_id: str) -> None:
        """A piece of an answer's prompt has been read, and the other answers have waited for it."""
        self._read_s[answer_id] = self._clock()

    def _is_reading(self, answer: _Answer) -> bool:
        """Whether another chat's prompt is being read, a piece before every step."""
        now = self._clock()
        recent = [answer_id for answer_id, then in self._read_s.items() if now - then < READING_S]
        return any(self._answers.get(answer_id) is not answer for answer_id in recent)

    def pause(self, answer_id: str) -> None:
        """The answer waits: it has no speed until it goes on."""
        if answer_id in self._rates:
            self._rates[answer_id] = None
            answer = self._answers[answer_id]
            answer.is_paused = True
            answer.view = replace(answer.view, decode_tps=None, is_slower=False, read_gbps=None)
            self._add_up(except_for=answer_id)
            if self._is_shown(answer_id):
                self._push(answer.view, answer.verdict)

    def end(self, answer_id: str, stats: AnswerStats) -> float | None:
        """An answer has ended, with this speed predicted; one without a step leaves the last figures."""
        self._read_s.pop(answer_id, None)
        if self._rates.pop(answer_id, _NO_STEP) is _NO_STEP:
            return None
        answer = self._answers[answer_id]
        self._pace = answer.pace.pace
        answer.view = replace(
            self._settled(answer, stats),
            decode_tps=stats.decode_tps,
            is_live=False,
            ttft_s=stats.ttft_s,
            prefill_tps=readouts.prompt_speed(stats),
            drafts_accepted=readouts.drafts_accepted(stats),
            is_slower=False,
        )
        if self._plan is not None and stats.decode_tps and answer.view.predicted_tps:
            self._ratios[self._plan.model.path] = stats.decode_tps / answer.view.predicted_tps
        self._judge(answer, stats)
        self._add_up(except_for=answer_id)
        if self._is_shown(answer_id):
            self._push(answer.view, answer.verdict)
        return answer.view.predicted_tps

    def _settled(self, answer: _Answer, stats: AnswerStats) -> SpeedView:
        """The view with means of the whole answer: its last moment says little beside its mean speed."""
        plan, measured = self._plan, stats.decode_tps
        if plan is None or not answer.predicted_s:
            return answer.view
        tokens, steps = stats.generated_tokens, max(1, stats.generated_tokens - stats.accepted_tokens)
        pace = Pace(tokens / steps, 1 + stats.drafted_tokens / steps)
        now = Moment((answer.tokens,) * answer.most_chats, pace)
        return replace(
            answer.view,
            predicted_tps=answer.predicted_tokens / answer.predicted_s,
            limit_tps=live_prediction.bandwidth_limit_tps(plan, now),
            read_gbps=None if measured is None else live_prediction.measured_gbps(plan, now, measured),
        )

    def _judge(self, answer: _Answer, stats: AnswerStats) -> None:
        """Hand on what was predicted of an answer and what it was."""
        plan, measured = self._plan, stats.decode_tps
        if plan is None or measured is None or not answer.predicted_s:
            return
        if stats.generated_tokens < JUDGED_TOKENS:
            return
        self.judged.emit(
            Judged(
                when_s=time.time(),
                model=plan.model.name,
                format=plan.format,
                context=plan.context,
                kernels=plan.kernels,
                device=plan.device,
                tokens=answer.tokens,
                chats=answer.most_chats,
                predicted_tps=answer.predicted_tokens / answer.predicted_s,
                measured_tps=measured,
                predicted_ttft_s=prefill_s(plan, stats.prompt_tokens, stats.reused_tokens),
                ttft_s=stats.ttft_s,
                basis=predict(plan).basis,
                cause=answer.cause,
            )
        )

    def show(self, answer_id: str | None, stored: SpeedView) -> None:
        """Another answer is in view; ``stored`` are its figures where it is of an earlier run."""
        answer = self._answers.get(answer_id or "")
        if answer is None:
            self._show_idle(replace(stored, is_new_answer=True))
        else:
            view = replace(answer.view, step_ms=tuple(answer.steps_ms), is_new_answer=True)
            self._push(view, answer.verdict)

    def _show_idle(self, view: SpeedView) -> None:
        """A view that no running answer moves: what is predicted for the chat as it is."""
        plan, moment = self._plan, self.moment
        if plan is None:
            self._push(replace(view, predicted_tps=None, limit_tps=None, peak_gbps=None), NOT_MEASURED)
            return
        predicted = live_prediction.predicted_tps(plan, moment)
        limit, peak = live_prediction.bandwidth_limit_tps(plan, moment), live_prediction.peak_gbps(plan)
        measured, ratio = view.decode_tps, self._ratios.get(plan.model.path)
        if measured is None and ratio is not None:  # as the last answer was, the next one would be
            measured = ratio * predicted
        verdict = explain(self._situation(plan, moment, measured, predicted, is_slower=False))
        self._push(replace(view, predicted_tps=predicted, limit_tps=limit, peak_gbps=peak), verdict)

    def _push(self, view: SpeedView, verdict: Verdict) -> None:
        self._shown, self._verdict = view, verdict
        why = self._why.offer(verdict)
        if not self._why.stands(verdict) and not self.why_timer.isActive():
            self.why_timer.start()
        shown = WhyView(why.sentence, why.is_warning, can_explain=self._plan is not None)
        self._window.set_speed(replace(view, together=self._together, why=shown))

    def _push_again(self) -> None:
        """Show a verdict that came too soon after another one, if it still holds."""
        self._push(replace(self._shown, step_ms=(), is_new_answer=False), self._verdict)

    def _add_up(self, except_for: str) -> None:
        """The speed of all answers together. The answer ``except_for`` is shown by the caller if at all."""
        self._added_s = self._clock()
        rates = [rate for rate in self._rates.values() if rate is not None]
        words = tr("{count} chats · {speed}\u00a0tok/s together").format(
            count=len(rates), speed=numbers.tps(sum(rates))
        )
        before, self._together = self._together, words if len(rates) > 1 else ""
        if self._together != before and not self._is_shown(except_for):
            self._push(replace(self._shown, step_ms=(), is_new_answer=False), self._verdict)


_NO_STEP = object()
