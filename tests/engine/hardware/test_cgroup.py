"""Memory inside containers: the group's limit counts, its page cache does not (B058)."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from engine.hardware import cgroup, probe
from engine.hardware.cgroup import MemoryLimit, memory_limits

GB = 1 << 30
HOST_TOTAL, HOST_FREE = 64 * GB, 50 * GB


class Machine:
    """A made-up /proc/self and mounted control groups, in a folder."""

    def __init__(self, folder: Path) -> None:
        self.mounts = folder / "sys fs" / "cgroup"
        self.proc = folder / "self"
        self.proc.mkdir()
        self.groups: list[str] = []
        self.mounted: list[str] = []

    def mount(self, name: str, kind: str, options: str, root: str = "/") -> Path:
        """A mounted hierarchy; returns its folder."""
        place = self.mounts / name
        place.mkdir(parents=True)
        escaped = str(place).replace(" ", r"\040")
        self.mounted.append(f"31 23 0:28 {root} {escaped} rw,relatime shared:4 - {kind} {kind} {options}")
        (self.proc / "mountinfo").write_text("\n".join(["", "odd", *self.mounted, ""]))
        return place

    def join(self, line: str) -> None:
        self.groups.append(line)
        (self.proc / "cgroup").write_text("\n".join([*self.groups, "", "odd", "1:cpu:/x", ""]))


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setattr(cgroup, "_SELF", made.proc)
    memory = psutil.virtual_memory()._replace(total=HOST_TOTAL, available=HOST_FREE)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: memory)
    return made


def v2_group(
    folder: Path, most: object, used: int = 0, cache: int = 0, high: object = "max", stat: str = ""
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.max").write_text(f"{most}\n")
    (folder / "memory.high").write_text(f"{high}\n")
    (folder / "memory.current").write_text(f"{used}\n")
    lines = f"anon 1\nfile {cache}\nshmem 77\ninactive_file {cache // 2}\nactive_file {cache - cache // 2}\n"
    (folder / "memory.stat").write_text(stat or lines)


def v1_group(folder: Path, most: int, used: int = 0, cache: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "memory.limit_in_bytes").write_text(f"{most}\n")
    (folder / "memory.usage_in_bytes").write_text(f"{used}\n")
    (folder / "memory.stat").write_text(f"cache 1\ninactive_file 1\ntotal_inactive_file {cache}\n")


def test_without_groups_the_machine_counts(machine: Machine) -> None:
    assert memory_limits(HOST_TOTAL) == []
    assert probe.ram_bytes() == (HOST_TOTAL, HOST_FREE)


def test_a_container_s_limit_counts_and_its_page_cache_is_free(machine: Machine) -> None:
    root = machine.mount("", "cgroup2", "rw")
    machine.join("0::/")
    v2_group(root, 4 * GB, used=3 * GB + (200 << 20), cache=3 * GB)
    assert probe.ram_bytes() == (4 * GB, 4 * GB - (200 << 20))


def test_memory_of_a_tmpfs_is_in_use(machine: Machine) -> None:
    root = machine.mount("", "cgroup2", "rw")
    machine.join("0::/")
    v2_group(root, 4 * GB, used=3 * GB, stat=f"file {3 * GB}\nshmem {3 * GB}\ninactive_file 0\n")
    assert probe.ram_bytes() == (4 * GB, GB)


@pytest.mark.parametrize("most", ["max", 128 * GB])
def test_a_group_without_a_limit_leaves_the_machine_s(machine: Machine, most: object) -> None:
    root = machine.mount("", "cgroup2", "rw")
    machine.join("0::/user/app")
    v2_group(root / "user" / "app", most, used=2 * GB)
    assert probe.ram_bytes() == (HOST_TOTAL, HOST_FREE)


def test_a_limit_of_a_group_around_it_counts(machine: Machine) -> None:
    root = machine.mount("", "cgroup2", "rw")
    machine.join("0::/pod/box")
    v2_group(root / "pod", 8 * GB, used=6 * GB)
    v2_group(root / "pod" / "box", "max", used=GB)
    assert probe.ram_bytes() == (8 * GB, 2 * GB)
    v2_group(root / "pod" / "box", 10 * GB, used=9 * GB + 1)
    assert probe.ram_bytes() == (8 * GB, GB - 1)


def test_the_limit_from_which_a_group_is_slowed_down_counts(machine: Machine) -> None:
    root = machine.mount("", "cgroup2", "rw")
    machine.join("0::/")
    v2_group(root, 8 * GB, used=GB, high=6 * GB)
    assert probe.ram_bytes() == (6 * GB, 5 * GB)


def test_the_older_version_is_read_too(machine: Machine) -> None:
    machine.mount("unified", "cgroup2", "rw")
    machine.mount("cpu", "cgroup", "rw,cpu,cpuacct")
    root = machine.mount("memory", "cgroup", "rw,memory")
    machine.join("4:memory:/docker/box")
    machine.join("0::/")
    v1_group(root, 9223372036854771712, used=40 * GB)
    v1_group(root / "docker", 9223372036854771712, used=40 * GB)
    v1_group(root / "docker" / "box", 4 * GB, used=3 * GB, cache=2 * GB)
    assert probe.ram_bytes() == (4 * GB, 3 * GB)
    assert len(memory_limits(1 << 63)) == 3


def test_a_group_whose_path_is_another_namespace_s_is_the_mount_itself(machine: Machine) -> None:
    root = machine.mount("memory", "cgroup", "rw,memory", root="/docker/box")
    machine.join("9:cpuset,memory:/docker/box/inner")
    v1_group(root / "inner", 3 * GB, used=GB)
    v1_group(root, 4 * GB, used=2 * GB)
    assert memory_limits(HOST_TOTAL) == [MemoryLimit(3 * GB, 2 * GB), MemoryLimit(4 * GB, 2 * GB)]
    machine.groups.clear()
    machine.join("9:memory:/../../elsewhere")
    assert memory_limits(HOST_TOTAL) == [MemoryLimit(4 * GB, 2 * GB)]


def test_a_limit_below_what_is_used_leaves_nothing(machine: Machine) -> None:
    root = machine.mount("", "cgroup2", "rw")
    machine.join("0::/")
    v2_group(root, GB, used=2 * GB)
    assert probe.ram_bytes() == (GB, 0)
    v2_group(root, GB, used=100, cache=200)  # the two files are read one after the other
    assert probe.ram_bytes() == (GB, GB)


@pytest.mark.parametrize("text", ["", "lots", "-5", "٣"])
def test_what_cannot_be_read_is_unknown_and_never_the_machine_s(machine: Machine, text: str) -> None:
    root = machine.mount("", "cgroup2", "rw")
    machine.join("0::/")
    v2_group(root, 4 * GB)
    (root / "memory.current").write_text(text)
    assert probe.ram_bytes() == (4 * GB, None)
    (root / "memory.max").write_text(text)
    assert probe.ram_bytes() == (HOST_TOTAL, HOST_FREE)


def test_this_machine_s_own_groups_are_read_without_an_error() -> None:
    total, free = probe.ram_bytes()
    assert all(limit.total_bytes >= 0 for limit in memory_limits(1 << 63))
    assert total is None or free is None or 0 <= free <= total
