"""Fewer threads where they stumble over each other, all of them again when the way is free."""

from __future__ import annotations

from engine.decode.governor import LAST_RETRY_S, TRIAL, WINDOW, ThreadGovernor

FREE, CROWDED, HALF = 0.008, 0.200, 0.016


class Machine:
    """Steps take what the load allows on the threads that the governor chose."""

    def __init__(self, threads: int = 2) -> None:
        self.now = 0.0
        self.is_crowded = False
        self.changes: list[int] = []
        self.step_s = {True: {threads: CROWDED}, False: {threads: FREE}}
        self.governor = ThreadGovernor(threads, self.changes.append, lambda: self.now)

    def open(self) -> None:
        """The first steps on all threads and on half of them, and forget those changes."""
        for _ in range(2 * TRIAL):
            self.step()
        self.changes.clear()

    def step(self) -> None:
        took = self.step_s[self.is_crowded].get(self.governor.threads, HALF)
        self.now += took
        self.governor.observe(took)

    def run(self, seconds: float) -> int:
        """Decode for ``seconds``; returns the number of tokens."""
        end, count = self.now + seconds, 0
        while self.now < end:
            self.step()
            count += 1
        return count


def test_a_free_machine_keeps_all_threads() -> None:
    machine = Machine()
    machine.run(20)
    assert machine.changes == [1, 2]  # the first steps tried both


def test_a_crowded_machine_decodes_near_the_speed_of_half_the_threads() -> None:
    machine = Machine()
    machine.run(2)
    machine.is_crowded = True
    tokens = machine.run(60)
    assert machine.governor.threads in (1, 2)
    assert tokens > 0.85 * 60 / HALF


def test_all_threads_come_back_soon_after_the_load_has_gone() -> None:
    machine = Machine()
    machine.run(2)
    machine.is_crowded = True
    machine.run(60)
    machine.is_crowded = False
    machine.run(LAST_RETRY_S + 2)
    assert machine.governor.threads == 2


def test_a_longer_context_is_no_crowd() -> None:
    machine = Machine()
    machine.open()
    for _ in range(400 * WINDOW):
        machine.step_s[False][2] *= 1.002
        machine.now += 1
        machine.governor.observe(machine.step_s[False][2])
    assert machine.changes == []


def test_where_fewer_threads_are_no_help_all_are_used_again() -> None:
    machine = Machine()
    machine.open()
    machine.run(2)
    machine.step_s = {True: {2: CROWDED, 1: 2 * CROWDED}, False: {2: FREE}}
    machine.is_crowded = True
    machine.run(30)
    assert machine.changes == [1, 2]
    assert machine.governor.threads == 2


def test_cores_that_are_taken_from_the_start_are_noticed() -> None:
    machine = Machine()
    machine.is_crowded = True
    machine.open()
    assert machine.governor.threads == 1
    machine.is_crowded = False
    machine.run(LAST_RETRY_S + 2)
    assert machine.governor.threads == 2


def test_a_free_machine_begins_with_all_threads() -> None:
    machine = Machine()
    machine.open()
    assert machine.governor.threads == 2


def test_a_new_answer_tries_all_threads_when_it_is_time() -> None:
    machine = Machine()
    machine.run(2)
    machine.is_crowded = True
    machine.run(5)
    machine.is_crowded = False
    machine.now += 600  # idle
    machine.governor.reconsider()
    assert machine.governor.threads == 2


def test_very_slow_steps_are_judged_after_two_and_a_retry_after_one() -> None:
    machine = Machine()
    machine.run(2)
    machine.step_s[True][2] = 5.0
    machine.is_crowded = True
    began = machine.now
    while machine.governor.threads == 2:
        machine.run(1)
    assert machine.now - began <= 10.1
    assert machine.run(120) > 0.6 * 120 / HALF


def test_one_thread_is_left_alone() -> None:
    machine = Machine(threads=1)
    machine.run(2)
    machine.is_crowded = True
    machine.run(10)
    assert machine.changes == []


def test_an_answer_too_short_for_the_first_trial_leaves_all_threads_to_the_next() -> None:
    machine = Machine()
    for _ in range(TRIAL + 1):
        machine.step()
    assert machine.governor.threads == 1
    machine.governor.reconsider()
    assert machine.governor.threads == 2
