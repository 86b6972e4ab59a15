"""A segmented control: one chosen, one in use, keys move the choice, only the user's choices are told."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QFontMetricsF
from PySide6.QtWidgets import QPushButton, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from ui import theme
from ui.segmented import Choice, Segmented

CHOICES = (
    Choice("file", "4-bit", "0.11 GB", tooltip="As in the file"),
    Choice("bf16", "16-bit", "0.27 GB", "tight"),
    Choice("f32", "32-bit", "0.54 GB", "no"),
)


@pytest.fixture
def control(qtbot: QtBot) -> Segmented:
    widget = Segmented("Precision")
    qtbot.addWidget(widget)
    widget.set_choices(CHOICES, "file", "file")
    widget.resize(328, widget.sizeHint().height())
    with qtbot.waitExposed(widget):
        widget.show()
    return widget


def test_a_press_chooses_and_is_told_once(qtbot: QtBot, control: Segmented) -> None:
    with qtbot.waitSignal(control.chosen) as told:
        qtbot.mouseClick(control.segments[1], Qt.MouseButton.LeftButton)
    assert told.args == ["bf16"]
    assert control.chosen_key == "bf16"


def test_showing_a_view_tells_nothing(qtbot: QtBot, control: Segmented) -> None:
    with qtbot.assertNotEmitted(control.chosen):
        control.set_choices(CHOICES, "f32", "file")
    assert control.chosen_key == "f32"


def test_arrows_move_the_choice_and_stop_at_the_ends(qtbot: QtBot, control: Segmented) -> None:
    told: list[str] = []
    control.chosen.connect(told.append)
    qtbot.keyClick(control.segments[0], Qt.Key.Key_Left)
    qtbot.keyClick(control.segments[0], Qt.Key.Key_Right)
    qtbot.keyClick(control.segments[1], Qt.Key.Key_Right)
    qtbot.keyClick(control.segments[2], Qt.Key.Key_Right)
    assert told == ["bf16", "f32"]


def test_a_second_press_does_not_take_the_choice_away(qtbot: QtBot, control: Segmented) -> None:
    qtbot.mouseClick(control.segments[0], Qt.MouseButton.LeftButton)
    assert control.chosen_key == "file"


def test_segments_that_are_made_later_keep_their_place_for_tab(qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    column = QVBoxLayout(window)
    first, control, last = QPushButton(), Segmented("Precision"), QPushButton()
    for widget in (first, control, last):
        column.addWidget(widget)
    control.set_choices(CHOICES, "bf16", "file")
    with qtbot.waitExposed(window):
        window.show()
    window.activateWindow()
    first.setFocus()
    qtbot.keyClick(first, Qt.Key.Key_Tab)
    assert control.segments[1].hasFocus()
    qtbot.keyClick(control.segments[1], Qt.Key.Key_Tab)
    assert last.hasFocus()


def test_tab_reaches_the_chosen_segment_only(control: Segmented) -> None:
    policies = [segment.focusPolicy() & Qt.FocusPolicy.TabFocus for segment in control.segments]
    assert [bool(policy.value) for policy in policies] == [True, False, False]


def test_a_choice_that_is_not_listed_leaves_all_off_but_reachable(control: Segmented) -> None:
    control.set_choices(CHOICES, "gone", None)
    assert control.chosen_key is None
    assert control.segments[0].focusPolicy() & Qt.FocusPolicy.TabFocus


def test_names_say_size_fit_and_use(control: Segmented) -> None:
    names = [segment.accessibleName() for segment in control.segments]
    assert names == [
        "Precision, 4-bit, 0.11 GB, fits, in use",
        "Precision, 16-bit, 0.27 GB, fits tightly",
        "Precision, 32-bit, 0.54 GB, does not fit",
    ]


def test_an_option_that_does_not_fit_is_shown_in_red_and_can_be_chosen(
    qtbot: QtBot, control: Segmented
) -> None:
    image = control.segments[2].grab().toImage()
    colors = {image.pixelColor(x, y).name() for x in range(image.width()) for y in range(image.height())}
    assert theme.palette().bad.name() in colors
    with qtbot.waitSignal(control.chosen):
        qtbot.mouseClick(control.segments[2], Qt.MouseButton.LeftButton)


MANY = (
    *CHOICES[:2],
    Choice("nf4", "NF4", "needs CUDA", "off", "It runs on NVIDIA GPUs only."),
    Choice("int8", "8-bit", "0.14 GB"),
    Choice("f32", "32-bit", "0.54 GB"),
)


def test_what_is_off_says_why_and_cannot_be_chosen(qtbot: QtBot, control: Segmented) -> None:
    control.set_choices(MANY, "bf16", "file")
    off = control.segments[2]
    assert off.accessibleName() == "Precision, NF4, needs CUDA, cannot be used"
    assert "NVIDIA" in off.toolTip()
    with qtbot.assertNotEmitted(control.chosen):
        qtbot.mouseClick(off, Qt.MouseButton.LeftButton)
    with qtbot.waitSignal(control.chosen) as told:
        qtbot.keyClick(control.segments[1], Qt.Key.Key_Right)
    assert told.args == ["int8"]
    control.set_choices(CHOICES, "file", "file")
    assert all(segment.isEnabled() for segment in control.segments)


def test_a_note_is_named_explained_and_makes_all_segments_higher(control: Segmented) -> None:
    before = control.sizeHint().height()
    noted = Choice("bf16", "16-bit", "0.27 GB", tooltip="bfloat16", note="loss +1%", note_tooltip="A <loss>")
    control.set_choices((CHOICES[0], noted, CHOICES[2]), "file", "file")
    plain, segment, _ = control.segments
    assert segment.accessibleName() == "Precision, 16-bit, 0.27 GB, loss +1%, fits"
    assert segment.toolTip() == "<qt>bfloat16<br><br>A &lt;loss&gt;</qt>"
    assert plain.sizeHint().height() == segment.sizeHint().height()
    assert control.sizeHint().height() > before
    control.set_choices(CHOICES, "file", "file")
    assert control.sizeHint().height() == before


def test_notes_without_room_are_still_named(control: Segmented) -> None:
    before = control.sizeHint().height()
    noted = replace(CHOICES[0], note="loss +1%")
    control.set_choices((noted, *CHOICES[1:]), "file", "file", has_notes=False)
    assert control.sizeHint().height() == before
    assert "loss +1%" in control.segments[0].accessibleName()
    control.set_choices((noted, *CHOICES[1:]), "file", "file")
    assert control.sizeHint().height() == before + control.notes_height


def test_a_note_is_drawn_in_its_own_line_and_cut_where_it_is_too_long(control: Segmented) -> None:
    def inked_rows(note: str) -> set[int]:
        control.set_choices([*CHOICES[:2], replace(CHOICES[0], key="n", note=note)], "file", "file")
        segment = control.segments[2]
        segment.resize(100, segment.sizeHint().height())
        image = segment.grab().toImage()
        ground = image.pixelColor(8, 8)
        columns, rows = range(4, image.width() - 4), range(image.height())
        return {y for y in rows if any(image.pixelColor(x, y) != ground for x in columns)}

    noted, long = inked_rows("loss +1%"), inked_rows("a note that is far too long for a segment")
    assert max(noted) > max(inked_rows("")) and max(long) - max(noted) <= 4  # a descender lower at most


def lay_out(qtbot: QtBot, control: Segmented) -> None:
    qtbot.waitUntil(lambda: all(segment.isVisible() for segment in control.segments))
    control.resize(328, control.sizeHint().height())
    layout = control.layout()
    assert layout is not None
    layout.activate()


def test_more_than_four_stand_in_rows_of_three(qtbot: QtBot, control: Segmented) -> None:
    control.set_choices(MANY, "file", "file")
    lay_out(qtbot, control)
    assert len({segment.y() for segment in control.segments[:3]}) == 1
    assert control.segments[3].y() > control.segments[0].y()
    assert control.segments[3].x() == control.segments[0].x()
    widths = [segment.width() for segment in control.segments]
    assert max(widths) - min(widths) <= 1  # a pixel may be left over
    control.set_choices(CHOICES, "file", "file")
    lay_out(qtbot, control)
    assert len({segment.y() for segment in control.segments}) == 1
    assert control.segments[2].geometry().right() > 320


def test_segments_are_kept_while_their_number_stays(control: Segmented) -> None:
    before = control.segments
    control.set_choices(CHOICES[::-1], "file", "file")
    assert control.segments == before
    control.set_choices(CHOICES[:2], "file", "file")
    assert len(control.segments) == 2


def test_a_long_word_takes_room_from_the_short_ones_beside_it(qtbot: QtBot) -> None:
    made = Segmented("Drafting")
    qtbot.addWidget(made)
    made.resize(242, 28)  # what Tuning has for it
    made.set_choices([Choice(word, word) for word in ("Auto", "Aus", "N-Gramm", "Modell")], "Auto")
    made.show()
    metrics = QFontMetricsF(theme.font("ui", 600))
    for segment in made.segments:
        assert segment.width() >= metrics.horizontalAdvance(segment.choice.label) + 2
