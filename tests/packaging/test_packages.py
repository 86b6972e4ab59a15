"""The Linux packages, made of a folder that stands for the built one."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest
from pytestqt.qtbot import QtBot

Script = Callable[[str], ModuleType]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    program = tmp_path / "dist" / "decodeck"
    (program / "_internal").mkdir(parents=True)
    (program / "decodeck").write_text("#!/bin/sh\necho started with $*\n")
    (program / "decodeck").chmod(0o755)
    (program / "_internal" / "library").write_bytes(bytes(5000))
    return program


@pytest.mark.skipif(not shutil.which("dpkg-deb"), reason="dpkg is not installed")
def test_a_debian_package_holds_program_and_desktop_files(
    folder: Path, script: Script, tmp_path: Path, qtbot: QtBot
) -> None:
    package = script("packages").build_deb(folder, "Someone <someone@example.org>")
    fields = ["Package", "Version", "Maintainer", "Installed-Size", "Depends"]
    said = subprocess.run(["dpkg-deb", "-f", package, *fields], check=True, capture_output=True, text=True)
    told = dict(line.split(": ", 1) for line in said.stdout.splitlines())
    assert told["Version"] == script("contents").version()
    assert int(told["Installed-Size"]) > 5
    assert "libc6 (>= 2." in told["Depends"]
    root = tmp_path / "root"
    subprocess.run(["dpkg-deb", "-x", package, root], check=True)
    done = subprocess.run([root / "usr/bin/decodeck", "a"], check=True, capture_output=True, text=True)
    assert done.stdout == "started with a\n"
    for name in ("applications/decodeck.desktop", "mime/packages/decodeck.xml", "doc/decodeck/copyright"):
        assert (root / "usr/share" / name).is_file()
    icons = {path.parts[-3] for path in (root / "usr/share/icons/hicolor").rglob("decodeck.*")}
    assert {"16x16", "48x48", "256x256", "scalable"} <= icons
    assert not (root / "icons").exists()


def test_an_appdir_starts_the_program(folder: Path, script: Script, qtbot: QtBot) -> None:
    appdir = script("packages").build_appimage(folder, None)
    done = subprocess.run([appdir / "AppRun", "a"], check=True, capture_output=True, text=True)
    assert done.stdout == "started with a\n"
    for name in ("decodeck.desktop", "decodeck.png", ".DirIcon"):
        assert (appdir / name).is_file()


@pytest.mark.skipif(not shutil.which("mksquashfs"), reason="squashfs-tools are not installed")
def test_an_appimage_is_the_runtime_and_the_appdir(
    folder: Path, script: Script, tmp_path: Path, qtbot: QtBot
) -> None:
    runtime = tmp_path / "runtime"
    runtime.write_bytes(b"\x7fELF the runtime")
    image = script("packages").build_appimage(folder, runtime)
    assert image.read_bytes().startswith(runtime.read_bytes() + b"hsqs")
    assert image.stat().st_mode & 0o111


def test_the_icon_is_drawn_in_every_size(script: Script, qtbot: QtBot) -> None:
    icons = script("icons")
    for size in icons.SIZES:
        image = icons.draw(size)
        assert image.width() == size
        assert image.pixelColor(0, 0).alpha() == 0
        assert image.pixelColor(size // 2, size // 2).alpha() == 255
