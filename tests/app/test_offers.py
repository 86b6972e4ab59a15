"""The short list of models to begin with: data that agrees with itself."""

from __future__ import annotations

import datetime
import re
from dataclasses import replace

import pytest

from app.offers import PRAISES, SHOWN, Offer, offer_list, suited
from engine.fit.plan import plan
from engine.machine import Hardware
from engine.types import LoadSpec

MACHINE = Hardware("test", 4, 32_000_000_000, 16_000_000_000)
HEADER_BYTES = 16_000_000  # vocabulary and template: the largest of these families have about 8 MB


def test_the_list_is_dated_and_small_models_come_first() -> None:
    listed = offer_list()
    assert datetime.date.fromisoformat(listed.dated)
    sizes = [offer.size_bytes for offer in listed.offers]
    assert sizes == sorted(sizes) and len(sizes) >= SHOWN


@pytest.mark.parametrize("offer", offer_list().offers, ids=lambda offer: offer.name)
def test_size_and_shape_agree_to_the_header(offer: Offer) -> None:
    weights = sum(tensor.nbytes for tensor in offer.spec.tensors)
    assert 0 < offer.size_bytes - weights < HEADER_BYTES
    assert offer.licence and re.fullmatch(r"[\w.-]+/[\w.-]+", offer.repo) and offer.file.endswith(".gguf")


@pytest.mark.parametrize("free_gb", [0.1, 2, 3, 8, 60])
def test_what_is_offered_can_be_loaded_here(free_gb: float) -> None:
    machine = replace(MACHINE, ram_free_bytes=int(free_gb * 1e9))
    offered = suited(machine)
    assert len(offered) <= SHOWN
    assert all(plan(offer.spec, machine, LoadSpec(offer.file)).verdict != "no" for offer in offered)
    assert bool(offered) == (free_gb >= 2)


def test_every_praise_can_be_translated() -> None:
    assert {offer.praise for offer in offer_list().offers} == set(PRAISES)
