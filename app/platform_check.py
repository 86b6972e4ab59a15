"""Finds out whether Qt can open a window here, before Qt tries and aborts the process.

Where a system library or a display is missing, Qt's platform plugin ends the program with a signal and a
page of text; loading the plugin's file by hand first gives an error that names the library.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
import socket
import sys
from pathlib import Path

from engine.errors import EngineError
from engine.words import tr

DEBIAN_PACKAGES = (
    "python3-venv libglib2.0-0 libegl1 libgl1 libxkbcommon-x11-0 libxcb-cursor0 libxcb-icccm4 "
    "libxcb-keysyms1 libxcb-shape0 libxcb-image0 libxcb-render-util0 libdbus-1-3 libfontconfig1 "
    "libwayland-cursor0 libwayland-egl1"
)


class PlatformError(EngineError):
    """The window cannot be opened on this system as it is."""

    kind = "platform"


def check() -> None:
    """Raises PlatformError naming the missing library and its packages, or the missing display."""
    if sys.platform != "linux":
        return
    _import_qt()
    name = platform_name()
    plugin = plugin_folder() / f"libq{name}.so"
    if plugin.exists():
        _load(plugin)
    if name == "xcb":
        _check_display()
    elif name == "wayland":
        _check_wayland()


def platform_name() -> str:
    """The platform plugin that Qt will take."""
    chosen = os.environ.get("QT_QPA_PLATFORM", "").split(";")[0].split(":")[0]
    if chosen:
        return {"wayland-egl": "wayland"}.get(chosen, chosen)
    return "xcb" if os.environ.get("DISPLAY") or not os.environ.get("WAYLAND_DISPLAY") else "wayland"


def plugin_folder() -> Path:
    spec = importlib.util.find_spec("PySide6")
    assert spec is not None and spec.origin is not None, "PySide6 is a dependency"
    return Path(spec.origin).parent / "Qt" / "plugins" / "platforms"


def missing_library(message: str) -> PlatformError:
    """The error for what the dynamic loader said."""
    library = message.partition(":")[0].strip() or tr("a system library")
    return PlatformError(
        tr("The window cannot open: {library} is missing.").format(library=library),
        tr("On Debian or Ubuntu: {command}").format(command=f"sudo apt install {DEBIAN_PACKAGES}"),
    )


def _import_qt() -> None:
    try:
        import PySide6.QtWidgets  # noqa: F401 - imported to see whether it can be
    except ImportError as error:
        raise missing_library(str(error)) from None


def _load(plugin: Path) -> None:
    try:
        ctypes.CDLL(str(plugin))
    except OSError as error:
        raise missing_library(str(error)) from None


def _check_wayland() -> None:
    """Connect to the compositor's socket as Qt will; it aborts where that fails."""
    name = os.environ.get("WAYLAND_DISPLAY") or "wayland-0"
    path = Path(os.environ.get("XDG_RUNTIME_DIR", "/nowhere")) / name
    with socket.socket(socket.AF_UNIX) as compositor:
        try:
            compositor.connect(str(path))
        except OSError:
            raise _no_answer(name) from None


def _no_answer(name: str) -> PlatformError:
    return _no_display(tr("The window cannot open: the display {name} does not answer.").format(name=name))


def _no_display(sentence: str) -> PlatformError:
    return PlatformError(
        sentence,
        tr("Start decodeck in a graphical session, or use decodeck chat in this terminal."),
    )


def _check_display() -> None:
    """Connect to the X server as Qt will; it aborts where that fails."""
    xcb = ctypes.CDLL("libxcb.so.1")
    xcb.xcb_connect.restype = ctypes.c_void_p
    xcb.xcb_connection_has_error.argtypes = [ctypes.c_void_p]
    xcb.xcb_disconnect.argtypes = [ctypes.c_void_p]
    connection = xcb.xcb_connect(None, None)
    has_error = xcb.xcb_connection_has_error(connection)
    xcb.xcb_disconnect(connection)
    if has_error:
        display = os.environ.get("DISPLAY")
        if not display:
            raise _no_display(tr("The window cannot open: there is no display."))
        raise _no_answer(display)
