"""The transcript: bounded work, a still view while reading, nothing loaded, exact copies."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from PySide6.QtCore import QEvent, QMimeData, QPoint, QPointF, Qt
from PySide6.QtGui import QDesktopServices, QGuiApplication, QKeyEvent, QWheelEvent
from PySide6.QtWidgets import QApplication, QMenu
from pytestqt.qtbot import QtBot

from ui import message as message_module
from ui import theme
from ui.blocks import Item, ProseItem
from ui.code_block import COPY, CodeItem
from ui.marks import StatsItem
from ui.message_area import FOLLOW_PX
from ui.splitter import Chunk
from ui.text_layout import TextLayout
from ui.transcript import Transcript
from ui.values import MessageView

LONG = "\n\n".join(f"Paragraph {number} with some words in it." for number in range(120))


@pytest.fixture
def transcript(qtbot: QtBot) -> Transcript:
    made = Transcript()
    qtbot.addWidget(made)
    made.resize(840, 600)
    made.show()
    return made


def say(role: str, text: str, status: str = "done", name: str = "") -> MessageView:
    return MessageView(name or role, role, text, status)


def settle(transcript: Transcript, qtbot: QtBot) -> None:
    qtbot.waitUntil(lambda: not transcript.is_busy)


def find(transcript: Transcript, kind: type[Item]) -> int:
    return next(index for index, item in enumerate(transcript.flow.items) if isinstance(item, kind))


def point_of(transcript: Transcript, index: int, dx: float, dy: float) -> QPoint:
    return transcript.item_rect(index).topLeft() + QPoint(round(dx), round(dy))


# Bounded work


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts characters that are parsed and texts that are laid out: [parsed, laid out]."""
    counts = [0, 0]
    parse, break_lines = message_module.parse, TextLayout.break_lines

    def parse_counted(chunk: Chunk) -> object:
        counts[0] += len(chunk.source)
        return parse(chunk)

    def break_counted(self: TextLayout) -> None:
        counts[1] += 1
        break_lines(self)

    monkeypatch.setattr(message_module, "parse", parse_counted)
    monkeypatch.setattr(TextLayout, "break_lines", break_counted)
    return counts


