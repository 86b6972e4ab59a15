"""The figures of an answer: as they are kept with it, of one that was continued, and back on the gauges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from app import readouts
from engine.events import AnswerStats, StepStats
from engine.words import mark, tr
from ui import numbers
from ui.gauge_values import SpeedView

_ENDS = {
    "done": mark("Ended by the model"),
    "stopped": mark("Ended by you"),
    "length": mark("Ended by the longest answer length"),
    "context": mark("Ended by the context length"),
    "failed": mark("Ended by an error"),
}
_IN_LINE = frozenset(("tokens", "decode_tps", "ttft_s", "drafted", "accepted"))
Figures = TypeVar("Figures", AnswerStats, StepStats)


def joined(before: Mapping[str, object], figures: Figures) -> Figures:
    """Figures of a whole answer, of which a part with the kept figures ``before`` was there already.

    The speed is that of all tokens but the first of each part, over the time that both took.
    """
    tokens, drafted, accepted = (_whole(before, name) for name in ("tokens", "drafted", "accepted"))
    parts = (
        (tokens, _number(before, "decode_tps")),
        (figures.generated_tokens, figures.decode_tps),
    )
    timed = [(count - 1, (count - 1) / tps) for count, tps in parts if count > 1 and tps]
    ttft_s = _number(before, "ttft_s")
    return replace(
        figures,
        generated_tokens=tokens + figures.generated_tokens,
        decode_tps=sum(count for count, _ in timed) / sum(s for _, s in timed) if timed else None,
        ttft_s=figures.ttft_s if ttft_s is None else ttft_s,
        drafted_tokens=drafted + figures.drafted_tokens,
        accepted_tokens=accepted + figures.accepted_tokens,
    )


def kept(figures: AnswerStats | StepStats) -> dict[str, object]:
    """What is kept with an answer, one that is still being written too."""
    stats = figures if isinstance(figures, AnswerStats) else None
    return {
        "line": readouts.stats_line(figures) if figures.generated_tokens else "",
        "decode_tps": figures.decode_tps,
        "ttft_s": figures.ttft_s,
        "prompt_tps": readouts.prompt_speed(stats) if stats else None,
        "tokens": figures.generated_tokens,
        "drafted": figures.drafted_tokens,
        "accepted": figures.accepted_tokens,
        "seed": stats.seed if stats else None,
        "prompt": stats.prompt_tokens if stats else None,
        "reused": stats.reused_tokens if stats else None,
    }


def line(stats: Mapping[str, object]) -> str:
    """The figures of an answer in one line, in the words of now; as it was kept where there is no more."""
    if not stats.keys() >= _IN_LINE:
        return str(stats.get("line") or "")
    tokens, drafted, accepted = (_whole(stats, name) for name in ("tokens", "drafted", "accepted"))
    speed, ttft_s = _number(stats, "decode_tps"), _number(stats, "ttft_s")
    figures = StepStats("", tokens, speed, None, ttft_s, drafted_tokens=drafted, accepted_tokens=accepted)
    return readouts.stats_line(figures) if tokens else ""


def details(stats: Mapping[str, object], status: str) -> str:
    """How an answer ended, what was predicted of it and what was read for it, a line each; "" of none."""
    if not _whole(stats, "tokens") or status not in _ENDS:
        return ""
    lines = [tr(_ENDS[status])]
    if predicted_tps := _number(stats, "predicted_tps"):
        lines.append(tr("Predicted: ≈ {speed}\u00a0tok/s").format(speed=numbers.tps(predicted_tps)))
    if prompt := _whole(stats, "prompt"):
        lines.append(_prompt_line(prompt, _whole(stats, "reused"), _number(stats, "prompt_tps")))
    return "\n".join(lines)


def _prompt_line(prompt: int, reused: int, speed: float | None) -> str:
    """Tokens of the prompt, how many were there already, and how quickly the others were read."""
    if reused and speed:
        words = tr("Prompt: {count} tokens, {reused} of them reused, read at {speed}\u00a0tok/s")
    elif reused:
        words = tr("Prompt: {count} tokens, {reused} of them reused")
    elif speed:
        words = tr("Prompt: {count} tokens, read at {speed}\u00a0tok/s")
    else:
        words = tr("Prompt: {count} tokens")
    figures = numbers.count(prompt), numbers.count(reused), numbers.tps(speed)
    return words.format(count=figures[0], reused=figures[1], speed=figures[2])


def speed_view(stats: Mapping[str, object]) -> SpeedView:
    """The gauges of an ended answer, from what was kept with it."""
    drafted = _whole(stats, "drafted")
    return SpeedView(
        _number(stats, "decode_tps"),
        ttft_s=_number(stats, "ttft_s"),
        prefill_tps=_number(stats, "prompt_tps"),
        drafts_accepted=_whole(stats, "accepted") / drafted if drafted else None,
    )


def _number(stats: Mapping[str, object], name: str) -> float | None:
    value = stats.get(name)
    return float(value) if isinstance(value, int | float) else None


def _whole(stats: Mapping[str, object], name: str) -> int:
    value = stats.get(name)
    return value if isinstance(value, int) else 0
