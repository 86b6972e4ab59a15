"""How many threads the next step runs on, from how long the last ones took. Knows times, not kernels.

A step is some hundred short parallel pieces, and each waits for its slowest thread. Where other programs take
cores, threads that share the remaining ones spin on each other: on two cores, steady load beside it took
decoding from 125 to between 0.2 and 10 tokens a second on two threads, and to between 20 and 60 on one. So a
step that suddenly takes several times as long is tried on half the threads.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

WINDOW = 4  # steps looked at together
COLLAPSE = 2.2  # times the usual step: a busy neighbour, not a longer context
RECOVERED = 1.5
QUICKER = 0.7  # half the threads must be clearly better to stay with them after the first steps
TRIAL = 2  # steps of a first trial on all threads, and on half of them
TRIAL_S = 0.2  # a slow model's steps are not tried more often than this allows
FIRST_RETRY_S, LAST_RETRY_S = 1.0, 16.0
_FORGET = 1.02  # the usual step may grow this much with each window, as the context does


class ThreadGovernor:
    """Told of every one-token step. ``set_threads`` is called when the number changes; ``clock`` is in s."""

    def __init__(self, threads: int, set_threads: Callable[[int], None], clock: Callable[[], float]) -> None:
        self.threads = threads
        self._full = threads
        self._half = max(1, threads // 2)
        self._set_threads = set_threads
        self._clock = clock
        self._usual_s: float | None = None  # a step on all threads with nobody in the way
        self._collapsed_s = 0.0
        self._steps: list[float] = []
        self._retry_s = FIRST_RETRY_S
        self._retry_at = 0.0
        self._is_retrying = False
        self._trial: list[float] | None = []  # first steps on all threads; None: the trial is over

    def reconsider(self) -> None:
        """Before a new answer: try all threads again if it is time, its prompt is worth them. A first trial
        that an answer left unfinished begins anew.
        """
        if self._trial is not None and self.threads != self._full:
            self._trial, self._steps = [], []
            self._change(self._full)
        if self._trial is None and self.threads != self._full and self._clock() >= self._retry_at:
            self._begin_retry()

    def observe(self, seconds: float) -> None:
        """Take the duration of one step; may change the number of threads for the next one. The first steps
        are tried on all threads and on half of them: the cores may be taken already.
        """
        if self._full == 1:
            return
        if self._trial is not None:
            self._try_out(self._trial, seconds)
            return
        self._steps.append(seconds)
        if len(self._steps) < WINDOW and not self._is_clear(seconds):
            return
        took, self._steps = median(self._steps), []
        if self.threads == self._full:
            self._judge_full(took)
        elif took > self._collapsed_s:  # fewer threads are no help: something else is slow
            self._usual_s = self._collapsed_s
            self._change(self._full)
        elif self._clock() >= self._retry_at:
            self._begin_retry()

    def _is_clear(self, seconds: float) -> bool:
        """Whether a part of a window is enough: slow steps are too dear to wait for more of them."""
        if self.threads != self._full or self._usual_s is None:
            return False
        if self._is_retrying:
            return seconds > COLLAPSE * self._usual_s
        return len(self._steps) > 1 and min(self._steps) > COLLAPSE * self._usual_s

    def _judge_full(self, took: float) -> None:
        usual = self._usual_s
        limit = RECOVERED if self._is_retrying else COLLAPSE
        if usual is None or took <= limit * usual:
            self._usual_s = took if usual is None else min(took, usual * _FORGET)
            self._is_retrying, self._retry_s = False, FIRST_RETRY_S
            return
        if self._is_retrying:
            self._retry_s = min(2 * self._retry_s, LAST_RETRY_S)
        self._fall_back(took)

    def _fall_back(self, took: float) -> None:
        self._is_retrying = False
        self._collapsed_s = took
        self._retry_at = self._clock() + self._retry_s
        self._change(self._half)

    def _begin_retry(self) -> None:
        self._is_retrying, self._steps = True, []
        self._change(self._full)

    def _try_out(self, on_full: list[float], seconds: float) -> None:
        """One of the first steps: those on all threads come first."""
        steps = on_full if self.threads == self._full else self._steps
        steps.append(seconds)
        if len(steps) < TRIAL and sum(steps) < TRIAL_S:
            return
        if steps is on_full:
            self._change(self._half)
            return
        full_s, half_s = min(on_full), min(self._steps)
        self._trial, self._steps = None, []
        self._usual_s = min(full_s, half_s)
        if half_s < QUICKER * full_s:
            self._fall_back(full_s)
        else:
            self._change(self._full)

    def _change(self, threads: int) -> None:
        self.threads = threads
        self._set_threads(threads)
