"""The record of past predictions: bounded, safe against damage, and a drift is a median of answers alike."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from app.atomic_file import StorageError
from app.prediction_record import DRIFT_ANSWERS, MOST_ROWS, Judged, drift, read, write

ROW = Judged(
    when_s=1000.0,
    model="tiny",
    format="file",
    context=4096,
    kernels="native avx2",
    device="cpu",
    tokens=900,
    chats=1,
    predicted_tps=100.0,
    measured_tps=94.0,
    predicted_ttft_s=0.2,
    ttft_s=None,
    basis="measured",
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "predictions.json"


def rows(*errors: float, **changes: object) -> list[Judged]:
    made = [replace(ROW, when_s=1000.0 + place, measured_tps=100 * (1 + e)) for place, e in enumerate(errors)]
    return [replace(row, **changes) for row in made]  # type: ignore[arg-type]


def test_what_was_written_is_read_again(path: Path) -> None:
    assert read(path) == ()
    write(path, [ROW, replace(ROW, cause="bus", ttft_s=0.4)])
    assert read(path) == (ROW, replace(ROW, cause="bus", ttft_s=0.4))


def test_only_the_newest_rows_are_kept(path: Path) -> None:
    write(path, [replace(ROW, when_s=float(place + 1)) for place in range(MOST_ROWS + 7)])
    held = read(path)
    assert len(held) == MOST_ROWS
    assert held[-1].when_s == MOST_ROWS + 7


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b'{"version": 99, "rows": []}', b'{"version": 1}'],
)
def test_a_damaged_record_is_set_aside_and_empty(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    assert read(path) == ()
    assert [each.read_bytes() for each in path.parent.iterdir()] == [data]
    assert not path.exists()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", 3),
        ("model", "x" * 1000),
        ("tokens", 1.5),
        ("tokens", True),
        ("chats", 0),
        ("predicted_tps", 0.0),
        ("measured_tps", None),
        ("measured_tps", "fast"),
        ("ttft_s", -1.0),
        ("when_s", float("inf")),
    ],
)
def test_a_row_that_no_answer_can_have_written_is_left_out(path: Path, name: str, value: object) -> None:
    write(path, [ROW, ROW])
    held = json.loads(path.read_text())
    held["rows"][0][name] = value
    path.write_text(json.dumps(held))
    assert read(path) == (ROW,)


def test_a_disk_that_refuses_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError):
        write(tmp_path / "file" / "predictions.json", [ROW])


def test_the_error_is_a_fraction_of_what_was_predicted() -> None:
    assert ROW.error == pytest.approx(-0.06)


def test_a_drift_is_the_median_of_several_answers() -> None:
    assert drift([]) is None
    assert drift(rows(-0.3, -0.3)) is None  # too few
    assert drift(rows(0.0, -0.3, -0.2)) == pytest.approx(-0.2)
    assert drift(rows(-0.1, -0.1, -0.9)) is None  # one answer is no drift
    assert drift(rows(0.3, 0.3, 0.2)) == pytest.approx(0.3)
    assert drift(rows(-0.5, *[0.0] * DRIFT_ANSWERS)) is None  # the newest count


def test_answers_with_other_settings_or_a_known_cause_are_no_drift() -> None:
    assert drift(rows(-0.3, -0.3, -0.3, cause="cores")) is None
    other = rows(-0.3, -0.3, -0.3, format="int4")
    assert drift([*other, *rows(0.0)]) is None
    assert drift(other) == pytest.approx(-0.3)


def test_answers_from_before_the_machine_was_measured_do_not_count() -> None:
    assert drift(rows(-0.3, -0.3, -0.3), since_s=1001.0) is None


def test_where_the_last_answer_is_as_predicted_there_is_no_drift_any_more() -> None:
    assert drift(rows(-0.3, -0.3, -0.3, -0.05)) is None
    assert drift(rows(-0.3, -0.3, -0.3, 0.4)) is None
    assert drift([*rows(-0.3, -0.3, -0.3), *rows(-0.6, cause="cores")]) is None
    assert drift(rows(-0.3, -0.3, -0.3, -0.2)) == pytest.approx(-0.3)
