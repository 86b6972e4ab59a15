"""`decodeck bench --quality`: what a format costs in quality, against the most exact load of the same file.

Knows the text, its windows and the means; not how log-probabilities are made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any

from app.bench.process import Worker
from app.quality_record import QualityFigure, kind_of
from engine.errors import NumericsError, TokenizerError
from engine.fit.plan import plan
from engine.hardware.probe import probe
from engine.models.spec import read_spec
from engine.text import tokenizer as tokenizers
from engine.types import LoadSpec, ModelSpec

TEXT = "alice29.txt"  # Lewis Carroll, Alice's Adventures in Wonderland, 1865
_END_MARK = "\x1a"  # by which DOS knew where a text ends
WINDOW_TOKENS = 512
DEFAULT_TOKENS = 16_384  # of the text: two cores read some hundred a second in float32
LEAST_TOKENS = 2
Case = tuple[str, str]  # a wish's format and KV precision
REFERENCE: Case = ("f32", "32")
FILE_EXACT_KV: Case = ("file", "32")
_USUAL: tuple[Case, ...] = (
    FILE_EXACT_KV,
    ("file", "16"),
    ("bf16", "16"),
    ("int8", "16"),
    ("int4", "16"),
)
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Quality:
    """How well one format foretells the text. ``kl`` is the mean KL(reference ‖ format) in nats."""

    format: str
    kv_bits: int
    kernels: str  # as in LoadPlan
    perplexity: float
    kl: float


@dataclass(frozen=True, slots=True)
class Measured:
    """The reference first. ``tokens`` were read, ``positions`` of them count."""

    tokens: int
    positions: int
    formats: tuple[Quality, ...]

    def as_json(self) -> dict[str, Any]:
        keys = ("format", "kv_bits", "perplexity", "kl")
        found = [{key: getattr(each, key) for key in keys} for each in self.formats]
        return {"tokens": self.tokens, "quality": found}

    def figures(self) -> tuple[QualityFigure, ...]:
        """As they are kept."""
        exact = self.formats[0].perplexity
        return tuple(
            QualityFigure(
                each.format, each.kv_bits, kind_of(each.kernels), self.tokens, each.perplexity, exact, each.kl
            )
            for each in self.formats
        )


def cases(formats: Sequence[str], kv: str) -> tuple[Case, ...]:
    """What is compared with the reference: the named formats, else the usual ones; ``kv`` as in LoadSpec."""
    if not formats and kv == "auto":
        return _USUAL
    return tuple((format, kv) for format in formats or dict.fromkeys(format for format, _ in _USUAL))


def measure_quality(wish: LoadSpec, compared: Sequence[Case], tokens: int, say: Say) -> Measured:
    """Perplexity and KL divergence of each case on the first ``tokens`` tokens of the text.

    The text is tokenised as a whole and cut into windows of 512 tokens (fewer where the model was trained for
    less). Each window is read into an empty cache; where the model wants a BOS, its first token is that.
    Every position of a window but its first counts. Perplexity is exp of the mean −ln p(token); KL is the
    mean of KL(reference ‖ case) over the same positions, in nats. The reference is the same file in float32
    with 32-bit KV. Rows are read as a prompt is, some at a time.

    Raises WishError for a wish that cannot be met, NumericsError where a model gives no probabilities, and
    what loading raises.
    """
    spec = read_spec(wish.path)
    window = max(LEAST_TOKENS, min(WINDOW_TOKENS, spec.trained_context))
    loads = _loads(spec, replace(wish, context=window), compared)
    ids, start = _read_text(spec)
    ids = ids[:tokens]
    listed = windows(ids, start, window)
    loaded = []
    with Worker("app.bench.quality_worker", "quality") as worker:
        for format, kv_bits in loads:
            say(f"loading {format} with {kv_bits}-bit KV")
            options = {"context": window, "threads": wish.threads, "format": format, "kv": str(kv_bits)}
            loaded.append((format, kv_bits, worker.ask("load", path=wish.path, **options)["kernels"]))
        scored = []
        for number, each in enumerate(listed, 1):
            say(f"window {number} of {len(listed)}")
            scored.append(worker.ask("score", ids=each)["scores"])
    positions = sum(len(each) - 1 for each in listed)
    return Measured(len(ids), positions, tuple(_means(loaded, scored, positions)))


def windows(ids: Sequence[int], start: Sequence[int], length: int) -> list[list[int]]:
    """``ids`` in order in windows of ``length``, each with ``start`` before its part; the last may be
    shorter. A window without a position that counts is left out.
    """
    step = length - len(start)
    cut = [[*start, *ids[place : place + step]] for place in range(0, len(ids), step)]
    return [each for each in cut if len(each) >= LEAST_TOKENS]


def _loads(spec: ModelSpec, wish: LoadSpec, compared: Sequence[Case]) -> list[tuple[str, int]]:
    """(format, kv_bits) of all loads, each once, the reference first; a wrong wish is refused here."""
    hardware = probe()
    plans = [
        plan(spec, hardware, replace(wish, format=format, kv=kv)) for format, kv in (REFERENCE, *compared)
    ]
    return list(dict.fromkeys((each.format, each.kv_bits) for each in plans))


def _read_text(spec: ModelSpec) -> tuple[list[int], list[int]]:
    """The text's ids, and what every window starts with. Line ends are LF, however the file has them."""
    tokenizer = tokenizers.load(spec.path)
    text = files("assets").joinpath("texts", TEXT).read_text(encoding="ascii")
    ids = tokenizer.encode(text.removesuffix(_END_MARK), literal=True)
    start = [tokenizer.bos_id] if tokenizer.add_bos and tokenizer.bos_id is not None else []
    if len(ids) < LEAST_TOKENS or max(ids + start) >= spec.vocab_size:
        raise TokenizerError(
            "The tokenizer and the weights do not belong together.", "Download the model again."
        )
    return ids, start


def _means(
    loaded: Sequence[tuple[str, int, str]], scored: Sequence[Sequence[dict[str, float]]], positions: int
) -> list[Quality]:
    """From the sums of all windows, each a score for every load."""
    found = []
    for place, (format, kv_bits, kernels) in enumerate(loaded):
        loss = sum(scores[place]["loss_nats"] for scores in scored) / positions
        kl = sum(scores[place]["kl_nats"] for scores in scored) / positions
        if not math.isfinite(loss) or not math.isfinite(kl):
            raise NumericsError(
                f"The model gives no probabilities in {format}.", "Choose another file of it."
            )
        found.append(Quality(format, kv_bits, kernels, math.exp(loss), kl))
    return found
