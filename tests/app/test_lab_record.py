"""The Lab's file: what was kept comes back, and nothing else is taken for a result."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from app import lab_record
from app.atomic_file import StorageError
from app.lab_record import CHAT, SWEEP, KeptPoint, LabResult, LabRun
from tests.fakes import make_plan

POINTS = (
    KeptPoint(1, 512, 0.012, 0.0125, 0.3, 1_000_000),
    KeptPoint(8, 512, 0.03, failed="Another cache needs 2.00 GB and 1.00 GB are free."),
)
RUN = LabRun(SWEEP, POINTS, 1e9, 48.0, 32, 3, 0.06)
RESULT = LabResult("key", (RUN, replace(RUN, kind=CHAT, title="How do I …", ended="stopped")))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "folder" / "lab.json"


def test_what_is_kept_comes_back(path: Path) -> None:
    lab_record.keep(path, RESULT)
    assert lab_record.read(path, "key") == RESULT
    assert lab_record.read(path, "another") == LabResult("another")


def test_a_new_run_takes_the_place_of_the_last_of_its_kind(path: Path) -> None:
    lab_record.keep(path, RESULT)
    newer = RESULT.with_run(replace(RUN, points=POINTS[:1]))
    lab_record.keep(path, newer)
    found = lab_record.read(path, "key")
    run = found.run(SWEEP)
    assert run is not None and run.points == POINTS[:1]
    assert found.run(CHAT) == RESULT.run(CHAT)


def test_only_the_newest_results_are_kept(path: Path) -> None:
    for number in range(lab_record.MOST_RESULTS + 3):
        lab_record.keep(path, LabResult(str(number), (RUN,)))
    assert lab_record.read(path, "2").runs == ()
    assert lab_record.read(path, "3").runs == (RUN,)
    assert lab_record.read(path, str(lab_record.MOST_RESULTS + 2)).runs == (RUN,)


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"version": 2}', b"\xff\xfe", b"[" * 100_000, b" " * (1 << 22)]
)
def test_a_file_that_is_not_ours_is_empty_and_set_aside(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    assert lab_record.read(path, "key") == LabResult("key")
    lab_record.keep(path, RESULT)
    assert lab_record.read(path, "key") == RESULT
    [aside] = [each for each in path.parent.iterdir() if each != path]
    assert aside.read_bytes() == content


@pytest.mark.parametrize(
    ("place", "name", "value"),
    [
        ("point", "copies", 0),
        ("point", "copies", "1"),
        ("point", "copies", True),
        ("point", "tokens", -3),
        ("point", "predicted_s", 0.0),
        ("point", "predicted_s", None),
        ("point", "step_s", float("nan")),
        ("point", "step_s", -1.0),
        ("point", "memory_bytes", 1.5),
        ("point", "failed", None),
        ("point", "failed", "x" * 10_000),
        ("run", "kind", "other"),
        ("run", "when_s", "today"),
        ("run", "steps", 1.5),
        ("run", "band", float("inf")),
        ("run", "title", 7),
    ],
)
def test_a_run_that_no_measurement_has_written_is_left_out(
    path: Path, place: str, name: str, value: Any
) -> None:
    lab_record.keep(path, RESULT)
    held = json.loads(path.read_text())
    run = held["results"][0]["runs"][0]
    (run["points"][0] if place == "point" else run)[name] = value
    path.write_text(json.dumps(held))
    assert lab_record.read(path, "key").runs == RESULT.runs[1:]


def test_a_disk_that_refuses_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        lab_record.keep(tmp_path / "file" / "lab.json", RESULT)


def test_results_belong_to_the_model_as_it_is_held() -> None:
    keys = {
        lab_record.key_of(make_plan(format=format, kv=kv), content)
        for format in ("int8", "bf16")
        for kv in ("16", "8")
        for content in ("a", "b")
    }
    assert len(keys) == 8


def test_errors_are_of_speeds() -> None:
    assert POINTS[0].error == pytest.approx(0.012 / 0.0125 - 1)
    assert POINTS[0].each_tps == pytest.approx(80.0)
    assert POINTS[1].error is None and POINTS[1].each_tps is None
