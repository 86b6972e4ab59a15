"""How the shown chat is answered: its own instructions, sampling and length, and the presets they come from.

Owns what is chosen before a chat has begun; what a begun chat has of its own is kept with it in the store.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TypeVar

from PySide6.QtCore import QObject, Signal

from app import paths, presets, typed_setting
from app.atomic_file import write_atomic
from app.chat_desk import ChatDesk
from app.io_thread import IoThread
from app.model_desk import ModelDesk
from app.preferences import Preferences
from app.settings import Settings
from app.store_lane import StoreLane
from engine.errors import WishError
from engine.events import Failed
from engine.fit.speed import step_s
from engine.types import LoadPlan
from engine.words import tr
from ui.chat_values import LengthView, PresetsView
from ui.main_window import MainWindow
from ui.values import NoticeView

LANE = "presets"
T = TypeVar("T")
LENGTHS: tuple[int | None, ...] = (128, 256, 512, 1024, 2048, 4096, None)


def answer_s(made: LoadPlan | None, tokens: int | None, begins_at: int) -> float | None:
    """Predicted seconds of writing so many tokens behind ``begins_at`` others; None where that is unknown."""
    if made is None or tokens is None:
        return None
    middle = min(made.context, begins_at + tokens // 2)
    return tokens * step_s(made, max(1, middle))


def _too_many() -> NoticeView:
    title = tr("{count} presets are kept at most.").format(count=presets.MOST_PRESETS)
    return NoticeView("info", title, tr("Delete one first."))


class PresetsDesk(QObject):
    """``changed`` fires when the shown chat is to be answered in another way."""

    changed = Signal()

    def __init__(
        self,
        window: MainWindow,
        io: IoThread,
        preferences: Preferences,
        store: StoreLane,
        chats: ChatDesk,
        models: ModelDesk,
    ) -> None:
        super().__init__()
        self._window = window
        self._io = io
        self._preferences = preferences
        self._store = store
        self._chats = chats
        self._models = models
        self._new: dict[str, object] = {}  # of the chat that has not begun
        self._errors: dict[str, str] = {}  # of what was typed for the shown chat, by the names of settings
        self._shown_id: str | None = None
        self._presets: dict[str, dict[str, object]] = {}
        self._tokens = 0  # in the shown chat
        chats.answers.options_of = self.options_of
        chats.begun.connect(self._on_begun)
        chats.shown.connect(self._on_shown)
        models.ready.connect(self.show)
        self._connect()

    def _connect(self) -> None:
        intents = self._window.composing
        intents.length_chosen.connect(lambda tokens: self.change("max_tokens", tokens))
        intents.option_changed.connect(self.change)
        intents.option_typed.connect(self._on_typed)
        intents.options_reset.connect(self._on_reset)
        intents.preset_chosen.connect(self._on_chosen)
        intents.preset_saved.connect(self._on_saved)
        intents.preset_deleted.connect(self._on_deleted)
        intents.preset_exported.connect(self._on_exported)
        intents.presets_imported.connect(self._on_imported)

    def start(self) -> None:
        """Read the presets that are kept."""
        self._io.submit(presets.read, paths.presets_file(), on_done=self._on_read, lane=LANE)
        self.show()

    # What a chat has of its own

    def options_of(self, chat_id: str | None) -> Mapping[str, object]:
        """What a chat has of its own; of the one that has not begun where there is none of that id."""
        chat = self._chats.library.list.get(chat_id or "")
        return self._new if chat is None else chat.options

    @property
    def settings(self) -> Settings:
        """The settings that count in the shown chat."""
        return presets.applied(self._preferences.value, self.options_of(self._chats.current_id))

    def change(self, name: str, value: object) -> None:
        """Set one thing for the shown chat."""
        options = dict(self.options_of(self._chats.current_id)) | {name: value}
        self.set_options(options)

    def set_options(self, values: Mapping[str, object]) -> None:
        """Have these in the shown chat, and otherwise what the settings say."""
        options = presets.differing(self._preferences.value, presets.checked(values))
        chat_id = self._chats.current_id
        if chat_id is None or chat_id not in self._chats.library.list:
            self._new = options
        else:
            self._keep(chat_id, options)
        self.show()
        self.changed.emit()

    def _keep(self, chat_id: str, options: dict[str, object]) -> None:
        self._chats.library.list.change(chat_id, options=options)
        self._store.write(chat_id, lambda store: store.set_options(chat_id, options))

    def _on_begun(self, chat_id: str) -> None:
        if self._new:
            options, self._new = self._new, {}
            self._keep(chat_id, options)

    def _on_typed(self, name: str, text: str) -> None:
        """Take what was typed for the shown chat, or say what it may be."""
        self._errors.pop(name, None)
        try:
            value = typed_setting.read(name, text)
        except WishError as error:
            self._errors[name] = f"{error.message} {error.hint}"
            self.show()
        else:
            self.change(name, value)

    def _on_reset(self) -> None:
        self._errors.clear()
        self.set_options({})

    def _on_shown(self) -> None:
        if self._chats.current_id is None:
            self._new = {}
        if self._chats.current_id is None or self._chats.current_id != self._shown_id:
            self._errors.clear()
        self._shown_id = self._chats.current_id
        self.show()

    # What is shown

    def count(self, tokens: int | None) -> None:
        """The shown chat has so many tokens; where its answer begins, its steps take longer."""
        self._tokens = tokens or 0
        self._show_length()

    def show(self) -> None:
        """Show what counts in the chat."""
        self._show_length()
        values, options = presets.of(self.settings), self.options_of(self._chats.current_id)
        chosen = next((name for name, held in self._presets.items() if self._is_chosen(held, options)), "")
        names = tuple(sorted(self._presets, key=str.casefold))
        self._window.composing.set_presets(
            PresetsView(values, frozenset(options), names, chosen, dict(self._errors))
        )

    def _is_chosen(self, held: Mapping[str, object], options: Mapping[str, object]) -> bool:
        return bool(options) and presets.differing(self._preferences.value, held) == dict(options)

    def _show_length(self) -> None:
        plan, tokens = self._models.plan, self.settings.max_tokens

        def seconds(count: int | None) -> float | None:
            return answer_s(plan, count, self._tokens)

        lengths = LENGTHS if tokens in LENGTHS else (*LENGTHS[:-1], tokens, None)
        choices = tuple((each, seconds(each)) for each in lengths)
        self._window.composing.set_length(LengthView(tokens, seconds(tokens), choices))

    # Presets

    def _on_read(self, found: dict[str, dict[str, object]]) -> None:
        self._presets = found | self._presets
        self.show()

    def _on_chosen(self, name: str) -> None:
        if name in self._presets:
            self._errors.clear()
            self.set_options(self._presets[name])

    def _on_saved(self, name: str) -> None:
        """Keep what counts in the shown chat under a name; one of that name is replaced."""
        name = presets.clean_name(name)
        if not name:
            return
        self._put(name, presets.of(self.settings))
        self._write()

    def _put(self, name: str, values: dict[str, object]) -> None:
        if name not in self._presets and len(self._presets) >= presets.MOST_PRESETS:
            self._window.show_notice(_too_many())
            return
        self._presets[name] = presets.checked(values)

    def _on_deleted(self, name: str) -> None:
        if self._presets.pop(name, None) is not None:
            self._write()

    def _write(self) -> None:
        self.show()
        held = {name: dict(values) for name, values in self._presets.items()}
        self._submit(lambda: presets.write(paths.presets_file(), held))

    def _on_exported(self, path: str) -> None:
        """Write how the shown chat is answered as a file."""
        data = presets.to_file(Path(path).stem, presets.of(self.settings))
        self._submit(lambda: write_atomic(Path(path), data))

    def _on_imported(self, path: str) -> None:
        def read_file() -> tuple[str, dict[str, object]]:
            return presets.from_file(presets.read_shared(Path(path)), Path(path).name)

        def done(found: tuple[str, dict[str, object]]) -> None:
            self._put(*found)
            self._write()
            self._on_chosen(found[0])

        self._submit(read_file, done)

    def _submit(self, work: Callable[[], T], on_done: Callable[[T], None] | None = None) -> None:
        self._io.submit(work, on_done=on_done, on_error=self._on_failed, lane=LANE)

    def _on_failed(self, failed: Failed) -> None:
        self._window.show_notice(NoticeView("error", failed.message, failed.hint, (), failed.details))
