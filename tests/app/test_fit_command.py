"""`decodeck fit`: the settled keys, the grid, what it costs to ask, and what it refuses in one line."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app import cli, fit_command
from app.fit_command import Question
from engine.calibration import Calibration, KernelSpeed, PassSpeed
from engine.fit.guard import LEVELS
from engine.hardware import presence, probe
from engine.hardware.gpus import GpuProbe
from engine.machine import Gpu
from engine.types import LoadSpec
from tests.engine.fit.test_devices import GB, GPU, machine
from tests.engine.models.generic_models import generic_folder
from tests.engine.models.writers import TINY, tiny_state, write_llama_gguf
from tests.engine.tiny import tiny_folder

PLAN_KEYS = {
    "format",
    "context",
    "kv_bits",
    "devices",
    "bytes",
    "verdict",
    "reasons",
    "decode_tps",
    "ttft_s_1k",
} | {"band", "basis", "max_context", "quality"}
PARTS = {"weights", "kv_reserved", "working", "overhead", "total"}
VERDICTS = ("fits", "tight", "spills", "no")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_llama_gguf(tmp_path_factory.mktemp("gguf") / "tiny.gguf", tiny_state(), TINY)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("tiny") / "Tiny-Instruct")


def fit(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    assert cli.main(["fit", *arguments, "--json"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("\n") == 1
    report: dict[str, Any] = json.loads(printed)
    return report


def test_the_report_has_the_settled_keys(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    report = fit(capsys, "--model", str(model))
    assert set(report) == {"hardware", "model", "params", "plans", "recommended"}
    assert report["model"] == str(model)
    (made,) = report["plans"]
    assert set(made) == PLAN_KEYS
    assert set(made["bytes"]) == PARTS
    assert set(made["decode_tps"]) == {"empty", "half", "full"}
    (device,) = made["devices"]
    assert set(device) == {"name", "free_bytes", "bytes"}
    assert device["bytes"] == made["bytes"]
    assert made["bytes"]["total"] == sum(made["bytes"][part] for part in PARTS - {"total"})
    assert made["verdict"] in VERDICTS
    assert made["basis"] in ("measured", "corrected", "default")
    assert made["quality"] is None
    assert report["recommended"]["format"] == "file"


def test_the_grid_is_every_usable_format_with_every_context(
    model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = fit(capsys, "--model", str(model), "--format", "int8", "--context", "64", "--kv", "32")
    assert [(made["format"], made["context"], made["kv_bits"]) for made in one["plans"]] == [("int8", 64, 32)]
    formats = fit(capsys, "--model", str(model), "--format", "all", "--context", "64")["plans"]
    assert {"file", "f32", "bf16", "int8", "int4"} <= {made["format"] for made in formats}
    assert {made["context"] for made in formats} == {64}
    whole = fit(capsys, "--model", str(model), "--format", "all", "--context", "all")["plans"]
    contexts = [made["context"] for made in whole if made["format"] == "int4"]
    assert contexts == sorted(set(contexts))
    assert len(whole) == len(formats) * len(contexts)


def test_a_table_for_people_says_the_same(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["fit", "--model", str(model), "--format", "all", "--prefer", "longest"]) == 0
    printed = capsys.readouterr()
    assert "Recommended: file, " in printed.out
    assert "longest context" in printed.out
    assert "nothing was loaded" in printed.err
    assert {line.split()[0] for line in printed.out.splitlines() if line} >= {"format", "f32", "bf16", "int4"}


def fixed(monkeypatch: pytest.MonkeyPatch, *gpus: Gpu) -> None:
    """A machine with 8 GB free and these GPUs."""
    monkeypatch.setattr(probe, "probe", lambda _: machine(ram_free=8 * GB))
    monkeypatch.setattr(presence, "may_have_gpu", lambda: bool(gpus))
    monkeypatch.setattr(GpuProbe, "read", lambda _: gpus)


def test_every_format_says_what_its_speed_rests_on(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    known = Calibration(
        read_gbps=10.0,
        kernels=(KernelSpeed("torch bf16", 0.1, ((1, 0.1),)),),
        passes=(PassSpeed("torch", 0.0, 0.0, 0.0, 0.0, 0.0, 0.0),),
    )
    monkeypatch.setattr(probe, "probe", lambda _: replace(machine(ram_free=8 * GB), calibration=known))
    assert cli.main(["fit", "--model", str(model), "--format", "all", "--device", "cpu"]) == 0
    printed = capsys.readouterr().out
    measured, estimated = re.findall(r"Speeds of (.+) are ±\d+ %, (?:measured|estimated)", printed)
    assert "bf16" in measured and "f32" in estimated and "f32" not in measured
    assert cli.main(["fit", "--model", str(model), "--format", "bf16", "--device", "cpu"]) == 0
    assert "Speeds are ±12 %, measured on this machine." in capsys.readouterr().out


@pytest.mark.parametrize("layers", [0, 1, 3])
def test_memory_and_what_is_spare_add_up_to_what_is_free(
    layers: int, model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    fixed(monkeypatch, *([GPU] if layers else []))
    options = ("--context", "1000000", "--format", "bf16", "--gpu-layers", str(layers))
    assert cli.main(["fit", "--model", str(model), *options]) == 0
    printed = capsys.readouterr().out
    row = next(line for line in printed.splitlines() if line.startswith("bf16"))
    taken = re.findall(r"\d+\.\d\d", row)[: 2 if layers else 1]  # in the order of the devices
    free = GPU.free_bytes if layers else 8 * GB
    assert free is not None
    spare = re.search(r"(\d+\.\d\d) GB spare", printed)
    assert spare is not None
    assert float(taken[-1]) > 0.1
    assert float(taken[-1]) + float(spare[1]) == pytest.approx(free / GB, abs=0.011)
    assert "Memory and what is spare leave out the program itself, 0.28 GB." in printed


def test_a_draft_model_is_part_of_the_plan(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    alone = fit(capsys, "--model", str(folder), "--context", "128")["plans"][0]
    both = fit(capsys, "--model", str(folder), "--context", "128", "--draft", str(folder))["plans"][0]
    assert both["bytes"]["weights"] > alone["bytes"]["weights"]
    assert any("draft model" in reason for reason in both["reasons"])


def test_a_draft_model_that_would_not_be_loaded_is_no_part_of_a_plan(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tiny_folder(tmp_path / "Other")
    text = other / "tokenizer.json"
    text.write_text(text.read_text().replace('"a":', '"zz":'))
    stuck = generic_folder(tmp_path / "Stuck", "mamba")
    capsys.readouterr()
    refused = {other: "Other cannot draft for this model", stuck: "Stuck cannot go with a draft model"}
    for draft, words in refused.items():
        assert cli.main(["fit", "--model", str(folder), "--draft", str(draft)]) == 2
        said = capsys.readouterr()
        assert (said.out, said.err.count("\n")) == ("", 1)
        assert words in said.err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--format", "q9"), "q9"),
        (("--format", "llm-int8"), "CUDA"),
        (("--context", "many"), "neither a number"),
        (("--context", "1"), "at least 2"),
        (("--kv", "3"), "'3'"),
        (("--device", "cuda:99"), "not here"),
        (("--draft", ""), "--draft needs a path"),
        (("--draft", "/nowhere.gguf"), "/nowhere.gguf"),
        (("--prefer", "cheapest"), "cheapest"),
        (("--threads", "0"), "0 threads"),
    ],
)
def test_what_cannot_be_planned_is_one_line_and_exit_code_2(
    arguments: tuple[str, ...], words: str, model: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as left:  # as argparse does
        sys.exit(cli.main(["fit", "--model", str(model), *arguments]))
    said = capsys.readouterr()
    assert (left.value.code, said.out, said.err.count("\n")) == (2, "", 1)
    assert words in said.err


def test_a_file_that_is_no_model_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong = tmp_path / "wrong.gguf"
    wrong.write_text("<!doctype html>")
    assert cli.main(["fit", "--model", str(wrong)]) == 2
    assert str(wrong) in capsys.readouterr().err


def test_nothing_is_loaded_and_torch_is_not_imported_without_a_gpu(model: Path) -> None:
    program = (
        "import sys; from app import cli; from engine.hardware import presence;"
        " presence.may_have_gpu = lambda: False;"
        f" code = cli.main(['fit', '--model', {str(model)!r}, '--format', 'all']);"
        " sys.exit(code or any(name in sys.modules for name in ('torch', 'PySide6', 'transformers')))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, timeout=120, check=False)
    assert (done.returncode, done.stdout.count(b"format")) == (0, 1), done.stderr


def test_a_gpu_is_looked_for_where_there_may_be_one(
    model: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(presence, "may_have_gpu", lambda: True)
    monkeypatch.setattr(GpuProbe, "read", lambda _: (GPU,))
    report = fit(capsys, "--model", str(model))
    assert [device["name"] for device in report["plans"][0]["devices"]][1:] == ["A GPU"]
    (gpu,) = report["hardware"]["gpus"]
    assert (gpu["device"], gpu["total_bytes"], gpu["power_w"]) == ("cuda:0", 24 * GB, None)
    assert fit(capsys, "--model", str(model), "--device", "cpu")["hardware"]["gpus"] is None


@pytest.mark.parametrize(
    ("system", "machine", "build", "files", "expected"),
    [
        ("Linux", "x86_64", "2.13.0+cpu", ("nvidia0",), False),
        ("Linux", "x86_64", "2.13.0", (), False),
        ("Linux", "x86_64", "2.13.0", ("nvidiactl",), True),
        ("Linux", "x86_64", "2.13.0+rocm6.4", ("kfd",), True),
        ("Linux", "x86_64", "2.13.0", ("dxg",), True),  # WSL
        ("Windows", "AMD64", "2.13.0+cu130", (), True),
        ("Windows", "AMD64", "2.13.0+cpu", (), False),
        ("Darwin", "arm64", "2.13.0", (), True),
        ("Darwin", "x86_64", "2.13.0", (), False),
    ],
)
def test_whether_a_gpu_may_be_here_is_told_without_torch(
    system: str,
    machine: str,
    build: str,
    files: tuple[str, ...],
    expected: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(presence.platform, "system", lambda: system)
    monkeypatch.setattr(presence.platform, "machine", lambda: machine)
    monkeypatch.setattr(presence, "version", lambda _: build)
    monkeypatch.setattr(presence, "_DEVICES", tmp_path)
    for name in files:
        (tmp_path / name).touch()
    assert presence.may_have_gpu() is expected


def test_all_is_a_word_of_this_command_alone(model: Path) -> None:
    arguments = cli.build_parser().parse_args(["fit", "--format", "all", "--context", "all"])
    asked = fit_command.question(arguments, lambda path: cli.load_spec(arguments, path), model)
    assert asked == Question(LoadSpec(str(model)), True, True, "quality")
    with pytest.raises(SystemExit):
        cli.build_parser().parse_args(["chat", "hi", "--context", "all"])


def test_the_guard_is_a_setting_that_can_be_off(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    huge = ("--model", str(folder), "--context", "2000000000", "--device", "cpu")
    for level in LEVELS:
        arguments = cli.build_parser().parse_args(["chat", "hi", *huge, "--set", f"guard={level}"])
        if level == "off":
            made = cli._plan(arguments, folder)
            assert (made.verdict, made.wish.anyway) == ("no", True)
            continue
        assert cli.main(["chat", "hi", *huge, "--set", f"guard={level}"]) == 2
        said = capsys.readouterr().err
        assert "does not fit in memory" in said
        assert "with a context of 512 tokens" in said
        assert "--set guard=off loads it anyway." in said
