"""The sides of a comparison, each in a process of its own: this program, llama.cpp, and the pulse.

Turns a worker's answers into values; knows no order and no goals.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import Any

from app.bench.process import Worker
from app.bench.streams import Stream
from engine.errors import WishError
from engine.types import LoadSpec, ModelSpec


@dataclass(frozen=True, slots=True)
class Held:
    """What a loaded model of ours reads and holds; the seconds are those of its load."""

    load_s: float  # Engine.load alone
    ready_s: float  # and its first step
    format: str
    context: int
    kv_bits: int
    threads: int
    prefill_piece: int
    weight_bits: float
    kernels: str
    is_native: bool
    weight_bytes_per_step: int
    kv_bytes_per_token: int

    def step_bytes(self, depth: int, batch: int = 1) -> int:
        """Bytes that one step reads: the weights once, and the cache of each sequence."""
        return self.weight_bytes_per_step + batch * depth * self.kv_bytes_per_token


class Contender:
    """A worker with a loaded model; both sides are asked the same way."""

    def __init__(self, worker: Worker, path: str, ready_s: float, load_s: float) -> None:
        self.path = path
        self.ready_s = ready_s
        self.load_s = load_s
        self._worker = worker

    def prefill_s(self, tokens: int, **shape: int) -> float:
        """Seconds to read a prompt of ``tokens`` into an empty cache, up to the first chosen token. Ours
        takes ``within``, see `app.bench.worker`.
        """
        return float(self._worker.ask("prefill", tokens=tokens, **shape)["seconds"])

    def step_s(self, steps: int, depth: int, **shape: int) -> float:
        """Mean seconds of a step after ``depth`` tokens. Ours takes ``batch``, ``rows`` and
        ``within`` too."""
        return float(self._worker.ask("decode", steps=steps, depth=depth, **shape)["seconds"]) / steps

    def median_step_s(self, steps: int, depth: int, **shape: int) -> float:
        """Seconds of the middle one of some steps, whatever disturbed the others; of ours alone."""
        return float(self._worker.ask("decode", steps=steps, depth=depth, **shape)["median_s"])

    def memory(self) -> dict[str, Any]:
        """What the worker's `memory` command says."""
        return self._worker.ask("memory")

    def close(self) -> None:
        self._worker.close()


class Ours(Contender):
    """This program's engine with ``wish`` loaded for caches of ``wish.context`` tokens."""

    def __init__(self, wish: LoadSpec) -> None:
        worker = Worker("app.bench.worker", "engine")
        try:
            options = {"threads": wish.threads, "format": wish.format, "kv": wish.kv}
            self.held = Held(**worker.ask("load", path=wish.path, context=wish.context, **options))
        except BaseException:
            worker.close()
            raise
        super().__init__(worker, wish.path, self.held.ready_s, self.held.load_s)

    @staticmethod
    def without_model() -> Worker:
        """The process alone."""
        return Worker("app.bench.worker", "engine")

    def load_again_s(self) -> float:
        """Seconds of loading the same model again in the same process."""
        return float(self._worker.ask("load_again")["seconds"])

    def force(self, stream: Stream, speculate: str, words: str) -> dict[str, Any]:
        """Decode a recorded answer in the tokens of the model ``words``: what `ForcedAnswers.run` tells."""
        options = {"question": stream.question, "prompt": stream.prompt, "answer": stream.answer}
        return self._worker.ask("force", **options, speculate=speculate, words=words)

    def forget(self) -> None:
        """Give all caches back."""
        self._worker.ask("forget")


class Theirs(Contender):
    """llama.cpp with the same file, context and threads, which ``wish`` must state; 16-bit KV."""

    def __init__(self, wish: LoadSpec) -> None:
        require_llama_cpp()
        worker = Worker("app.bench.llama_peer", "llama.cpp")
        try:
            reply = worker.ask("load", path=wish.path, context=wish.context, threads=wish.threads)
        except BaseException:
            worker.close()
            raise
        super().__init__(worker, wish.path, reply["ready_s"], reply["load_s"])


class Pulse:
    """Says how fast memory is read now, in GB/s."""

    def __init__(self, threads: int, **size: int) -> None:
        """``buffer_bytes``: of what is read; without it, many times any cache."""
        self._worker = Worker("app.bench.pulse", "bandwidth")
        try:
            self._worker.ask("load", threads=threads, **size)
        except BaseException:
            self.close()
            raise

    def __call__(self) -> float:
        return float(self._worker.ask("pulse")["gbps"])

    def median(self) -> float:
        """The same of the middle one of some pieces, whatever disturbed the others."""
        return float(self._worker.ask("pulse")["median_gbps"])

    def close(self) -> None:
        self._worker.close()


def require_llama_cpp() -> None:
    """Raise WishError where llama-cpp-python is not installed; nothing is imported."""
    if importlib.util.find_spec("llama_cpp") is None:
        raise WishError(
            "llama-cpp-python is not installed.",
            "Run pip install llama-cpp-python==0.3.36, which compiles for some minutes.",
        )


def file_step_bytes(spec: ModelSpec) -> int:
    """Bytes that one step of llama.cpp reads in an empty context: the file's tensors, and its embedding only
    where that is the head too.
    """
    unread = "" if spec.tied_embeddings else "token_embd.weight"
    return sum(tensor.nbytes for tensor in spec.tensors if tensor.name != unread)
