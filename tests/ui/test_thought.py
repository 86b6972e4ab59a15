"""The thought row: closed until someone opens it, and never a part of what is copied as the answer."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from pytestqt.qtbot import QtBot

from ui.blocks import Item, ProseItem
from ui.chat_values import MessageView
from ui.code_block import CodeItem
from ui.growing_text import GrowingText
from ui.marks import MarkerItem, StatsItem, WaitingItem
from ui.message import MessageItems
from ui.numbers import NBSP
from ui.thought import TOGGLE_THOUGHT, ThoughtItem, thought_title
from ui.transcript import Transcript

pytestmark = pytest.mark.usefixtures("qapp")

THINKING = "First *this*.\n\n```py\nx = 1\n```\n\nThen that."


def view(
    text: str = "",
    thinking: str = THINKING,
    status: str = "done",
    seconds: float | None = 12.3,
    stats: str = "",
    note: str = "",
) -> MessageView:
    return MessageView("a", "assistant", text, status, stats, note, thinking, seconds)


def message(made: MessageView) -> MessageItems:
    items = MessageItems(made)
    read(items)
    return items


def read(items: MessageItems) -> None:
    items.refresh()
    while items.has_unread:
        items.refresh()


def kinds(items: MessageItems) -> list[type[Item]]:
    return [type(item) for item in items.items]


@pytest.mark.parametrize(
    ("seconds", "is_running", "title"),
    [
        (4.2, True, "Thinking… 4 s"),
        (12.3, False, "Thought for 12 s"),
        (0.1, False, "Thought for 1 s"),
        (59.6, False, "Thought for 1 min"),
        (125.0, False, "Thought for 2 min 5 s"),
        (3720.0, True, "Thinking… 62 min"),
        (None, False, "Thought"),
        (None, True, "Thinking…"),
    ],
)
def test_the_row_says_how_long_the_model_thought(seconds: float | None, is_running: bool, title: str) -> None:
    assert thought_title(seconds, is_running).replace(NBSP, " ") == title


def test_the_row_is_closed_and_has_a_name_for_every_reader() -> None:
    items = message(view("Answer."))
    assert kinds(items) == [ThoughtItem, ProseItem, StatsItem]
    assert items.thought is not None
    assert items.thought.name.replace(NBSP, " ") == "Thought for 12 s, collapsed"
    items.toggle_thought()
    read(items)
    assert items.thought.name.replace(NBSP, " ") == "Thought for 12 s, expanded"


def test_an_opened_thought_stands_above_the_answer_and_closes_again() -> None:
    items = message(view("Answer."))
    answer = items.items[1]
    items.toggle_thought()
    read(items)
    assert kinds(items) == [ThoughtItem, ProseItem, CodeItem, ProseItem, ProseItem, StatsItem]
    assert [item.is_aside for item in items.items] == [False, True, True, True, False, False]
    assert items.items[4] is answer  # the answer is not read again
    items.toggle_thought()
    read(items)
    assert kinds(items) == [ThoughtItem, ProseItem, StatsItem]
    assert items.items[1] is answer


def test_a_thought_that_nobody_opened_is_never_read(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[bool] = []
    original = GrowingText.__init__

    def watched(self: GrowingText, text: str = "", *, is_aside: bool = False) -> None:
        made.append(is_aside)
        original(self, text, is_aside=is_aside)

    monkeypatch.setattr(GrowingText, "__init__", watched)
    items = message(view("", "", "reading", None))
    for number in range(50):
        items.append_thinking(f"thought {number}\n\n")
        read(items)
    items.append("Answer.")
    read(items)
    assert True not in made
    assert kinds(items) == [ThoughtItem, ProseItem, StatsItem]


def test_while_the_model_thinks_the_row_is_all_there_is_and_it_ticks() -> None:
    items = message(view("", "", "reading", None))
    assert kinds(items) == [WaitingItem]
    items.append_thinking("First")
    read(items)
    assert kinds(items) == [ThoughtItem]
    for seconds, words in ((4.2, "Thinking… 4 s"), (5.1, "Thinking… 5 s")):
        assert not items.set_view(view("", "First", "writing", seconds, "9 tokens so far"))
        assert items.refresh() == 0
        assert items.thought is not None
        assert items.thought.title.replace(NBSP, " ") == words
    assert kinds(items) == [ThoughtItem, StatsItem]
    items.append("Answer")
    items.set_view(view("Answer", "First", "writing", 5.4, "11 tokens so far"))
    read(items)
    assert items.thought is not None
    assert items.thought.title.replace(NBSP, " ") == "Thought for 5 s"
    assert kinds(items) == [ThoughtItem, ProseItem, StatsItem]
    assert not items.thought.is_expanded


def test_an_opened_thought_grows_and_hands_the_caret_to_the_answer() -> None:
    items = message(view("", "First", "writing", 1.0))
    items.toggle_thought()
    read(items)
    first = items.items[1]
    items.append_thinking(" this.\n\nThen that")
    read(items)
    assert kinds(items) == [ThoughtItem, ProseItem, ProseItem]
    assert [item.has_caret for item in items.items] == [False, False, True]
    items.append_thinking(".")
    items.append("Answer")
    read(items)
    assert kinds(items) == [ThoughtItem, ProseItem, ProseItem, ProseItem, StatsItem]
    assert [item.has_caret for item in items.items] == [False, False, False, True, False]
    assert items.items[1] is not first  # it was open when it was first seen
    assert items.text() == "Answer"
    items.append("\n\nMore")
    assert items.refresh() == 3  # what was thought is not made again


@pytest.mark.parametrize(
    ("status", "sentence"),
    [
        ("done", "The model ended its answer after thinking, without writing one"),
        ("stopped", "Stopped by you after 41 tokens"),
        ("length", "Longest answer length reached"),
        ("failed", "No answer was written."),
    ],
)
def test_a_reply_that_is_thinking_alone_says_why_it_ends(status: str, sentence: str) -> None:  # B019
    items = message(view("", status=status, stats="41 tokens"))
    assert kinds(items) == [ThoughtItem, StatsItem, MarkerItem]
    marker = items.items[-1]
    assert isinstance(marker, MarkerItem)
    assert marker.sentence == sentence
    assert items.items[1].action_at(QPointF(0, 0)) == ""  # there is no answer to copy


def test_a_note_stands_above_the_thought() -> None:
    assert kinds(message(view("Answer.", note="Model changed to x"))) == [
        MarkerItem,
        ThoughtItem,
        ProseItem,
        StatsItem,
    ]


def test_a_state_that_comes_again_leaves_an_opened_thought_open() -> None:
    items = message(view("Answer.", status="writing"))
    items.toggle_thought()
    read(items)
    items.set_view(view("Other answer.", status="done"))
    read(items)
    assert items.thought is not None
    assert items.thought.is_expanded
    assert kinds(items) == [ThoughtItem, ProseItem, CodeItem, ProseItem, ProseItem, StatsItem]


@pytest.fixture
def transcript(qtbot: QtBot) -> Transcript:
    made = Transcript()
    qtbot.addWidget(made)
    made.resize(700, 500)
    made.show()
    made.show_messages([MessageView("u", "user", "Hi"), view("Answer.")])
    return made


def row(transcript: Transcript) -> ThoughtItem:
    [item] = [item for item in transcript.flow.items if isinstance(item, ThoughtItem)]
    return item


def click(transcript: Transcript) -> None:
    rect = transcript.item_rect(transcript.flow.items.index(row(transcript)))
    at = QPoint(rect.left() + 20, rect.center().y())
    QTest.mouseClick(transcript.viewport(), Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, at)


def test_a_click_opens_and_closes(transcript: Transcript) -> None:
    click(transcript)
    assert row(transcript).is_expanded
    assert any(item.is_aside for item in transcript.flow.items)
    click(transcript)
    assert not any(item.is_aside for item in transcript.flow.items)


@pytest.mark.parametrize("key", [Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space])
def test_a_key_opens_the_thought_of_the_chosen_message(transcript: Transcript, key: Qt.Key) -> None:
    QTest.keyClick(transcript, key)
    assert not row(transcript).is_expanded  # nothing is chosen yet: the key is the window's
    QTest.keyClick(transcript, Qt.Key.Key_Up)
    assert (
        transcript.accessibleDescription().replace(NBSP, " ")
        == "Thought for 12 s, collapsed. Answer: Answer."
    )
    QTest.keyClick(transcript, key)
    assert row(transcript).is_expanded
    QTest.keyClick(transcript, key)
    assert not row(transcript).is_expanded


def test_copy_takes_the_answer_alone(transcript: Transcript) -> None:
    click(transcript)
    transcript.copy_message("a")
    assert QGuiApplication.clipboard().text() == "Answer."
    assert not transcript.copy_last_code()  # the code that was thought is none of the answer's


def test_the_row_stays_where_it_is_when_it_is_opened(transcript: Transcript) -> None:
    long = view("Answer.\n\n" * 40, "A thought.\n\n" * 200)
    transcript.show_messages([MessageView("u", "user", "Hi"), long])
    while transcript.is_busy:
        transcript._on_timer()
    bar = transcript.verticalScrollBar()
    bar.setValue(20)
    before = transcript.item_rect(transcript.flow.items.index(row(transcript))).top()
    click(transcript)
    while transcript.is_busy:
        transcript._on_timer()
    assert transcript.item_rect(transcript.flow.items.index(row(transcript))).top() == before
    assert not transcript.is_following
    click(transcript)
    assert transcript.item_rect(transcript.flow.items.index(row(transcript))).top() == before


def test_an_end_that_is_back_in_view_is_followed_again(transcript: Transcript) -> None:
    transcript.show_messages([MessageView("u", "user", "Hi"), view("Answer.", "A thought.\n\n" * 200)])
    assert transcript.is_following
    for is_at_end in (False, True):
        click(transcript)
        while transcript.is_busy:
            transcript._on_timer()
        assert transcript.is_following == is_at_end


def test_thinking_that_comes_while_the_end_is_followed_opens_nothing(transcript: Transcript) -> None:
    transcript.show_messages([MessageView("u", "user", "Hi"), view("", "", "reading", None)])
    for number in range(30):
        transcript.append_text("a", f"thought {number}\n\n", is_thinking=True)
    while transcript.is_busy:
        transcript._on_timer()
    assert not row(transcript).is_expanded
    assert transcript.is_following
    transcript.append_text("a", "more", is_thinking=True)
    assert not transcript.is_busy  # what nobody sees costs nothing
    transcript.append_text("a", "Answer.")
    while transcript.is_busy:
        transcript._on_timer()
    assert transcript.message_text("a") == "Answer."
    assert not row(transcript).is_expanded


def test_only_the_words_of_the_row_can_be_pressed() -> None:
    item = ThoughtItem()
    item.set(12.0, is_running=False)
    assert item.action_at(QPointF(10, 14)) == TOGGLE_THOUGHT
    assert item.action_at(QPointF(400, 14)) == ""
