"""A whole program around a scripted engine: the real window, store, threads and controller."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from app import main, model_choice, paths
from app.main import Program
from app.store import Store
from engine.types import LoadSpec
from tests.fakes import HARDWARE, FakeEngine, make_spec
from ui.chat_values import ChatRow, MessageView
from ui.gauge_values import SpeedView
from ui.tuning_values import TuningView
from ui.values import ChipView, DownloadView, ModelState, NoticeView

MODEL = "/models/tiny.gguf"


class Desk:
    """The program under test, what its window was told to show, and waiting for it."""

    def __init__(
        self,
        qtbot: QtBot,
        qapp: QApplication,
        monkeypatch: pytest.MonkeyPatch,
        fake: FakeEngine,
        wish: LoadSpec | None = None,
    ) -> None:
        monkeypatch.setattr(model_choice, "read_spec", make_spec)
        monkeypatch.setattr(model_choice, "probe", lambda _: HARDWARE)
        self.fake = fake
        self.qtbot = qtbot
        self.program: Program = main.build(qapp, ("seed=7",), wish, lambda: fake)
        self.window = self.program.window
        self.chip = ChipView(ModelState.NO_MODEL)
        self.messages: dict[str, MessageView] = {}
        self.rows: list[ChatRow] = []
        self.download: DownloadView | None = None
        self.tuning: TuningView | None = None
        self.speed = SpeedView()
        self.left_out: frozenset[str] = frozenset()
        self.is_generating = False
        self.is_first_start: bool | None = None
        self._spy(monkeypatch)
        qtbot.addWidget(self.window, before_close_func=lambda _: self.stop())  # also where a test fails

    def _spy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._after(monkeypatch, "set_chip", lambda view: setattr(self, "chip", view))
        self._after(monkeypatch, "set_chats", lambda rows, _: setattr(self, "rows", list(rows)))
        self._after(monkeypatch, "set_download", lambda view: setattr(self, "download", view))
        self._after(monkeypatch, "set_tuning", lambda view: setattr(self, "tuning", view))
        self._after(monkeypatch, "set_speed", lambda view: setattr(self, "speed", view))
        self._after(monkeypatch, "set_left_out", lambda ids: setattr(self, "left_out", frozenset(ids)))
        self._after(monkeypatch, "set_generating", lambda on: setattr(self, "is_generating", on))
        self._after(monkeypatch, "show_first_start", lambda on: setattr(self, "is_first_start", on))
        self._after(monkeypatch, "show_chat", self._on_show_chat)
        self._after(monkeypatch, "append_message", self._on_message)
        self._after(monkeypatch, "set_message", self._on_message)
        self._after(monkeypatch, "append_text", self._on_text)

    def _after(self, monkeypatch: pytest.MonkeyPatch, name: str, also: Callable[..., None]) -> None:
        original = getattr(self.window, name)

        def both(*args: Any, **options: Any) -> None:
            original(*args, **options)
            also(*args, **options)

        monkeypatch.setattr(self.window, name, both)

    def _on_show_chat(self, views: list[MessageView]) -> None:
        self.messages = {view.message_id: view for view in views}

    def _on_message(self, view: MessageView) -> None:
        if view.status == "writing" and view.message_id in self.messages and not view.text:
            self.messages.pop(view.message_id)
        self.messages[view.message_id] = view

    def _on_text(self, message_id: str, text: str, *, is_thinking: bool = False) -> None:
        from dataclasses import replace

        old = self.messages[message_id]
        name = "thinking" if is_thinking else "text"
        self.messages[message_id] = replace(old, **{name: getattr(old, name) + text})

    @property
    def notice(self) -> NoticeView | None:
        """The notice that is shown."""
        return self.window.body.centre.notice.view

    def start(self, model: str | None = MODEL) -> None:
        self.window.show()
        self.program.controller.start(LoadSpec(model) if model else None)

    def start_ready(self) -> None:
        self.start()
        self.wait(lambda: self.chip.state == ModelState.READY)

    def wait(self, is_true: Callable[[], bool]) -> None:
        self.qtbot.waitUntil(is_true, timeout=5000)

    def send(self, text: str) -> None:
        self.window.message_sent.emit(text)

    def shown(self) -> list[tuple[str, str, str]]:
        return [(view.role, view.text, view.status) for view in self.messages.values()]

    def wait_for_answer(self, status: str = "done") -> MessageView:
        self.wait(lambda: bool(self.answers()) and self.answers()[-1].status == status)
        return self.answers()[-1]

    def answers(self) -> list[MessageView]:
        return [view for view in self.messages.values() if view.role == "assistant"]

    def flush(self) -> None:
        """Wait until everything that was to be written is written."""
        done: list[bool] = []
        self.program.io.submit(lambda: True, on_done=done.append)
        self.wait(lambda: bool(done))

    def stored(self) -> list[tuple[str, str, str]]:
        """Roles, texts and states on the disk."""
        self.flush()
        store = Store(paths.chats_db())
        turns = [turn for chat in store.list_chats() for turn in store.messages(chat.id)]
        store.close()
        return [(turn.role, turn.content, turn.status) for turn in turns]

    def stop(self) -> bool:
        self.fake.hold.set()
        self.fake.hold_load.set()
        return self.program.controller.stop()


def models_folder() -> Path:
    return paths.models_dir()
