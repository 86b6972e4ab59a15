"""Builds the program: application, window, threads, controller; joins ui and engine thread."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import TracebackType

from PySide6.QtCore import QEvent, QObject, QTimer, Signal
from PySide6.QtWidgets import QApplication

from app import language, logs
from app.controller import Controller
from app.crash_report import CrashReport
from app.engine_thread import EngineThread, make_engine
from app.gui_garbage import GuiGarbage
from app.io_thread import IoThread
from app.preferences import Preferences
from app.settings import at_start
from app.settings_desk import apply_look
from engine.protocol import EngineProtocol
from engine.types import LoadSpec
from engine.words import tr
from ui import theme
from ui.main_window import MainWindow
from ui.values import NoticeView

SIGNAL_POLL_MS = 200
SCALE_VARIABLE = "QT_SCALE_FACTOR"  # Qt reads it once, when the application is made


@dataclass(frozen=True, slots=True)
class Program:
    """Everything that lives as long as the window."""

    window: MainWindow
    controller: Controller
    engine: EngineThread
    io: IoThread
    garbage: GuiGarbage


def build(
    application: QApplication,
    settings: tuple[str, ...] = (),
    wish: LoadSpec | None = None,
    factory: Callable[[], EngineProtocol] = make_engine,
) -> Program:
    """Make the window and what stands behind it; nothing runs yet."""
    garbage = GuiGarbage(application)
    io = IoThread()
    preferences = Preferences(io, settings, wish)
    theme.load_fonts()
    apply_look(preferences.value)
    window = MainWindow()
    saved = preferences.value
    if saved.window_width and saved.window_height:
        window.resize(saved.window_width, saved.window_height)
    engine = EngineThread(factory)
    return Program(window, Controller(window, engine, io, preferences), engine, io, garbage)


def scale(percent: int) -> None:
    """Let everything that is drawn grow with its text; only before there is a QApplication.

    Fonts, icons, targets and the room between them keep their proportions: a text that grew alone would not
    fit where it stands.
    """
    given = 1.0
    with contextlib.suppress(ValueError):
        given = float(os.environ.get(SCALE_VARIABLE, "1"))
    if percent != 100:
        os.environ[SCALE_VARIABLE] = f"{given * percent / 100:g}"


def start(program: Program, wish: LoadSpec | None) -> None:
    """Show the window; the threads begin when it has painted."""
    first_paint = _FirstPaint(program.window)
    first_paint.happened.connect(lambda: program.controller.start(wish))
    program.window.show()


def run(arguments: argparse.Namespace) -> int:
    """The window until it closes. Ends the process itself: a library's thread must not keep it alive."""
    from app.cli import changes, load_spec

    logs.start()
    report = CrashReport()
    crashed = report.begin()
    chosen = at_start(changes(arguments))
    scale(int(chosen.text_size))
    application = QApplication([sys.argv[0]])
    application.setApplicationName("Decodeck")
    application.setDesktopFileName("decodeck")
    language.use(chosen.language)
    wish = load_spec(arguments, getattr(arguments, "model", ""))
    program = build(application, changes(arguments), wish)
    _catch_exceptions(program.window)
    _close_on_signals(program.window, application)
    # Queued: a window that closes before the loop has begun must end it too.
    program.window.closing.connect(lambda: QTimer.singleShot(0, application.quit))
    application.commitDataRequest.connect(lambda _: program.controller.chats.answers.save_all())
    start(program, wish)
    if crashed:
        program.window.show_notice(_crashed(crashed))
    application.exec()
    program.window.hide()
    program.controller.stop()
    report.end()
    logs.stop()
    if sys.stdout is not None:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
    os._exit(0)


def _crashed(report: str) -> NoticeView:
    """What is said of an earlier run that ended by a fault of native code."""
    text = tr(
        "Chats are as they were a second before. The report is on this computer only; it holds no text."
    )
    return NoticeView("warning", tr("Decodeck crashed when it last ran."), text, (), report)


class _FirstPaint(QObject):
    """Tells when the window has painted: what comes after must not delay it."""

    happened = Signal()

    def __init__(self, window: MainWindow) -> None:
        super().__init__(window)
        window.body.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Paint:
            watched.removeEventFilter(self)
            QTimer.singleShot(0, self, self.happened.emit)
        return False


def _close_on_signals(window: MainWindow, parent: QObject) -> None:
    """Ctrl+C and a polite kill close the window. Python sees signals only when it runs: a timer lets it."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: window.close_for_good())
    timer = QTimer(parent)
    timer.timeout.connect(lambda: None)
    timer.start(SIGNAL_POLL_MS)


def _catch_exceptions(window: MainWindow) -> None:
    """A fault in a slot is logged and shown; the program goes on."""
    import logging
    import traceback

    def report(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        logging.getLogger("app.main").error("a slot failed", exc_info=(kind, error, trace))
        details = "".join(traceback.format_exception(kind, error, trace))
        text = tr("Nothing you wrote is lost. If it happens again, restart the program.")
        window.show_notice(NoticeView("error", tr("Something went wrong in the window."), text, (), details))

    sys.excepthook = report
