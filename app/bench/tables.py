"""The reports of `decodeck bench` as lines for a terminal. Pure text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_Row = tuple[str, ...]
_IN_CACHE, _CACHED = "cache", 1.05  # of the bandwidth: more than it drifts between two pulses
_RUN_TITLES: _Row = ("format", "context", "batch", "prefill", "first token", "decode", "min–max")
_RUN_TITLES += ("in all", "a token", "bandwidth", "used", "memory")
_RUN_UNITS: _Row = ("", "", "", "tok/s", "s", "tok/s", "tok/s", "tok/s", "MB", "GB/s", "", "+MB")


def run_lines(report: Mapping[str, Any]) -> list[str]:
    """One line for each run; a spread is the range over the rounds."""
    rows = [_RUN_TITLES, _RUN_UNITS, *map(_run_cells, report["runs"])]
    return [report["runs"][0]["model"], *aligned(rows), *_cache_notes(report["runs"])]


def _run_cells(run: Mapping[str, Any]) -> _Row:
    spread = run["spread"]["per_request_tps"]
    return (
        run["format"],
        f"{run['context']:,}",
        str(run["batch"]),
        f"{run['prefill_tps']:,.0f}",
        f"{run['ttft_s']:.3f}",
        f"{run['per_request_tps']:.1f}",
        f"{spread['min']:.1f}–{spread['max']:.1f}",
        f"{run['total_tps']:.1f}",
        f"{run['bytes_per_token'] / 1e6:,.1f}",
        f"{run['read_bandwidth_gbps']:.1f}",
        _used(run["fraction_of_bandwidth"]),
        f"{run['rss_growth_bytes'] / 1e6:,.0f}",
    )


def _used(fraction: float) -> str:
    """The share of the memory's bandwidth; what is more than all of it does not come from memory alone."""
    return _IN_CACHE if fraction > _CACHED else f"{100 * fraction:.0f} %"


