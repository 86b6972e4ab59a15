"""One message as pieces: what is finished is never made again."""

from __future__ import annotations

import pytest
from PySide6.QtWidgets import QApplication

from ui.blocks import Item, ProseItem
from ui.bubble import BubbleItem
from ui.chat_values import MessageView
from ui.code_block import CodeItem
from ui.marks import MarkerItem, StatsItem, WaitingItem
from ui.message import MessageItems
from ui.table_block import TableItem

pytestmark = pytest.mark.usefixtures("qapp")


def answer(text: str = "", status: str = "writing", stats: str = "", note: str = "") -> MessageItems:
    made = MessageItems(MessageView("a", "assistant", text, status, stats, note))
    read(made)
    return made


def read(message: MessageItems) -> None:
    message.refresh()
    while message.has_unread:
        message.refresh()


def kinds(message: MessageItems) -> list[type[Item]]:
    return [type(item) for item in message.items]


def test_finished_pieces_stay_the_same_objects_while_text_comes() -> None:
    message = answer("One paragraph.\n\nTwo")
    first = message.items[0]
    for word in (" more", " words\n\n", "```py\nx", " = 1\n```\n", "end"):
        message.append(word)
        message.refresh()
    assert message.items[0] is first
    assert kinds(message) == [ProseItem, ProseItem, CodeItem, ProseItem, StatsItem]


def test_refresh_names_the_first_piece_that_changed() -> None:
    message = answer("One.\n\nTwo.\n\nThree")
    message.append(" goes on")
    assert message.refresh() == 2


def test_only_the_open_end_has_the_caret() -> None:
    message = answer("One.\n\nTwo")
    assert [item.has_caret for item in message.items] == [False, True, False]
    message.append("\n\nThree")
    message.refresh()
    assert [item.has_caret for item in message.items] == [False, False, True, False]


def test_a_finished_answer_has_no_caret_and_its_actions() -> None:
    message = answer("One")
    message.set_view(MessageView("a", "assistant", "One", "done", "1 token"))
    message.refresh()
    assert kinds(message) == [ProseItem, StatsItem]
    assert not any(item.has_caret for item in message.items)


def test_the_final_text_may_be_longer_than_what_was_streamed() -> None:
    message = answer("One tw")
    assert not message.set_view(MessageView("a", "assistant", "One two.\n\nThree"))
    read(message)
    assert message.text() == "One two.\n\nThree"
    assert kinds(message) == [ProseItem, ProseItem, StatsItem]


def test_another_text_builds_everything_again() -> None:
    message = answer("One")
    assert message.set_view(MessageView("a", "assistant", "Other", "done"))
    read(message)
    assert message.text() == "Other"


@pytest.mark.parametrize(
    ("status", "stats", "sentence"),
    [
        ("stopped", "41 tokens · 42.1 tok/s", "Stopped by you after 41 tokens"),
        ("stopped", "", "Stopped by you"),
        ("failed", "", "Could not finish. The answer so far is kept."),
        ("length", "", "Longest answer length reached"),
        ("context", "", "Context full: the answer ends here"),
    ],
)
def test_an_answer_that_did_not_end_by_itself_says_why(status: str, stats: str, sentence: str) -> None:
    message = answer("Text", status, stats)
    marker = message.items[-1]
    assert isinstance(marker, MarkerItem)
    assert marker.sentence == sentence
    assert kinds(message)[0] is ProseItem


def test_a_failed_answer_without_text_and_an_empty_one_say_so() -> None:
    for status in ("failed", "done"):
        assert kinds(answer("", status)) == [MarkerItem]


def test_reading_shows_what_is_read_and_the_first_word_ends_it() -> None:
    message = answer("", "reading", "1,204 tokens")
    waiting = message.items[0]
    assert isinstance(waiting, WaitingItem)
    assert waiting.sentence == "Reading your message… 1,204 tokens"
    message.append("Hi")
    message.refresh()
    assert kinds(message) == [ProseItem, StatsItem]


def test_a_note_stands_above_its_message() -> None:
    message = answer("Text", "done", note="Model changed to Llama-3.2-3B")
    assert kinds(message)[0] is MarkerItem


def test_what_a_user_typed_is_not_read_as_markdown() -> None:
    message = MessageItems(MessageView("u", "user", "# **not** a heading\n```"))
    message.refresh()
    (bubble,) = message.items
    assert isinstance(bubble, BubbleItem)
    assert bubble.text(0, bubble.length) == "# **not** a heading\n```"


def test_a_long_table_is_one_table_in_pieces() -> None:
    message = answer("|a|b|\n|-|-|\n" + "".join(f"|{n}|x|\n" for n in range(100)), "done")
    tables = [item for item in message.items if isinstance(item, TableItem)]
    assert len(tables) == 7
    assert [table.is_last for table in tables] == [False] * 6 + [True]
    assert len({id(table.sideways) for table in tables}) == 1


def test_a_long_message_is_read_in_slices() -> None:
    message = MessageItems(MessageView("a", "assistant", "word " * 20_000))
    message.refresh()
    assert message.has_unread
    assert message.text() == "word " * 20_000
    read(message)
    assert message.text() == "word " * 20_000


@pytest.mark.parametrize(
    "content",
    ["\tif x:\n\n\t\ty  ", "a\u00a0b", "```\ninner\n```", "a\r\nb", "\u202ex", "l\n" * 300, "y" * 100_000],
)
@pytest.mark.parametrize("step", [3, 5_000])
def test_the_code_that_copy_takes_is_exact_while_and_after_it_is_written(
    content: str, step: int, qapp: QApplication
) -> None:
    if step == 3 and len(content) > 1_000:
        step = 997
    message = answer()
    text = f"````python\n{content}"
    for start in range(0, len(text), step):
        message.append(text[start : start + step])
        read(message)
    source = message.last_code()
    assert source is not None
    assert source.text() == content.removesuffix("\n")  # the fence may follow
    message.append("\n````\nafter")
    read(message)
    assert source.text() == content
    assert message.last_code() is source
