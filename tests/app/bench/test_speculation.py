"""`decodeck bench --speculation`: costs of rows, counts and the clock's word, and how they are told."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from app import cli
from app.bench import speculation as speculation_module
from app.bench.interleave import Samples, Spread, warmed
from app.bench.speculation import (
    LENGTHS,
    RowCosts,
    Step,
    chats,
    choices,
    count,
    depth_of,
    measure_speculation,
    row_costs,
    time_stream,
)
from app.bench.streams import KINDS, Stream, make_stream, read_streams
from app.bench.tables import speculation_lines
from engine.decode.goodput import MAX_ROWS
from engine.errors import WishError
from engine.models.spec import read_spec
from engine.text.chat import ChatText
from engine.types import LoadSpec
from tests.engine.models.generic_models import generic_folder
from tests.engine.tiny import tiny_folder

COPIED = tuple(range(10, 60))
STREAM = Stream("edit", "?", (1, *COPIED, 2), (3, *COPIED[:20], 4, *COPIED[20:]))
Write = Callable[[str], Path]


def in_turn(contenders: Mapping[str, Callable[[], float]]) -> Samples:
    return warmed(contenders, 2, lambda: 1.0)


def costs_of(per_row: float) -> RowCosts:
    spreads = tuple(Spread.of([1 + per_row * rows]) for rows in range(MAX_ROWS))
    return RowCosts(spreads, spreads)


class Drifting:
    """A model on a machine that becomes a tenth slower with each pair of steps; a row costs a fifth."""

    path = "m"

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []

    def step_s(self, steps: int, depth: int, rows: int) -> float:
        slow = 1.1 ** (len(self.asked) // 2)
        self.asked.append((depth, rows))
        return slow * (0.01 + 0.002 * (rows - 1))


def test_what_rows_cost_does_not_depend_on_the_machines_drift() -> None:
    ours: Any = Drifting()
    costs = row_costs(ours, 700, in_turn)
    assert [costs.of(rows) for rows in (1, 2, 6, 16)] == pytest.approx([1.0, 1.2, 2.0, 4.0])
    assert {depth for depth, _ in ours.asked} == {700}
    assert [each["rows"] for each in costs.as_json()] == list(range(1, MAX_ROWS + 1))
    assert costs.as_json()[0]["ms"] > 10 and costs.as_json()[0]["cost"] == 1.0


def test_more_rows_cost_no_less_where_the_clock_says_so() -> None:
    spreads = tuple(Spread.of([cost]) for cost in (1.0, 0.9, 1.4, 1.2, *[1.5] * 12))
    costs = RowCosts(spreads, spreads)
    assert [costs.of(rows) for rows in range(1, 6)] == [1.0, 1.0, 1.4, 1.4, 1.5]


def test_counts_compare_goodput_with_every_fixed_length() -> None:
    counted = count(STREAM, costs_of(0.05), is_native=True)
    assert tuple(counted.fixed) == LENGTHS
    assert counted.fixed[0].goodput == 1.0
    assert counted.best in (8, 12)  # nearly all is copied
    assert counted.over_best == counted.chosen.goodput / counted.fixed[counted.best].goodput
    assert sum(step.came for step in counted.steps) == len(STREAM.answer) - 1
    assert max(step.checked for step in counted.steps) > 2


def test_where_rows_are_dear_nothing_is_the_best_length() -> None:
    counted = count(STREAM, costs_of(9.0), is_native=False)
    assert counted.best == 0
    assert set(choices(counted.steps)["lengths"]) >= {"0"}
    assert counted.chosen.goodput < 1.0  # the trials


def test_choices_say_how_often_each_length_was_taken_and_where_drafting_was_off() -> None:
    listed = [[2, 3, ""], [0, 1, "dear"], [0, 1, "dear"], [1, 2, ""], [0, 1, "bad"]]
    told = choices(Step.listed(listed))
    assert told["lengths"] == {"0": 3, "1": 1, "2": 1}
    assert told["off"] == [
        {"at": 4, "tokens": 1, "reason": "dear"},
        {"at": 8, "tokens": 0, "reason": "bad"},
    ]


def test_the_clock_compares_the_same_answer_with_drafts_and_without() -> None:
    class Ours:
        def force(self, stream: Stream, speculate: str, words: str) -> dict[str, Any]:
            assert (stream, words) == (STREAM, "w")
            is_off = speculate == "off"
            return {"seconds": 0.02 if is_off else 0.01, "steps": [] if is_off else [[3, 4, ""], [0, 1, ""]]}

    ours: Any = Ours()
    timed = time_stream(ours, STREAM, "w", in_turn)
    assert (timed.gain.median, timed.drafted_tps, timed.plain_tps) == (2.0, 100.0, 50.0)
    told = timed.as_json()
    assert (told["tokens_per_step"], told["lengths"]) == (2.5, {"0": 1, "3": 1})


def test_chats_are_made_of_other_words_only_where_the_model_has_room_for_them(
    tiny: Write, tmp_path: Path
) -> None:
    words = tiny_folder(tmp_path / "words")
    large, small = read_spec(str(tiny("Q4_0"))), read_spec(str(words))
    source, streams = chats(large, words)
    assert source == str(words)
    assert streams == read_streams(ChatText.load(str(words)))
    source, streams = chats(small, tiny("Q4_0"))
    assert source == small.path
    assert max(max(each.prompt + each.answer) for each in streams.values()) < small.vocab_size


def test_every_chat_has_a_question_and_a_long_answer(tiny: Write) -> None:
    text = ChatText.load(str(tiny("Q4_0")))
    streams = read_streams(text)
    assert tuple(streams) == KINDS
    for stream in streams.values():
        assert text.tokenizer.decode(stream.prompt).strip().endswith("assistant")
        assert stream.question[-30:] in text.tokenizer.decode(stream.prompt)
        assert len(text.tokenizer.decode(stream.answer)) > 1900
        assert not stream.ends & set(stream.answer)
    assert min(map(len, (each.prompt for each in streams.values()))) < depth_of(streams)


def test_a_model_that_cannot_take_tokens_back_is_refused(tmp_path: Path) -> None:
    folder = generic_folder(tmp_path / "m", "lfm2")
    with pytest.raises(WishError, match="without drafts"):
        measure_speculation(LoadSpec(str(folder)), None, 1, lambda said: None)


def test_the_report_has_the_settled_keys_and_figures_that_fit_together(
    tiny: Write, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def short(text: ChatText) -> dict[str, Stream]:
        line = "over the hills and far away"
        return {kind: make_stream(text, kind, line, f"{kind}: {line}") for kind in KINDS}

    monkeypatch.setattr(speculation_module, "read_streams", short)
    options = ("--speculation", "--repeat", "1", "--threads", "1", "--json")
    assert cli.main(["bench", "--model", str(tiny("Q4_0")), *options]) == 0
    report = json.loads(capsys.readouterr().out)
    assert [each["rows"] for each in report["step_costs"]] == list(range(1, MAX_ROWS + 1))
    listed = report["speculation"]
    assert [(each["text"], each["length"]) for each in listed] == [(k, n) for k in KINDS for n in LENGTHS]
    for each in listed:
        assert set(each) == {"text", "length", "tokens_per_step", "rows_cost", "gain"}
        # a mean of ratios over the steps is the ratio of the means
        assert each["gain"] == pytest.approx(each["tokens_per_step"] / each["rows_cost"])
    for chosen in report["goodput"]:
        wall = chosen["wall"]
        came = wall["tokens_per_step"] * sum(wall["lengths"].values())
        assert came == pytest.approx(chosen["tokens"] - 1)
        assert wall["gain"]["median"] == pytest.approx(wall["tps"] / wall["plain_tps"])  # one round
    assert len(speculation_lines(report)) >= 2 + 1 + 3 * (len(LENGTHS) + 1) + 3


def test_the_table_marks_the_best_fixed_length_and_says_why_drafting_was_off() -> None:
    figures = {"text": "free", "tokens_per_step": 1.02, "rows_cost": 1.0, "gain": 1.02}
    off = {"at": 27, "tokens": 64, "reason": "Drafting is off: because."}
    spread = {"median": 0.99, "min": 0.98, "max": 1.0}
    wall = {"gain": spread, "tps": 99.0, "plain_tps": 100.0, "lengths": {"0": 5, "1": 2}, "off": [off]}
    chosen = figures | {"length": None, "best_length": 1, "over_best": 0.995, "wall": wall}
    report = {
        "model": "m.gguf",
        "step_costs": [{"rows": 1, "cost": 1.0}, {"rows": 2, "cost": 1.25}],
        "speculation": [figures | {"length": length} for length in (0, 1)],
        "goodput": [chosen],
    }
    lines = speculation_lines(report)
    assert "1: 1.00, 2: 1.25" in lines[1]
    assert [line.endswith("best fixed") for line in lines[3:5]] == [False, True]
    assert "by goodput" in lines[5] and "0.995 of the best" in lines[5]
    assert "0.99 (0.98–1.00)" in lines[6] and "0 × 5, 1 × 2" in lines[6]
    assert "after 27 tokens, for 64: Drafting is off: because." in lines[7]
