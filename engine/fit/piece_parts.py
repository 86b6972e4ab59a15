"""How long the parts of reading a prompt take: its pieces, the logits behind the last one, attention.

Pure arithmetic, standard library only.
"""

from __future__ import annotations

from engine.calibration import Calibration
from engine.fit.kv_pages import planned_bits
from engine.fit.reads import head_reads, kv_read_bytes, reads_of
from engine.fit.scratch import MAX_ROWS
from engine.fit.step_parts import Speeds, StepParts, draws_s, pass_parts
from engine.types import LoadPlan

DENSE_KV_BITS = 16


def piece_parts(made: LoadPlan, rows: int, known: Calibration) -> StepParts:
    """Seconds of one piece, without what its attention reads and without logits. Few rows go the way of a
    step.
    """
    reads = reads_of(made).without(head_reads(made))
    parts = pass_parts(made, reads, 0, rows, 1, known)
    if rows <= MAX_ROWS and made.is_native:
        return parts
    spec, passes = made.model, Speeds(made, known).passes
    heads = (spec.num_heads + 2 * spec.num_kv_heads) * spec.head_dim
    numbers = rows * (spec.hidden_size + spec.intermediate_size + heads)
    fixed = passes.step_s + spec.num_layers * (passes.piece_layer_s + 1e-9 * numbers * passes.number_ns)
    return StepParts(parts.memory, parts.cache, 0.0, fixed, parts.away)


def head_parts(made: LoadPlan, known: Calibration) -> StepParts:
    """Seconds of the logits of a prompt's last row, and of choosing the first token by them."""
    reads, share = head_reads(made), known.memory_share(reads_of(made).ram_bytes)
    memory, cache = Speeds(made, known).weights_s(reads, 1, share)
    return StepParts(memory, cache, fixed=draws_s(made, 1, known))


def attention_s(made: LoadPlan, first: int, last: int, known: Calibration) -> float:
    """Attention of the tokens from ``first`` to ``last``: every row with all positions that it sees; and,
    where these have fewer than 16 bits, what every piece does to have them at 16.
    """
    spec, speeds = made.model, Speeds(made, known)
    seen = sum(_seen(first, last, options.sliding_window) for options in spec.layers)
    seconds = 1e-9 * speeds.passes.score_ns * seen * spec.num_heads * spec.head_dim
    if spec.generic is None and planned_bits(made).values < DENSE_KV_BITS:
        pieces = (last - first) / max(1, made.prefill_piece)
        read = pieces * kv_read_bytes(made, (first + last) // 2)
        seconds += 1e-9 * speeds.attention.piece_ns * read
    return seconds


def _seen(first: int, last: int, window: int | None) -> float:
    """Σ over rows of the positions each sees."""
    if window is None or last <= window:
        return (last * last - first * first) / 2
    if first >= window:
        return float(window * (last - first))
    return (window * window - first * first) / 2 + window * (last - window)
