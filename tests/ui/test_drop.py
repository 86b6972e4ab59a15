"""Dragged files: what is a model, and what is said about the rest."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from ui.drop import Dropped, DropTarget, describe_drop, describe_refused, sort_urls


def urls(*paths: Path) -> list[QUrl]:
    return [QUrl.fromLocalFile(str(path)) for path in paths]


def touch(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


@pytest.mark.parametrize("name", ["a.gguf", "A.GGUF", "model.safetensors"])
def test_a_file_with_weights_is_a_model(tmp_path: Path, name: str) -> None:
    path = touch(tmp_path / name)
    assert sort_urls(urls(path)) == Dropped(str(path), (), ())


def test_a_folder_with_a_config_is_a_model(tmp_path: Path) -> None:
    touch(tmp_path / "m" / "config.json")
    assert sort_urls(urls(tmp_path / "m")).model == str(tmp_path / "m")


def test_a_folder_with_one_gguf_file_means_that_file(tmp_path: Path) -> None:
    path = touch(tmp_path / "m" / "only.gguf")
    assert sort_urls(urls(tmp_path / "m")).model == str(path)


def test_the_parts_of_a_split_model_are_one_model(tmp_path: Path) -> None:  # B031
    names = [f"m-0000{number}-of-00003.gguf" for number in (1, 2, 3)]
    parts = [touch(tmp_path / "m" / name) for name in (*names, "mmproj-m.gguf")][:3]
    assert sort_urls(urls(tmp_path / "m")).model == str(parts[0])
    assert sort_urls(urls(*reversed(parts))) == Dropped(str(parts[2]), (), ())
    other = touch(tmp_path / "m" / "other.gguf")
    assert sort_urls(urls(*parts, other)) == Dropped(str(parts[0]), ("other.gguf",), ())
    assert sort_urls(urls(tmp_path / "m")).model is None


def test_a_piece_cut_by_hand_goes_to_the_reader_that_explains_it(tmp_path: Path) -> None:  # B031
    piece = touch(tmp_path / "x.gguf.part1of2")
    assert sort_urls(urls(piece)).model == str(piece)


def test_a_folder_without_a_model_is_refused_by_name(tmp_path: Path) -> None:
    touch(tmp_path / "photos" / "a.jpg")
    assert sort_urls(urls(tmp_path / "photos")) == Dropped(None, (), ("photos",))


def test_the_first_model_counts_and_the_rest_is_named(tmp_path: Path) -> None:
    paths = [touch(tmp_path / name) for name in ("n.zip", "a.gguf", "b.gguf")]
    dropped = sort_urls([*urls(*paths), QUrl("https://example.org/c.gguf")])
    assert dropped == Dropped(str(paths[1]), ("b.gguf",), ("n.zip", "c.gguf"))
    title, detail = describe_drop(dropped)
    assert title == "Drop to load a.gguf"
    assert detail == "Left out: b.gguf, n.zip, c.gguf"


@pytest.mark.parametrize(
    "name", ["notes.txt", "a.py", "data.csv", "README", "chart.svg", "paper.pdf", "x.weird"]
)
def test_a_file_that_may_be_text_is_to_be_attached(tmp_path: Path, name: str) -> None:
    path = touch(tmp_path / name)
    assert sort_urls(urls(path)) == Dropped(None, (), (), (str(path),))
    assert describe_drop(sort_urls(urls(path))) == (f"Drop to attach {name}", "Text goes into this message")


@pytest.mark.parametrize("name", ["photo.JPG", "song.mp3", "film.mkv", "a.zip", "letter.docx", "b.tar.gz"])
def test_a_file_that_cannot_be_text_is_refused_before_the_release(tmp_path: Path, name: str) -> None:
    dropped = sort_urls(urls(touch(tmp_path / name)))
    assert dropped == Dropped(None, (), (name,))
    assert describe_drop(dropped)[0] == "This file cannot be used"


def test_models_and_texts_are_sorted_and_the_rest_is_named(tmp_path: Path) -> None:
    paths = [touch(tmp_path / name) for name in ("a.gguf", "n.txt", "m.md", "p.png")]
    title, detail = describe_drop(sort_urls(urls(*paths)))
    assert title == "Drop to add 1 model and 2 text files"
    assert detail == "The model is loaded, text goes into this message. Left out: p.png"


def test_many_names_are_counted_not_listed() -> None:
    names = tuple(f"{number}.txt" for number in range(9))
    assert "0.txt, 1.txt, 2.txt and 6 more" in describe_refused(Dropped(None, (), names)).text


@pytest.fixture
def window(qtbot: QtBot) -> QWidget:
    window = QWidget()
    window.resize(800, 600)
    qtbot.addWidget(window)
    window.show()
    return window


def enter(window: QWidget, data: QMimeData) -> QDragEnterEvent:
    actions, left = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton
    event = QDragEnterEvent(QPoint(50, 50), actions, data, left, Qt.KeyboardModifier.NoModifier)
    QApplication.sendEvent(window, event)
    return event


def drop(window: QWidget, data: QMimeData) -> QDropEvent:
    """As a source that prefers to move, and deletes the file where it is told that it was moved."""
    actions, left = Qt.DropAction.CopyAction | Qt.DropAction.MoveAction, Qt.MouseButton.LeftButton
    event = QDropEvent(QPointF(50, 50), actions, data, left, Qt.KeyboardModifier.NoModifier)
    event.setDropAction(Qt.DropAction.MoveAction)
    QApplication.sendEvent(window, event)
    return event


def test_the_overlay_says_what_a_release_will_do_and_leaves_with_the_pointer(
    window: QWidget, tmp_path: Path
) -> None:
    target = DropTarget(window)
    data = QMimeData()
    data.setUrls(urls(touch(tmp_path / "a.gguf")))
    assert enter(window, data).isAccepted()
    assert target.overlay.isVisible()
    assert target.overlay.accessibleName().startswith("Drop to load a.gguf")
    QApplication.sendEvent(window, QDragLeaveEvent())
    assert not target.overlay.isVisible()


def test_a_released_model_is_emitted_and_what_is_no_model_is_refused(
    window: QWidget, qtbot: QtBot, tmp_path: Path
) -> None:
    target = DropTarget(window)
    paths = [touch(tmp_path / name) for name in ("a.gguf", "n.txt", "p.png")]
    data = QMimeData()
    data.setUrls(urls(*paths))
    enter(window, data)
    with qtbot.waitSignals([target.model_dropped, target.texts_dropped, target.refused]):
        assert drop(window, data).dropAction() == Qt.DropAction.CopyAction
    assert target.overlay.isHidden()


def test_dragged_text_is_none_of_its_business(window: QWidget) -> None:
    target = DropTarget(window)
    data = QMimeData()
    data.setText("hello")
    assert not enter(window, data).isAccepted()
    assert target.overlay.isHidden()