@pytest.mark.parametrize(
    "line",
    [
        "{0}\n",
        "Words of line {0}.\n\n",
        "| {0} | **v** | words |\n",
        "    x_{0} = {0}  # code\n",
        "- item {0}\n",
        "w{0} ",
    ],
)
def test_the_work_for_a_piece_of_text_does_not_grow_with_the_answer(
    line: str, transcript: Transcript, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    start = {"|": "|a|b|c|\n|-|-|-|\n", " ": "```python\n"}.get(line[0], "")
    text = start + "".join(line.format(number) for number in range(20_000))
    transcript.append_message(say("assistant", "", "writing", "a"))
    counts = counted(monkeypatch)
    costs = []
    step = 1 + len(text) // 400
    for at in range(0, len(text), step):
        before = tuple(counts)
        transcript.append_text("a", text[at : at + step])
        transcript._timer.stop()
        costs.append((counts[0] - before[0], counts[1] - before[1]))
    settle(transcript, qtbot)
    half = len(costs) // 2
    assert sum(c[0] for c in costs[half:]) <= 1.3 * sum(c[0] for c in costs[:half])
    assert sum(c[1] for c in costs[half:]) <= 1.3 * sum(c[1] for c in costs[:half])
    assert max(c[0] for c in costs) <= 4_096 + 2 * 1_700
    assert transcript.message_text("a") == text


def test_texts_that_come_faster_than_frames_are_joined(
    transcript: Transcript, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    transcript.append_message(say("assistant", "", "writing", "a"))
    counts = counted(monkeypatch)
    for _ in range(1_000):
        transcript.append_text("a", "word ")
    assert counts[1] < 20
    settle(transcript, qtbot)
    assert transcript.message_text("a") == "word " * 1_000


def test_a_long_chat_lays_out_only_what_is_near_the_view(
    transcript: Transcript, monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    counts = counted(monkeypatch)
    transcript.show_messages([say("assistant", LONG, name=str(number)) for number in range(20)])
    settle(transcript, qtbot)
    assert len(transcript.flow.items) > 2_000
    assert counts[1] < 200


def test_layouts_far_from_the_view_are_dropped(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show_messages([say("assistant", LONG, name=str(number)) for number in range(20)])
    settle(transcript, qtbot)
    bar = transcript.verticalScrollBar()
    for value in range(0, bar.maximum(), 300):
        bar.setValue(value)
    held = [item for item in transcript.flow.items if isinstance(item, ProseItem) and item._layout]
    assert len(held) < 600


def test_a_resize_keeps_the_first_visible_message_in_view(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show_messages([say("assistant", LONG + LONG)])
    settle(transcript, qtbot)
    transcript.verticalScrollBar().setValue(2_000)
    before = transcript.visible_range()[0]
    transcript.resize(500, 600)
    assert abs(transcript.visible_range()[0] - before) <= 1


# Following the end


def wheel(transcript: Transcript, notches: int) -> None:
    at = QPointF(300, 300)
    event = QWheelEvent(
        at,
        transcript.mapToGlobal(at),
        QPoint(),
        QPoint(0, 120 * notches),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(transcript.viewport(), event)


@pytest.fixture
def writing(transcript: Transcript, qtbot: QtBot) -> Transcript:
    transcript.show_messages([say("user", "Go"), say("assistant", LONG, "writing", "a")])
    settle(transcript, qtbot)
    return transcript


def test_the_view_follows_the_end_while_text_comes(writing: Transcript, qtbot: QtBot) -> None:
    bar = writing.verticalScrollBar()
    before = bar.value()
    writing.append_text("a", "\n\nmore\n\nand more")
    settle(writing, qtbot)
    assert bar.value() == bar.maximum() > before


def test_one_notch_up_ends_following_and_the_view_stays_still(writing: Transcript, qtbot: QtBot) -> None:
    bar = writing.verticalScrollBar()
    wheel(writing, 1)
    before = bar.value()
    assert bar.maximum() - before > FOLLOW_PX
    writing.append_text("a", "\n\nmore words" * 50)
    settle(writing, qtbot)
    assert bar.value() == before
    assert writing._jump.isVisible()


def test_jump_to_latest_and_a_sent_message_follow_again(writing: Transcript, qtbot: QtBot) -> None:
    bar = writing.verticalScrollBar()
    wheel(writing, 3)
    qtbot.mouseClick(writing._jump, Qt.MouseButton.LeftButton)
    assert bar.value() == bar.maximum()
    assert not writing._jump.isVisible()
    wheel(writing, 3)
    writing.append_message(say("user", "next", name="u2"))
    settle(writing, qtbot)
    assert bar.value() == bar.maximum()


def test_within_48_px_of_the_end_the_view_still_follows(writing: Transcript, qtbot: QtBot) -> None:
    bar = writing.verticalScrollBar()
    bar.setValue(bar.maximum() - FOLLOW_PX)
    assert writing.is_following
    bar.setValue(bar.maximum() - FOLLOW_PX - 1)
    assert not writing.is_following


def test_heights_that_become_exact_above_do_not_move_what_is_read(
    transcript: Transcript, qtbot: QtBot
) -> None:
    text = "\n\n".join("wide WWWWWWWW words " * 12 for _ in range(60))
    transcript.show_messages([say("assistant", text)])
    settle(transcript, qtbot)
    bar = transcript.verticalScrollBar()
    bar.setValue(bar.maximum() // 2)
    first = transcript.visible_range()[0]
    top = transcript.item_rect(first).top()
    transcript._settle()
    assert transcript.item_rect(first).top() == top


# Hostile messages


class Trap(BaseHTTPRequestHandler):
    """Counts every request."""

    hits: list[str] = []  # noqa: RUF012

    def do_GET(self) -> None:
        self.hits.append(self.path)
        self.send_response(200)
        self.end_headers()

    def log_message(self, *args: object) -> None:
        pass


HOSTILE = """<img src="{0}/a.png"><script src="{0}/b.js"></script><link rel=stylesheet href="{0}/c.css">
![x]({0}/d.png) ![y](file:///etc/passwd) [![z]({0}/e.png)]({0}/f)
<iframe src="{0}/g"></iframe><style>@import url({0}/h.css)</style>
`<img src={0}/i.png>` <!-- x --> [f](file:///etc/passwd) [j](javascript:alert(1))

| <img src="{0}/k.png"> | ![t]({0}/l.png) |
|---|---|
| <b>x</b> | y |

```html
<img src="{0}/m.png">
```
"""


def test_nothing_in_a_message_is_loaded_or_opened(
    transcript: Transcript, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = HTTPServer(("127.0.0.1", 0), Trap)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda url: pytest.fail(f"opened {url}"))
    opened: list[str] = []
    transcript.link_clicked.connect(opened.append)
    text = HOSTILE.format(f"http://127.0.0.1:{server.server_port}")
    transcript.show_messages([say("user", text), say("assistant", text)])
    settle(transcript, qtbot)
    transcript.grab()
    QApplication.processEvents()
    server.shutdown()
    server.server_close()
    assert Trap.hits == []
    assert opened == []
    shown = "\n".join(item.text(0, item.length) for item in transcript.flow.items)
    assert "<script" in shown
    assert "file:///etc/passwd" in shown


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


def test_a_link_opens_only_after_a_question_that_shows_the_address(
    transcript: Transcript, qtbot: QtBot
) -> None:
    transcript.show_messages([say("assistant", "[friendly words](https://evil.example/path?a=b&c)")])
    index = find(transcript, ProseItem)
    opened: list[str] = []
    transcript.link_clicked.connect(opened.append)
    qtbot.mouseClick(
        transcript.viewport(), Qt.MouseButton.LeftButton, pos=point_of(transcript, index, 20, 12)
    )
    (menu,) = transcript.findChildren(QMenu)
    title, open_action, *_ = menu.actions()
    assert opened == []
    assert title.text() == "https://evil.example/path?a=b&&c"
    open_action.trigger()
    assert opened == ["https://evil.example/path?a=b&c"]


# Copying


def clipboard() -> str:
    return QGuiApplication.clipboard().text()


def test_copy_takes_the_code_and_says_so_for_two_seconds(transcript: Transcript, qtbot: QtBot) -> None:
    code = "\tif x:\n\n\t\ty = '\u00a0'  "
    transcript.show_messages([say("assistant", f"```python\n{code}\n```")])
    index = find(transcript, CodeItem)
    item = transcript.flow.items[index]
    at = point_of(transcript, index, 680, 16)
    qtbot.mouseClick(transcript.viewport(), Qt.MouseButton.LeftButton, pos=at)
    mime: QMimeData = QGuiApplication.clipboard().mimeData()
    assert mime.hasText()
    assert clipboard() == code
    assert transcript._look(index, item).done == COPY
    transcript._done_timer.timeout.emit()
    assert transcript._look(index, item).done == ""


def test_copied_is_said_while_the_block_is_still_written(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show_messages([say("assistant", "```python\nx = 1", "writing", "a")])
    assert transcript.copy_last_code()
    transcript.append_text("a", "\ny = 2")
    settle(transcript, qtbot)
    index = find(transcript, CodeItem)
    assert clipboard() == "x = 1"
    assert transcript._look(index, transcript.flow.items[index]).done == COPY


def test_the_copy_action_of_an_answer_takes_its_markdown(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show_messages([say("assistant", "**bold** words")])
    index = find(transcript, StatsItem)
    qtbot.mouseClick(
        transcript.viewport(), Qt.MouseButton.LeftButton, pos=point_of(transcript, index, 706, 14)
    )
    assert clipboard() == "**bold** words"


def test_actions_show_for_the_last_answer_and_the_one_under_the_pointer(
    transcript: Transcript, qtbot: QtBot
) -> None:
    transcript.show_messages([say("assistant", "one", name="1"), say("assistant", "two", name="2")])
    stats = [index for index, item in enumerate(transcript.flow.items) if isinstance(item, StatsItem)]
    shown = [transcript._look(index, transcript.flow.items[index]).shows_actions for index in stats]
    assert shown == [False, True]
    qtbot.mouseMove(transcript.viewport(), point_of(transcript, 0, 10, 5))
    qtbot.waitUntil(lambda: transcript._look(stats[0], transcript.flow.items[stats[0]]).shows_actions)


def drag(transcript: Transcript, qtbot: QtBot, start: QPoint, end: QPoint) -> None:
    view = transcript.viewport()
    qtbot.mousePress(view, Qt.MouseButton.LeftButton, pos=start)
    qtbot.mouseMove(view, end)
    QApplication.processEvents()
    qtbot.mouseRelease(view, Qt.MouseButton.LeftButton, pos=end)


def test_a_selection_over_blocks_is_copied_and_survives_new_text(writing: Transcript, qtbot: QtBot) -> None:
    index = writing.visible_range()[0] + 2
    drag(writing, qtbot, point_of(writing, index, 0, 5), point_of(writing, index + 1, 700, 15))
    text = writing.selected_text()
    assert text.startswith("Paragraph ")
    assert text.count("\n\n") == 1
    writing.append_text("a", "\n\nmore")
    settle(writing, qtbot)
    assert writing.selected_text() == text
    qtbot.keyClick(writing, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert clipboard() == text


def test_a_double_click_selects_a_word(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show_messages([say("assistant", "Some words here")])
    qtbot.mouseDClick(transcript.viewport(), Qt.MouseButton.LeftButton, pos=point_of(transcript, 0, 60, 10))
    assert transcript.selected_text() == "words"


def test_the_menu_copies_message_and_code(transcript: Transcript) -> None:
    transcript.show_messages([say("assistant", "a\n\n```\ncode\n```")])
    menu = transcript.make_menu(transcript.flow.items[find(transcript, CodeItem)])
    actions = {action.text(): action for action in menu.actions()}
    assert not actions["Copy"].isEnabled()
    actions["Copy code"].trigger()
    assert clipboard() == "code"
    actions["Copy message"].trigger()
    assert clipboard() == "a\n\n```\ncode\n```"


# Keys, states, theme


def test_up_and_down_choose_messages_and_tell_their_text(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show_messages([say("user", "Question"), say("assistant", "Reply")])
    qtbot.keyClick(transcript, Qt.Key.Key_Up)
    assert transcript.accessibleDescription() == "Answer: Reply"
    qtbot.keyClick(transcript, Qt.Key.Key_Up)
    assert transcript.accessibleDescription() == "You: Question"
    qtbot.keyClick(transcript, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert clipboard() == "Question"


def test_letters_are_left_to_the_window(transcript: Transcript) -> None:
    event = QKeyEvent(QEvent.Type.KeyPress, Qt.Key.Key_H, Qt.KeyboardModifier.NoModifier, "h")
    transcript.keyPressEvent(event)
    assert not event.isAccepted()


def test_the_caret_goes_when_the_answer_is_complete(writing: Transcript, qtbot: QtBot) -> None:
    assert any(item.has_caret for item in writing.flow.items)
    writing.set_message(MessageView("a", "assistant", LONG, "done", "9 tokens"))
    settle(writing, qtbot)
    assert not any(item.has_caret for item in writing.flow.items)
    assert isinstance(writing.flow.items[-1], StatsItem)


def test_text_for_an_unknown_message_is_ignored(transcript: Transcript) -> None:
    transcript.append_text("nobody", "text")
    transcript.set_message(say("assistant", "text", name="nobody"))
    assert transcript.flow.items == []


def test_an_answer_above_a_queued_message_grows_in_its_place(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.append_message(say("assistant", "", "writing", "a"))
    transcript.append_message(say("user", "Later", "queued", "q"))
    transcript.append_text("a", "One\n\nTwo\n\nThree")
    settle(transcript, qtbot)
    assert [item.owner for item in transcript.flow.items] == ["a", "a", "a", "a", "q"]
    transcript.set_message(say("user", "Later", "done", "q"))
    assert transcript.flow.items[-1].owner == "q"


def test_a_change_of_theme_recolours_what_is_shown(
    transcript: Transcript, qtbot: QtBot, qapp: QApplication
) -> None:
    transcript.show_messages(
        [say("assistant", "Words and [link](https://a.org)\n\n```python\nimport x\n```")]
    )
    theme.apply(qapp, "light")
    image = transcript.grab().toImage()
    colors = {image.pixelColor(x, y).name() for x in range(0, 840, 2) for y in range(0, 160)}
    light = theme.palette()
    theme.apply(qapp, "dark")
    assert light.bg0.name() in colors
    assert light.bg1.name() in colors
    assert theme.palette().bg0.name() not in colors


def test_clear_forgets_everything(writing: Transcript) -> None:
    writing.clear()
    assert writing.flow.items == []
    assert writing.message_text("a") == ""
    writing.append_text("a", "late")
    assert writing.flow.items == []
    assert writing.verticalScrollBar().maximum() == 0
