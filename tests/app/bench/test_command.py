"""`decodeck bench` as a command: refusals, the settled JSON, and how it ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from app import cli
from app.bench import contenders
from app.bench.tables import goal_lines, ratio_lines, run_lines
from tests.app.bench.conftest import needs_llama_cpp

RUN_KEYS = (
    {"model", "format", "context", "kv_bits", "batch", "speculate", "prefill_tps", "ttft_s"}
    | {"per_request_tps", "total_tps", "predicted_tps", "bytes_per_token", "read_bandwidth_gbps"}
    | {"fraction_of_bandwidth", "memory_bytes", "rss_growth_bytes"}
)
RATIOS = {"decode_empty", "decode_2k", "prefill_512", "ttft", "load", "peak_memory"}
END_S = 20.0
Write = Callable[[str], Path]


def refusal(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """The one line that a refused command says, besides that a file is written."""
    try:
        code = cli.main(["bench", *arguments])
    except SystemExit as ended:  # argparse
        code = int(str(ended.code))
    out, said = capsys.readouterr()
    assert (code, out) == (2, "")
    lines = [line for line in said.strip().splitlines() if "writing" not in line]
    assert len(lines) == 1
    return lines[0]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--predict", "--context", "64"), "a context of its own"),
        (("--random", "9B:Q4_0"), "9B"),
        (("--random", "tiny:Q9"), "Q9"),
        (("--random", "tiny"), "Choose"),
        (("--random", "tiny:Q4_0", "--model", "x.gguf"), "not allowed with"),
        (("--random", "tiny:Q4_0", "--context", "many"), "--context many"),
        (("--random", "tiny:Q4_0", "--context", "-1"), "--context"),
        (("--random", "tiny:Q4_0", "--batch", "0"), "--batch 0"),
        (("--random", "tiny:Q4_0", "--batch", "1,65"), "--batch"),
        (("--random", "tiny:Q4_0", "--repeat", "0"), "--repeat 0"),
        (("--random", "tiny:Q4_0", "--format", "file,q9"), "q9"),
        (("--random", "tiny:Q4_0", "--format", ""), "--format '' names nothing"),
        (("--random", "tiny:Q4_0", "--format", "file,"), "--format 'file,' names nothing"),
        (("--random", "tiny:Q4_0", "--kv", "7"), "7"),
        (("--random", "tiny:Q4_0", "--device", "cuda:0"), "cuda:0"),
        (("--model", "/nowhere/m.gguf"), "no such file"),
        (("--offline",), "no model"),
        (("--against", "vllm"), "vllm"),
        (("--against", "llama-cpp", "--batch", "2"), "itself"),
        (("--against", "llama-cpp", "--format", "file,bf16"), "one format"),
        (("--roofline", "--against", "llama-cpp"), "not allowed with"),
        (("--roofline", "no_such_goal"), "no_such_goal"),
        (("--roofline", "--random", "1B:Q4_0"), "itself"),
        (("--roofline", "--kv", "32"), "itself"),
        (("--kernels", "--batch", "2"), "matrices alone"),
        (("--kernels", "--format", "file,bf16"), "one format"),
        (("--speculation", "--context", "0"), "chats of its own"),
        (("--speculation", "--batch", "2"), "chats of its own"),
        (("--speculation", "--format", "file,bf16"), "one format"),
        (("--speculation", "--quality"), "not allowed with"),
        (("--speculation", "--model", "/nowhere/m.gguf"), "no such file"),
        (("--speculation", "--random", "tiny:Q4_0", "--offline"), "starter"),
    ],
)
def test_what_the_user_can_mend_is_one_line_and_exit_code_2(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in refusal(capsys, *arguments)


@pytest.mark.parametrize("options", [("--against", "llama-cpp"), ("--roofline",)])
def test_a_missing_llama_cpp_is_said_with_what_to_install(
    options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(contenders.importlib.util, "find_spec", lambda _: None)
    assert "pip install llama-cpp-python" in refusal(capsys, *options)


@needs_llama_cpp
def test_a_folder_cannot_be_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "GGUF" in refusal(capsys, "--against", "llama-cpp", "--model", str(tmp_path))


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "app.cli", "bench", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)


def test_runs_have_the_settled_keys_and_figures_that_fit_together(tiny: Write) -> None:
    path = str(tiny("Q4_0"))
    options = ("--context", "0,64", "--batch", "1,2", "--repeat", "1", "--threads", "1", "--json")
    done = run("--model", path, *options)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert set(report) == {"hardware", "runs"}
    runs = report["runs"]
    assert [(each["context"], each["batch"]) for each in runs] == [(0, 1), (0, 2), (64, 1), (64, 2)]
    for each in runs:
        assert set(each) >= RUN_KEYS
        assert (each["model"], each["format"], each["speculate"]) == (path, "file", "off")
        assert each["predicted_tps"] > 0
        assert each["total_tps"] == pytest.approx(each["batch"] * each["per_request_tps"])
        assert 0 < each["ttft_s"] < 60 and each["read_bandwidth_gbps"] > 0
        used = each["total_tps"] * each["bytes_per_token"] / 1e9 / each["read_bandwidth_gbps"]
        assert each["fraction_of_bandwidth"] == pytest.approx(used)
    kv_bytes = 2 * 2 * 2 * 64 * 2
    assert runs[2]["bytes_per_token"] == runs[0]["bytes_per_token"] + 64 * kv_bytes
    assert runs[3]["bytes_per_token"] == runs[0]["bytes_per_token"] / 2 + 64 * kv_bytes
    assert runs[3]["memory_bytes"]["kv_used"] == 2 * 64 * kv_bytes
    is_cached = any(each["fraction_of_bandwidth"] > 1.05 for each in runs)  # a note says so
    assert run_lines(report)[0] == path and len(run_lines(report)) == 7 + is_cached


@pytest.mark.slow
@needs_llama_cpp
def test_a_comparison_has_the_settled_ratios(tiny: Write) -> None:
    done = run("--model", str(tiny("Q4_0")), "--against", "llama-cpp", "--repeat", "1", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert set(report["ratios"]) == RATIOS
    for name, ratio in report["ratios"].items():
        assert 0 < ratio["min"] <= ratio["median"] <= ratio["max"]
        medians = report["medians"][name]
        is_speed = medians["unit"] == "tok/s"
        expected = medians["ours"] / medians["theirs"] if is_speed else medians["theirs"] / medians["ours"]
        assert ratio["median"] == pytest.approx(expected)  # exact with one round
    assert len(ratio_lines(report)) == 1 + 1 + len(RATIOS) + 1


@pytest.mark.slow
def test_ctrl_c_ends_the_command_with_130_and_all_its_workers(tiny: Write) -> None:
    command = [sys.executable, "-m", "app.cli", "bench", "--model", str(tiny("Q4_0")), "--repeat", "100000"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as bench:
        assert bench.stderr is not None and bench.stdout is not None
        assert "measuring" in bench.stderr.readline()
        workers = psutil.Process(bench.pid).children(recursive=True)
        assert len(workers) == 2
        bench.send_signal(signal.SIGINT)
        assert bench.wait(END_S) == 130
        assert bench.stdout.read() == ""
    _, alive = psutil.wait_procs(workers, timeout=END_S)
    assert alive == []


@needs_llama_cpp
def test_the_worker_of_llama_cpp_has_no_torch() -> None:
    code = "import sys, app.bench.llama_peer; print('torch' in sys.modules, 'llama_cpp' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]


def test_a_table_of_goals_says_which_are_met() -> None:
    spread = {"median": 1.5, "min": 1.4, "max": 1.6}
    entry = {"name": "a", "goal": 1.2, "direction": "at least", "unit": "×", "note": "fine"}
    measured = entry | {"value": 1.5, "spread": spread, "met": True}
    missing = entry | {"name": "b", "value": None, "spread": None, "met": False, "note": "no window"}
    lines = goal_lines({"goals": [measured, missing]})
    assert "1.500" in lines[1] and "met" in lines[1] and "fine" in lines[1]
    assert "NOT MET" in lines[2] and "no window" in lines[2]
    assert lines[-1] == "1 of 2 goals met"
