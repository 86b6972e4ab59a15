"""The bench with models that run through transformers."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.bench.kernels import measure_kernels
from app.bench.worker import Bench
from engine.errors import WishError
from engine.fit.bytes import weight_bytes
from engine.models.spec import read_spec
from engine.types import LoadSpec
from tests.engine.models.generic_models import generic_folder


@pytest.mark.parametrize("family", ["mixtral", "lfm2"])
def test_a_decode_leaves_caches_where_it_began_though_some_cannot_be_trimmed(
    family: str, tmp_path: Path
) -> None:
    folder, bench = generic_folder(tmp_path / "m", family), Bench()
    reply = bench.load(str(folder), context=64, threads=1, format="f32", kv="auto")
    spec = read_spec(str(folder))
    assert (reply["weight_bytes_per_step"] < weight_bytes(spec, "f32")) == (family == "mixtral")
    bench.decode(steps=2, depth=5, batch=2, rows=2)
    assert {depth: [cache.length for cache in held] for depth, held in bench._caches.items()} == {5: [5, 5]}
    assert bench.prefill(7)["token"] == bench.prefill(7)["token"]


def test_kernels_that_do_not_run_the_model_are_not_timed(tmp_path: Path) -> None:
    folder = generic_folder(tmp_path / "m", "lfm2")
    with pytest.raises(WishError, match="transformers does"):
        measure_kernels(LoadSpec(str(folder)), 1, lambda said: None)
