"""The table of goals, when one is met, and how results are put together."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from app.bench import goals as goals_module
from app.bench import lab as lab_module
from app.bench import roofline
from app.bench.goals import GOALS
from app.bench.interleave import Spread, interleave
from app.bench.lab import MOST_WORKERS, Lab
from app.bench.roofline import AT_LEAST, BELOW, Goal, Outcome, chosen, measure_goals
from app.bench.speculation import RowCosts
from app.bench.streams import Stream
from engine.decode.goodput import MAX_ROWS
from engine.errors import WishError

PROMISED = {
    "decode_1b_4bit_vs_llamacpp": ("at least", 1.15),
    "decode_1b_8bit_vs_llamacpp": ("at least", 1.35),
    "decode_starter_vs_llamacpp": ("at least", 1.2),
    "decode_1b_fraction_of_bandwidth": ("at least", 0.9),
    "prefill_512_starter_vs_llamacpp": ("at least", 2.0),
    "prefill_512_1b_4bit_vs_llamacpp": ("at least", 1.3),
    "decode_2k_over_empty_1b_int4": ("at least", 0.85),
    "step_4_rows_over_1": ("below", 1.6),
    "step_8_rows_over_1": ("below", 2.6),
    "window_over_no_window": ("at least", 0.97),
    "load_1b_over_read": ("below", 2.5),
    "rss_growth_over_held": ("below", 1.2),
    "start_to_first_token_s": ("below", 3.0),
    "int8_activations_perplexity": ("below", 0.5),
    "four_chats_over_one_1b_int4": ("at least", 2.4),
    "drafts_edit_starter": ("at least", 1.8),
    "drafts_summary_starter": ("at least", 2.2),
    "drafts_free_starter": ("at least", 0.98),
    "drafts_over_best_fixed_starter": ("at least", 0.97),
    "drafts_edit_1b_replayed": ("at least", 1.8),
}


def test_every_promise_is_a_goal_and_each_name_is_there_once() -> None:
    assert {goal.name: (goal.direction, goal.goal) for goal in GOALS} == PROMISED
    assert len(GOALS) == len(PROMISED)


@pytest.mark.parametrize(
    ("direction", "value", "is_met"),
    [(AT_LEAST, 1.0, True), (AT_LEAST, 0.99, False), (BELOW, 1.0, False), (BELOW, 0.99, True)],
)
def test_at_least_takes_the_goal_itself_and_below_does_not(
    direction: str, value: float, is_met: bool
) -> None:
    goal = Goal("g", direction, 1.0, "×", lambda _: Outcome(Spread(value, value, value), ""))
    assert goal.is_met(value) is is_met


def test_goals_are_chosen_by_name_and_all_where_none_is_named() -> None:
    assert chosen(GOALS, []) == list(GOALS)
    assert [goal.name for goal in chosen(GOALS, ["step_8_rows_over_1"])] == ["step_8_rows_over_1"]
    with pytest.raises(WishError, match="start_to_first_token_s"):
        chosen(GOALS, ["no_such_goal"])


@pytest.fixture
def no_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    class FakePulse:
        def __init__(self, threads: int) -> None: ...
        def close(self) -> None: ...

    monkeypatch.setattr(lab_module, "Pulse", FakePulse)
    monkeypatch.setattr(roofline, "require_llama_cpp", lambda: None)


def test_the_report_holds_the_settled_keys_and_what_cannot_be_measured_is_not_met(no_workers: None) -> None:
    def break_down(_: Lab) -> Outcome:
        raise WishError("No window here.", "Install Qt.")

    listed = [
        Goal("a", AT_LEAST, 1.0, "×", lambda _: Outcome(Spread(2.0, 1.0, 3.0), "fine", {"ours": 7})),
        Goal("b", BELOW, 1.0, "s", break_down),
    ]
    report = measure_goals(listed, 1, 1, Path, lambda _: None)
    first, second = report["goals"]
    assert {"name", "goal", "value", "spread", "met", "unit", "note", "bytes_per_token"} <= set(first)
    assert (first["value"], first["met"], first["bytes_per_token"]) == (2.0, True, {"ours": 7})
    assert first["spread"] == {"median": 2.0, "min": 1.0, "max": 3.0}
    assert (second["value"], second["met"]) == (None, False)
    assert "No window here" in second["note"]


class Side:
    """A contender with settled times; knows whether it was closed."""

    def __init__(self, path: str, step_s: float = 1.0) -> None:
        self.path, self._step_s, self.is_closed = path, step_s, False
        self.held = self

    def step_s(self, steps: int, depth: int, rows: int = 1, batch: int = 1) -> float:
        return self._step_s * (1 + depth / 8192) * (1 + rows / 10) * (0.5 + batch / 2)

    def step_bytes(self, depth: int) -> int:
        return 600

    def force(self, stream: Stream, speculate: str, words: str) -> dict[str, Any]:
        return {"seconds": 0.03 if speculate == "off" else 0.02, "steps": [[0, 1, ""]]}

    @property
    def is_native(self) -> bool:
        return True

    @property
    def kv_bits(self) -> int:
        return 16

    def close(self) -> None:
        self.is_closed = True


class FakeLab:
    """A lab whose models are their types and whose sides have the given seconds a step."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self._seconds = seconds

    def random(self, shape: str, types: str) -> Path:
        return Path(types)

    def starter(self) -> Path:
        return Path("starter")

    def ours(self, path: Path) -> Side:
        return Side(str(path), self._seconds[f"ours {path}"])

    def row_costs(self, ours: Side, depth: int) -> RowCosts:
        spreads = tuple(Spread.of([1 + rows / 20]) for rows in range(MAX_ROWS))
        return RowCosts(spreads, spreads)

    def theirs(self, path: Path) -> Side:
        return Side(str(path), self._seconds[f"theirs {path}"])

    def in_turn(self, contenders: dict[str, Callable[[], float]]) -> Any:
        return interleave(contenders, 2, lambda: 10.0)


