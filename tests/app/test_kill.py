"""A program that is killed while an answer is written loses at most the last second of it, and never the
file.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

from app.chat_file import link
from app.conversation import Conversation
from app.running_answer import turn_view
from app.store import Store
from tests.app.streaming_child import PROMPT, STEP_S, words
from ui.message import MessageItems

ROOT = Path(__file__).parents[2]
SIGNALS_A_SAVE = round(1 / STEP_S) + 1  # texts that may come between two times an answer is stored


def stream_and_kill(output: IO[bytes], num_lines: int) -> int:
    """Read so many lines of an answer, kill the program that writes it, and read the rest.

    Returns how many characters it has said to be stored.
    """
    pid = since_asked = saved = 0
    while True:
        word, number = output.readline().decode().split()
        if word == "end":
            assert not num_lines, "the program ended by itself"
            return saved
        pid = int(number) if word == "pid" else pid
        since_asked = since_asked + 1 if word == "shown" else 0 if word == "asked" else since_asked
        assert since_asked <= SIGNALS_A_SAVE
        saved = max(saved, int(number)) if word == "saved" else saved
        num_lines = max(0, num_lines - 1)
        if pid and not num_lines:
            with contextlib.suppress(ProcessLookupError):  # it is dead, and its last lines are still coming
                os.kill(pid, signal.SIGKILL)


def check_what_is_left(home: Path, saved: int) -> None:
    """The file is whole, the question is there, and of the answer all but the last second; it can go on."""
    path = home / "chats.db"
    with contextlib.closing(link(str(path))) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    with contextlib.closing(Store(path)) as store:
        assert (store.notice, store.read_only_reason) == (None, None)
        [chat] = store.list_chats()
        question, answer = Conversation(chat.id, store.messages(chat.id), chat.active_id).path()
        store.tidy()
        assert [hit.chat_id for hit in store.find("until")] == [chat.id]
    assert question.content == PROMPT
    whole = "".join(word for word, _ in zip(words(), range(100_000), strict=False))
    assert whole.startswith(answer.content)
    assert len(answer.content) >= saved
    assert answer.status == "failed"
    if answer.content:
        message = MessageItems(turn_view(Conversation(chat.id, [answer]), answer))
        while message.has_unread:
            message.refresh()
        assert message.can_go_on


def kill_often(tmp_path: Path, times: int, seed: int) -> None:
    chance = random.Random(seed)
    homes = [tmp_path / str(number) for number in range(times)]
    command = [sys.executable, "-m", "tests.app.streaming_child", *map(str, homes)]
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE) as programs:
        assert programs.stdout is not None
        for home in homes:
            check_what_is_left(home, stream_and_kill(programs.stdout, chance.randrange(2, 60)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_ten_kills_while_an_answer_is_written(tmp_path: Path) -> None:  # B084, B087
    kill_often(tmp_path, 10, 1)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_hundred_kills_while_an_answer_is_written(tmp_path: Path) -> None:  # B084, B087
    kill_often(tmp_path, 100, 2)
