"""The worker that holds one model in several formats side by side and compares their log-probabilities.

Knows sums over the positions of one window; not which text or formats are worth comparing.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from app import answer, paths
from app.bench.serving import serve
from engine.engine import Engine
from engine.fit.plan import plan
from engine.hardware.probe import probe
from engine.kv.cache import KVCache
from engine.models.decoder import Segment
from engine.models.spec import read_spec
from engine.types import LoadSpec

_PIECE_ROWS = 64  # positions at once: with a vocabulary of 262,144 their log-probabilities are 67 MB


class Comparison:
    """Engines in the order they were loaded; the first is what the others are compared with."""

    def __init__(self) -> None:
        self._engines: list[Engine] = []

    def load(self, path: str, context: int, threads: int | None, format: str, kv: str) -> dict[str, Any]:
        """Add one load for windows of at most ``context`` tokens; `kernels` are those of its plan."""
        times = paths.kernel_times_file()
        wish = LoadSpec(path, format, context, kv, device="cpu", threads=threads)
        made = plan(read_spec(path), probe(times), wish)
        engine = Engine(kernel_times=times)
        loaded = answer.load(engine, made)
        self._engines.append(engine)
        return {"kernels": loaded.plan.kernels}

    def score(self, ids: list[int]) -> dict[str, Any]:
        """Sums over every position of a window but its first, for each load: `loss_nats`, −ln p of its
        tokens, and `kl_nats`, KL(first load ‖ this one).
        """
        caches = [engine.new_cache(len(ids)) for engine in self._engines]
        scores = [{"loss_nats": 0.0, "kl_nats": 0.0} for _ in self._engines]
        for start in range(0, len(ids) - 1, _PIECE_ROWS):
            end = min(start + _PIECE_ROWS, len(ids) - 1)
            targets = torch.tensor(ids[start + 1 : end + 1])
            reference: Tensor | None = None
            for engine, cache, score in zip(self._engines, caches, scores, strict=True):
                found = _log_probabilities(engine, cache, ids[start:end])
                score["loss_nats"] += loss_nats(found, targets)
                if reference is None:
                    reference = found
                else:
                    score["kl_nats"] += kl_nats(reference, found)
        return {"scores": scores}


def _log_probabilities(engine: Engine, cache: KVCache, ids: list[int]) -> Tensor:
    """Of the token after each of ``ids``, float32 [len(ids), vocab]."""
    with torch.inference_mode():
        return F.log_softmax(engine.forward([Segment(cache, ids, wants_all_logits=True)]), dim=-1)


def loss_nats(log_probabilities: Tensor, targets: Tensor) -> float:
    """Sum of −ln p over rows [rows, vocab], of the token that follows in each, [rows]."""
    found = log_probabilities.gather(-1, targets.unsqueeze(-1))
    return -float(found.sum(dtype=torch.float64))


def kl_nats(reference: Tensor, other: Tensor) -> float:
    """Sum of KL(reference ‖ other) = Σ p_reference · (ln p_reference − ln p_other) over rows of
    log-probabilities, [rows, vocab] each.
    """
    parts = F.kl_div(other, reference, reduction="none", log_target=True)
    return float(parts.sum(dim=-1).sum(dtype=torch.float64))


def main() -> None:
    comparison = Comparison()
    serve({"load": comparison.load, "score": comparison.score})


if __name__ == "__main__":
    main()
