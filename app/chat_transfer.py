"""Chats out to files and in from files, in the background: what came, and what was left out, is said at
the end.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject

from app import chat_export
from app.atomic_file import StorageError, write_atomic
from app.conversation import Conversation, new_id, shown_title
from app.imports.reader import Problem, read_chats
from app.imports.shapes import ImportedChat
from app.io_thread import IoThread
from app.store import Chat, Folder, Store
from app.store_lane import Reads, StoreLane
from engine.events import Failed
from engine.words import tr
from ui import numbers
from ui.main_window import MainWindow
from ui.values import NoticeAction, NoticeView

if TYPE_CHECKING:
    from app.chat_desk import ChatDesk

CANCEL_IMPORT, IMPORT = "cancel-import", "import"
IMPORT_LANE = "import"
_BATCH = 20  # chats that are stored with one job
_MOST_LINES = 200  # of what is said in full


@dataclass(slots=True)
class _Import:
    """One import as it goes on."""

    is_cancelled: bool = False
    new: int = 0
    grown: int = 0  # chats that were here and got more
    same: int = 0
    turns: int = 0
    came: str = ""  # the id of the last one that is new or has grown
    problems: list[Problem] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    folders: dict[str, str] = field(default_factory=dict)  # id by name


class ChatTransfer(QObject):
    """Exports and imports; one import at a time."""

    def __init__(self, window: MainWindow, io: IoThread, store: StoreLane, chats: ChatDesk) -> None:
        super().__init__()
        self._window = window
        self._io = io
        self._store = store
        self._chats = chats
        self._running: _Import | None = None
        window.chats.export_requested.connect(self.export)
        window.chats.import_requested.connect(self.begin_import)

    # Out

    def export(self, chat_id: str, kind: str, path: str) -> None:
        """Write a chat ("" for all of them) to ``path``, as "md" or "json"."""
        target = Path(path)
        known = {folder_id: row.name for folder_id, row in self._folders().items()}
        chat, conversation = self._chats.library.list.get(chat_id), self._chats.conversations.get(chat_id)
        turns = conversation.turns() if conversation else None
        active_id = conversation.active_id if conversation else None

        def work(reader: Reads) -> int:
            chosen = [chat] if chat else [] if chat_id else list(reader.list_chats())
            if chat and active_id:
                chosen = [replace(chat, active_id=active_id)]
            read = [(each, turns if turns is not None else reader.messages(each.id)) for each in chosen]
            if kind == "md":
                text = "\n".join(
                    chat_export.markdown(each, Conversation(each.id, its, each.active_id))
                    for each, its in read
                )
            else:
                text = chat_export.as_json(read, known, time.time())
            write_atomic(target, text.encode("utf-8", "replace"))
            return len(read)

        def done(count: int) -> None:
            self._say("info", _written_sentence(None if chat_id else count, target.name))

        def failed(failure: Failed) -> None:
            self._say("error", tr("The export failed."), f"{failure.message} {failure.hint}", failure.details)

        self._store.read(work, done, failed)

    def _folders(self) -> dict[str, Folder]:
        chats = self._chats.library.list
        folders = (chats.folder(row.folder_id) for row in chats.folder_rows())
        return {folder.id: folder for folder in folders if folder}

    # In

    def begin_import(self, paths: Sequence[str]) -> None:
        """Read files and archives of chats, then store what is in them, a few chats at a time."""
        if self._running is not None:
            return
        running = self._running = _Import()
        running.folders = {folder.name: folder.id for folder in self._folders().values()}
        names = ", ".join(Path(path).name for path in paths)
        self._progress(tr("Reading {names}…").format(names=names))

        def work() -> tuple[list[ImportedChat], list[Problem]]:
            found = [each for path in paths for each in read_chats(Path(path), lambda: running.is_cancelled)]
            return (
                [each for each in found if isinstance(each, ImportedChat)],
                [each for each in found if isinstance(each, Problem)],
            )

        def done(result: tuple[list[ImportedChat], list[Problem]]) -> None:
            running.problems += result[1]
            self._store_next(running, result[0], 0)

        def failed(failure: Failed) -> None:
            running.problems.append(Problem(names, failure.message))
            self._end(running)

        self._io.submit(work, on_done=done, on_error=failed, lane=IMPORT_LANE)

    def cancel(self) -> None:
        """Stop after the chats that are being stored; those that are here stay."""
        if self._running is not None:
            self._running.is_cancelled = True

    def _store_next(self, running: _Import, chats: list[ImportedChat], start: int) -> None:
        batch = chats[start : start + _BATCH]
        if running.is_cancelled or not batch:
            self._end(running)
            return
        if len(chats) > _BATCH:
            words = tr("Importing chats: {done} of {total}")
            self._progress(words.format(done=start, total=len(chats)))
        in_folders = [self._in_folder(running, each) for each in batch]

        def work(store: Store) -> list[int | Problem | None]:
            return [_import(store, chat, each) for chat, each in zip(in_folders, batch, strict=True)]

        def done(results: list[int | Problem | None]) -> None:
            for each, result in zip(batch, results, strict=True):
                self._count(running, each, result)
            self._store_next(running, chats, start + _BATCH)

        def failed(failure: Failed) -> None:
            running.problems.append(Problem(tr("the chats"), failure.message))
            self._end(running)

        self._store.run(work, done, failed)

    def _in_folder(self, running: _Import, imported: ImportedChat) -> Chat:
        """The chat, in the folder of the name it had; a new folder where there is none."""
        name = imported.folder
        if not name:
            return imported.chat
        if name not in running.folders:
            folder = Folder(new_id(), name, time.time())
            running.folders[name] = folder.id
            self._chats.library.list.put_folder(folder)
            self._store.run(lambda store: store.add_folder(folder))
        return replace(imported.chat, folder_id=running.folders[name])

    def _count(self, running: _Import, each: ImportedChat, result: int | Problem | None) -> None:
        if isinstance(result, Problem):
            running.problems.append(result)
            return
        running.left_out.update(each.left_out)
        if result is None:
            running.same += 1
            return
        was_here = each.chat.id in self._chats.library.list
        running.grown += was_here
        running.new += not was_here
        running.turns += result
        running.came = each.chat.id
        if was_here and not self._chats.is_in_use(each.chat.id):
            self._chats.conversations.pop(each.chat.id, None)  # read again when it is shown

    def _end(self, running: _Import) -> None:
        self._running = None

        def done(listed: tuple[tuple[Chat, ...], tuple[Folder, ...]]) -> None:
            self._chats.library.list.load(*listed)
            self._chats.library.show()
            self._show_what_came(running)
            self._window.show_notice(_result(running))

        def failed(failure: Failed) -> None:
            self._store.failed.emit(failure)
            self._window.show_notice(_result(running))

        self._store.visit(lambda store: (store.list_chats(), store.folders()), done, failed)

    def _show_what_came(self, running: _Import) -> None:
        """Open the chat where just one came; else the shown one, which may have got more, is read again."""
        shown = self._chats.current_id
        if running.new + running.grown == 1:
            shown = running.came
            self._window.show_chat_page()
        if shown is not None:
            self._chats.select(shown)

    def _progress(self, title: str) -> None:
        cancel = NoticeAction(CANCEL_IMPORT, tr("Cancel"))
        self._window.show_notice(NoticeView("info", title, "", (cancel,), key=IMPORT))

    def _say(self, kind: str, title: str, text: str = "", details: str = "") -> None:
        self._window.show_notice(NoticeView(kind, title, text, (), details))


def _import(store: Store, chat: Chat, imported: ImportedChat) -> int | Problem | None:
    """All of a chat or nothing; the next one is tried all the same."""
    try:
        return store.import_chat(chat, imported.turns)
    except StorageError as error:
        return Problem(f'"{shown_title(chat.title)}"', error.message.rstrip("."))


def _written_sentence(count: int | None, file: str) -> str:
    """That so many of all chats were written; None is the one that was asked for."""
    if count is None:
        words = tr("The chat was written to {file}.")
    elif count == 1:
        words = tr("1 chat was written to {file}.")
    else:
        words = tr("{count} chats were written to {file}.")
    return words.format(count=numbers.count(count), file=file)


def _result(running: _Import) -> NoticeView:
    """What came and what did not."""
    came = _came(running)
    title = f"{', '.join(came)}." if came else tr("No chat was imported.")
    text = [tr("%n message(s) in all.", "", running.turns)] if running.turns else []
    if left := _left(running):
        text.append(tr("Left out: {list}.").format(list=", ".join(left)))
    if running.is_cancelled:
        text.append(tr("The import was stopped; what came before stays."))
    said = running.problems[:_MOST_LINES]
    lines = [tr("{name}: {reason}.").format(name=each.name, reason=each.reason) for each in said]
    if len(running.problems) > _MOST_LINES:
        more = numbers.count(len(running.problems) - _MOST_LINES)
        lines.append(tr("… and {count} more.").format(count=more))
    if len(lines) == 1:
        text.append(lines[0])
    is_fine = bool(came) and not running.problems
    return NoticeView("info" if is_fine else "warning", title, " ".join(text), (), "\n".join(lines))


def _came(running: _Import) -> list[str]:
    came = []
    if running.new:
        came.append(tr("%n chat(s) imported", "", running.new))
    if running.grown:
        came.append(tr("%n chat(s) got new messages", "", running.grown))
    if running.same == 1:
        came.append(tr("1 chat was here already"))
    elif running.same:
        came.append(tr("{count} chats were here already").format(count=numbers.count(running.same)))
    return came


def _left(running: _Import) -> list[str]:
    """What was left out, each kind with how many there were of it."""
    found = sorted(running.left_out.items())
    left = [f"{tr(what)} ({numbers.count(count)})" for what, count in found if count]
    if len(running.problems) == 1:
        left.append(tr("1 file or chat"))
    elif running.problems:
        left.append(tr("{count} files or chats").format(count=numbers.count(len(running.problems))))
    return left
