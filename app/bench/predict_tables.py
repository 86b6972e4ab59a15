"""The report of `decodeck bench --predict` as lines for a terminal. Pure text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from app.bench.tables import aligned

_Row = tuple[str, ...]
_TITLES: _Row = (
    "model",
    "format",
    "tokens",
    "predicted",
    "scaled",
    "measured",
    "GB/s",
    "error",
    "unscaled",
    "",
)
_GOALS = {
    "speed_error": ("speed", 0.05, 0.12),
    "speed_error_raw": ("speed, unscaled", None, None),
    "ttft_error": ("first token", 0.2, None),
    "memory_error": ("memory", None, None),
}


def predict_lines(report: Mapping[str, Any]) -> list[str]:
    """Steps and prompts beside what was said of them, in tokens a second, and the errors in short."""
    rows: list[_Row] = [_TITLES, *map(_step_cells, report["speeds"])]
    prompts: list[_Row] = [("model", "format", "prompt", "predicted s", "measured s", "error", "")]
    prompts += map(_prompt_cells, report["prompts"])
    memory: list[_Row] = [
        ("model", "format", "planned MB", "grown MB", "error", ""),
        *map(_memory_cells, report["memory"]),
    ]
    return [*aligned(rows), "", *aligned(prompts), "", *aligned(memory), "", *_summary(report)]


def _step_cells(point: Mapping[str, Any]) -> tuple[str, ...]:
    speeds = (f"{1 / point[name]:.1f}" for name in ("predicted_s", "scaled_s", "measured_s"))
    errors = (f"{100 * point[name]:+.1f} %" for name in ("error", "raw_error"))
    return (*_named(point), f"{point['tokens']:,}", *speeds, f"{point['gbps']:.1f}", *errors, "")


def _prompt_cells(point: Mapping[str, Any]) -> tuple[str, ...]:
    seconds = (f"{point[name]:.2f}" for name in ("predicted_s", "measured_s"))
    return (*_named(point), f"{point['tokens']:,}", *seconds, f"{100 * point['raw_error']:+.1f} %", "")


def _memory_cells(each: Mapping[str, Any]) -> tuple[str, ...]:
    sizes = (f"{each[name] / 1e6:,.1f}" for name in ("planned_bytes", "grown_bytes"))
    return (*_named(each), *sizes, f"{100 * each['error']:.1f} %", "")


def _named(each: Mapping[str, Any]) -> tuple[str, str]:
    return each["case"]["model"], each["case"]["format"]


def _summary(report: Mapping[str, Any]) -> list[str]:
    lines = []
    for name, (title, median, p95) in _GOALS.items():
        found = report[name]
        if found is None:
            continue
        aims = [
            f"{word} at most {100 * aim:.0f} %" for word, aim in (("median", median), ("p95", p95)) if aim
        ]
        aim = f" (goal: {', '.join(aims)})" if aims else ""
        lines.append(f"{title}: median {100 * found['median']:.1f} %, p95 {100 * found['p95']:.1f} %{aim}")
    return lines
