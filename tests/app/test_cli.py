"""The command line as a process: exit codes, one line on standard error, one object on standard output."""

from __future__ import annotations

import json
import re
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
    assert report["drafted"] >= report["accepted"] >= 0
    assert set(report["predicted"]) == {"decode_tps", "ttft_s"} and min(report["predicted"].values()) > 0
    parts = report["memory_bytes"]
    assert set(parts) == {"weights", "kv_reserved", "kv_used", "working", "overhead", "total"}
    assert parts["total"] == parts["weights"] + parts["kv_reserved"] + parts["working"] + parts["overhead"]


def test_json_tells_thinking_from_the_answer(tmp_path: Path) -> None:
    """The tiny model thinks until it may say no more: its prompt has opened the block."""
    source = "{% for m in messages %}{{ m.content }}{% endfor %}<think>{{ '</think>' if thinking is false }}"
    model = str(tiny_folder(tmp_path / "Tiny-Thinker", template=source))
    options = ("--model", model, "--max-tokens", "8", "--seed", "1", "--json")
    thought, answered, alone = (
        json.loads(run("chat", "hello", *options, *more).stdout)
        for more in (("--think",), ("--no-think",), ("--plain",))
    )
    assert thought["thinking"]
    assert thought["text"] == ""
    assert thought["generated_tokens"] == 8
    assert (answered["thinking"], bool(answered["text"])) == ("", True)
    assert (alone["thinking"], alone["prompt_tokens"]) == ("", len("hello"))


def test_a_switch_that_a_model_does_not_have_is_said(model: Path) -> None:
    done = run("chat", "hi", "--model", str(model), "--max-tokens", "2", "--no-think")
    assert done.returncode == 0
    assert "no switch for thinking" in done.stderr


def test_thinking_is_a_setting_and_its_flag_comes_first() -> None:
    parser = cli.build_parser()
    for more, expected in (
        ((), None),
        (("--set", "thinking=off"), False),
        (("--think",), True),
        (("--no-think",), False),
        (("--set", "thinking=off", "--think"), True),
    ):
        request = cli._request(parser.parse_args(["chat", "hi", *more]))
        assert (request.template.thinking, request.template.is_plain) == (expected, False)
    assert cli._request(parser.parse_args(["chat", "hi", "--plain"])).template.is_plain


def test_what_gives_way_in_a_full_context_is_a_setting() -> None:
    parser = cli.build_parser()
    for change in ("when_full=middle", "when_full=stop"):
        request = cli._request(parser.parse_args(["chat", "hi", "--set", change]))
        assert request.when_full == change.partition("=")[2]
    assert cli._request(parser.parse_args(["chat", "hi"])).when_full == "oldest"
    assert cli._request(parser.parse_args(["chat", "hi", "--set", "speculate=off"])).speculate == "off"
    by_model = ["chat", "hi", "--set", "speculate=draft"]
    assert cli._request(parser.parse_args(by_model)).speculate == "auto"
    assert cli._request(parser.parse_args([*by_model, "--draft", "m.gguf"])).speculate == "draft"


def test_an_answer_in_four_bits_says_so(model: Path) -> None:
    done = run("chat", "hello", "--model", str(model), "--format", "4", "--max-tokens", "4", "--json")
    report = json.loads(done.stdout)
    assert report["format"] == "int4"
    assert "int4" in report["kernels"]
    assert 4 < report["weight_bits"] < 16


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
        (("chat", "hi", "--speculate", "guess"), "--speculate"),
        (("chat", "hi", "--speculate", "draft"), "Add --draft"),
        (("chat", "hi", "--draft", ""), "--draft needs a path"),
        (("chat", "hi", "--logprobs", "3"), "Add --json"),
        (("chat", "hi", "--logprobs", "99", "--json"), "from 0 to 20"),
        (("chat", "hi", "--logit-bias", "the=3"), "--logit-bias"),
        (("chat", "hi", "--logit-bias", "7"), "--logit-bias"),
        (("chat", "hi", "--logit-bias", "7=nan"), "logit-bias"),
        (("chat", "hi", "--presence-penalty", "3"), "presence-penalty"),
        (("chat", "hi", "--frequency-penalty", "nan"), "frequency-penalty"),
        (("chat", "hi", "--json-schema", "/nowhere.json"), "cannot be read"),
        (("chat", "hi", "--json-schema", __file__), "not a JSON object"),
        (("chat", "hi", "--json-schema", __file__, "--regex", "a"), "not to both"),
        (("chat", "hi", "--regex", ""), "--regex"),
        (("chat", "hi", "--think", "--no-think"), "not allowed with"),
        (("chat", "hi", "--threads", "0"), "0 threads"),
        (("--threads", "0"), "0 threads"),  # before a window opens
        (("chat", "hi", "--set", "context=1"), "from 2 to"),
        (("chat", "hi", "--temperature", "warm"), "--temperature"),
        (("chat", "hi", "--temperature", "nan"), "nan"),
        (("chat", "hi", "--max-tokens", "0"), "--max-tokens"),
        (("chat",), "PROMPT"),
        (("bench", "--predict", "--context", "64"), "--predict"),
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


