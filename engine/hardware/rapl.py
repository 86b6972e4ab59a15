"""The energy that processors say they have used: RAPL, as Linux tells it in files. Knows no cost.

https://docs.kernel.org/power/powercap/powercap.html: every package is a zone, ``energy_uj`` counts up to
``max_energy_range_uj`` and begins again. Most systems let only root read it: then nothing is known.
"""

from __future__ import annotations

from pathlib import Path

_ROOT = Path("/sys/class/powercap")
_PACKAGES = "intel-rapl:*"  # AMD's too


class RaplCounter:
    """Counts joules of all packages since it was made. For one thread at a time."""

    def __init__(self, root: Path = _ROOT) -> None:
        self._zones = [each for each in sorted(root.glob(_PACKAGES)) if each.name.count(":") == 1]
        self._last: dict[Path, int] = {}
        self._counted_uj = 0

    def read_j(self) -> float | None:
        """Joules; None where one of the packages does not tell, or there is none."""
        found = {zone: _number(zone / "energy_uj") for zone in self._zones}
        if not found or any(value is None for value in found.values()):
            self._last.clear()
            return None
        for zone, value in found.items():
            assert value is not None
            before = self._last.get(zone, value)
            if value < before:  # it began again
                value_range = _number(zone / "max_energy_range_uj") or before
                self._counted_uj += value + value_range - before
            else:
                self._counted_uj += value - before
            self._last[zone] = value
        return self._counted_uj / 1e6


def _number(path: Path) -> int | None:
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
