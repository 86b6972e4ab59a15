"""Joins window, engine and I/O: intents become commands, events become views. Knows no tensors."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QCoreApplication, QObject, QTimer, QUrl, Slot
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QApplication

from app import paths
from app.answer_desk import PLAIN, AnswerDesk
from app.attachment_desk import AttachmentDesk
from app.chat_desk import ChatDesk
from app.chat_transfer import CANCEL_IMPORT, ChatTransfer
from app.cost_desk import CostDesk
from app.counter import TokenCounter
from app.engine_thread import Calibrate, EngineThread
from app.folder_desk import FolderDesk
from app.io_thread import IoThread
from app.lab_desk import LabDesk
from app.library_desk import LibraryDesk
from app.message_queue import DOWNLOAD_STARTER
from app.model_desk import ModelDesk
from app.not_kept import SETTINGS, NotKept
from app.prediction_desk import PredictionDesk
from app.preferences import Preferences
from app.presets_desk import PresetsDesk
from app.rest import Rest
from app.settings_desk import Effects, SettingsDesk
from app.store import Store
from app.store_lane import StoreLane
from app.thinking_switch import ThinkingSwitch
from app.undo import UNDO
from engine.events import Calibrated, CalibrationEnded, Event, Failed
from engine.types import LoadSpec, Message
from engine.words import tr
from ui import theme
from ui.chat_values import CounterView
from ui.main_window import MainWindow
from ui.values import NoticeView

COUNT_DELAY_MS = 200
COUNT_LANE = "count"
STOP_S = 1.8


class Controller(QObject):
    """Owns the two desks (model, chats) and the order in which things start and end."""

    def __init__(
        self,
        window: MainWindow,
        engine: EngineThread,
        io: IoThread,
        preferences: Preferences,
        open_store: Callable[[], Store] = lambda: Store(paths.chats_db()),
    ) -> None:
        super().__init__()
        self._window = window
        self._engine = engine
        self._io = io
        self._preferences = preferences
        self.models = ModelDesk(window, engine, io, preferences)
        not_kept = NotKept(window)
        self.library = LibraryDesk(window, io, self.models, not_kept)
        self._store = StoreLane(io, open_store)

        def answers(is_shown: Callable[[str], bool]) -> AnswerDesk:
            return AnswerDesk(window, engine, self._store, preferences, is_shown)

        self.chats = ChatDesk(window, answers, self._store, self.models, not_kept)
        self.predictions = PredictionDesk(
            window, io, self.models, self.chats.answers, lambda: engine.post(Calibrate())
        )
        self.lab = LabDesk(window, engine, io, preferences, self.models, self.chats)
        shared = self.models, self.chats.answers, self.lab, self._store
        self.costs = CostDesk(window, io, preferences, *shared)
        self.costs.meter.changed.connect(lambda: self.predictions.take_gpus(self.costs.meter.gpus))
        self.transfer = ChatTransfer(window, io, self._store, self.chats)
        self.presets = PresetsDesk(window, io, preferences, self._store, self.chats, self.models)
        self._thinking = ThinkingSwitch(window, preferences)
        self._rest = Rest(lambda: preferences.value.unload_after, self._is_busy)
        folders = FolderDesk(io, preferences, self._store, self.models, self.library, self._busy_words)
        predictions = self.predictions
        effects = Effects(self._refresh, predictions.measure_again, lambda: predictions.is_measuring)
        self.folders, token = folders, self.library.token
        self.settings = SettingsDesk(window, io, preferences, self.models, folders, token, effects)
        self._counter = TokenCounter()
        self.attachments = AttachmentDesk(
            *(window, io, self._counter, lambda: self.models.plan),
            *(lambda: self.chats.current_id, self.chats.add_to_draft),
        )
        self._count_timer = QTimer(self, singleShot=True, interval=COUNT_DELAY_MS)
        self._is_counting = False
        self._count_again = False
        self._is_stopped = False
        preferences.on_error = not_kept.say_settings
        preferences.on_saved = lambda _: not_kept.take_back(SETTINGS)
        self._connect()

    def start(self, model: LoadSpec | None = None) -> None:
        """Begin after the first paint: the engine thread imports torch, the I/O thread looks for a model."""
        saved = self._preferences.value
        self._window.set_panels(saved.sidebar_open, saved.tuning_open)
        if self._preferences.notice:
            self._window.show_notice(NoticeView("warning", tr("Settings"), self._preferences.notice))
        self._engine.start()
        self.predictions.start()
        self.library.start()
        self.presets.start()
        self.models.start(model.path if model and model.path else None)

    def stop(self) -> bool:
        """End everything within two seconds; False where a thread did not end in time.

        The engine ends first, and what it said at its end is heard before the chats are saved.
        """
        if self._is_stopped:
            return True
        deadline = time.monotonic() + STOP_S
        self._is_stopped = True
        self._rest.stop()
        self.folders.stop()
        size = self._window.normalGeometry().size()  # as it is when it is not maximized
        self._preferences.change(window_width=size.width(), window_height=size.height())
        self.models.download.stop()
        self.library.stop()
        self.chats.prepare_to_close()
        is_engine_done = self._engine.stop(STOP_S * 2 / 3)
        QCoreApplication.sendPostedEvents(self)
        self._engine.events.disconnect(self._on_engine_events)  # a step that hung may come back late
        self.chats.close()
        self.predictions.stop()
        self.library.finish()
        return self._io.stop(max(0.0, deadline - time.monotonic())) and is_engine_done

    def _connect(self) -> None:
        window, chats = self._window, self.chats
        self._engine.events.connect(self._on_engine_events)
        window.message_sent.connect(chats.send)
        window.stop_requested.connect(chats.stop)
        window.recall_requested.connect(chats.recall)
        window.continue_requested.connect(chats.go_on)
        window.new_chat_requested.connect(chats.new_chat)
        window.chat_selected.connect(chats.select)
        window.chat_renamed.connect(chats.library.rename)
        window.chat_delete_requested.connect(chats.library.delete)
        window.chats.temporary_requested.connect(chats.new_temporary_chat)
        window.notice_action.connect(self._on_notice_action)
        window.theme_chosen.connect(self._on_theme_chosen)
        window.panels_changed.connect(self._on_panels_changed)
        window.models_folder_requested.connect(self._on_models_folder_requested)
        for signal in (
            window.text_typed,
            window.message_sent,
            window.composing.files_changed,
            self.models.ready,
            chats.answers.shown,
            chats.answers.ended,
            self._thinking.changed,
            self.presets.changed,
        ):
            signal.connect(self._count_later)
        for used in (self.models.ready, chats.answers.began, chats.answers.ended):
            used.connect(self._rest.touch)
        self._rest.due.connect(self.models.rest)
        self._count_timer.timeout.connect(self._on_count)
        self.models.ready.connect(self.attachments.count)
        self.models.loading.connect(self._on_loading)

    @Slot(object)
    def _on_engine_events(self, events: tuple[Event, ...]) -> None:
        for event in events:
            self._thinking.handle(event)
            self.predictions.handle(event)
            if isinstance(event, Calibrated | CalibrationEnded):
                self.settings.refresh()
            if self.lab.handle(event) or self.models.handle(event):
                continue
            if isinstance(event, Failed) and event.request_id is None:
                self._window.show_notice(NoticeView("error", event.message, event.hint, (), event.details))
            else:
                self.chats.answers.handle(event)

    def _is_busy(self) -> bool:
        """Whether the model is being used."""
        return self.chats.answers.count > 0 or self.lab.is_running

    def _busy_words(self) -> str:
        """Why nothing can be moved now; "" where it can."""
        if self.lab.is_running:
            return tr("The Batch lab is measuring. Stop it, or wait for its end.")
        if self.chats.answers.count or self.chats.queue.claiming:
            return tr("An answer is being written. Stop it, or wait for its end.")
        return tr("A model is being loaded. Try again when it is ready.") if self.models.is_loading else ""

    def _refresh(self) -> None:
        """Let settings that were changed count."""
        self._rest.touch()
        self._thinking.refresh()
        self.models.refresh()
        self.costs.refresh()
        self.presets.show()
        self._count_later()

    def _on_notice_action(self, key: str) -> None:
        if key == UNDO:
            self.chats.library.undo.undo()
        elif key == CANCEL_IMPORT:
            self.transfer.cancel()
        elif key == PLAIN:
            self._send_plain()
        elif key == DOWNLOAD_STARTER:
            self.models.download.start()

    def _send_plain(self) -> None:
        """Send again what came back: the model has no template, and is to continue the text as it is."""
        if self.models.plan is not None:
            self.chats.answers.plain_model = self.models.plan.model.path
            text = self._window.composer_text()
            self._window.set_composer_text("")
            self.chats.send(text)

    def _on_theme_chosen(self, name: str) -> None:
        application = QApplication.instance()
        if isinstance(application, QApplication):
            theme.apply(application, name)
        self._preferences.change(theme=name)

    def _on_panels_changed(self, sidebar: bool, tuning: bool) -> None:
        self._preferences.change(sidebar_open=sidebar, tuning_open=tuning)

    def _on_models_folder_requested(self) -> None:
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(paths.models_dir())))

    def _on_loading(self, path: str) -> None:
        """Read the counter's tokenizer beside the weights: later it would slow down the first answer."""
        self._io.submit(self._counter.count, path, (), lane=COUNT_LANE)

    def _count_later(self) -> None:
        self._count_timer.start()

    def _on_count(self) -> None:
        """Count the chat with the typed text on its own lane; one count at a time, the newest last."""
        plan = self.models.plan
        if self._is_stopped or plan is None or self.chats.is_reading:
            return  # a model and a chat that come will start the timer again
        if self._is_counting:
            self._count_again = True
            return
        conversation = self.chats.current_conversation
        messages = conversation.messages(self.presets.settings.system_prompt) if conversation else ()
        typed = self._window.composer_text()
        if self.chats.answers.is_one_in_view and not typed.strip():
            return  # the answer's own figures move the counter, and its end starts the timer again
        if typed.strip():
            messages = (*messages, Message("user", typed))
        self._is_counting, self._count_again = True, False
        path, context = plan.model.path, plan.context

        def show(tokens: int | None) -> None:
            self._is_counting = False
            if self._count_again:
                self._on_count()
            else:
                self._window.set_counter(CounterView(tokens, context))
                self.attachments.check(tokens, context)
                self.presets.count(tokens)

        def failed(_: Failed) -> None:
            show(None)

        options = replace(self._preferences.value.template(), is_plain=path == self.chats.answers.plain_model)
        self._io.submit(
            *(self._counter.count, path, messages, options), on_done=show, on_error=failed, lane=COUNT_LANE
        )