def test_an_answer_is_held_to_a_schema_and_tells_log_probabilities(model: Path, tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text('{"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}')
    chosen = ("--seed", "1", "--presence-penalty", "0.5", "--frequency-penalty", "-1", "--logit-bias", "3=-2")
    held = ("--json-schema", str(schema), "--logprobs", "2", "--max-tokens", "400")
    done = run("chat", "hi", "--model", str(model), *chosen, *held, "--json")
    report = json.loads(done.stdout)
    assert report["finish_reason"] == "stop"
    assert isinstance(json.loads(report["text"])["a"], bool)
    assert [each["id"] for each in report["logprobs"]] == report["token_ids"]
    assert all(len(each["top"]) == 2 and each["logprob"] < 0 for each in report["logprobs"])
    assert "".join(each["token"] for each in report["logprobs"]) == report["text"]


def test_an_answer_that_matches_a_regex_and_no_other_key(model: Path) -> None:
    done = run("chat", "hi", "--model", str(model), "--regex", "[ab]{3}!", "--temperature", "0", "--json")
    report = json.loads(done.stdout)
    assert re.fullmatch("[ab]{3}!", report["text"])
    assert "logprobs" not in report


@pytest.mark.parametrize(
    ("option", "words"), [(("--regex", "a(?=b)"), "regex"), (("--logit-bias", "999=1"), "999")]
)
def test_what_only_the_model_can_refuse_is_exit_code_2(
    option: tuple[str, ...], words: str, model: Path
) -> None:
    done = run("chat", "hi", "--model", str(model), *option)
    assert done.returncode == 2
    assert words in done.stderr
    assert done.stdout.strip() == ""


def test_a_draft_model_drafts_is_counted_and_is_refused_where_it_cannot(model: Path, tmp_path: Path) -> None:
    common = ("chat", "hi", "--model", str(model), "--max-tokens", "20", "--temperature", "0", "--json")
    alone, drafted = (
        json.loads(run(*common, "--format", "f32", *more).stdout)
        for more in (("--speculate", "off"), ("--draft", str(model), "--speculate", "draft"))
    )
    assert drafted["token_ids"] == alone["token_ids"]
    assert alone["drafted"] == alone["accepted"] == 0
    assert drafted["memory_bytes"]["weights"] > alone["memory_bytes"]["weights"]
    other = tiny_folder(tmp_path / "other")
    names = other / "tokenizer.json"
    names.write_text(names.read_text().replace("<|im_start|>", "<|user|>"))
    auto = run(*common, "--draft", str(other))
    assert auto.returncode == 0
    assert "cannot draft for this model" in auto.stderr
    asked = run(*common, "--draft", str(other), "--speculate", "draft")
    assert (asked.returncode, asked.stdout) == (2, "")
    assert "'<|user|>' in the draft" in asked.stderr
    missing = run(*common, "--draft", "/nowhere/m.gguf")
    assert (missing.returncode, missing.stdout) == (2, "")


def test_penalties_are_settings_and_a_bias_belongs_to_one_answer() -> None:
    parser = cli.build_parser()
    given = [
        "--set",
        "presence_penalty=0.5",
        "--frequency-penalty",
        "1",
        "--logit-bias",
        "3=1",
        "--logit-bias",
        "4=-2.5",
    ]
    sampling = cli._request(parser.parse_args(["chat", "hi", *given])).sampling
    assert (sampling.presence_penalty, sampling.frequency_penalty) == (0.5, 1.0)
    assert sampling.logit_bias == ((3, 1.0), (4, -2.5))
    with pytest.raises(WishError, match="logit_bias"):
        cli._request(parser.parse_args(["chat", "hi", "--set", "logit_bias=3"]))


@pytest.mark.parametrize(
    ("option", "words"),
    [
        (("--format", "llm-int8"), "CUDA"),
        (("--format", "q9"), "q9"),
        (("--kv", "x"), "x"),
        (("--device", "cuda:99"), "'cuda:99' is not here. Choose auto"),
        (("--gpu-layers", "-1"), "0 or more"),
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


def test_what_a_full_context_leaves_out_is_said(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--model", str(model), "--context", "128", "--max-tokens", "5", "--set", "when_full=middle"]
    assert cli.main(["chat", "x" * 200, *options, "--json"]) == 0
    shown = capsys.readouterr()
    dropped = json.loads(shown.out)["dropped_tokens"]
    assert dropped > 0
    assert f"{dropped} tokens in the middle are left out" in shown.err


def test_an_answer_that_a_full_context_cuts_says_so(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    never = ("--logit-bias", "258=-100")  # the token that would end the answer
    assert cli.main(["chat", "hi", "--model", str(model), "--context", "40", *never]) == 0
    assert "was cut after" in capsys.readouterr().err


def test_an_interrupt_is_exit_code_130(model: Path) -> None:
    command = [sys.executable, "-u", "-m", "app.cli", "chat", "hello", "--model", str(model)]
    command += ["--max-tokens", "100000", "--context", "100000", "--temperature", "5", "--top-k", "0"]
    command += ["--logit-bias", "258=-100"]  # the token that would end the answer
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.read(1)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"Traceback" not in said


def test_an_interrupted_answer_is_still_one_json_object(model: Path) -> None:
    command = [sys.executable, "-c", INTERRUPTED, "chat", "hello", "--model", str(model), "--json"]
    command += ["--max-tokens", "100000", "--context", "100000", "--logit-bias", "258=-100"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stderr is not None
    while process.stderr.readline() not in (b"a token\n", b""):
        pass
    process.send_signal(signal.SIGINT)
    out, said = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"Traceback" not in said
    report = json.loads(out)
    assert report["finish_reason"] == "cancelled"
    assert len(report["token_ids"]) == report["generated_tokens"] > 0


INTERRUPTED = """
import signal, sys
from app import cli
from app.answer_printer import AnswerPrinter
signal.signal(signal.SIGINT, signal.default_int_handler)
AnswerPrinter.text = lambda *_: print("a token", file=sys.stderr, flush=True)
sys.exit(cli.main())
"""


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
