"""What the window is told to show around chat and gauges: frozen values made by the controller.

These are the models, the notices and the status bar; foreign text (names, titles) is always plain text.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from engine.words import tr


class ModelState(StrEnum):
    """State of the model chip."""

    NO_MODEL = "no-model"
    DOWNLOADING = "downloading"
    LOADING = "loading"
    READY = "ready"
    GENERATING = "generating"
    FAILED = "failed"
    UNLOADED = "unloaded"  # its memory was given back


@dataclass(frozen=True, slots=True)
class ChipView:
    """The model chip: name · precision · context, and the state."""

    state: ModelState
    name: str = ""
    detail: str = ""  # "4-bit · 8k"
    percent: int | None = None
    seconds_left: float | None = None  # said above 5 seconds


@dataclass(frozen=True, slots=True)
class DownloadView:
    """The starter's card. ``state``: offered, starting, running, checking, paused, failed, done, or here."""

    state: str
    done_bytes: int = 0
    total_bytes: int = 0
    rate_bps: float | None = None  # bytes per second
    seconds_left: float | None = None
    message: str = ""  # the sentence of a failure, or while starting: why it starts again


@dataclass(frozen=True, slots=True)
class MachineView:
    """This computer, in two lines."""

    title: str
    detail: str


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A row of the model picker; one that cannot run has its ``reason``."""

    path: str
    name: str
    detail: str = ""
    reason: str = ""
    is_loaded: bool = False


@dataclass(frozen=True, slots=True)
class NoticeAction:
    """A button of the failure bar; ``key`` comes back in ``notice_action``."""

    key: str
    label: str


@dataclass(frozen=True, slots=True)
class NoticeView:
    """The non-modal bar. ``kind``: error, warning, info."""

    kind: str
    title: str
    text: str = ""
    actions: tuple[NoticeAction, ...] = ()
    details: str = ""  # behind "Details", plain text that can be copied
    key: str = ""  # by which it alone can be taken away again
    is_kept: bool = False  # until it is closed or goes by its key, whatever is said meanwhile
    is_lasting: bool = False  # says what is so now: it goes by its key alone, and cannot be closed


@dataclass(frozen=True, slots=True)
class StatusView:
    """The status bar: device on the left, privacy on the right."""

    device: str
    facts: tuple[str, ...] = ()
    privacy: str = field(default_factory=lambda: tr("Nothing leaves this computer"))
    tooltip: str = ""  # what there is no room for in a line


@dataclass(frozen=True, slots=True)
class ReadingsView:
    """What sensors say, for the status bar. What they do not say is left out."""

    device: str = ""  # "NVIDIA GeForce MX250 · driver 550.120", in place of the processor
    temperature_c: float | None = None
    power_w: float | None = None
    cost: str = ""  # "0.14 kWh/M tok · $0.04"
    cost_tooltip: str = ""  # what is counted
