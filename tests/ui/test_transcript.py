"""The transcript: bounded work, a still view while reading, keys, states and the theme."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QGuiApplication, QHelpEvent, QKeyEvent, QWheelEvent
from PySide6.QtWidgets import QApplication, QToolTip
from pytestqt.qtbot import QtBot

from tests.ui.transcripts import LONG, find, point_of, say, settle
from ui import growing_text, theme
from ui.blocks import ProseItem
from ui.chat_values import MessageView
from ui.marks import StatsItem
from ui.piece_area import FOLLOW_PX
from ui.splitter import Chunk
from ui.text_layout import TextLayout
from ui.transcript import Transcript

# Bounded work


def counted(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts characters that are parsed and texts that are laid out: [parsed, laid out]."""
    counts = [0, 0]
    parse, break_lines = growing_text.parse, TextLayout.break_lines

    def parse_counted(chunk: Chunk) -> object:
        counts[0] += len(chunk.source)
        return parse(chunk)

    def break_counted(self: TextLayout) -> None:
        counts[1] += 1
        break_lines(self)

    monkeypatch.setattr(growing_text, "parse", parse_counted)
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
    assert max(c[0] for c in costs) <= 512 + 2 * 1_700
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


def test_more_figures_stand_in_the_tooltip_of_the_stats(
    transcript: Transcript, qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = MessageView("a", "assistant", "words", stats="9 tokens", details="Ended by it\nPredicted: ≈ 88")
    transcript.show_messages([view])
    settle(transcript, qtbot)
    shown: list[str] = []
    monkeypatch.setattr(QToolTip, "showText", lambda at, text, widget: shown.append(text))
    at = point_of(transcript, find(transcript, StatsItem), 10, 10)
    QApplication.sendEvent(transcript.viewport(), QHelpEvent(QEvent.Type.ToolTip, at, at))
    assert "Predicted: ≈ 88" in shown[0]
    qtbot.keyClick(transcript, Qt.Key.Key_Up)
    assert transcript.accessibleDescription().endswith("9 tokens, Ended by it, Predicted: ≈ 88")


# Keys, states, theme


def test_up_and_down_choose_messages_and_tell_their_text(transcript: Transcript, qtbot: QtBot) -> None:
    transcript.show_messages([say("user", "Question"), say("assistant", "Reply")])
    qtbot.keyClick(transcript, Qt.Key.Key_Up)
    assert transcript.accessibleDescription() == "Answer: Reply"
    qtbot.keyClick(transcript, Qt.Key.Key_Up)
    assert transcript.accessibleDescription() == "You: Question"
    qtbot.keyClick(transcript, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    assert QGuiApplication.clipboard().text() == "Question"


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
