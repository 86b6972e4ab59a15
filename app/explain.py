"""What stands behind the line that says why: a step by its parts, and what it would be like otherwise. Pure.

The three doors through which a model became small enough to be quick: fewer bits, shared keys, a window. Each
is closed again on paper, with the arithmetic that planned what is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from app.live_prediction import Moment, Pace, parts, predicted_tps
from engine.errors import EngineError
from engine.fit.bytes import layer_bits
from engine.fit.plan import plan
from engine.fit.speed import step_bytes, step_s, tokens_per_step
from engine.types import LoadPlan, ModelSpec
from engine.words import tr
from ui import numbers
from ui.gauge_values import BatchRow, Door, DraftRow, StepPart

BATCHES = (1, 2, 4, 8)
DRAFTED = (0, 1, 2, 3, 4, 6, 8)
_DENSE_BITS = 16
_MOST_GAIN = 0.999


def step_view(made: LoadPlan, now: Moment) -> tuple[StepPart, ...]:
    """The predicted milliseconds of a step, by what takes them."""
    found = parts(made, now)
    named = (
        (tr("Weights"), found.weights_s, found.weights_bytes),
        (tr("Context"), found.kv_s, found.kv_bytes),
        (tr("Arithmetic"), found.compute_s, 0),
        (tr("Fixed cost"), found.fixed_s, 0),
    )
    return tuple(StepPart(name, 1000 * seconds, nbytes) for name, seconds, nbytes in named)


def doors(made: LoadPlan, tokens: int) -> tuple[Door, ...]:
    """The loaded model as it is, and with each door closed; ``tokens`` are in the chat now."""
    spec = made.model
    as_it_is = _door(tr("As loaded"), "", made, made, tokens)
    return (
        as_it_is,
        _at_16_bits(made, tokens),
        _without_gqa(made, spec, tokens),
        _without_window(made, spec, tokens),
    )


def _at_16_bits(made: LoadPlan, tokens: int) -> Door:
    title, bits = tr("At 16 bits"), layer_bits(made.model, made.format, made.is_native)
    if bits >= _DENSE_BITS:
        return Door(title, tr("The weights are held at {bits} bits already.").format(bits=bits))
    words = tr("Most weights are held at {bits} bits and read in full for every token.").format(bits=bits)
    return _closed(title, words, made, tokens, lambda: _planned(made, made.model, "bf16"))


def _without_gqa(made: LoadPlan, spec: ModelSpec, tokens: int) -> Door:
    title, groups = tr("Without GQA"), spec.num_heads // max(1, spec.num_kv_heads)
    if groups <= 1:
        return Door(title, tr("Every query head has keys and values of its own."))
    words = tr("{count} query heads share each head of keys and values (grouped-query attention).")
    words = words.format(count=groups)
    every = replace(spec, num_kv_heads=spec.num_heads)
    return _closed(title, words, made, tokens, lambda: _planned(made, every, made.format))


def _without_window(made: LoadPlan, spec: ModelSpec, tokens: int) -> Door:
    title = tr("Without its window")
    windows = [layer.sliding_window for layer in spec.layers if layer.sliding_window is not None]
    if not windows:
        return Door(title, tr("Every layer reads the whole chat: there is no window."))
    layers = tuple(replace(layer, sliding_window=None) for layer in spec.layers)
    whole = replace(spec, sliding_window=None, options=replace(spec.options, layers=layers))
    words = tr("{count} of {layers} layers read the last {tokens} tokens only.").format(
        count=len(windows), layers=spec.num_layers, tokens=numbers.count(max(windows))
    )
    return _closed(title, words, made, tokens, lambda: _planned(made, whole, made.format))


def _planned(made: LoadPlan, spec: ModelSpec, format: str) -> LoadPlan:
    """The plan of another model or format in the place of the loaded one: what was free for that is free for
    it. Raises EngineError.
    """
    wish = replace(made.wish, format=format, context=made.context, draft="")
    return plan(spec, made.hardware, wish)


def _closed(title: str, words: str, made: LoadPlan, tokens: int, make: Callable[[], LoadPlan]) -> Door:
    try:
        return _door(title, words, make(), made, tokens)
    except EngineError as error:
        return Door(title, f"{words} {error.message}")


def _door(title: str, words: str, other: LoadPlan, made: LoadPlan, tokens: int) -> Door:
    now, full = 1 / step_s(other, tokens), 1 / step_s(other, other.context)
    return Door(
        title,
        words,
        memory_bytes=other.bytes.total - other.bytes.overhead,
        read_bytes=step_bytes(other, tokens).total,
        full_read_bytes=step_bytes(other, other.context).total,
        tps=now,
        full_tps=full,
        times=(1 / step_s(made, tokens)) / now,
        does_fit=other.verdict != "no",
    )


def batches(made: LoadPlan, tokens: int) -> tuple[BatchRow, ...]:
    """What several chats as long as this one get, each and together."""
    rows = []
    for count in BATCHES:
        each = predicted_tps(made, Moment((tokens,) * count))
        rows.append(BatchRow(count, each, count * each))
    return tuple(rows)


def drafts(made: LoadPlan, tokens: int, accepted: float, drafted: float) -> tuple[DraftRow, ...]:
    """What guesses of several lengths give where the share ``accepted`` was right with ``drafted`` a step."""
    agrees = agreement(accepted, drafted)
    rows = []
    for length in DRAFTED:
        pace = Pace(tokens_per_step(agrees, length), 1.0 + length)
        rows.append(DraftRow(length, pace.tokens_per_step, predicted_tps(made, Moment((tokens,), pace))))
    return tuple(rows)


def agreement(accepted: float, drafted: float) -> float:
    """The chance that a guess is right where those before it were, from the share of ``drafted`` guesses a
    step that stood: the α at which (1 − αᵏ⁺¹) / (1 − α) − 1 = k · share. By halving, to a thousandth.
    """
    wanted, low, high = accepted * drafted, 0.0, _MOST_GAIN
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if _expected(middle, drafted) < wanted else (low, middle)
    return (low + high) / 2


def _expected(agrees: float, drafted: float) -> float:
    """Right guesses of a step, with a length that need not be whole."""
    return float(agrees * (1 - agrees**drafted) / (1 - agrees))


def best(rows: Sequence[DraftRow]) -> DraftRow:
    """The length that is predicted to be quickest."""
    return max(rows, key=lambda row: row.tps)
