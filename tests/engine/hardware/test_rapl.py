"""RAPL's counter: packages together, the beginning anew, and no figure that was not read."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine.hardware.rapl import RaplCounter


def zone(root: Path, name: str, energy_uj: int, most_uj: int = 1_000_000) -> Path:
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "energy_uj").write_text(f"{energy_uj}\n")
    (folder / "max_energy_range_uj").write_text(f"{most_uj}\n")
    return folder


def test_packages_are_counted_together_and_their_parts_are_not(tmp_path: Path) -> None:
    zone(tmp_path, "intel-rapl:0", 100)
    zone(tmp_path, "intel-rapl:1", 50)
    zone(tmp_path, "intel-rapl:0:0", 70)  # the cores, a part of the package
    counter = RaplCounter(tmp_path)
    assert counter.read_j() == 0
    zone(tmp_path, "intel-rapl:0", 300)
    zone(tmp_path, "intel-rapl:1", 60)
    zone(tmp_path, "intel-rapl:0:0", 999)
    assert counter.read_j() == pytest.approx(210e-6)


def test_a_counter_that_began_again_goes_on(tmp_path: Path) -> None:
    zone(tmp_path, "intel-rapl:0", 999_900)
    counter = RaplCounter(tmp_path)
    counter.read_j()
    zone(tmp_path, "intel-rapl:0", 400)
    assert counter.read_j() == pytest.approx(500e-6)
    zone(tmp_path, "intel-rapl:0", 500)
    assert counter.read_j() == pytest.approx(600e-6)


def test_what_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    assert RaplCounter(tmp_path).read_j() is None
    assert RaplCounter(tmp_path / "nothing").read_j() is None
    zone(tmp_path, "intel-rapl:0", 100)
    hidden = zone(tmp_path, "intel-rapl:1", 100)
    (hidden / "energy_uj").write_text("")
    assert RaplCounter(tmp_path).read_j() is None


def test_a_package_that_tells_again_does_not_count_what_was_missed(tmp_path: Path) -> None:
    folder = zone(tmp_path, "intel-rapl:0", 100)
    counter = RaplCounter(tmp_path)
    counter.read_j()
    (folder / "energy_uj").unlink()
    assert counter.read_j() is None
    zone(tmp_path, "intel-rapl:0", 900)
    assert counter.read_j() == 0
    zone(tmp_path, "intel-rapl:0", 950)
    assert counter.read_j() == pytest.approx(50e-6)
