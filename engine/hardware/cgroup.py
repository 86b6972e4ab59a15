"""How much memory and processor time a container leaves to this process: Linux's control groups.

Knows both versions: https://docs.kernel.org/admin-guide/cgroup-v2.html (memory.*, cpu.max),
https://docs.kernel.org/admin-guide/cgroup-v1/memory.html and
https://docs.kernel.org/scheduler/sched-bwc.html. Standard library only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path, PurePosixPath

_SELF = Path("/proc/self")


@dataclass(frozen=True, slots=True)
class MemoryLimit:
    """What a group may use in all, and what of it is not in use; None is unknown."""

    total_bytes: int
    free_bytes: int | None


@dataclass(frozen=True, slots=True)
class _Files:
    """How a version calls what is asked for; several limits: the tightest counts."""

    limits: tuple[str, ...]
    usage: str
    reclaimable: tuple[str, ...]  # lines of memory.stat: what is taken back before anything is refused


_V2 = _Files(
    ("memory.max", "memory.high"),
    "memory.current",
    ("inactive_file", "active_file", "slab_reclaimable"),
)
_V1 = _Files(
    ("memory.limit_in_bytes",),
    "memory.usage_in_bytes",
    ("total_inactive_file", "total_active_file"),
)


def memory_limits(below: int) -> list[MemoryLimit]:
    """The limits of this process's group and of all groups around it that can be seen from here, as far as
    they are less than ``below`` bytes: in the older version every group has one, most of them sky-high.
    """
    found = (_limit(folder, _V2 if is_v2 else _V1, below) for folder, is_v2 in _groups("memory"))
    return [limit for limit in found if limit is not None]


def cpu_quota() -> float | None:
    """Processors' worth of time that this process's groups allow, the least of them; None: no limit."""
    quotas = [_quota(folder, is_v2) for folder, is_v2 in _groups("cpu")]
    return min((quota for quota in quotas if quota is not None), default=None)


def _quota(folder: Path, is_v2: bool) -> float | None:
    """ "150000 100000" is one and a half processors; max, or -1 in the older version, is no limit."""
    names = ("cpu.max",) if is_v2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    words = " ".join(_text(folder / name) for name in names).split()
    if len(words) != 2 or not all(word.isascii() and word.isdecimal() for word in words):
        return None
    quota, period = map(int, words)
    return quota / period if period else None


def _limit(folder: Path, files: _Files, below: int) -> MemoryLimit | None:
    # None: "max", or the root's group, which has no such file
    limits = [limit for name in files.limits if (limit := _number(folder / name)) is not None]
    total = min(limits, default=below)
    if total >= below:
        return None
    used, cache = _number(folder / files.usage), _reclaimable(folder / "memory.stat", files.reclaimable)
    return MemoryLimit(total, None if used is None else max(0, total - max(0, used - cache)))


def _number(path: Path) -> int | None:
    text = _text(path).strip()
    return int(text) if text.isascii() and text.isdecimal() else None


def _reclaimable(path: Path, names: tuple[str, ...]) -> int:
    found = re.findall(r"^(\w+) (\d+)$", _text(path), re.MULTILINE)
    return sum(int(value) for name, value in found if name in names)


def _text(path: Path) -> str:
    """A small file's text; "" where there is none."""
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _groups(controller: str) -> tuple[tuple[Path, bool], ...]:
    """The folders of the process's groups, from its own up to where the container's view ends, and whether
    they are of version 2.
    """
    return _folders(controller, _text(_SELF / "cgroup"), _SELF)


@lru_cache(maxsize=8)  # the gauges ask twice a second, and a process stays where it is
def _folders(controller: str, groups: str, own: Path) -> tuple[tuple[Path, bool], ...]:
    found: list[tuple[Path, bool]] = []
    for line in groups.splitlines():
        number, controllers, group = [*line.split(":", 2), "", ""][:3]
        is_v2 = number == "0" and not controllers
        if not is_v2 and controller not in controllers.split(","):
            continue
        for mount, root in _mounts(own, "cgroup2" if is_v2 else "cgroup", controller):
            found += ((folder, is_v2) for folder in _upwards(mount, root, group))
    return tuple(found)


def _upwards(mount: Path, root: str, group: str) -> Iterator[Path]:
    """From a group's folder to the mount's, which stands for a group that cannot be seen from here."""
    inside = PurePosixPath(group)
    place = inside.relative_to(root) if inside.is_relative_to(root) else PurePosixPath()
    for part in (place, *place.parents):
        if ".." not in part.parts:
            yield mount / part


def _mounts(own: Path, kind: str, controller: str) -> Iterator[tuple[Path, str]]:
    """(folder, which group it shows) of mounted control groups: the second version, or the first's of a
    controller.
    """
    for line in _text(own / "mountinfo").splitlines():
        left, _, right = line.partition(" - ")
        fields, file_system = left.split(), right.split()
        if len(fields) < 5 or len(file_system) < 3 or file_system[0] != kind:
            continue
        if kind == "cgroup2" or controller in file_system[2].split(","):
            yield Path(_unescaped(fields[4])), _unescaped(fields[3])


def _unescaped(text: str) -> str:
    r"""A path as mountinfo writes it, with \040 for a space."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)
