"""From figures of quality to words beside a format: rounding, and what they mean to somebody new to them.

Pure functions; knows no file and no widget.
"""

from __future__ import annotations

from app.quality_record import QualityFigure, kind_of
from engine import words
from engine.types import LoadPlan
from engine.words import mark, tr
from ui import numbers

NOT_MEASURED = mark("not measured")
_BOOK = "Alice's Adventures in Wonderland"
_MEANING = mark(
    "Perplexity: between about how many next words the model wavers; lower is better. "
    "KL: how far its guesses stray from those of 32-bit; 0 is not at all."
)
_LOSSES = (
    (0.01, mark("Hardly a difference to 32-bit")),
    (0.03, mark("A small loss")),
    (0.1, mark("A clear loss")),
)
_MEASURED_WITH = {
    "native": mark("Measured on {tokens} tokens of {book} with native kernels; those here differ a little."),
    "torch": mark("Measured on {tokens} tokens of {book} with torch's kernels; those here differ a little."),
}
_LEAST_CHANGE = 0.0005  # less is 0.0 %
_HEAVY = mark("A heavy loss")
_MEASURED_UNASKED = ("f32", "file", "bf16", "int8", "int4")  # by `decodeck bench --quality` without --format


def quality_line(figure: QualityFigure, made: LoadPlan) -> str:
    """Short, for under a format: the reference's perplexity, of others how far they are above it. With ≈
    where the plan has other kernels than were measured.
    """
    words = _perplexity(figure) if figure.is_reference else _percent(figure.change, is_signed=True)
    return tr("perplexity {figure}").format(figure=words if _is_exact(figure, made) else f"≈{words}")


def quality_sentence(figure: QualityFigure, made: LoadPlan) -> str:
    """In full: the verdict, all figures, what they mean and what they were measured on."""
    perplexity = _perplexity(figure)
    if figure.is_reference:
        found = tr("Quality: perplexity {figure}. The other formats are compared with this one.")
        found = found.format(figure=perplexity)
    else:
        loss = max(figure.change, figure.kl)  # both in nats where they are small
        verdict = next((words for most, words in _LOSSES if loss < most), _HEAVY)
        found = tr("{verdict}: perplexity {figure}, {change}; KL {kl}.").format(
            verdict=tr(verdict), figure=perplexity, change=_change(figure.change), kl=_kl(figure.kl)
        )
    measured = tr("Measured on {tokens} tokens of {book}.")
    measured = measured if _is_exact(figure, made) else tr(_MEASURED_WITH[figure.kernels])
    return f"{found} {tr(_MEANING)} {measured.format(tokens=numbers.count(figure.tokens), book=_BOOK)}"


def unmeasured_sentence(made: LoadPlan) -> str:
    """That there are no figures, and how to get them where that is possible."""
    if made.format == "llm-int8":  # the bench measures on the processor
        return tr("Quality not measured.")
    options = "" if made.format in _MEASURED_UNASKED else f" --format {made.format}"
    options += "" if made.wish.kv == "auto" else f" --kv {made.kv_bits}"
    command = f'decodeck bench --quality{options} --model "{made.model.path}"'
    return tr("Quality not measured. To measure it: {command}").format(command=command)


def _is_exact(figure: QualityFigure, made: LoadPlan) -> bool:
    return figure.kernels == kind_of(made.kernels)


def _perplexity(figure: QualityFigure) -> str:
    return numbers.decimal(figure.perplexity, 1 if figure.perplexity < 99.95 else 0)


def _change(fraction: float) -> str:
    if abs(fraction) < _LEAST_CHANGE:
        return tr("as in 32-bit")
    words = tr("{percent} below 32-bit") if fraction < 0 else tr("{percent} above 32-bit")
    return words.format(percent=_percent(abs(fraction)))


def _percent(fraction: float, *, is_signed: bool = False) -> str:
    """One decimal below 10 %, none above."""
    digits = 1 if abs(fraction) < 0.0995 else 0
    percent = round(100 * fraction, digits)
    sign = "" if not is_signed else "−" if percent < 0 else "+"
    return words.percent(f"{sign}{numbers.decimal(abs(percent), digits)}")


def _kl(nats: float) -> str:
    """Two or three digits that say something."""
    digits = 4 if nats < 0.001 else 3 if nats < 0.1 else 2
    return numbers.decimal(max(0.0, nats), digits)
