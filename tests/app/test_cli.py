"""The command line as a process: exit codes, one line on standard error, one object on standard output."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from app import cli, paths, settings
from app.settings import Settings
from engine.errors import WishError
from engine.native import library
from engine.types import LoadSpec
from tests.engine.tiny import tiny_folder

KEYS = (
    {"text", "token_ids", "prompt_tokens", "reused_tokens", "generated_tokens", "ttft_s", "prefill_tps"}
    | {"decode_tps", "finish_reason", "drafted", "accepted", "predicted", "model", "format", "weight_bits"}
    | {"kernels", "context", "kv_bits", "device", "memory_bytes", "rss_bytes"}
)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("tiny") / "Tiny-Instruct")


def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "app.cli", *arguments]
    return subprocess.run(command, capture_output=True, text=True, input=stdin, timeout=120, check=False)


def test_chat_streams_text_and_nothing_else(model: Path) -> None:
    done = run("chat", "hello", "--model", str(model), "--max-tokens", "5", "--seed", "1")
    assert done.returncode == 0
    assert done.stdout.endswith("\n")
    missing = library.why_missing()
    assert done.stderr == (f"decodeck: {missing}\n" if missing else "")


def test_chat_says_in_one_line_what_is_lost_without_native_kernels(
    model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(library.VARIABLE, "off")
    done = run("chat", "hello", "--model", str(model), "--max-tokens", "2", "--json")
    assert "decodeck" not in json.loads(done.stdout)["kernels"]
    assert done.stderr.count("\n") == 1
    assert "slower" in done.stderr


def test_json_is_one_object_with_the_settled_keys(model: Path) -> None:
    options = (
        "--max-tokens",
        "6",
        "--temperature",
        "0",
        "--format",
        "32",
        "--context",
        "128",
        "--threads",
        "1",
    )
    done = run("chat", "-", "--model", str(model), "--json", *options, stdin="hello")
    report = json.loads(done.stdout)
    assert set(report) >= KEYS
    assert report["generated_tokens"] == len(report["token_ids"]) <= 6
    assert (report["format"], report["context"], report["kv_bits"], report["device"]) == (
        "f32",
        128,
        32,
        "cpu",
    )
    assert (report["drafted"], report["accepted"], report["predicted"]) == (None, None, None)
    parts = report["memory_bytes"]
    assert set(parts) == {"weights", "kv_reserved", "kv_used", "working", "overhead", "total"}
    assert parts["total"] == parts["weights"] + parts["kv_reserved"] + parts["working"] + parts["overhead"]


def test_the_same_seed_gives_the_same_tokens(model: Path) -> None:
    runs = [
        json.loads(
            run("chat", "hello", "--model", str(model), "--seed", "3", "--max-tokens", "8", "--json").stdout
        )
        for _ in range(2)
    ]
    assert runs[0]["token_ids"] == runs[1]["token_ids"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("chat", "hi", "--model", "/nowhere/m.gguf"), "no such file"),
        (("chat", "hi", "--model", __file__), "not a GGUF"),
        (("chat", ""), "empty"),
        (("chat", "hi", "--speculate", "ngram"), "--speculate"),
        (("chat", "hi", "--logprobs", "3"), "--logprobs"),
        (("chat", "hi", "--temperature", "warm"), "--temperature"),
        (("chat", "hi", "--temperature", "nan"), "nan"),
        (("chat", "hi", "--max-tokens", "0"), "--max-tokens"),
        (("chat",), "PROMPT"),
        (("bench", "--predict"), "--predict"),
        (("chat", "hi", "--set", "no_such=1"), "no_such"),
        (("chat", "hi", "--offline"), "no model"),
        (("fetch", "--offline"), "--offline"),
        (("fetch", "--model", "x.gguf"), "--model"),
        (("--json",), "--json"),
    ],
)
def test_what_the_user_can_mend_is_one_line_and_exit_code_2(arguments: tuple[str, ...], words: str) -> None:
    done = run(*arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert len(done.stderr.strip().splitlines()) == 1
    assert words in done.stderr


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (("--format", "int8"), "int8"),
        (("--format", "q9"), "q9"),
        (("--kv", "8"), "8"),
        (("--kv", "x"), "x"),
        (("--device", "cuda:0"), "cuda:0"),
        (("--context", "1"), "1"),
        (("--context", "99999999999"), "does not fit"),
        (("--threads", "0"), "0"),
    ],
)
def test_a_choice_that_does_not_exist_is_refused_and_never_ignored(
    option: tuple[str, ...], words: str, model: Path
) -> None:
    done = run("chat", "hi", "--model", str(model), *option)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stdout == ""


def test_a_prompt_longer_than_the_context_names_both_numbers(model: Path) -> None:  # B072
    done = run("chat", "x" * 300, "--model", str(model), "--context", "64")
    assert done.returncode == 2
    assert "64" in done.stderr
    assert done.stdout.strip() == ""


def test_a_fault_of_ours_is_logged_and_exit_code_1(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "model_path", lambda _: 1 / 0)
    assert cli.main(["chat", "hi"]) == 1
    said = capsys.readouterr().err
    assert "Traceback" not in said
    log = next(paths.log_dir().iterdir())
    assert str(log) in said
    assert "ZeroDivisionError" in log.read_text()


def test_an_interrupt_is_exit_code_130(model: Path) -> None:
    command = [sys.executable, "-u", "-m", "app.cli", "chat", "hello", "--model", str(model)]
    command += ["--max-tokens", "100000", "--context", "100000", "--temperature", "5", "--top-k", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"Traceback" not in said


def test_settings_hold_for_chat_and_flags_come_first(model: Path) -> None:
    parser = cli.build_parser()
    settings.save(Settings(top_k=7, max_tokens=9, system_prompt="Be brief."))
    request = cli._request(parser.parse_args(["chat", "hi", "--set", "temperature=0.5", "--top-p", "0.3"]))
    assert (request.sampling.top_k, request.sampling.temperature, request.sampling.top_p) == (7, 0.5, 0.3)
    assert request.max_tokens == 9
    assert [message.role for message in request.messages] == ["system", "user"]


def test_settings_before_and_after_the_command_all_count() -> None:
    parser = cli.build_parser()
    arguments = parser.parse_args(
        ["--set", "top_k=3", "chat", "hi", "--set", "format=f32", "--set", "context=64"]
    )
    assert cli._request(arguments).sampling.top_k == 3
    assert cli.load_spec(arguments, "m.gguf") == LoadSpec(
        str(Path("m.gguf").absolute()), format="f32", context=64
    )
    arguments = parser.parse_args(["chat", "hi", "--set", "format=f32", "--format", "bf16"])
    assert cli.load_spec(arguments, "m.gguf").format == "bf16"


@pytest.mark.parametrize("redirect", ["<&-", "< <(printf '\\xff\\xfe')"])
def test_input_that_is_no_text_is_said(redirect: str) -> None:
    command = f"{sys.executable} -X utf8 -m app.cli chat - {redirect}"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


def test_a_home_that_cannot_be_named_is_no_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DECODECK_HOME", "~no-such-user-here/x")
    done = run("chat", "hi", "--offline")
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr


def test_the_model_is_the_last_used_one_and_else_the_starter(tmp_path: Path) -> None:
    parser = cli.build_parser()
    last = tmp_path / "last.gguf"
    last.touch()
    settings.save(Settings(last_model=str(last)))
    assert cli.model_path(parser.parse_args(["chat", "hi"])) == last
    assert cli.model_path(parser.parse_args(["chat", "hi", "--model", "x.gguf"])) == Path("x.gguf").absolute()
    last.unlink()
    with pytest.raises(WishError):
        cli.model_path(parser.parse_args(["chat", "hi", "--offline"]))


def test_version_names_the_program() -> None:
    done = run("--version")
    assert done.returncode == 0
    assert done.stdout.startswith("decodeck ")


def test_a_reader_that_leaves_is_no_fault(model: Path) -> None:
    command = f"{sys.executable} -m app.cli chat hello --model {model} --max-tokens 200 | head -c 1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, timeout=60, check=False)
    assert b"Traceback" not in done.stderr
