"""What tokens cost, in the Lab and in the status bar: joins watts, speeds and typed prices."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import mean

from PySide6.QtCore import QObject

from app import cost_view, typed_setting
from app.answer_desk import AnswerDesk
from app.cost import Speeds
from app.cost_view import Known
from app.io_thread import IoThread
from app.lab_desk import LabDesk
from app.model_desk import ModelDesk
from app.power import PowerMeter
from app.preferences import Preferences
from app.store_lane import Reads, StoreLane
from engine.errors import WishError
from engine.fit.speed import predict
from engine.machine import Gpu, GpuReading
from engine.words import tr
from ui.main_window import MainWindow
from ui.values import ReadingsView
from ui.window_view import LAB

_CHATS, _ANSWERS = 20, 50  # the last ones, of which an average is taken


class CostDesk(QObject):
    """Shows what is known; figures that the user types are settings."""

    def __init__(
        self,
        window: MainWindow,
        io: IoThread,
        preferences: Preferences,
        models: ModelDesk,
        answers: AnswerDesk,
        lab: LabDesk,
        store: StoreLane,
        meter: PowerMeter | None = None,
    ) -> None:
        super().__init__()
        self._window = window
        self._preferences = preferences
        self._models = models
        self._answers = answers
        self._lab = lab
        self._store = store
        self._answer_tps: float | None = None  # of the loaded model's last answer
        self._answer_tokens: float | None = None
        self._errors: dict[str, str] = {}  # why what was typed was not taken, by setting
        self.meter = meter or PowerMeter(io, self._is_busy, self._gpus, parent=window)
        models.ready.connect(self._on_ready)
        answers.ended.connect(self._on_answer_ended)
        lab.measured.connect(self.refresh)
        self.meter.changed.connect(self.refresh)
        window.body.page_changed.connect(self._on_page_changed)
        window.lab.cost_typed.connect(self._on_typed)

    def refresh(self) -> None:
        """Show everything as it is now."""
        known = self._known()
        words, tooltip = cost_view.status_words(known) if known.speeds.write_tps else ("", "")
        watts = self.meter.record.now_w
        readings = self.meter.gpus
        temperatures = [each.temperature_c for each in readings if each.temperature_c is not None]
        heat = max(temperatures, default=None)
        view = ReadingsView(_device(readings), heat, watts, words, tooltip)
        self._window.body.status.set_readings(view)
        if self._window.body.page == LAB:
            self._window.lab.set_cost(cost_view.cost_view(known, self._errors))

    def _is_busy(self) -> bool:
        """Whether tokens are made now."""
        return self._models.is_answering or self._lab.is_running

    def _gpus(self) -> tuple[Gpu, ...]:
        """Those that the loaded model has layers on."""
        made = self._models.plan
        if made is None:
            return ()
        used = {share.device for share in made.devices if share.layers}
        return tuple(gpu for gpu in made.hardware.gpus or () if gpu.device in used)

    def _known(self) -> Known:
        speeds, basis = self._speeds()
        return Known(self._preferences.value, self.meter.record.power, speeds, basis, self._answer_tokens)

    def _speeds(self) -> tuple[Speeds, str]:
        """Written: the last answer's, else the Lab's, else predicted. Read: the Lab's, else predicted."""
        made, point = self._models.plan, self._lab.one_copy()
        if made is None:
            return Speeds(), ""
        predicted = predict(made)
        read = point.tokens / point.ttft_s if point and point.ttft_s else predicted.prefill_tps
        if self._answer_tps is not None:
            return Speeds(read, self._answer_tps), "answer"
        if point is not None and point.each_tps is not None:
            return Speeds(read, point.each_tps), "lab"
        return Speeds(read, predicted.half), "predicted"

    def _on_ready(self) -> None:
        self._answer_tps = None
        self.meter.restart()
        self.refresh()

    def _on_answer_ended(self, _: str) -> None:
        self._answer_tps = self._answers.last_tps or self._answer_tps
        self.refresh()

    def _on_page_changed(self, key: str) -> None:
        if key == LAB:
            self._store.read(mean_answer_tokens, self._on_mean, lambda _: self._on_mean(None))
            self.refresh()

    def _on_mean(self, tokens: float | None) -> None:
        self._answer_tokens = tokens
        self.refresh()

    def _on_typed(self, key: str, text: str) -> None:
        """Keep a figure, or say what it may be."""
        self._errors.pop(key, None)
        try:
            value = typed_setting.read(key, text)
        except WishError as error:
            self._errors[key] = f"{error.message} {error.hint}"
        else:
            self._preferences.change(**{key: value})
        self.refresh()


def mean_answer_tokens(chats: Reads) -> float | None:
    """Of the last answers that were written to their end; None where there is none. Waits for the disk."""
    counts: list[int] = []
    for chat in chats.list_chats()[:_CHATS]:
        turns = reversed(chats.messages(chat.id))
        counts += _tokens(turn.stats.get("tokens") for turn in turns if turn.status == "done")
        if len(counts) >= _ANSWERS:
            break
    return mean(counts[:_ANSWERS]) if counts else None


def _tokens(values: Iterable[object]) -> list[int]:
    return [value for value in values if isinstance(value, int) and value > 0]


def _device(readings: tuple[GpuReading, ...]) -> str:
    """ "NVIDIA GeForce MX250 · driver 550.120", and how many more there are."""
    if not readings:
        return ""
    first, more = readings[0], len(readings) - 1
    parts = [first.name]
    if first.driver:
        parts.append(tr("driver {version}").format(version=first.driver))
    if more:
        parts.append(tr("{count} more").format(count=more))
    return " · ".join(parts)
