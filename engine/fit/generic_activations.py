"""The widest moment of a prefill piece of a model that transformers runs: what torch holds beside weights and
cache while a piece is read.

The arithmetic of transformers' modeling files, version 5.24, as they compute without kernels of others, and
of torch's attention on a processor. A test holds it to what torch allocates. Standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from engine.capabilities import Experts, Latent, Scan
from engine.fit.activations import flash_bytes
from engine.models.generic_table import ALL_EXPERTS, FUSED, SCORE_BYTES
from engine.types import ModelSpec

_F32, _INDEX = 4, 8  # bytes


@dataclass(frozen=True, slots=True)
class GenericPiece:
    """A piece at the end of a context, and how it is computed."""

    rows: int
    context: int
    number_bytes: int  # of what goes into products: the format's
    threads: int


def widest_bytes(spec: ModelSpec, piece: GenericPiece) -> int:
    """Bytes of the residual stream (the embeddings, what a layer gets, that again with its norm), of what is
    hidden from whom, and of the widest part of a layer; or of a row of logits, once more as float32.
    """
    generic = spec.generic
    assert generic is not None
    if generic.is_stepwise and piece.rows < piece.context:  # more rows than one come at the beginning alone
        first, step = replace(piece, context=piece.rows), replace(piece, rows=1)
        return max(widest_bytes(spec, first), _moment_bytes(spec, step))
    return _moment_bytes(spec, piece)


def _moment_bytes(spec: ModelSpec, piece: GenericPiece) -> int:
    generic = spec.generic
    assert generic is not None
    stream = piece.number_bytes * piece.rows * spec.hidden_size
    parts = [stream + _feed_forward_bytes(spec, piece), 2 * _F32 * spec.vocab_size]
    shared = 3 * stream + piece.number_bytes * piece.rows * generic.beside
    if any(layer.attends for layer in generic.cache):
        is_flash = spec.architecture not in SCORE_BYTES  # which takes masks of truth values
        shared += generic.num_masks * piece.rows * piece.context * (1 if is_flash else piece.number_bytes)
        parts.append(_attention_bytes(spec, piece))
    if generic.scan and any(layer.has_state for layer in generic.cache):
        parts.append(_SCANS[generic.scan.rule](generic.scan, piece))
    return shared + max(parts)


def _attention_bytes(spec: ModelSpec, piece: GenericPiece) -> int:
    """The most that attention of any layer takes."""
    assert spec.generic is not None
    if spec.generic.latent:
        return _latent_bytes(spec.generic.latent, spec.num_heads, piece)
    sizes = spec.generic.heads or ((spec.num_kv_heads, spec.head_dim),)
    return max(_heads_bytes(spec, num_kv_heads, dim, piece) for num_kv_heads, dim in sizes)


def _heads_bytes(spec: ModelSpec, num_kv_heads: int, dim: int, piece: GenericPiece) -> int:
    """Keys and values repeated for the heads that share them (not for one row, and not where all share one),
    rotated queries and what comes out, the mask in numbers, and what attention itself takes; or, before, what
    turns queries and keys.
    """
    number, rows, context, heads = piece.number_bytes, piece.rows, piece.context, spec.num_heads
    repeated = 2 * heads * context if 1 < num_kv_heads < heads and rows > 1 else 0
    held = number * dim * (repeated + 2 * rows * heads)
    turning = max(4 * heads + 2 * num_kv_heads, 2 * heads + 5 * num_kv_heads)
    if spec.architecture in SCORE_BYTES:
        each = SCORE_BYTES[spec.architecture][number < _F32]
        return held + each * rows * heads * context
    if spec.architecture in FUSED:
        held += number * dim * rows * (heads + 2 * num_kv_heads)
    own = number * rows * context + piece.threads * flash_bytes(rows, dim, number)
    return max(held + own, number * rows * dim * turning)


def _latent_bytes(latent: Latent, heads: int, piece: GenericPiece) -> int:
    """Keys and values of all heads made of the whole context, and the keys once more with what is rotated.

    Torch has flash attention only for keys and values of one size. Without it all is float32: scaled keys and
    scores; then scores, those with the mask, and a byte for each.
    """
    number, rows, context = piece.number_bytes, piece.rows, piece.context
    made = context * (2 * latent.key_dim - latent.rotated_dim + latent.value_dim)
    held = number * (heads * (made + 2 * rows * latent.key_dim) + rows * context)
    if latent.key_dim == latent.value_dim:
        output = number * rows * heads * latent.value_dim
        return held + output + piece.threads * flash_bytes(rows, latent.key_dim, number)
    queries, scores = rows * latent.key_dim, rows * context
    converted = 0 if number == _F32 else context * (latent.key_dim + latent.value_dim) + queries
    scoring = max(_F32 * (context * latent.key_dim + scores), (2 * _F32 + 1) * scores)
    return held + heads * (_F32 * (converted + queries) + scoring)


def _feed_forward_bytes(spec: ModelSpec, piece: GenericPiece) -> int:
    """The activated gate, the input and their product, or what there is without a gate; of experts at most
    what all rows take that choose the same one, or what all take. Where attention has tables of scores, its
    layer holds the last one.
    """
    assert spec.generic is not None
    experts, rows = spec.generic.experts, piece.rows
    scores = spec.num_heads * piece.context if spec.architecture in SCORE_BYTES else 0
    if experts is None:
        return piece.number_bytes * rows * (scores + spec.generic.inner_copies * spec.intermediate_size)
    if spec.architecture in ALL_EXPERTS:
        return piece.number_bytes * rows * experts.number * (4 * experts.width + spec.hidden_size)
    chosen = _INDEX * rows * experts.chosen * (experts.number + 1)  # which row chose which expert
    numbers = max(3 * experts.dense_width, _expert_numbers(experts, spec))
    return chosen + piece.number_bytes * rows * (scores + numbers)


def _expert_numbers(experts: Experts, spec: ModelSpec) -> int:
    """Numbers of a row in an expert: the sum, what comes in and what the expert before gave; gate and input
    in one, the activated gate and the product, or what comes out. GPT-OSS limits both in steps of their own.
    """
    gated = 8 if spec.architecture == "gpt_oss" else 4
    return 3 * spec.hidden_size + max(gated * experts.width, 2 * experts.width + spec.hidden_size)


def _mamba_bytes(scan: Scan, piece: GenericPiece) -> int:
    """mamba_selective_scan: decays, inputs and their products for every number of the state at every
    position; input and gate, what is convolved, time steps, and what comes out of each.
    """
    wide = 2 if piece.number_bytes == _F32 else 3
    each = _F32 * (3 * scan.key_dim + wide) + 6 * piece.number_bytes
    return piece.rows * scan.heads * each


def _mamba2_bytes(scan: Scan, piece: GenericPiece) -> int:
    """mamba2_chunk_scan: three tables of all pairs of positions of a chunk; inputs, outputs and decayed
    inputs of the state for every head; states at the chunks' ends; what becomes of the values, or copies of
    outputs and states for their product. A piece is padded to whole chunks. Before it, the product that makes
    all of these, and what of it was convolved.
    """
    chunks = -(-piece.rows // scan.chunk)
    rows, state = chunks * scan.chunk, scan.value_dim * scan.key_dim
    each = 3 * scan.chunk + 3 * scan.key_dim
    at_the_end = 7 * rows * scan.value_dim
    copied = rows * (scan.key_dim + 4 * scan.value_dim) + chunks * state if chunks > 1 else 0
    held = rows * each + (chunks + 1) * state + max(at_the_end, copied)
    inner, convolved = scan.heads * scan.value_dim, scan.conv // scan.kernel
    projected = piece.rows * (inner + 2 * convolved)
    return _F32 * scan.heads * held + piece.number_bytes * projected


def _delta_bytes(scan: Scan, piece: GenericPiece) -> int:
    """torch_chunk_gated_delta_rule: five tables as large as the keys of all heads, four as the values and
    what is made of them, three of all pairs of positions of a chunk; then the last output, or the states.
    Before it, what was convolved, and the gate.
    """
    rows = -(-piece.rows // scan.chunk) * scan.chunk
    state, one = scan.value_dim * scan.key_dim, scan.chunk * scan.value_dim
    tables = rows * (5 * scan.key_dim + 4 * scan.value_dim + 3 * scan.chunk)
    last = state + 2 * one + max(rows * scan.value_dim, 3 * state)
    held = tables + max(rows * scan.key_dim, last)
    values, keys = scan.heads * scan.value_dim, scan.key_heads * scan.key_dim
    return _F32 * scan.heads * held + piece.number_bytes * piece.rows * 2 * (keys + values)


def _joint_delta_bytes(scan: Scan, piece: GenericPiece) -> int:
    """The same where queries, keys, values and gate are one product, which stays."""
    values, keys = scan.heads * scan.value_dim, scan.key_heads * scan.key_dim
    gates = 2 if scan.heads > scan.key_heads else 1  # taken out of it for every head, or a part of it
    return _delta_bytes(scan, piece) + piece.number_bytes * piece.rows * (2 * keys + gates * values)


def _kda_bytes(scan: Scan, piece: GenericPiece) -> int:
    """chunk_kimi_delta_attention: three tables of all pairs of positions of a chunk for every number of a
    key; queries, keys, values, decays, keys and values as they are learnt; and what was convolved.
    """
    rows, width = -(-piece.rows // scan.chunk) * scan.chunk, scan.heads * scan.key_dim
    return _F32 * rows * width * (3 * scan.chunk + 6) + 3 * piece.number_bytes * piece.rows * width


def _conv_bytes(scan: Scan, piece: GenericPiece) -> int:
    """A short convolution: both gates and the input in one, what goes in and what comes out."""
    return 6 * piece.number_bytes * piece.rows * scan.heads


_SCANS = {
    "mamba": _mamba_bytes,
    "mamba2": _mamba2_bytes,
    "delta": _delta_bytes,
    "joint delta": _joint_delta_bytes,
    "kda": _kda_bytes,
    "conv": _conv_bytes,
}
