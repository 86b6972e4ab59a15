"""Joins window, engine and I/O: intents become commands, events become views. Knows no tensors."""

from __future__ import annotations

import time
from collections.abc import Callable

from PySide6.QtCore import QCoreApplication, QObject, QTimer, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QApplication

from app import paths
from app.answer_desk import AnswerDesk
from app.chat_desk import DOWNLOAD_STARTER, UNDO, ChatDesk
from app.counter import TokenCounter
from app.engine_thread import EngineThread
from app.io_thread import IoThread
from app.model_desk import ModelDesk
from app.preferences import Preferences
from app.store import Store
from app.store_lane import StoreLane
from engine.types import Event, Failed, LoadSpec, Message
from ui import theme
from ui.main_window import MainWindow
from ui.values import CounterView, NoticeView

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
        self._store = StoreLane(io, open_store)

        def answers(is_shown: Callable[[str], bool]) -> AnswerDesk:
            return AnswerDesk(window, engine, self._store, preferences, is_shown)

        self.chats = ChatDesk(window, answers, self._store, self.models)
        self._counter = TokenCounter()
        self._count_timer = QTimer(self, singleShot=True, interval=COUNT_DELAY_MS)
        self._is_counting = False
        self._count_again = False
        self._is_stopped = False
        preferences.on_error = self._on_settings_unsaved
        self._connect()

    def start(self, model: LoadSpec | None = None) -> None:
        """Begin after the first paint: the engine thread imports torch, the I/O thread looks for a model."""
        saved = self._preferences.value
        self._window.set_panels(saved.sidebar_open, saved.tuning_open)
        if self._preferences.notice:
            self._window.show_notice(NoticeView("warning", "Settings", self._preferences.notice))
        self._engine.start()
        self.models.start(model.path if model and model.path else None)

    def stop(self) -> bool:
        """End everything within two seconds; False where a thread did not end in time.

        The engine ends first, and what it said at its end is heard before the chats are saved.
        """
        if self._is_stopped:
            return True
        deadline = time.monotonic() + STOP_S
        self._is_stopped = True
        size = self._window.normalGeometry().size()  # as it is when it is not maximized
        self._preferences.change(window_width=size.width(), window_height=size.height())
        self.models.download.stop()
        self.chats.prepare_to_close()
        is_engine_done = self._engine.stop(STOP_S * 2 / 3)
        QCoreApplication.sendPostedEvents(self)
        self._engine.events.disconnect(self._on_engine_events)  # a step that hung may come back late
        self.chats.close()
        return self._io.stop(max(0.0, deadline - time.monotonic())) and is_engine_done

    def _connect(self) -> None:
        window, chats = self._window, self.chats
        self._engine.events.connect(self._on_engine_events)
        window.message_sent.connect(chats.send)
        window.stop_requested.connect(chats.stop)
        window.recall_requested.connect(chats.recall)
        window.new_chat_requested.connect(chats.new_chat)
        window.chat_selected.connect(chats.select)
        window.chat_renamed.connect(chats.rename)
        window.chat_delete_requested.connect(chats.delete)
        window.notice_action.connect(self._on_notice_action)
        window.theme_chosen.connect(self._on_theme_chosen)
        window.panels_changed.connect(self._on_panels_changed)
        window.models_folder_requested.connect(self._on_models_folder_requested)
        for signal in (
            window.text_typed,
            window.message_sent,
            self.models.ready,
            chats.shown,
            chats.answers.ended,
        ):
            signal.connect(self._count_later)
        self._count_timer.timeout.connect(self._on_count)
        self.models.loading.connect(self._on_loading)

    def _on_engine_events(self, events: tuple[Event, ...]) -> None:
        for event in events:
            if self.models.handle(event):
                continue
            if isinstance(event, Failed) and event.request_id is None:
                self._window.show_notice(NoticeView("error", event.message, event.hint, (), event.details))
            else:
                self.chats.answers.handle(event)

    def _on_notice_action(self, key: str) -> None:
        if key == UNDO:
            self.chats.undo_delete()
        elif key == DOWNLOAD_STARTER:
            self.models.download.start()

    def _on_theme_chosen(self, name: str) -> None:
        application = QApplication.instance()
        if isinstance(application, QApplication):
            theme.apply(application, name)
        self._preferences.change(theme=name)

    def _on_panels_changed(self, sidebar: bool, tuning: bool) -> None:
        self._preferences.change(sidebar_open=sidebar, tuning_open=tuning)

    def _on_models_folder_requested(self) -> None:
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(paths.models_dir())))

    def _on_settings_unsaved(self, failed: Failed) -> None:
        notice = NoticeView("warning", "The settings could not be saved.", failed.message, (), failed.details)
        self._window.show_notice(notice)

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
        messages = conversation.messages(self._preferences.value.system_prompt) if conversation else ()
        typed = self._window.composer_text()
        if self.chats.is_answering and not typed.strip():
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

        def failed(_: Failed) -> None:
            show(None)

        self._io.submit(self._counter.count, path, messages, on_done=show, on_error=failed, lane=COUNT_LANE)
