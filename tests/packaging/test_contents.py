"""What a built folder holds, what it leaves to the system, and that versions and licences are known."""

from __future__ import annotations

import plistlib
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from packaging.requirements import Requirement

from app.platform_check import DEBIAN_PACKAGES
from ui.about import licence_label, licence_names

ROOT = Path(__file__).resolve().parents[2]
LOCKS = sorted((ROOT / "packaging" / "lock").glob("*.txt"))
LOCKED = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>\S+) --hash=sha256:[0-9a-f]{64}")
Script = Callable[[str], ModuleType]


@pytest.fixture
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_every_folder_of_assets_is_installed_with_the_program() -> None:
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    installed = {pattern.partition("/")[0] for pattern in tool["package-data"]["assets"]}
    files = (path for path in (ROOT / "assets").rglob("*") if path.is_file() and path.suffix != ".pyc")
    assert {path.relative_to(ROOT / "assets").parts[0] for path in files} - {"__init__.py"} == installed


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.stem)
def test_a_lock_names_every_requirement_at_a_version_that_fits(
    lock: Path, project: dict[str, Any], script: Script
) -> None:
    extras, normal = script("lock").EXTRAS, script("licences").normal
    lines = [line for line in lock.read_text("utf-8").splitlines() if not line.startswith("#")]
    locked = {found["name"]: found["version"] for line in lines if (found := LOCKED.fullmatch(line))}
    assert len(locked) == len(lines)
    wanted = list(project["dependencies"])
    wanted += (line for extra in extras for line in project["optional-dependencies"][extra])
    for needed in map(Requirement, wanted):
        assert needed.specifier.contains(locked[normal(needed.name)]), needed
    shipped = {
        normal(each.metadata["Name"]) for each in script("licences").shipped(script("contents").EXTRAS)
    }
    assert shipped <= set(locked)


def test_a_lock_keeps_its_versions_when_it_is_made_again(script: Script, tmp_path: Path) -> None:
    def report(name: str, version: str) -> dict[str, Any]:
        archive = {"archive_info": {"hashes": {"sha256": "0" * 64}}}
        return {"metadata": {"name": name, "version": version}, "download_info": archive}

    lock = script("lock")
    lines = lock.lines([report("Some_Name", "1.0+cpu"), report("decodeck", "0.1"), report("other", "2")])
    assert lines == [f"{each} --hash=sha256:{'0' * 64}" for each in ("other==2", "some-name==1.0+cpu")]
    file = tmp_path / "lock.txt"
    file.write_text("# a comment\n" + "\n".join(lines))
    assert lock.versions(file) == "other==2\nsome-name==1.0+cpu"


def test_of_the_system_only_what_may_be_missing_is_shipped(script: Script) -> None:
    needed = script("contents").is_needed
    system = "/usr/lib/x86_64-linux-gnu/"
    assert needed("libxcb-cursor.so.0", f"{system}libxcb-cursor.so.0", "BINARY")
    for name in ("libstdc++.so.6", "libreadline.so.8", "libgtk-3.so.0", "libcudart.so"):
        assert not needed(name, system + name, "BINARY")
    qt = "PySide6/Qt/lib/libQt6Core.so.6"
    assert needed(qt, f"/env/lib/python3.11/site-packages/{qt}", "BINARY")
    assert needed("torch/bin/torch_shm_manager", "/env/torch/bin/torch_shm_manager", "DATA")
    assert not needed("torch/bin/test_api", "/env/torch/bin/test_api", "DATA")


def test_the_packages_for_qt_are_in_the_folder_or_named_by_the_debian_package(script: Script) -> None:
    bundled = re.compile(r"libxkbcommon|libxcb-|python3-venv")
    depends = re.split(r"[ ,]+", script("packages").DEPENDS)
    assert [name for name in DEBIAN_PACKAGES.split() if not bundled.match(name) and name not in depends] == []


def test_everything_that_is_shipped_has_its_licence_in_about(script: Script) -> None:
    licences = script("licences")
    shipped = {licences.normal(each.metadata["Name"]) for each in licences.shipped(script("contents").EXTRAS)}
    assert {f"python-{name}" for name in (*shipped, "pyinstaller")} <= set(licence_names())
    assert licence_label("system-libssl3") == "libssl3"


def test_libraries_of_no_package_are_refused(script: Script, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        script("contents").system_licences([str(tmp_path / "libmade_by_hand.so")])


def test_the_bundle_opens_gguf_files(script: Script) -> None:
    info = plistlib.loads(plistlib.dumps(script("contents").info_plist()))
    (declared,) = info["UTImportedTypeDeclarations"]
    assert declared["UTTypeTagSpecification"] == {"public.filename-extension": ["gguf"]}
    assert info["CFBundleDocumentTypes"][0]["LSItemContentTypes"] == [declared["UTTypeIdentifier"]]
    plistlib.loads((ROOT / "packaging" / "macos" / "entitlements.plist").read_bytes())
