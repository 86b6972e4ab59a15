"""The menus of the transcript: what can be done with a piece of a message, and where a link leads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMenu

from engine.words import tr
from ui.blocks import Item
from ui.code_block import COPY, CodeItem
from ui.link_dialog import LinkDialog

if TYPE_CHECKING:
    from ui.transcript import Transcript


def piece_menu(transcript: Transcript, item: Item | None, link: str = "") -> QMenu:
    """The context menu for a piece; without one, for the chat."""
    menu = _new_menu(transcript)
    text = transcript.selected_text()
    chosen = menu.addAction(tr("Copy"))
    chosen.setEnabled(bool(text))
    chosen.triggered.connect(lambda: transcript.copy(text))
    source = transcript.selection.markdown(transcript.flow.items)
    marked = menu.addAction(tr("Copy as Markdown"))
    marked.setEnabled(bool(text))
    marked.triggered.connect(lambda: transcript.copy(source))
    menu.addAction(tr("Select all")).triggered.connect(transcript.select_all)
    if item is not None:
        owner = item.owner
        menu.addAction(tr("Copy message")).triggered.connect(lambda: transcript.copy_message(owner))
        menu.addAction(tr("Edit")).triggered.connect(lambda: transcript.edit_clicked.emit(owner))
        is_raw = transcript.is_raw(owner)
        if is_raw is not None:
            words = tr("Show formatted") if is_raw else tr("Show raw text")
            menu.addAction(words).triggered.connect(lambda: transcript.toggle_raw(owner))
        if transcript.is_answer(owner):
            regenerate = menu.addAction(tr("Regenerate"))
            regenerate.triggered.connect(lambda: transcript.regenerate_clicked.emit(owner))
        if transcript.can_go_on(owner):
            go_on = menu.addAction(tr("Continue"))
            go_on.triggered.connect(lambda: transcript.continue_clicked.emit(owner))
    if isinstance(item, CodeItem):
        code = item.source
        copy = menu.addAction(tr("Copy code"))
        copy.triggered.connect(lambda: transcript.copy(code.text(), code, COPY))
    if link:
        menu.addAction(tr("Open link…")).triggered.connect(lambda: ask_about_link(transcript, link))
        menu.addAction(tr("Copy link")).triggered.connect(lambda: transcript.copy(link))
    return menu


def ask_about_link(transcript: Transcript, href: str) -> LinkDialog:
    """Shows where a link leads; it is opened only when that is agreed to."""
    dialog = LinkDialog(href, transcript)
    dialog.agreed.connect(transcript.link_clicked)
    dialog.open()
    return dialog


def _new_menu(transcript: Transcript) -> QMenu:
    menu = QMenu(transcript)
    menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    return menu
