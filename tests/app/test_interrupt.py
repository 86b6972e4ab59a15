"""Ctrl+C between steps: the first is noted, the second interrupts, and the handler goes back."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from app.interrupt import Interrupt


@pytest.fixture(autouse=True)
def _python_hears() -> Iterator[None]:
    """A shell that starts the tests in the background has the signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_the_first_is_noted_and_the_second_interrupts() -> None:
    with Interrupt() as interrupt:
        assert not interrupt()
        signal.raise_signal(signal.SIGINT)
        assert interrupt()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_handler_goes_back_where_nothing_was_pressed() -> None:
    with Interrupt():
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
