"""Files that are attached to the message being written: read and counted beside the window, and made to fit.

What is attached is part of the composer's text; this knows neither chats nor how messages are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from PySide6.QtCore import QObject

from app.attachment_reader import read_attachment
from app.conversation import new_id
from app.counter import TokenCounter
from app.io_thread import IoThread
from engine.events import Failed
from engine.types import LoadPlan
from engine.words import tr
from ui import numbers
from ui.attachment_text import AttachedText, attached
from ui.main_window import MainWindow
from ui.values import NoticeAction, NoticeView

LANE = "attachments"
COUNT_LANE = "count"  # the counter lives there
MOST_FILES = 10  # of one message
TOO_LONG = "attachment-too-long"
ATTACH_PART, LEAVE_OUT, RAISE_CONTEXT = "attach-part", "leave-out", "raise-context"
ANSWER_SHARE = 4  # a part leaves a quarter of the context, or less, for the answer
ANSWER_TOKENS = 512
LEAST_PART = 32  # tokens; less of a file is of no use


@dataclass(slots=True)
class _Batch:
    """Files that came together: what was wrong is said at once."""

    left: int
    failures: list[Failed] = field(default_factory=list)


class AttachmentDesk(QObject):
    """``key`` names the chat that is shown; a file that was read after the user left it goes to ``keep``."""

    def __init__(
        self,
        window: MainWindow,
        io: IoThread,
        counter: TokenCounter,
        plan: Callable[[], LoadPlan | None],
        key: Callable[[], str | None],
        keep: Callable[[str | None, AttachedText], None],
    ) -> None:
        super().__init__()
        self._window = window
        self._io = io
        self._counter = counter
        self._plan = plan
        self._key = key
        self._keep = keep
        self._costs: dict[AttachedText, int] = {}
        self._costs_of = ""  # the path of the model that they are of
        self._waiting: set[AttachedText] = set()  # is being counted
        self._room = 0  # tokens for what does not fit
        self._needed = 0  # tokens of context for all of it, and for an answer
        self._excess = 0  # tokens that are too many
        self._settled: tuple[AttachedText, ...] = ()  # the user was asked about these already
        self._offered: AttachedText | None = None  # the one that does not fit
        window.composing.attach_requested.connect(self.attach)
        window.composing.files_changed.connect(self.count)
        window.notice_action.connect(self._on_notice_action)

    # Reading

    def attach(self, paths: list[str]) -> None:
        """Read files and attach them to the message that is being written now."""
        room = max(0, MOST_FILES - self._window.composing.num_files)
        taken, rest = paths[:room], paths[room:]
        batch = _Batch(len(taken))
        if rest:
            words = _too_many([Path(each).name for each in rest])
            batch.failures.append(Failed(None, "attachment", words, ""))
            if not taken:
                self._say_refused(batch)
        for path in taken:
            self._read(path, batch)

    def _read(self, path: str, batch: _Batch) -> None:
        key, chat = new_id(), self._key()
        self._window.composing.begin_reading(key, Path(path).name)

        def ended() -> None:
            self._window.composing.end_reading(key)
            batch.left -= 1
            if not batch.left and batch.failures:
                self._say_refused(batch)

        def done(file: AttachedText) -> None:
            if self._key() == chat:
                self._window.composing.add_file(file)
            else:
                self._keep(chat, file)
            ended()

        def failed(failure: Failed) -> None:
            batch.failures.append(failure)
            ended()

        self._io.submit(read_attachment, path, on_done=done, on_error=failed, lane=LANE)

    def _say_refused(self, batch: _Batch) -> None:
        """Each by its name, and what can be done about the first."""
        sentences = list(dict.fromkeys(each.message for each in batch.failures))
        hints = dict.fromkeys(each.hint for each in batch.failures if each.hint)
        text = " ".join([*sentences[1:], *hints])
        details = "\n".join(each.details for each in batch.failures if each.details)
        self._window.show_notice(NoticeView("warning", sentences[0], text, (), details))

    # Counting

    def count(self) -> None:
        """Count what was attached since the last time; a new model counts anew."""
        plan, files = self._plan(), self._window.composing.files
        if plan is not None and plan.model.path != self._costs_of:
            self._costs_of, self._costs, self._waiting = plan.model.path, {}, set()
        self._costs = {file: cost for file, cost in self._costs.items() if file in files}
        self._window.composing.set_costs(self._costs)
        if not files:
            self._window.clear_notice(TOO_LONG)
        if plan is None:
            return
        for file in files:
            if file not in self._costs and file not in self._waiting:
                self._waiting.add(file)
                self._count(file, plan.model.path)

    def _count(self, file: AttachedText, path: str) -> None:
        def done(tokens: int | None) -> None:
            if path != self._costs_of:
                return
            self._waiting.discard(file)
            if tokens is not None:
                self._costs[file] = tokens
                self._window.composing.set_costs(self._costs)

        self._io.submit(
            *(self._counter.count_text, path, file.text),
            on_done=done,
            on_error=lambda _: self._waiting.discard(file),
            lane=COUNT_LANE,
        )

    # Where it does not fit

    def check(self, tokens: int | None, context: int) -> None:
        """The chat was counted with the message: say what can be done where a file makes that too long."""
        files = self._window.composing.files
        excess = (tokens or 0) - context
        if not files or excess <= 0:
            self._window.clear_notice(TOO_LONG)
            return
        if files == self._settled or any(file not in self._costs for file in files):
            return
        self._settled = files
        reserve = min(ANSWER_TOKENS, context // ANSWER_SHARE)
        self._offered = file = self._too_long(files, excess)
        self._room = self._costs[file] - excess - reserve
        self._needed = context + excess + reserve
        self._excess = excess
        self._offer(file, excess)

    def _too_long(self, files: Sequence[AttachedText], excess: int) -> AttachedText:
        """The first one that does not fit beside those before it: what came later is not to blame."""
        later = 0
        for file in reversed(files):
            later += self._costs[file]
            if later >= excess:
                return file
        return files[0]

    def _offer(self, file: AttachedText, excess: int) -> None:
        actions = [NoticeAction(LEAVE_OUT, tr("Leave it out"))]
        cost, excess_words = numbers.count(self._costs[file]), numbers.count(excess)
        text = tr("It has {tokens} tokens, {excess} too many.").format(tokens=cost, excess=excess_words)
        lack = self._window.lack_of_room(self._needed)
        if lack:
            text = f"{text} {lack}"
        else:
            actions.append(NoticeAction(RAISE_CONTEXT, tr("Raise the context")))
        if self._room >= LEAST_PART:
            actions.insert(0, NoticeAction(ATTACH_PART, tr("Attach the beginning")))
            part = tr("Its first {tokens} fit and leave room for an answer.")
            text = f"{text} {part.format(tokens=numbers.count(self._room))}"
        title = tr("{file} does not fit into the context.").format(file=file.name)
        self._window.show_notice(NoticeView("warning", title, text, tuple(actions), key=TOO_LONG))

    def _on_notice_action(self, action: str) -> None:
        files, plan, file = self._window.composing.files, self._plan(), self._offered
        if action not in (ATTACH_PART, LEAVE_OUT, RAISE_CONTEXT) or file not in files:
            return
        self._window.clear_notice(TOO_LONG)
        if action == LEAVE_OUT:
            place = files.index(file)
            self._window.composing.set_files((*files[:place], *files[place + 1 :]))
        elif action == RAISE_CONTEXT and self._window.lack_of_room(self._needed):
            self._offer(file, self._excess)  # what was free a moment ago is not any more
        elif action == RAISE_CONTEXT:
            self._window.make_room(self._needed)
        elif plan is not None:
            self._cut(file, plan.model.path)

    def _cut(self, file: AttachedText, path: str) -> None:
        """Put the beginning that fits in the place of a file."""
        cost, chat = self._costs.get(file, 0), self._key()

        def done(text: str) -> None:
            files = self._window.composing.files
            if self._key() != chat or file not in files:
                return
            share = max(1, round(100 * len(text) / max(1, len(file.text))))
            part = attached(file.name, text, f"the first {share}%")
            self._window.composing.set_files(tuple(part if each == file else each for each in files))

        if cost:
            self._io.submit(
                *(self._counter.beginning, path, file.text, self._room), on_done=done, lane=COUNT_LANE
            )


def _too_many(left_out: list[str]) -> str:
    """Names the first of the files that one message has no room for."""
    names, more = ", ".join(left_out[:3]), len(left_out) - 3
    if more > 0:
        words = tr("At most {most} files go with one message; left out: {names} and {count} more.")
    else:
        words = tr("At most {most} files go with one message; left out: {names}.")
    return words.format(most=MOST_FILES, names=names, count=more)