def _cache_notes(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    if not any(each["fraction_of_bandwidth"] > _CACHED for each in entries):
        return []
    return [f"{_IN_CACHE}: read quicker than memory can be, for the processor's cache holds a part of it."]


def ratio_lines(report: Mapping[str, Any]) -> list[str]:
    """One line for each comparison with another engine."""
    rows: list[_Row] = [("", "ratio", "min–max", "ours", "theirs", "")]
    for name, ratio in report["ratios"].items():
        sides = report["medians"][name]
        span = f"{ratio['min']:.2f}–{ratio['max']:.2f}"
        values = [_short(sides[side], sides["unit"]) for side in ("ours", "theirs")]
        unit = "MB" if sides["unit"] == "bytes" else sides["unit"]
        rows.append((name, f"{ratio['median']:.2f}", span, *values, unit))
    read = {side: f"{count / 1e6:,.1f} MB" for side, count in report["bytes_per_token"].items()}
    return [
        report["model"],
        *aligned(rows),
        f"Ours over theirs as speeds: above 1 is better for us. Read per token: {read['ours']} by us, "
        f"{read['theirs']} by them.",
    ]


def _short(value: float, unit: str) -> str:
    if unit == "bytes":
        return f"{value / 1e6:,.0f}"
    return f"{value:.3f}" if unit == "s" else f"{value:,.1f}"


def goal_lines(report: Mapping[str, Any]) -> list[str]:
    """One line for each goal."""
    rows: list[_Row] = [("goal", "", "value", "min–max", "", "")]
    for goal in report["goals"]:
        sign = "≥" if goal["direction"] == "at least" else "<"
        value, spread = goal["value"], goal["spread"]
        measured = (
            ("–", "") if value is None else (f"{value:.3f}", f"{spread['min']:.3f}–{spread['max']:.3f}")
        )
        verdict = "met" if goal["met"] else "NOT MET"
        rows.append((goal["name"], f"{sign} {goal['goal']:g}", *measured, verdict, goal["note"]))
    met = sum(goal["met"] for goal in report["goals"])
    return [*aligned(rows), f"{met} of {len(report['goals'])} goals met"]


def kernel_lines(report: Mapping[str, Any]) -> list[str]:
    """One line for each kernel on each matrix; a star stands where a load takes it."""
    rows: list[_Row] = [("kernel", "held as", "matrix", "rows", "µs", "GB/s", "used", "")]
    for kernel in report["kernels"]:
        out, cols = kernel["shape"]
        rows.append(
            (
                kernel["name"],
                kernel["format"],
                f"{out} × {cols}",
                str(kernel["rows"]),
                f"{kernel['us']:,.1f}",
                f"{kernel['gbps']:.1f}",
                _used(kernel["fraction_of_bandwidth"]),
                "*" if kernel["chosen"] else "",
            )
        )
    notes = ["* what this model is loaded for; the others for comparison", *_cache_notes(report["kernels"])]
    return [report["model"], *aligned(rows), *notes]


def speculation_lines(report: Mapping[str, Any]) -> list[str]:
    """What rows cost; then for each text every fixed length, what goodput chose, and the clock's word."""
    costs = ", ".join(f"{each['rows']}: {each['cost']:.2f}" for each in report["step_costs"])
    rows: list[_Row] = [("text", "drafted", "tokens a step", "cost a step", "gain", "")]
    said = []
    for chosen in report["goodput"]:
        same = [each for each in report["speculation"] if each["text"] == chosen["text"]]
        rows += [
            (*_speculation_cells(each), "best fixed" if each["length"] == chosen["best_length"] else "")
            for each in same
        ]
        rows.append((*_speculation_cells(chosen), f"{chosen['over_best']:.3f} of the best fixed length"))
        said += _chosen_lines(chosen)
    return [
        report["model"],
        f"A step of so many rows costs, in steps of one: {costs}",
        *aligned(rows),
        *said,
    ]


def _speculation_cells(figures: Mapping[str, Any]) -> _Row:
    length = figures["length"]
    values = (f"{figures[key]:.2f}" for key in ("tokens_per_step", "rows_cost", "gain"))
    return figures["text"], "by goodput" if length is None else str(length), *values


def _chosen_lines(chosen: Mapping[str, Any]) -> list[str]:
    """The clock's word on one text, what was chosen in that run, and why drafting was off."""
    wall = chosen["wall"]
    gain = wall["gain"]
    lengths = ", ".join(f"{length} × {steps}" for length, steps in wall["lengths"].items())
    lines = [
        f"{chosen['text']}: by the clock {gain['median']:.2f} ({gain['min']:.2f}–{gain['max']:.2f}), "
        f"{wall['tps']:.1f} and {wall['plain_tps']:.1f} tok/s; drafted × steps: {lengths}"
    ]
    for off in wall["off"]:
        lines.append(f"  off after {off['at']} tokens, for {off['tokens']}: {off['reason']}")
    return lines


def quality_lines(report: Mapping[str, Any]) -> list[str]:
    """One line for each format; the first is what the others are compared with."""
    exact = report["quality"][0]["perplexity"]
    rows: list[_Row] = [("format", "KV", "perplexity", "", "KL, nats", "")]
    for each in report["quality"]:
        change = f"{100 * (each['perplexity'] / exact - 1):+.2f} %"
        figures = (f"{each['perplexity']:.3f}", change, f"{each['kl']:.5f}")
        rows.append((each["format"], str(each["kv_bits"]), *figures, ""))
    read = f"On the first {report['tokens']:,} tokens of Alice's Adventures in Wonderland"
    return [report["model"], *aligned(rows), f"{read}; perplexity and KL against the first line."]


def aligned(rows: Sequence[_Row]) -> list[str]:
    """Columns two spaces apart; the first is aligned left, the last where it is text."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True)]
        lines.append("  ".join([*cells, row[-1]]).rstrip())
    return lines
