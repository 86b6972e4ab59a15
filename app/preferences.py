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
        on_error: Callable[[Failed], None] | None = None,
    ) -> None:
        self._io = io
        self._wish = wish
        self._on_error = on_error
        self._saved, self.notice = settings.load()
        self._for_this_run = tuple(for_this_run)
        self.value = self._changed(self._saved)

    def change(self, **values: object) -> None:
        """Set settings by name and save them on the I/O thread."""
        self._saved = replace(self._saved, **values)  # type: ignore[arg-type]  # names are checked by replace
        self.value = self._changed(self._saved)
        self._io.submit(settings.save, self._saved, on_error=self._on_error)

    def overrides(self, wish: LoadSpec) -> LoadSpec:
        """``wish`` with what the command line asked for; that holds for the first load alone."""
        given, self._wish = self._wish, None
        if given is None:
            return wish
        return replace(
            given,
            format=wish.format if given.format == "auto" else given.format,
            context=given.context or wish.context,
        )

    def _changed(self, saved: Settings) -> Settings:
        for change in self._for_this_run:
            saved = settings.with_value(saved, change)
        return saved
