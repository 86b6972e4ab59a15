"""The yardstick reads all of its buffer."""

from __future__ import annotations

import pytest
import torch

from app.bench.pulse import Pulse
from engine.hardware.reading import make_reader

SIZE = 1 << 22


@pytest.fixture(autouse=True)
def _threads() -> object:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def test_every_word_of_the_buffer_is_read() -> None:
    words = torch.arange(SIZE // 8)
    read = make_reader(words.view(torch.uint8), 1)
    assert int(read()) == (SIZE // 8) * (SIZE // 8 - 1) // 2  # type: ignore[call-overload]


def test_a_pulse_is_in_gigabytes_per_second() -> None:
    pulse = Pulse()
    pulse.load(threads=1, buffer_bytes=SIZE)
    assert 0.01 < pulse.pulse()["gbps"] < 10_000
