"""The settings that are in force: the saved ones, changed for this run by the command line, saved off the GUI
thread. Knows no window.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from app import settings
from app.io_thread import IoThread
from app.settings import Settings
from engine.events import Failed
from engine.types import LoadPlan, LoadSpec


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
        self.on_saved: Callable[[None], None] | None = None  # and when they were
        self._saved, self.notice = settings.load()
        self._for_this_run = tuple(for_this_run)
        self._is_held = False
        self.value = self._changed(self._saved)

    def change(self, **values: object) -> None:
        """Set settings by name and save them on the I/O thread."""
        self._saved = replace(self._saved, **values)  # type: ignore[arg-type]  # names are checked by replace
        self.value = self._changed(self._saved)
        if not self._is_held:
            self._io.submit(settings.save, self._saved, on_done=self.on_saved, on_error=self.on_error)

    @property
    def saved(self) -> Settings:
        """What is kept, without what the command line changes for this run."""
        return self._saved

    def is_overridden(self, name: str) -> bool:
        """Whether the command line says what a setting is in this run."""
        named = (change.partition("=")[0] for change in self._for_this_run)
        return any(each.strip().replace("-", "_") == name for each in named)

    def hold(self) -> None:
        """Write nothing until ``release``: somebody else is writing the file."""
        self._is_held = True

    def release(self) -> None:
        """Write what was changed meanwhile, and every change from now on."""
        self._is_held = False
        self.change()

    def keep_model(self, made: LoadPlan, is_applied: bool) -> None:
        """Save the model that was loaded, and its settings where they were chosen in the window."""
        path, saved = made.model.path, self._saved
        if is_applied:
            others = {each: kept for each, kept in saved.models.items() if each != path}
            self.change(last_model=path, models=others | {path: _choices(made)}, format="auto", context=None)
        elif saved.last_model != path:
            self.change(last_model=path, format="auto", context=None)

    def has_choices(self, path: str) -> bool:
        """Whether settings are kept for the model at ``path``."""
        saved = self._saved
        is_last = saved.last_model == path and (saved.format != "auto" or saved.context is not None)
        return path in saved.models or is_last

    def forget_choices(self, path: str) -> None:
        """Load the model at ``path`` as one that was never loaded before."""
        others = {each: kept for each, kept in self._saved.models.items() if each != path}
        self.change(models=others, format="auto", context=None)

    def draft_for(self, path: str) -> str:
        """The path of the draft model that ``path`` is to be loaded with; empty: none."""
        if self._wish is not None and self._wish.draft:
            return self._wish.draft
        return str(self.value.models.get(path, {}).get("draft", ""))

    def wish_for(self, path: str) -> LoadSpec:
        """What to load ``path`` with: what was applied for it before, else what the plan chooses.

        Of the command line, format and context hold for the first load, the rest for the whole run.
        """
        kept = dict(self.value.models.get(path, {}))
        if not kept and self.value.last_model == path:
            kept = {"format": self.value.format, "context": self.value.context}
        given, self._first = self._first, None
        wish = self.on_device(replace(self._wish or LoadSpec(path), path=path, format="auto", context=None))
        first = replace(wish, format=given.format, context=given.context) if given is not None else wish
        default = LoadSpec(path)
        named = {name for name in kept if getattr(first, name) != getattr(default, name)}
        return replace(first, **{name: value for name, value in kept.items() if name not in named})

    def on_device(self, wish: LoadSpec) -> LoadSpec:
        """``wish`` with the device and the threads of the settings, where it names none."""
        device = self.value.device if wish.device == "auto" else wish.device
        return replace(wish, device=device, threads=wish.threads or self.value.threads)

    def speculation(self, made: LoadPlan) -> str:
        """Who may guess tokens in answers of a loaded model: without a draft model the chat itself has to."""
        chosen = self.value.speculate
        return "auto" if chosen == "draft" and made.draft is None else chosen

    def _changed(self, saved: Settings) -> Settings:
        for change in self._for_this_run:
            saved = settings.with_value(saved, change)
        return saved


def _choices(made: LoadPlan) -> dict[str, object]:
    """What was chosen of a plan, by the names of the wish; what was left to the plan stays so."""
    wish = made.wish
    return {
        "format": made.format,
        "context": made.context,
        "kv": wish.kv,
        "gpu_layers": wish.gpu_layers,
        "draft": wish.draft if made.draft is not None else "",
    }
