"""Joins window, engine and I/O: intents become commands, events become views. Knows no tensors."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QObject, QTimer, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QApplication

from app import paths
from app.chat_desk import UNDO, ChatDesk
from app.counter import TokenCounter
from app.engine_thread import EngineThread
from app.io_thread import IoThread
from app.model_desk import ModelDesk
from app.preferences import Preferences
from app.store import Store
from engine.types import Event, Failed, LoadSpec, Message
from ui import theme
from ui.main_window import MainWindow
from ui.values import CounterView, NoticeView

COUNT_DELAY_MS = 200
COUNT_LANE = "count"
STOP_S = 1.5


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
        self.chats = ChatDesk(window, engine, io, self.models, preferences, open_store)
        self._counter = TokenCounter()
        self._count_timer = QTimer(self, singleShot=True, interval=COUNT_DELAY_MS)
        self._is_counting = False
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
        """End everything within about two seconds; False where a thread did not end in time."""
        self._count_timer.stop()
        self.models.stop()
        self.chats.close()
        is_engine_done = self._engine.stop(STOP_S)
        return self._io.stop(STOP_S) and is_engine_done

    def _connect(self) -> None:
        window, chats = self._window, self.chats
        self._engine.events.connect(self._on_engine_events)
        window.message_sent.connect(chats.send)
        window.stop_requested.connect(chats.stop)
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
            window.chat_selected,
            window.new_chat_requested,
        ):
            signal.connect(self._count_timer.start)
        self.models.ready.connect(self._count_timer.start)
        chats.answered.connect(self._count_timer.start)
        self._count_timer.timeout.connect(self._on_count)

    def _on_engine_events(self, events: tuple[Event, ...]) -> None:
        for event in events:
            if self.models.handle(event):
                continue
            if isinstance(event, Failed) and event.request_id is None:
                self._window.show_notice(NoticeView("error", event.message, event.hint, (), event.details))
            else:
                self.chats.handle(event)

    def _on_notice_action(self, key: str) -> None:
        if key == UNDO:
            self.chats.undo_delete()

    def _on_theme_chosen(self, name: str) -> None:
        application = QApplication.instance()
        if isinstance(application, QApplication):
            theme.apply(application, name)
        self._preferences.change(theme=name)

    def _on_panels_changed(self, sidebar: bool, tuning: bool) -> None:
        self._preferences.change(sidebar_open=sidebar, tuning_open=tuning)

    def _on_models_folder_requested(self) -> None:
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(paths.models_dir())))

    def _on_count(self) -> None:
        """Count the chat with the typed text on its own lane; one count at a time."""
        plan = self.models.plan
        if plan is None or self._is_counting:
            return
        conversation = self.chats.current_conversation
        messages = conversation.messages(self._preferences.value.system_prompt) if conversation else ()
        typed = self._window.composer_text()
        if typed.strip():
            messages = (*messages, Message("user", typed))
        self._is_counting = True
        path, context = plan.model.path, plan.context

        def show(tokens: int | None) -> None:
            self._is_counting = False
            self._window.set_counter(CounterView(tokens, context))
            if typed != self._window.composer_text():
                self._count_timer.start()

        def failed(_: Failed) -> None:
            self._is_counting = False

        self._io.submit(self._counter.count, path, messages, on_done=show, on_error=failed, lane=COUNT_LANE)