def test_four_bit_decode_meets_the_best_of_theirs_with_as_many_bits_and_the_worse_of_ours_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(goals_module, "read_spec", lambda path: path)
    monkeypatch.setattr(goals_module, "file_step_bytes", len)
    seconds = {"ours Q4_0": 1.0, "ours Q4_K_M": 1.0, "theirs Q4_0": 1.2, "theirs Q4_1": 2.0}
    outcome = goals_module.decode_four_bit(FakeLab(seconds | {"theirs Q4_K_M": 1.5}))  # type: ignore[arg-type]
    assert outcome.spread.median == pytest.approx(1.2)
    assert outcome.note == "Q4_0 1.20 over their Q4_0; Q4_K_M 1.50 over their Q4_K_M"
    outcome = goals_module.decode_four_bit(FakeLab(seconds | {"theirs Q4_K_M": 1.1}))  # type: ignore[arg-type]
    assert outcome.spread.median == pytest.approx(1.1)
    assert outcome.note == "Q4_0 1.10 over their Q4_K_M; Q4_K_M 1.10 over their Q4_K_M"


def test_ratios_are_the_right_way_round() -> None:
    lab: Any = FakeLab({"ours Q4_0": 1.0})
    assert goals_module.deep_over_empty(lab).spread.median == pytest.approx(0.8)  # slower when deep
    assert goals_module.rows_over_one(8)(lab).spread.median == pytest.approx(1.8 / 1.1)
    assert goals_module.four_chats_over_one(lab).spread.median == pytest.approx(4 / 2.5)
    used = 600 / (1.1 * 1e9) / 10.0
    assert goals_module.bandwidth(lab).spread.median == pytest.approx(used)


def test_drafts_are_judged_by_counts_and_the_clock_is_noted(monkeypatch: pytest.MonkeyPatch) -> None:
    copied = tuple(range(40))
    streams = {
        "edit": Stream("edit", "?", copied, (50, *copied)),
        "free": Stream("free", "?", (1,), tuple(range(40, 90))),
    }
    monkeypatch.setattr(goals_module, "read_spec", lambda path: path)
    monkeypatch.setattr(goals_module, "chats", lambda spec, words: (str(words), streams))
    lab: Any = FakeLab({"ours starter": 1.0})
    edit = goals_module.drafts_over_plain(goals_module._starter, "edit")(lab)
    assert edit.spread.median > 2
    assert "by the clock 1.50 (1.50-1.50); 33.3 and 50.0 tok/s" in edit.note
    assert goals_module.drafts_over_plain(goals_module._starter, "free")(lab).spread.median == 1.0
    worst = goals_module.drafts_over_best_fixed(lab)
    assert worst.spread.median < 1.0 < edit.spread.median
    assert "free 1.000 of length 0" in worst.note


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Iterator[Lab]:
    monkeypatch.setattr(
        lab_module, "Ours", type("Ours", (Side,), {"__init__": lambda s, w: Side.__init__(s, w.path)})
    )
    made = Lab(1, 1, Path, lambda: 1.0, lambda _: None)
    yield made
    made.close()


def test_a_lab_keeps_its_workers_and_the_oldest_makes_room(lab: Lab) -> None:
    sides = [lab.ours(Path(f"m{number}")) for number in range(MOST_WORKERS)]
    assert lab.ours(Path("m0")) is sides[0]
    lab.ours(Path("new"))
    assert [side.is_closed for side in sides] == [False, True, *[False] * (MOST_WORKERS - 2)]
    lab.close()
    assert all(side.is_closed for side in sides)


def test_reading_a_file_takes_time_and_reads_to_the_end(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"x" * 100)
    assert goals_module.read_s(path) > 0
