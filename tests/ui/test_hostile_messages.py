"""Nothing in a message loads, opens or runs anything; a link asks first."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QApplication, QPlainTextEdit
from pytestqt.qtbot import QtBot

from tests.ui.transcripts import find, point_of, say, settle
from ui.blocks import LINK, ProseItem
from ui.chat_values import MessageView
from ui.label import Label
from ui.link_dialog import LinkDialog
from ui.markdown import visible
from ui.transcript import Transcript


class Trap(BaseHTTPRequestHandler):
    """Counts every request."""

    hits: list[str] = []  # noqa: RUF012

    def do_GET(self) -> None:
        self.hits.append(self.path)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


HOSTILE = {
    "html": '<img src="{0}/a.png"><script src="{0}/b"></script><link rel=stylesheet href="{0}/c.css">',
    "frames": "<iframe src='{0}/g'></iframe><style>@import url({0}/h.css)</style><!-- x --><object data={0}>",
    "svg": "<svg><image href='{0}/s.png'/></svg><body background={0}/t.png><video src={0}/v poster={0}/p>",
    "images": "![x]({0}/d.png) ![y](file:///etc/passwd) [![z]({0}/e.png)]({0}/f) ![w][r]\n\n[r]: {0}/r.png",
    "data": "![x](data:image/svg+xml;base64,PHN2Zy8+) [y](data:text/html,<script>alert(1)</script>)",
    "schemes": "[f](file:///etc/passwd) [j](javascript:alert(1)) [v](vbscript:x) [s](smb://{0}/x) [u](//x)",
    "programs": "[a](ms-msdt:/id) [b](steam://run/1) [c](ssh://x) [d](C:\\\\x.exe) [e](qrc:x)",
    "disguised": "[x](\u200bjavascript:alert(1)) [y](JaVaScRiPt:1) [z](&#106;avascript:1) [w](java\ts:1)",
    "code": '`<img src={0}/i.png>`\n\n```html\n<img src="{0}/m.png">\n```',
    "table": '| <img src="{0}/k.png"> | ![t]({0}/l.png) |\n|---|---|\n| <b>x</b> | [q](file:///x) |',
    "formula": r"$\href{{{0}/n}}{{x}} \input{{/etc/passwd}} \includegraphics{{{0}/o.png}} \write18{{ls}}$",
    "terminal": "\x1b]8;;{0}/p\x07link\x1b]8;;\x07 \x1b[31mred \x07",
    "bidi": "\u202egnp.exe \u2066{0}/q\u2069 \u200f[x](https://a.org)",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_nothing_in_a_message_is_loaded_or_opened(
    text: str, transcript: Transcript, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = HTTPServer(("127.0.0.1", 0), Trap)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: pytest.fail(f"opened {url}"))
    opened: list[str] = []
    transcript.link_clicked.connect(opened.append)
    text = text.format(f"http://127.0.0.1:{server.server_port}")
    view = MessageView("a", "assistant", text, thinking=text, thinking_s=1.0)
    transcript.show_messages([say("user", text), view])
    transcript.toggle_thought("a")
    settle(transcript, qtbot)
    transcript.grab()
    QApplication.processEvents()
    server.shutdown()
    server.server_close()
    assert (Trap.hits, opened) == ([], [])
    for item in transcript.flow.items:
        shown = item.text(0, item.length)
        assert shown == visible(shown)
        addresses = [
            control.action.removeprefix(LINK) for control in item.controls() if LINK in control.action
        ]
        assert all(address.startswith(("http://", "https://")) for address in addresses)
        assert item.shown_width <= transcript.viewport().width()


@pytest.mark.parametrize(
    "text",
    [
        "x" * 100_000,
        "> " * 2_000 + "deep",
        "- " * 2_000 + "deep",
        "|a" * 2_000 + "|\n" + "|-" * 2_000 + "|\n" + ("|1" * 2_000 + "|\n") * 5,
        "|a|b|\n|-|-|\n" + "|1|2|\n" * 2_000,
        "```\n" + "y" * 100_000 + "\n```",
        "\u202e\u2066\x00\x1b[31m\ud800 a" * 50,
        "e" + "\u0301" * 5_000,
        "[" * 20_000,
        "\n" * 20_000,
    ],
    ids=["line", "quotes", "lists", "columns", "rows", "code line", "bidi", "marks", "brackets", "blank"],
)
def test_hostile_shapes_are_shown_with_bounded_pieces(
    text: str, transcript: Transcript, qtbot: QtBot
) -> None:
    transcript.show_messages([say("user", text), say("assistant", text)])
    settle(transcript, qtbot)
    transcript.grab()
    transcript.verticalScrollBar().setValue(0)
    transcript.grab()
    assert transcript.message_text("assistant") == text
    assert all(item.length <= 40 * 1_100 for item in transcript.flow.items)


def click_link(transcript: Transcript, qtbot: QtBot, markdown: str) -> LinkDialog:
    transcript.show_messages([say("assistant", markdown)])
    at = point_of(transcript, find(transcript, ProseItem), 20, 12)
    qtbot.mouseClick(transcript.viewport(), Qt.MouseButton.LeftButton, pos=at)
    (dialog,) = transcript.findChildren(LinkDialog)
    return dialog


def test_a_link_opens_only_after_a_question_that_shows_the_address(
    transcript: Transcript, qtbot: QtBot
) -> None:
    opened: list[str] = []
    transcript.link_clicked.connect(opened.append)
    address = "https://bank.example@evil.example/path?a=b&c" + "x" * 300
    dialog = click_link(transcript, qtbot, f"[friendly words]({address})")
    assert opened == []
    assert dialog.findChildren(QPlainTextEdit)[0].toPlainText() == address
    assert any(label.text() == "It goes to evil.example." for label in dialog.findChildren(Label))
    dialog.open_button.click()
    assert opened == [address]


def test_a_link_that_is_declined_opens_nothing(transcript: Transcript, qtbot: QtBot) -> None:
    opened: list[str] = []
    transcript.link_clicked.connect(opened.append)
    dialog = click_link(transcript, qtbot, "[friendly words](https://a.org)")
    assert dialog.focusWidget() is dialog.cancel_button
    qtbot.keyClick(dialog, Qt.Key.Key_Escape)
    assert opened == []


def test_a_host_in_letters_that_look_like_others_is_told_apart(transcript: Transcript, qtbot: QtBot) -> None:
    dialog = click_link(transcript, qtbot, "[friendly words](https://аpple.com/)")
    assert "xn--" in dialog.address


def test_the_keyboard_reaches_a_link_and_asks(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show_messages([say("assistant", "See [the page](https://a.org/b) now.")])
    transcript.setFocus()
    qtbot.keyClick(transcript, Qt.Key.Key_Tab)
    assert transcript.accessibleDescription() == "Link, the page, https://a.org/b"
    qtbot.keyClick(transcript, Qt.Key.Key_Return)
    (dialog,) = transcript.findChildren(LinkDialog)
    assert dialog.address == "https://a.org/b"
