"""The package build with a library of one line in the kernels' place: optional, whole, never stale."""

from __future__ import annotations

import ctypes
import importlib.machinery
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
LIBRARY = f"engine/native/_kernels{importlib.machinery.EXTENSION_SUFFIXES[0]}"
SOURCE = (
    '#include "answer.h"\nextern "C" __attribute__((visibility("default"))) int answer() { return ANSWER; }\n'
)

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the kernels are not built on Windows yet")


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """What a build needs of the checkout, with a kernel that is compiled in no time."""
    folder = tmp_path / "package"
    shutil.copytree(ROOT / "assets" / "licences", folder / "assets" / "licences")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, folder)
    native = folder / "engine" / "native"
    native.mkdir(parents=True)
    for name in ("__init__.py", "build.py", "library.py"):
        shutil.copy(ROOT / "engine" / "native" / name, native)
    (folder / "engine" / "__init__.py").touch()
    (native / "answer.h").write_text("#define ANSWER 41\n", encoding="utf-8")
    (native / "answer.cpp").write_text(SOURCE, encoding="utf-8")
    return folder


def build(package: Path, kind: str = "wheel", **environment: str) -> Path:
    """Build as pip does; CalledProcessError where that fails."""
    code = f"import setuptools.build_meta as build; print('built', build.build_{kind}('built'))"
    clean = {key: value for key, value in os.environ.items() if key != "DECODECK_REQUIRE_NATIVE"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=package,
        env=clean | environment,
        capture_output=True,
        text=True,
        check=True,
    )
    return package / "built" / done.stdout.split()[-1]


def names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def answer(wheel: Path, folder: Path) -> int:
    with zipfile.ZipFile(wheel) as archive:
        return int(ctypes.CDLL(archive.extract(LIBRARY, folder)).answer())


@pytest.fixture
def _compiler() -> None:
    if shutil.which(os.environ.get("CXX", "g++")) is None:
        pytest.skip("there is no C++ compiler")


@pytest.mark.usefixtures("_compiler")
def test_a_wheel_holds_the_library_and_no_sources(package: Path, tmp_path: Path) -> None:
    wheel = build(package, DECODECK_REQUIRE_NATIVE="1")
    assert answer(wheel, tmp_path) == 41
    assert not [name for name in names(wheel) if name.endswith((".cpp", ".h", ".inl"))]


@pytest.mark.usefixtures("_compiler")
def test_a_change_of_a_header_is_noticed(package: Path, tmp_path: Path) -> None:
    build(package)
    (package / "engine" / "native" / "answer.h").write_text("#define ANSWER 42\n", encoding="utf-8")
    assert answer(build(package), tmp_path) == 42


@pytest.mark.usefixtures("_compiler")
def test_a_build_that_fails_leaves_no_library_of_an_earlier_one(package: Path) -> None:
    assert LIBRARY in names(build(package))
    (package / "engine" / "native" / "answer.cpp").write_text("no C++", encoding="utf-8")
    assert LIBRARY not in names(build(package))


@pytest.mark.usefixtures("_compiler")
def test_an_editable_install_has_the_library_beside_its_sources_while_it_builds(package: Path) -> None:
    build(package, "editable")
    assert (package / LIBRARY).is_file()
    (package / "engine" / "native" / "answer.cpp").write_text("no C++", encoding="utf-8")
    build(package, "editable")
    assert not (package / LIBRARY).exists()


@pytest.mark.parametrize("compiler", ["/bin/false", "/nowhere/g++"])
def test_without_a_compiler_the_package_is_built_without_kernels(package: Path, compiler: str) -> None:
    wheel = build(package, CXX=compiler)
    assert LIBRARY not in names(wheel)
    assert "engine/native/library.py" in names(wheel)


def test_a_required_library_that_cannot_be_built_fails_the_build(package: Path) -> None:
    with pytest.raises(subprocess.CalledProcessError) as caught:
        build(package, CXX="/nowhere/g++", DECODECK_REQUIRE_NATIVE="1")
    assert "_kernels" in caught.value.stderr or "g++" in caught.value.stderr


def test_an_sdist_holds_every_source_and_header(package: Path) -> None:
    with tarfile.open(build(package, "sdist")) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    assert {"engine/native/answer.cpp", "engine/native/answer.h", "engine/native/build.py"} <= inside
