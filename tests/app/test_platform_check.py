"""A window that cannot open says what to install, before Qt aborts the process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from app import platform_check
from app.platform_check import DEBIAN_PACKAGES, PlatformError, missing_library

README = Path(__file__).parents[2] / "README.md"


def start(**environment: str) -> subprocess.CompletedProcess[str]:
    env = {k: v for k, v in os.environ.items() if k not in ("QT_QPA_PLATFORM", "DISPLAY", "WAYLAND_DISPLAY")}
    command = [sys.executable, "-m", "app.cli"]
    return subprocess.run(
        command, env=env | environment, capture_output=True, text=True, timeout=60, check=False
    )


def test_a_missing_library_is_named_with_the_packages_to_install() -> None:
    error = missing_library("libxcb-cursor.so.0: cannot open shared object file: No such file or directory")
    assert "libxcb-cursor.so.0 is missing" in error.message
    assert DEBIAN_PACKAGES in error.hint


def test_a_plugin_that_cannot_be_loaded_ends_in_that_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "libqoffscreen.so").write_bytes(b"not a library")
    monkeypatch.setenv("QT_QPA_PLATFORM", "offscreen")
    monkeypatch.setattr(platform_check, "plugin_folder", lambda: tmp_path)
    with pytest.raises(PlatformError, match="missing"):
        platform_check.check()


@pytest.mark.skipif(sys.platform != "linux", reason="X11 is Linux's")
@pytest.mark.parametrize(
    "display", [{}, {"DISPLAY": ":987"}, {"WAYLAND_DISPLAY": "wayland-987", "XDG_RUNTIME_DIR": "/tmp"}]
)
def test_a_missing_display_is_said_and_nothing_aborts(display: dict[str, str]) -> None:
    done = start(**display)
    assert done.returncode == 2
    assert "display" in done.stderr
    assert len(done.stderr.strip().splitlines()) == 1


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({"QT_QPA_PLATFORM": "offscreen"}, "offscreen"),
        ({"QT_QPA_PLATFORM": "xcb;wayland"}, "xcb"),
        ({"WAYLAND_DISPLAY": "wayland-0"}, "wayland"),
        ({"WAYLAND_DISPLAY": "wayland-0", "DISPLAY": ":0"}, "xcb"),
        ({}, "xcb"),
    ],
)
def test_the_plugin_is_the_one_qt_will_take(
    environment: dict[str, str], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for key in ("QT_QPA_PLATFORM", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(key, raising=False)
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    assert platform_check.platform_name() == name


def test_the_readme_names_the_same_packages() -> None:
    text = README.read_text().replace("\\\n", " ")
    line = next(line for line in text.splitlines() if "apt install" in line)
    assert set(DEBIAN_PACKAGES.split()) == set(line.split("install", 1)[1].split())
