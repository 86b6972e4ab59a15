"""The tokenizers library behind its door: panics become refusals, other threads go on."""

from __future__ import annotations

import threading
import time

import pytest
from tokenizers import Regex, Tokenizer, models, pre_tokenizers

from engine.errors import TokenizerError
from engine.text.backend import ids_of, refusals


def slow_tokenizer() -> Tokenizer:
    """Its pattern takes time that doubles with each "a", up to a panic at ten million steps."""
    backend = Tokenizer(models.BPE(vocab={"a": 0, "!": 1}, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(r"(a+)+$"), "isolated")
    return backend


def test_a_panic_of_the_library_is_a_refusal() -> None:
    with pytest.raises(TokenizerError, match=r"cannot read this text.*retry-limit"):
        ids_of(slow_tokenizer(), "a" * 30 + "!")


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_what_ends_the_program_still_does(error: type[BaseException]) -> None:
    with pytest.raises(error), refusals("never said"):
        raise error


def test_a_refusal_of_our_own_keeps_its_words() -> None:
    with pytest.raises(TokenizerError, match=r"^mine$"), refusals("never said"):
        raise TokenizerError("mine")


def test_other_threads_run_while_a_text_is_read() -> None:
    seen: list[float] = []
    is_over = threading.Event()

    def watch() -> None:
        while not is_over.wait(0.001):
            seen.append(time.perf_counter())

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    try:
        ids_of(slow_tokenizer(), ("a" * 17 + "!") * 20)
        end = time.perf_counter()
    finally:
        is_over.set()
        watcher.join()
    assert sum(start < moment < end for moment in seen) >= 3  # none, if the library held the lock
