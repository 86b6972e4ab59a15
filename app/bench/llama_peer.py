"""The worker that measures llama.cpp through llama-cpp-python's C interface, with llama.cpp's own defaults.

Never imports torch: two OpenMP runtimes in one process would share the cores.
"""

from __future__ import annotations

import ctypes
import importlib
import time
from typing import Any

import numpy as np

from app.bench import resident
from app.bench.serving import serve
from app.bench.tokens import token_ids
from engine.errors import ModelFileError

llama_cpp: Any = importlib.import_module("llama_cpp")  # optional: the types of a checkout may lack it

_BATCH = 512
_WARM_STEPS = 2
# Takes what llama.cpp says: its errors show again as what fails.
_SILENCE = llama_cpp.llama_log_callback(lambda level, text, data: None)


class Peer:
    """One model and one context with a single sequence."""

    def __init__(self) -> None:
        llama_cpp.llama_log_set(_SILENCE, ctypes.c_void_p(0))
        llama_cpp.llama_backend_init()
        self._context: Any = None
        self._memory: Any = None
        self._vocab_size = 0
        self._length = 0
        self._base_bytes = 0

    def load(self, path: str, context: int, threads: int) -> dict[str, Any]:
        """Load the model for a cache of ``context`` tokens (f16), and make one step."""
        resident.reset_peak()
        self._base_bytes = resident.rss_bytes()
        started = time.perf_counter()
        model = llama_cpp.llama_model_load_from_file(path.encode(), llama_cpp.llama_model_default_params())
        if not model:
            raise ModelFileError(f"llama.cpp cannot load {path}.", "Choose a GGUF file that it runs.")
        params = llama_cpp.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = context, _BATCH, _BATCH
        params.n_threads = params.n_threads_batch = threads
        self._context = llama_cpp.llama_init_from_model(model, params)
        if not self._context:
            raise ModelFileError(f"llama.cpp cannot run {path}.", "Is there enough memory?")
        self._memory = llama_cpp.llama_get_memory(self._context)
        self._vocab_size = llama_cpp.llama_vocab_n_tokens(llama_cpp.llama_model_get_vocab(model))
        load_s = time.perf_counter() - started
        self._run(token_ids(0, 1, self._vocab_size))
        self._trim(0)
        return {"load_s": load_s, "ready_s": time.perf_counter() - started}

    def prefill(self, tokens: int) -> dict[str, Any]:
        """Read a prompt of ``tokens`` into an empty cache, up to the first chosen ``token``."""
        self._trim(0)
        started = time.perf_counter()
        token = self._extend(tokens)
        return {"seconds": time.perf_counter() - started, "token": token}

    def decode(self, steps: int, depth: int) -> dict[str, Any]:
        """``steps`` greedy steps after ``depth`` tokens; the cache is left at ``depth``."""
        self._extend(depth)
        self._steps(_WARM_STEPS)
        self._trim(depth)
        started = time.perf_counter()
        self._steps(steps)
        seconds = time.perf_counter() - started
        self._trim(depth)
        return {"seconds": seconds}

    def memory(self) -> dict[str, Any]:
        """How far the process has grown since before the load."""
        return {
            "rss_growth_bytes": resident.rss_bytes() - self._base_bytes,
            "peak_growth_bytes": resident.peak_bytes() - self._base_bytes,
        }

    def _steps(self, steps: int) -> None:
        for _ in range(steps):
            self._run(token_ids(self._length, 1, self._vocab_size))

    def _extend(self, length: int) -> int | None:
        """Make the cache hold exactly ``length`` tokens of the stream; the best next token, None where
        nothing had to be read.
        """
        if self._length >= length:
            self._trim(length)
        token = None
        while self._length < length:
            rows = min(_BATCH, length - self._length)
            token = self._run(token_ids(self._length, rows, self._vocab_size))
        return token

    def _run(self, ids: list[int]) -> int:
        """Append ``ids``; the best token after the last one."""
        tokens = (llama_cpp.llama_token * len(ids))(*ids)
        code = llama_cpp.llama_decode(self._context, llama_cpp.llama_batch_get_one(tokens, len(ids)))
        if code:
            raise ModelFileError(f"llama.cpp failed to run the model (code {code}).")
        self._length += len(ids)
        logits = llama_cpp.llama_get_logits_ith(self._context, -1)
        return int(np.ctypeslib.as_array(logits, (self._vocab_size,)).argmax())

    def _trim(self, length: int) -> None:
        llama_cpp.llama_memory_seq_rm(self._memory, 0, length, -1)
        self._length = length


def main() -> None:
    peer = Peer()
    commands = (peer.load, peer.prefill, peer.decode, peer.memory)
    serve({command.__name__: command for command in commands})


if __name__ == "__main__":
    main()
