"""The settings that are in force: the saved ones, changed for this run by the command line, saved off the GUI
thread. Knows no window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from app import settings
from app.io_thread import IoThread
from app.settings import Settings
from engine.types import Failed, LoadSpec


class Preferences:
    """``value`` is what counts now; ``change`` keeps what the user chose.

    ``for_this_run`` (NAME=VALUE) counts until the program ends and is never saved.
    """

    def __init__(
        self,
        io: IoThread,
        for_this_run: Sequence[str] = (),
        wish: LoadSpec | None = None,
    ) -> None:
        self._io = io
        self._wish = wish
        self._first = wish
        self.on_error: Callable[[Failed], None] | None = None  # told when settings could not be saved
        self._saved, self.notice = settings.load()
        self._for_this_run = tuple(for_this_run)
        self.value = self._changed(self._saved)

    def change(self, **values: object) -> None:
        """Set settings by name and save them on the I/O thread."""
        self._saved = replace(self._saved, **values)  # type: ignore[arg-type]  # names are checked by replace
        self.value = self._changed(self._saved)
        self._io.submit(settings.save, self._saved, on_error=self.on_error)

    def wish_for(self, path: str) -> LoadSpec:
        """What to load ``path`` with: the saved choices for the model that was used last, else the plan's.

        Of the command line, format and context hold for the first load, the rest for the whole run.
        """
        is_last = self.value.last_model == path
        given, self._first = self._first, None
        wish = self._wish or LoadSpec(path)
        format = (
            given.format if given and given.format != "auto" else self.value.format if is_last else "auto"
        )
        context = given.context if given and given.context else self.value.context if is_last else None
        return replace(wish, path=path, format=format, context=context)

    def _changed(self, saved: Settings) -> Settings:
        for change in self._for_this_run:
            saved = settings.with_value(saved, change)
        return saved
