"""What a format costs in quality: windows, sums of log-probabilities, and the report."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from app import cli, paths, quality_record
from app.bench import goals, quality, quality_worker
from app.bench.quality import REFERENCE, cases, measure_quality, windows
from app.bench.quality_worker import Comparison, kl_nats, loss_nats
from app.bench.tables import quality_lines
from app.bench.tokens import token_ids
from app.fingerprint import fingerprint
from app.quality_record import figure_of
from engine.errors import NumericsError, TokenizerError, WishError
from engine.fit.plan import plan
from engine.hardware.probe import probe
from engine.models.decoder import Segment
from engine.models.spec import read_spec
from engine.text import tokenizer
from engine.types import LoadSpec

Write = Callable[[str], Path]
VOCAB = 512  # of the tiny model
END_S = 20.0


def test_windows_hold_every_token_once_and_in_order() -> None:
    ids = list(range(1000, 2100))
    listed = windows(ids, [], 512)
    assert [len(each) for each in listed] == [512, 512, 76]
    assert [token for each in listed for token in each] == ids


def test_each_window_starts_with_the_bos_of_a_model_that_wants_one() -> None:
    listed = windows(list(range(1000, 1008)), [1], 4)
    assert listed == [[1, 1000, 1001, 1002], [1, 1003, 1004, 1005], [1, 1006, 1007]]


def test_a_last_window_without_a_position_that_counts_is_left_out() -> None:
    assert windows([5, 6, 7], [], 2) == [[5, 6]]


def test_a_sure_prediction_has_no_loss_and_a_uniform_one_that_of_its_vocabulary() -> None:
    sure = torch.tensor([[0.0, -50.0], [-50.0, 0.0]]).log_softmax(dim=-1)
    assert loss_nats(sure, torch.tensor([0, 1])) == pytest.approx(0.0, abs=1e-6)
    uniform = torch.zeros(3, 8).log_softmax(dim=-1)
    assert loss_nats(uniform, torch.tensor([0, 3, 7])) == pytest.approx(3 * math.log(8))


def test_divergence_is_summed_over_rows_in_nats_and_counts_from_the_reference() -> None:
    reference = torch.tensor([[0.5, 0.5], [0.9, 0.1]]).log()
    other = torch.tensor([[0.25, 0.75], [0.9, 0.1]]).log()
    expected = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    assert kl_nats(reference, other) == pytest.approx(expected)
    assert kl_nats(other, reference) != pytest.approx(expected)


def test_scores_are_those_of_the_whole_window_read_at_once(tiny: Write) -> None:
    path, ids = str(tiny("Q4_0")), token_ids(0, 3 * quality_worker._PIECE_ROWS + 5, VOCAB)
    comparison = Comparison()
    for format in ("f32", "bf16"):
        comparison.load(path, len(ids), 1, format, "32")
    found = comparison.score(ids)["scores"]
    exact, other = (engine.logits(ids)[:-1].log_softmax(dim=-1) for engine in comparison._engines)
    for log_probabilities, score in zip((exact, other), found, strict=True):
        assert score["loss_nats"] == pytest.approx(
            loss_nats(log_probabilities, torch.tensor(ids[1:])), rel=1e-3
        )
    assert found[1]["kl_nats"] == pytest.approx(kl_nats(exact, other), rel=0.05)
    assert found[1]["kl_nats"] > 0


class Constant:
    """An engine that gives every position the same probabilities."""

    def __init__(self, *probabilities: float) -> None:
        self._logits = torch.tensor(probabilities).log()

    def new_cache(self, capacity: int) -> None: ...

    def forward(self, segments: list[Segment]) -> torch.Tensor:
        return self._logits.expand(len(segments[0].ids), -1)


def test_every_load_is_compared_with_the_first() -> None:
    comparison = Comparison()
    engines: list[Any] = [Constant(0.5, 0.5), Constant(0.1, 0.9), Constant(0.5, 0.5)]
    comparison._engines = engines
    first, second, third = comparison.score([0, 1, 1])["scores"]
    assert first == third == pytest.approx({"loss_nats": 2 * math.log(2), "kl_nats": 0.0})
    expected = 0.5 * math.log(0.5 / 0.1) + 0.5 * math.log(0.5 / 0.9)
    assert second == pytest.approx({"loss_nats": -2 * math.log(0.9), "kl_nats": 2 * expected})


def test_a_format_does_not_diverge_from_itself(tiny: Write) -> None:
    comparison = Comparison()
    for _ in range(2):
        comparison.load(str(tiny("Q4_0")), 100, 1, "file", "32")
    first, second = comparison.score(token_ids(0, 100, VOCAB))["scores"]
    assert second == first
    assert second["kl_nats"] == 0.0


def test_windows_know_nothing_of_each_other(tiny: Write) -> None:
    comparison = Comparison()
    comparison.load(str(tiny("F16")), 100, 1, "f32", "32")
    before = comparison.score(token_ids(0, 100, VOCAB))
    comparison.score(token_ids(500, 100, VOCAB))
    assert comparison.score(token_ids(0, 100, VOCAB)) == before


def test_the_usual_formats_are_compared_where_none_is_named() -> None:
    sixteen = tuple((format, "16") for format in ("file", "bf16", "int8", "int4"))
    assert cases([], "auto") == (("file", "32"), *sixteen)
    assert cases([], "32") == tuple((format, "32") for format, _ in sixteen)
    assert cases(["bf16", "file"], "auto") == (("bf16", "auto"), ("file", "auto"))


class InProcess:
    """Stands in for the worker: the same commands without a process."""

    def __init__(self, module: str, title: str) -> None:
        assert module == quality_worker.__name__
        self._comparison = Comparison()

    def __enter__(self) -> InProcess:
        return self

    def __exit__(self, *error: object) -> None: ...

    def ask(self, command: str, **options: Any) -> Any:
        return json.loads(json.dumps(getattr(self._comparison, command)(**options)))


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quality, "Worker", InProcess)


def fill(path: Path, tensor: str, value: bytes) -> Path:
    """Overwrite all elements of a float32 tensor."""
    (found,) = (each for each in read_spec(str(path)).tensors if each.name == tensor)
    assert found.type == "F32"
    with path.open("r+b") as file:
        file.seek(found.offset)
        file.write(value * (found.nbytes // len(value)))
    return path


@pytest.mark.usefixtures("in_process")
def test_the_perplexity_of_a_uniform_model_is_its_vocabulary(tiny: Write) -> None:
    path = fill(tiny("Q4_0"), "output_norm.weight", bytes(4))
    measured = measure_quality(LoadSpec(str(path), threads=1), cases([], "auto"), 600, lambda _: None)
    assert (measured.tokens, measured.positions) == (600, 511 + 87)
    loads = [(each.format, each.kv_bits) for each in measured.formats]
    assert loads == [("f32", 32), ("file", 32), ("file", 16), ("bf16", 16), ("int8", 16), ("int4", 16)]
    for each in measured.formats:
        assert each.perplexity == pytest.approx(VOCAB)
        assert each.kl == pytest.approx(0.0, abs=1e-7)


@pytest.mark.usefixtures("in_process")
def test_a_model_without_probabilities_is_said_to_have_none(tiny: Write) -> None:
    path = fill(tiny("Q4_0"), "output_norm.weight", b"\x00\x00\xc0\x7f")  # NaN
    with pytest.raises(NumericsError, match="f32"):
        measure_quality(LoadSpec(str(path), threads=1), [], 10, lambda _: None)


@pytest.mark.usefixtures("in_process")
def test_the_reference_is_there_once_whatever_is_asked_for(tiny: Write) -> None:
    wish = LoadSpec(str(tiny("Q4_0")), threads=1)
    said: list[str] = []
    measured = measure_quality(
        wish, [REFERENCE, ("32", "auto"), ("auto", "16"), ("file", "16")], 20, said.append
    )
    assert [(each.format, each.kv_bits) for each in measured.formats] == [("f32", 32), ("file", 16)]
    assert measured.formats[0].kl == 0.0 and measured.formats[1].kl > 0
    assert said == ["loading f32 with 32-bit KV", "loading file with 16-bit KV", "window 1 of 1"]


def test_a_wrong_wish_is_refused_before_anything_is_loaded(tiny: Write) -> None:
    said: list[str] = []
    with pytest.raises(WishError, match="q9"):
        measure_quality(LoadSpec(str(tiny("Q4_0"))), [("file", "32"), ("q9", "16")], 20, said.append)
    assert said == []


def test_a_tokenizer_of_another_model_is_refused(tiny: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    class Foreign:
        add_bos, bos_id = True, VOCAB

        def encode(self, text: str, literal: bool) -> list[int]:
            return [1, 2, 3]

    monkeypatch.setattr(tokenizer, "load", lambda path: Foreign())
    with pytest.raises(TokenizerError, match="belong together"):
        measure_quality(LoadSpec(str(tiny("Q4_0"))), [], 20, lambda _: None)


def test_the_text_is_the_whole_book_with_plain_line_ends(
    tiny: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[str] = []

    class Letters:
        add_bos, bos_id = False, None

        def encode(self, text: str, literal: bool) -> list[int]:
            read.append(text)
            return [1, 2, 3]

    monkeypatch.setattr(tokenizer, "load", lambda path: Letters())
    ids, start = quality._read_text(read_spec(str(tiny("Q4_0"))))
    assert (ids, start) == ([1, 2, 3], [])
    assert "\r" not in read[0] and "Down the Rabbit-Hole" in read[0]
    assert read[0].endswith("THE END\n")


def test_the_goal_is_the_change_of_perplexity_in_percent(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lab:
        say = print

        def starter(self) -> Path:
            return Path("m.gguf")

        def wish(self, path: Path) -> LoadSpec:
            return LoadSpec(str(path), threads=1)

    asked: list[Any] = []

    def measured(*arguments: Any) -> quality.Measured:
        asked.append(arguments)
        found = (
            quality.Quality("f32", 32, "torch", 20.0, 0.0),
            quality.Quality("file", 32, "torch", 20.06, 0.003),
        )
        return quality.Measured(16_384, 16_352, found)

    monkeypatch.setattr(goals, "measure_quality", measured)
    lab: Any = Lab()
    outcome = goals.int8_activations(lab)
    assert outcome.spread.median == pytest.approx(0.3)
    assert "20.060 and 20.000" in outcome.note
    assert asked[0][:3] == (LoadSpec("m.gguf", threads=1), (("file", "32"),), 16_384)


def bench(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "app.cli", "bench", "--quality", "--threads", "1", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_the_report_has_the_settled_keys_and_progress_goes_to_standard_error(tiny: Write) -> None:
    path = str(tiny("Q4_0"))
    with bench("--model", path, "--format", "file", "--tokens", "600", "--json") as running:
        out, said = running.communicate()
    assert running.returncode == 0, said
    report = json.loads(out)
    assert set(report) == {"hardware", "model", "quality", "tokens"}
    assert (report["model"], report["tokens"]) == (path, 600)
    for each in report["quality"]:
        assert set(each) == {"format", "kv_bits", "perplexity", "kl"}
    assert [(each["format"], each["kv_bits"]) for each in report["quality"]] == [("f32", 32), ("file", 16)]
    assert report["quality"][0]["kl"] == 0.0 < report["quality"][1]["kl"]
    assert "window 2 of 2" in said and "kept" in said
    (kept,) = quality_record.read(paths.quality_file())
    spec = read_spec(path)
    assert (kept.fingerprint, kept.name) == (fingerprint(spec), spec.name)
    exact = report["quality"][0]["perplexity"]
    for each, figure in zip(report["quality"], kept.figures, strict=True):
        assert each == {key: getattr(figure, key) for key in each}
        assert (figure.tokens, figure.reference_perplexity) == (600, exact)
        assert figure_of(plan(spec, probe(), LoadSpec(path, figure.format)), kept.figures) == figure
    lines = quality_lines(report)
    assert lines[0] == path and len(lines) == 5 and "600" in lines[-1]
    assert lines[2].split()[:2] == ["f32", "32"] and "+0.00 %" in lines[2]


@pytest.mark.usefixtures("in_process")
def test_a_measurement_that_cannot_be_kept_is_still_printed(
    tiny: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tiny("Q4_0")
    monkeypatch.setattr(paths, "quality_file", lambda: path / "quality.json")  # a file is no folder
    command = ["bench", "--quality", "--model", str(path), "--format", "file", "--tokens", "20"]
    assert cli.main([*command, "--threads", "1"]) == 0
    out, said = capsys.readouterr()
    assert "perplexity" in out and "not kept" in said


@pytest.mark.slow
def test_ctrl_c_ends_the_command_with_130_and_its_worker(tiny: Write) -> None:
    with bench("--model", str(tiny("Q4_0")), "--tokens", "150000") as running:
        assert running.stderr is not None and running.stdout is not None
        while "window" not in running.stderr.readline():
            assert running.poll() is None
        workers = psutil.Process(running.pid).children(recursive=True)
        assert len(workers) == 1
        running.send_signal(signal.SIGINT)
        assert running.wait(END_S) == 130
        assert running.stdout.read() == ""
    _, alive = psutil.wait_procs(workers, timeout=END_S)
    assert alive == []


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--quality", "--context", "512"), "windows of its own"),
        (("--quality", "--batch", "2"), "windows of its own"),
        (("--quality", "--set", "context=512"), "windows of its own"),
        (("--quality", "--repeat", "3"), "nothing to repeat"),
        (("--quality", "--tokens", "1"), "--tokens 1"),
        (("--quality", "--random", "tiny:Q4_0", "--format", "file,q9"), "q9"),
        (("--quality", "--random", "tiny:Q4_0", "--device", "cuda:0"), "cuda:0"),
        (("--quality", "--roofline"), "not allowed with"),
        (("--random", "tiny:Q4_0", "--tokens", "100"), "--tokens"),
        (("--roofline", "--tokens", "100"), "--tokens"),
    ],
)
def test_what_does_not_belong_together_is_one_line_and_exit_code_2(
    arguments: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = cli.main(["bench", *arguments])
    except SystemExit as ended:  # argparse
        code = int(str(ended.code))
    out, said = capsys.readouterr()
    assert (code, out) == (2, "")
    lines = [line for line in said.splitlines() if "writing" not in line]
    assert len(lines) == 1 and words in lines[0]
