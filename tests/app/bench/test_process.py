"""The protocol between a bench and its workers, and how workers end."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from app.bench.process import Worker, WorkerError
from engine.errors import EngineError

ROOT = Path(__file__).resolve().parents[3]
MODULE = "tests.app.bench.echo_worker"
END_S = 20.0


@pytest.fixture(autouse=True)
def _workers_of_tests_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program starts modules that are installed, whatever the current folder."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


@pytest.fixture
def worker() -> Iterator[Worker]:
    with Worker(MODULE, "echo") as made:
        yield made


def test_commands_are_answered_in_order(worker: Worker) -> None:
    assert [worker.ask("echo", number=number) for number in range(3)] == [{"number": n} for n in range(3)]


def test_a_refusal_keeps_its_kind_and_hint_and_the_worker_goes_on(worker: Worker) -> None:
    with pytest.raises(EngineError) as caught:
        worker.ask("refuse")
    assert (caught.value.kind, caught.value.message, caught.value.hint) == ("setting", "No.", "Ask for less.")
    assert worker.ask("echo", still="here") == {"still": "here"}


def test_a_fault_of_the_worker_names_worker_and_fault(worker: Worker) -> None:
    with pytest.raises(WorkerError, match="echo worker failed: ZeroDivisionError: by zero"):
        worker.ask("fail")


def test_what_libraries_print_does_not_reach_the_answers(worker: Worker) -> None:
    assert worker.ask("chatter") == {"done": True}
    assert worker.ask("echo", a=1) == {"a": 1}


def test_a_worker_that_dies_is_told_with_its_code_and_last_words(worker: Worker) -> None:
    with pytest.raises(WorkerError, match=r"exit code 3.*last words"):
        worker.ask("die", code=3)
    with pytest.raises(WorkerError):
        worker.ask("echo")


def test_a_worker_that_was_killed_is_told_with_the_signal(worker: Worker) -> None:
    worker.ask("echo")
    psutil.Process(worker.pid).kill()
    with pytest.raises(WorkerError, match="signal 9"):
        worker.ask("echo")


def test_a_module_that_cannot_start_is_told() -> None:
    with (
        Worker("tests.app.bench.no_such_worker", "missing") as worker,
        pytest.raises(WorkerError, match="No module"),
    ):
        worker.ask("echo")


def test_quit_is_answered_and_ends_the_process(worker: Worker) -> None:
    process = psutil.Process(worker.pid)
    assert worker.ask("quit") == {}
    assert process.wait(END_S) == 0


def test_closing_ends_a_worker_in_the_middle_of_a_command(worker: Worker) -> None:
    process = psutil.Process(worker.pid)
    worker.ask("echo")
    assert worker._process.stdin is not None
    worker._process.stdin.write(json.dumps({"do": "hang"}) + "\n")
    worker._process.stdin.flush()
    worker.close()
    worker.close()
    assert not process.is_running()


def test_ctrl_c_is_left_to_the_asker(worker: Worker) -> None:
    worker.ask("echo")
    psutil.Process(worker.pid).send_signal(signal.SIGINT)
    assert worker.ask("echo", a=1) == {"a": 1}


def test_a_worker_ends_with_an_asker_that_is_killed() -> None:
    code = (
        "from app.bench.process import Worker\n"
        f"worker = Worker({MODULE!r}, 'echo')\n"
        "worker.ask('echo')\n"
        "print(worker.pid, flush=True)\n"
        "worker.ask('hang')\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as asker:
        assert asker.stdout is not None
        worker = psutil.Process(int(asker.stdout.readline()))
        asker.kill()
    _, alive = psutil.wait_procs([worker], timeout=END_S)
    assert alive == []
