"""Lines of text: always plain, at the style's line height."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from ui import theme
from ui.label import Label, LinkButton, one_line, plain_tooltip


def test_markup_is_shown_not_followed(qtbot: QtBot) -> None:
    label = Label("<b>bold</b>")
    qtbot.addWidget(label)
    assert label.textFormat() == Qt.TextFormat.PlainText
    assert label.sizeHint().width() > Label("bold").sizeHint().width()
    assert plain_tooltip('<img src="x">') == "<qt>&lt;img src=&quot;x&quot;&gt;</qt>"


@pytest.mark.parametrize("style", ["body", "small", "micro"])
def test_wrapped_lines_have_the_height_of_their_style(qtbot: QtBot, style: str) -> None:
    label = Label("some words that need more than one line " * 4, style, wrap=True)
    qtbot.addWidget(label)
    height = label.heightForWidth(200)
    assert height % theme.line_height(style) == 0
    assert height > 2 * theme.line_height(style)
    assert label.heightForWidth(4000) == theme.line_height(style)


def test_a_word_longer_than_the_line_is_broken(qtbot: QtBot) -> None:
    label = Label("x" * 400, wrap=True)
    qtbot.addWidget(label)
    assert label.heightForWidth(200) > 5 * theme.line_height("ui")


def test_only_a_label_that_may_be_cut_can_be_narrower_than_its_text(qtbot: QtBot) -> None:
    whole, cut = Label("A long name"), Label("A long name", elide=True)
    for label in (whole, cut):
        qtbot.addWidget(label)
        label.resize(30, 20)
    assert whole.is_clipped()
    assert not cut.is_clipped()
    assert cut.minimumSizeHint().width() < whole.minimumSizeHint().width()


def test_foreign_lines_become_one_short_line() -> None:
    assert one_line("a\n\tb  c") == "a b c"
    assert len(one_line("word " * 10_000)) <= 400


def test_a_link_follows_enter_and_has_a_name(qtbot: QtBot) -> None:
    link = LinkButton("a folder", "Choose a model folder")
    qtbot.addWidget(link)
    assert link.accessibleName() == "Choose a model folder"
    with qtbot.waitSignal(link.clicked):
        qtbot.keyClick(link, Qt.Key.Key_Return)
