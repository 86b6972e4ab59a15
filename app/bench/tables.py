"""The reports of `decodeck bench` as lines for a terminal. Pure text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

_Row = tuple[str, ...]
_RUN_TITLES: _Row = ("format", "context", "batch", "prefill", "first token", "decode", "min–max")
_RUN_TITLES += ("in all", "a token", "bandwidth", "used", "memory")
_RUN_UNITS: _Row = ("", "", "", "tok/s", "s", "tok/s", "tok/s", "tok/s", "MB", "GB/s", "", "+MB")


def run_lines(report: Mapping[str, Any]) -> list[str]:
    """One line for each run; a spread is the range over the rounds."""
    rows = [_RUN_TITLES, _RUN_UNITS, *map(_run_cells, report["runs"])]
    return [report["runs"][0]["model"], *_aligned(rows)]


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
        f"{100 * run['fraction_of_bandwidth']:.0f} %",
        f"{run['rss_growth_bytes'] / 1e6:,.0f}",
    )


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
        *_aligned(rows),
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
    return [*_aligned(rows), f"{met} of {len(report['goals'])} goals met"]


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
                f"{100 * kernel['fraction_of_bandwidth']:.0f} %",
                "*" if kernel["chosen"] else "",
            )
        )
    return [report["model"], *_aligned(rows), "* what this model is loaded for; the others for comparison"]


def quality_lines(report: Mapping[str, Any]) -> list[str]:
    """One line for each format; the first is what the others are compared with."""
    exact = report["quality"][0]["perplexity"]
    rows: list[_Row] = [("format", "KV", "perplexity", "", "KL, nats", "")]
    for each in report["quality"]:
        change = f"{100 * (each['perplexity'] / exact - 1):+.2f} %"
        figures = (f"{each['perplexity']:.3f}", change, f"{each['kl']:.5f}")
        rows.append((each["format"], str(each["kv_bits"]), *figures, ""))
    read = f"On the first {report['tokens']:,} tokens of Alice's Adventures in Wonderland"
    return [report["model"], *_aligned(rows), f"{read}; perplexity and KL against the first line."]


def _aligned(rows: Sequence[_Row]) -> list[str]:
    """Columns two spaces apart; the first is aligned left, the last where it is text."""
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True)]
        lines.append("  ".join([*cells, row[-1]]).rstrip())
    return lines
