"""The window's parts side by side, and what they show. Knows no program, and nothing that a user does."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from PySide6.QtCore import QSize
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QMainWindow

from engine.words import tr
from ui.body import Body
from ui.chat_values import ChatRow, CounterView, MessageView
from ui.gauge_values import ContextView, MemoryView, SpeedView
from ui.lab_page import LabPage
from ui.label import key_text
from ui.library import LibraryPage
from ui.sidebar import logo_pixmap
from ui.tuning import TuningDock
from ui.tuning_values import TuningView
from ui.values import ChipView, DownloadView, MachineView, ModelState, NoticeView, StatusView

LAB, LAB_KEYS = "lab", "Ctrl+Shift+B"
LIBRARY, LIBRARY_KEYS = "library", "Ctrl+M"


class WindowView(QMainWindow):
    """Chat, panels and pages; its methods take the values that ``MainWindow`` is given to show."""

    def __init__(self) -> None:
        super().__init__()
        self.setWindowTitle("Decodeck")
        self.setWindowIcon(QIcon(logo_pixmap(64)))
        self.setMinimumSize(QSize(800, 600).boundedTo(self.screen().availableSize()))  # large texts
        self.resize(self._first_size())
        self.body = Body(self)
        self.setCentralWidget(self.body)
        self.library = LibraryPage()
        self.body.add_page(LIBRARY, "library", tr("Model library"), self.library, key_text(LIBRARY_KEYS))
        self.lab = LabPage()
        self.body.add_page(LAB, "flask-conical", tr("Batch lab"), self.lab, key_text(LAB_KEYS))
        self._is_generating = False
        self._is_loading = False

    @property
    def tuning(self) -> TuningDock:
        """The dock; its signals are intents like the window's own."""
        return self.body.tuning

    @property
    def is_generating(self) -> bool:
        """Whether an answer of the shown chat is being written."""
        return self._is_generating

    def set_chip(self, view: ChipView) -> None:
        """Show the model and its state in the chip."""
        self._is_loading = view.state == ModelState.LOADING
        self.body.centre.top_bar.set_chip(view)
        self.lab.set_chip(view)

    def set_chats(self, rows: Sequence[ChatRow], current_id: str | None) -> None:
        """List the chats; ``current_id`` is the one in the transcript."""
        self.body.sidebar.set_chats(rows, current_id)
        listed = any(row.chat_id == current_id for row in rows)
        self.body.centre.top_bar.set_chat(current_id if current_id and listed else "")

    def show_chat(self, messages: Sequence[MessageView]) -> None:
        """Show a chat's messages in place of the last chat's."""
        self.body.centre.transcript.show_messages(messages)

    def append_message(self, view: MessageView) -> None:
        """Add a message at the end."""
        self.body.centre.transcript.append_message(view)

    def append_text(self, message_id: str, text: str, *, is_thinking: bool = False) -> None:
        """Add text to the message that is being written, or to what the model thinks before it."""
        self.body.centre.transcript.append_text(message_id, text, is_thinking=is_thinking)

    def set_message(self, view: MessageView) -> None:
        """Show the final or changed state of a message."""
        self.body.centre.transcript.set_message(view)

    def set_left_out(self, message_ids: Collection[str]) -> None:
        """Set back the messages that the model does not know any more, and no others."""
        self.body.centre.transcript.set_left_out(message_ids)

    def set_generating(self, is_generating: bool) -> None:
        """Turn Send into Stop while an answer is written, and back."""
        self._is_generating = is_generating
        self.body.centre.composer.set_generating(is_generating)

    def set_download(self, view: DownloadView | None) -> None:
        """Show the starter's download; None where there is none to offer."""
        self.body.centre.first_start.set_download(view)

    def offer_starter(self, is_offered: bool) -> None:
        """Let Enter in an empty composer download the starter, also where the welcome does not stand."""
        self.body.centre.is_starter_offered = is_offered

    def set_machine(self, view: MachineView) -> None:
        """Show this computer on the first-start screen."""
        self.body.centre.first_start.set_machine(view)

    def show_first_start(self, is_shown: bool) -> None:
        """Show the first-start screen in place of the transcript."""
        self.body.centre.show_first_start(is_shown)

    def set_speed(self, view: SpeedView) -> None:
        """Show the measured speed."""
        self.body.tuning.set_speed(view)
        self.body.centre.top_bar.tuning.set_speed(view)

    def set_memory(self, view: MemoryView) -> None:
        """Show what memory holds."""
        self.body.tuning.set_memory(view)

    def set_context(self, view: ContextView) -> None:
        """Show the context in use."""
        self.body.tuning.set_context(view)

    def set_tuning(self, view: TuningView | None) -> None:
        """Show the settings of the dock; None while there is no model."""
        self.body.tuning.set_tuning(view)

    def set_counter(self, view: CounterView) -> None:
        """Show the composer's counter."""
        self.body.centre.composer.set_counter(view)

    def set_thinking(self, is_on: bool | None) -> None:
        """Show whether the model thinks before it answers; None where it cannot be told."""
        self.body.centre.composer.set_thinking(is_on)

    def set_status(self, view: StatusView) -> None:
        """Show the status bar."""
        self.body.status.set_view(view)

    def show_notice(self, view: NoticeView) -> None:
        """Show a notice above the composer. Its action "choose-file" opens the file dialog here."""
        self.body.centre.notice.show_notice(view)

    def clear_notice(self, key: str | None = None) -> None:
        """Take the notice away and all behind it but what outlives them; with ``key`` only that one."""
        if key is None:
            self.body.centre.notice.clear()
        else:
            self.body.centre.notice.take_away(key)

    def composer_text(self) -> str:
        """What is typed and attached, and not sent."""
        return self.body.centre.composer.content()

    def set_composer_text(self, text: str) -> None:
        """Put a message into the composer, in place of what is there."""
        self.body.centre.composer.set_content(text)

    def set_panels(self, sidebar: bool, tuning: bool) -> None:
        """Open or close the panels as an earlier run left them."""
        self.body.set_panels(sidebar, tuning)

    def _first_size(self) -> QSize:
        screen = self.screen().availableSize()
        return QSize(min(1440, screen.width() * 9 // 10), min(900, screen.height() * 9 // 10))
