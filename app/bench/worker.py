"""The worker that measures this program's engine on raw token ids, below requests and chat text."""

from __future__ import annotations

import time
from dataclasses import asdict
from statistics import median
from typing import Any

import torch
from torch import Tensor

from app import answer, paths
from app.bench import resident
from app.bench.forced import ForcedAnswers
from app.bench.serving import serve
from app.bench.tokens import token_ids
from engine.engine import Engine
from engine.fit import generic_bytes
from engine.fit.bytes import kv_bytes, weight_bytes
from engine.fit.held import held_matrices
from engine.fit.kv_pages import planned_bits, token_bytes
from engine.fit.plan import plan
from engine.hardware.probe import probe
from engine.kv.cache import KVCache
from engine.models.decoder import Segment
from engine.models.spec import read_spec
from engine.text.chat import ChatText
from engine.types import LoadPlan, LoadSpec

_WARM_STEPS = 2
_CHECK_SIZE = 512


class Bench:
    """One engine and the caches it is measured on."""

    def __init__(self) -> None:
        self._engine = Engine(kernel_times=paths.kernel_times_file())
        self._caches: dict[int, list[KVCache]] = {}  # by the tokens they start from, kept filled
        self._plan: LoadPlan | None = None
        self._base_bytes = 0
        self._forced: dict[str, ForcedAnswers] = {}  # by the model whose tokens they are made of

    def load(self, path: str, context: int, threads: int | None, format: str, kv: str) -> dict[str, Any]:
        """Load the model for caches of ``context`` tokens, and make one step."""
        spec = read_spec(path)
        wish = LoadSpec(path, format, context, kv, device="cpu", threads=threads)
        made = plan(spec, probe(paths.kernel_times_file()), wish)
        torch.set_num_threads(made.threads)
        square = torch.ones(_CHECK_SIZE, _CHECK_SIZE)
        _ = square @ square, square.bfloat16() @ square.bfloat16()
        resident.reset_peak()
        self._base_bytes = resident.rss_bytes()
        started = time.perf_counter()
        loaded = answer.load(self._engine, made)
        load_s = time.perf_counter() - started
        self._plan = loaded.plan
        self._forward([(self._new_cache(), token_ids(0, 1, spec.vocab_size))])
        return {
            "load_s": load_s,
            "ready_s": time.perf_counter() - started,
            "format": self._plan.format,
            "context": self._plan.context,
            "kv_bits": self._plan.kv_bits,
            "threads": self._plan.threads,
            "prefill_piece": self._plan.prefill_piece,
            "weight_bits": self._plan.weight_bits,
            "kernels": loaded.kernels,
            "is_native": self._plan.is_native,
            "weight_bytes_per_step": _read_bytes(self._plan),
            "kv_bytes_per_token": _token_bytes(self._plan),
        }

    def load_again(self) -> dict[str, Any]:
        """Load the same model once more: its memory is no longer new to the system."""
        assert self._plan is not None
        self._caches.clear()
        self._forced.clear()
        started = time.perf_counter()
        answer.load(self._engine, self._plan)
        return {"seconds": time.perf_counter() - started}

    def calibrate(self, threads: int | None) -> dict[str, Any]:
        """Measure the machine, without a model; what comes of it is kept for every other process."""
        for _ in self._engine.calibrate(threads):
            pass
        return {}

    def prefill(self, tokens: int, within: int = 0) -> dict[str, Any]:
        """Read a prompt of ``tokens`` into an empty cache, up to the first chosen ``token``: into the one
        that measurements ``within`` so many tokens share, where they do.
        """
        cache = self._caches_at(within or tokens, 1)[0]
        cache.trim(0)
        started = time.perf_counter()
        token = self._extend(cache, tokens)
        return {"seconds": time.perf_counter() - started, "token": token}

    def decode(
        self, steps: int, depth: int, batch: int = 1, rows: int = 1, within: int = 0
    ) -> dict[str, Any]:
        """``steps`` greedy steps of ``batch`` sequences that hold ``depth`` tokens each.

        A step has ``rows`` tokens of each sequence and gives the logits of all of them, as verifying a draft
        does. The caches are left at ``depth``; they are those that hold ``within`` tokens at times, where
        that is given.
        """
        caches = self._caches_at(within or depth, batch)
        for cache in caches:
            self._extend(cache, depth)
        self._steps(caches, _WARM_STEPS, rows)
        for cache in caches:
            self._extend(cache, depth)
        took = self._steps(caches, steps, rows)
        for cache in caches:
            self._extend(cache, depth)
        return {"seconds": sum(took), "median_s": median(took)}

    def force(
        self, question: str, prompt: list[int], answer: list[int], speculate: str, words: str
    ) -> dict[str, Any]:
        """One recorded answer as `ForcedAnswers` decodes it, in the tokens of the model ``words``."""
        if words not in self._forced:
            self._forced[words] = ForcedAnswers(self._engine, ChatText.load(words))
        return self._forced[words].run(question, prompt, answer, speculate)

    def forget(self) -> dict[str, Any]:
        """Give all caches back."""
        self._caches.clear()
        return {}

    def memory(self) -> dict[str, Any]:
        """Bytes held, the bench's caches too, and how far the process has grown since its first product."""
        report = asdict(self._engine.memory())
        caches = [cache for listed in self._caches.values() for cache in listed]
        held = {
            "weights": report["weights_bytes"],
            "kv_reserved": sum(cache.nbytes for cache in caches),
            "kv_used": sum(cache.used_nbytes for cache in caches),
            "working": report["working_bytes"],
            "overhead": report["overhead_bytes"],
        }
        held["total"] = sum(held.values()) - held["kv_used"]  # the used part lies in the reserved one
        return {
            "memory_bytes": held,
            "rss_growth_bytes": resident.rss_bytes() - self._base_bytes,
            "peak_growth_bytes": resident.peak_bytes() - self._base_bytes,
        }

    def _caches_at(self, depth: int, count: int) -> list[KVCache]:
        listed = self._caches.setdefault(depth, [])
        while len(listed) < count:
            listed.append(self._new_cache())
        return listed[:count]

    def _steps(self, caches: list[KVCache], steps: int, rows: int) -> list[float]:
        """Seconds of each step."""
        took, before = [], time.perf_counter()
        for _ in range(steps):
            pieces = [(cache, self._ids(cache, rows)) for cache in caches]
            self._forward(pieces, wants_all_logits=rows > 1).argmax(dim=-1).tolist()
            if rows > 1:  # a verified draft that was wrong
                for cache in caches:
                    self._extend(cache, cache.length - rows)
            took.append(time.perf_counter() - before)
            before += took[-1]
        return took

    def _extend(self, cache: KVCache, length: int) -> int | None:
        """Make ``cache`` hold exactly ``length`` tokens of the stream, in the engine's own pieces; the best
        next token, None where nothing had to be read.
        """
        assert self._plan is not None
        if cache.length > length and not self._plan.model.capabilities.can_trim:
            cache.trim(0)
        if cache.length >= length:
            cache.trim(length)
            return None
        while cache.length < length:
            rows = min(self._plan.prefill_piece, length - cache.length)
            is_last = cache.length + rows == length
            logits = self._engine.forward([Segment(cache, self._ids(cache, rows), wants_logits=is_last)])
        return int(logits.argmax())

    def _ids(self, cache: KVCache, count: int) -> list[int]:
        assert self._plan is not None
        return token_ids(cache.length, count, self._plan.model.vocab_size)

    def _new_cache(self) -> KVCache:
        assert self._plan is not None
        return self._engine.new_cache(self._plan.context)

    def _forward(self, pieces: list[tuple[KVCache, list[int]]], wants_all_logits: bool = False) -> Tensor:
        """One pass over new tokens of some caches, as the engine runs it; logits [rows wanted, vocab]."""
        return self._engine.forward([Segment(cache, ids, wants_all_logits) for cache, ids in pieces])


def _token_bytes(plan: LoadPlan) -> int:
    """Bytes of a token's keys and values."""
    if plan.model.generic is not None:
        return kv_bytes(plan.model, 1, plan.kv_bits)
    return plan.model.num_layers * token_bytes(plan.model, planned_bits(plan))


def _read_bytes(plan: LoadPlan) -> int:
    """Bytes of weights that one step reads: all but the embedding, unless that is the head too."""
    if plan.model.generic is not None:
        return generic_bytes.read_bytes(plan.model, plan.format)
    matrices = held_matrices(plan.model, plan.format, plan.is_native)
    has_head = any("head" in matrix.words for matrix in matrices)
    embedding = next(matrix.nbytes for matrix in matrices if "embedding" in matrix.words)
    return weight_bytes(plan.model, plan.format, plan.is_native) - (embedding if has_head else 0)


def main() -> None:
    bench = Bench()
    on_loads = (bench.load, bench.load_again, bench.forget, bench.memory, bench.calibrate)
    on_tokens = (bench.prefill, bench.decode, bench.force)
    serve({command.__name__: command for command in (*on_loads, *on_tokens)})


if __name__ == "__main__":
    main()
