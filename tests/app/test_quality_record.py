"""Figures of quality are kept by a model's content; damaged and foreign files are not believed, and kept."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
from dataclasses import asdict, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from app import quality_record, starter
from app.atomic_file import StorageError
from app.fingerprint import fingerprint
from app.quality_record import MeasuredModel, QualityFigure, figure_of, figures_of, keep, read
from engine.fit.plan import plan
from engine.models.spec import read_spec
from engine.types import LoadSpec
from tests.fakes import HARDWARE, make_plan, make_spec

EXACT = QualityFigure("f32", 32, "native", 4096, 22.5, 22.5, 0.0)
FILE = QualityFigure("file", 16, "native", 4096, 22.6, 22.5, 0.003)
TINY = MeasuredModel("ab12", "tiny", (EXACT, FILE))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "quality.json"


def test_what_is_kept_is_read_again(path: Path) -> None:
    assert read(path) == ()
    keep(path, TINY)
    other = replace(TINY, fingerprint="cd34", name="other")
    keep(path, other)
    assert read(path) == (TINY, other)


def test_a_figure_says_how_far_it_is_above_the_reference() -> None:
    assert FILE.change == pytest.approx(22.6 / 22.5 - 1)
    assert (EXACT.change, EXACT.is_reference, FILE.is_reference) == (0.0, True, False)


def test_measuring_again_replaces_the_same_and_leaves_the_others(path: Path) -> None:
    keep(path, TINY)
    again = replace(FILE, perplexity=22.7)
    stock = replace(FILE, kernels="torch")
    keep(path, replace(TINY, figures=(again, stock)))
    (known,) = read(path)
    assert set(known.figures) == {EXACT, again, stock}


def test_figures_on_more_text_are_not_replaced_by_those_on_less(path: Path) -> None:
    keep(path, TINY)
    quick = replace(FILE, tokens=100, perplexity=30.0)
    keep(path, replace(TINY, figures=(quick,)))
    assert FILE in read(path)[0].figures
    longer = replace(FILE, tokens=16_384)
    keep(path, replace(TINY, figures=(longer,)))
    assert set(read(path)[0].figures) == {EXACT, longer}


def test_the_file_stays_small_and_loses_the_oldest(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(quality_record, "MOST_MODELS", 3)
    for number in (0, 1, 2, 0, 3):
        keep(path, replace(TINY, fingerprint=str(number)))
    assert [each.fingerprint for each in read(path)] == ["2", "0", "3"]


def test_the_largest_record_there_can_be_is_still_read(path: Path) -> None:
    formats = [f"format-{number:03}" for number in range(quality_record.MOST_FIGURES + 5)]
    figures = tuple(replace(FILE, format=each, perplexity=22.123456789012345) for each in formats)
    full = MeasuredModel("0" * 64, "n" * 10_000, figures)
    held = [asdict(replace(full, fingerprint=f"{number:064}", name="n" * 200)) for number in range(70)]
    path.parent.mkdir()
    path.write_text(json.dumps({"version": 1, "models": held}, indent=1))
    keep(path, full)  # cuts what is too much
    found = read(path)
    assert (len(found), found[-1].fingerprint) == (quality_record.MOST_MODELS, full.fingerprint)
    assert all(len(each.figures) == quality_record.MOST_FIGURES for each in found)


DAMAGED = [
    b"",
    b"{",
    b"\xff\xfe\x00",
    b"[1, 2]",
    b"null",
    b'{"version": 2, "models": []}',
    b'{"models": []}',
    b"[" * 100_000,
    b" " * (quality_record._MOST_BYTES + 1),
]


@pytest.mark.parametrize("data", DAMAGED)
def test_a_damaged_or_foreign_file_has_no_figures_is_logged_and_set_aside_by_the_next_measurement(
    path: Path, caplog: pytest.LogCaptureFixture, data: bytes
) -> None:
    path.parent.mkdir()
    path.write_bytes(data)
    with caplog.at_level(logging.WARNING):
        assert read(path) == ()
    assert str(path) in caplog.text
    assert path.read_bytes() == data
    keep(path, TINY)
    assert read(path) == (TINY,)
    (aside,) = path.parent.glob("quality.broken-*.json")
    assert aside.read_bytes() == data


WRONG: list[dict[str, Any]] = [
    {"format": 4},
    {"format": "x" * 1000},
    {"kv_bits": 16.0},
    {"kv_bits": True},
    {"kernels": None},
    {"kernels": "avx2"},
    {"tokens": 0},
    {"tokens": -5},
    {"perplexity": "22"},
    {"perplexity": float("nan")},
    {"perplexity": float("inf")},
    {"perplexity": 0.0},
    {"reference_perplexity": 0.0},
    {"kl": None},
    {"kl": 10**400},
]


@pytest.mark.parametrize("wrong", WRONG)
def test_an_entry_that_no_measurement_has_written_is_left_out(
    path: Path, caplog: pytest.LogCaptureFixture, wrong: dict[str, Any]
) -> None:
    path.parent.mkdir()
    figures = [asdict(EXACT), asdict(FILE) | wrong, "no figure"]
    models = [{"fingerprint": "ab12", "name": "tiny", "figures": figures}, {"name": 3}, 7, {}]
    path.write_text(json.dumps({"version": 1, "models": models}))
    with caplog.at_level(logging.WARNING):
        assert read(path) == (replace(TINY, figures=(EXACT,)),)
    assert "3 entries" in caplog.text


def test_a_file_without_permission_has_no_figures(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    keep(path, TINY)

    def refuse(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with caplog.at_level(logging.WARNING):
        assert read(path) == ()
    assert "Permission denied" in caplog.text


def test_a_disk_that_refuses_is_said(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file where the folder should be")
    with pytest.raises(StorageError):
        keep(tmp_path / "data" / "quality.json", TINY)


def test_a_replaced_file_does_not_show_the_figures_of_the_old_one(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "m.gguf"
    file.write_bytes(b"a" * 1000)
    spec, status = make_spec(str(file)), file.stat()
    keep(path, replace(TINY, fingerprint=fingerprint(spec)))
    assert set(figures_of(spec, path)) == {EXACT, FILE}
    file.write_bytes(b"b" * 1000)
    os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert figures_of(spec, path) == ()
    file.unlink()
    assert figures_of(spec, path) == ()


def test_a_figure_is_for_its_format_and_kv_precision_and_best_of_the_same_kernels() -> None:
    stock = replace(FILE, kernels="torch")
    wide = replace(FILE, kv_bits=32)
    figures = (EXACT, wide, stock, FILE)
    native = replace(HARDWARE, native="avx2")
    path = "/models/tiny.gguf"
    assert figure_of(plan(make_spec(), native, LoadSpec(path)), figures) == FILE
    assert figure_of(make_plan(), figures) == stock
    assert figure_of(plan(make_spec(), native, LoadSpec(path, kv="32")), figures) == wide
    assert figure_of(plan(make_spec(), native, LoadSpec(path, format="int8")), figures) is None
    assert figure_of(make_plan(), (EXACT, FILE)) == FILE  # better than nothing, and told apart


def test_the_figures_that_come_with_the_program_are_of_the_starter() -> None:
    held = json.loads(files("assets").joinpath("quality", "starter.json").read_bytes())
    assert held["about"]["sha256"] == starter.MODEL_SHA256
    (shipped,) = quality_record._read_shipped()
    assert shipped.name == starter.NAME
    assert len(shipped.figures) == len(held["models"][0]["figures"])
    known = {(each.format, each.kv_bits) for each in shipped.figures if each.kernels == "native"}
    assert {("f32", 32), ("bf16", 16), ("file", 16), ("int8", 16), ("int4", 16)} <= known
    (exact,) = {each.reference_perplexity for each in shipped.figures}
    for each in shipped.figures:
        assert each.tokens >= 4096
        assert each.is_reference == (each.perplexity == exact and each.kl == 0.0)


@pytest.mark.starter
def test_the_starter_has_its_figures_wherever_it_was_fetched(starter_path: Path, path: Path) -> None:
    (shipped,) = quality_record._read_shipped()
    assert figures_of(read_spec(str(starter_path)), path) == shipped.figures


def test_reading_the_record_takes_the_standard_library_alone() -> None:
    code = "import sys, app.quality_record; print(*{name.partition('.')[0] for name in sys.modules})"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(found.stdout.split())
    assert not loaded & {"PySide6", "torch", "numpy", "tokenizers", "psutil", "platformdirs", "httpx2"}
