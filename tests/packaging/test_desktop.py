"""What a Linux desktop is told of the program: how it starts, and which files it opens."""

from __future__ import annotations

import shutil
import struct
import subprocess
from collections.abc import Callable
from configparser import RawConfigParser
from pathlib import Path
from types import ModuleType
from xml.etree import ElementTree

import pytest

from app import cli
from engine.errors import EngineError
from engine.models.gguf import read_header

LINUX = Path(__file__).resolve().parents[2] / "packaging" / "linux"
DESKTOP, MIME = LINUX / "decodeck.desktop", LINUX / "decodeck-mime.xml"
SPACE = "{http://www.freedesktop.org/standards/shared-mime-info}"


@pytest.fixture
def entry() -> dict[str, str]:
    parser = RawConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]  # keys have their case
    parser.read(DESKTOP, "utf-8")
    return dict(parser["Desktop Entry"])


def metainfo(script: Callable[[str], ModuleType]) -> ElementTree.Element:
    name = script("contents").APP_ID
    root = ElementTree.parse(LINUX / f"{name}.metainfo.xml").getroot()
    assert root.findtext("id") == name
    return root


def test_a_desktop_starts_the_window_with_a_file_and_without(entry: dict[str, str]) -> None:
    program, field = entry["Exec"].split()
    assert (program, field, entry["Type"], entry["Icon"]) == ("decodeck", "%f", "Application", "decodeck")
    parser = cli.build_parser()
    opened = parser.parse_args(cli.opening(["/home/me/chat/My Model.GGUF"]))
    assert (opened.run, opened.model) == (cli.run_window, "/home/me/chat/My Model.GGUF")
    alone = parser.parse_args(cli.opening([]))
    assert alone.run is cli.run_window
    assert "model" not in alone


def test_the_type_of_gguf_files_is_the_one_that_the_program_opens(
    entry: dict[str, str], script: Callable[[str], ModuleType]
) -> None:
    (kind,) = ElementTree.parse(MIME).getroot().iter(f"{SPACE}mime-type")
    assert entry["MimeType"] == f"{kind.get('type')};"
    assert metainfo(script).findtext("provides/mediatype") == kind.get("type")
    assert metainfo(script).findtext("launchable") == DESKTOP.name
    assert [glob.get("pattern") for glob in kind.iter(f"{SPACE}glob")] == ["*.gguf"]


def test_the_magic_of_gguf_files_is_the_one_that_the_reader_wants(tmp_path: Path) -> None:
    (match,) = ElementTree.parse(MIME).getroot().iter(f"{SPACE}match")
    assert (match.get("type"), match.get("offset")) == ("string", "0")
    file = tmp_path / "model.gguf"
    file.write_bytes(str(match.get("value")).encode() + struct.pack("<IQQ", 99, 0, 0))
    with pytest.raises(EngineError, match="GGUF version 99"):
        read_header(str(file))


@pytest.mark.skipif(not shutil.which("desktop-file-validate"), reason="desktop-file-utils is not installed")
def test_the_desktop_file_is_valid() -> None:
    subprocess.run(["desktop-file-validate", "--warn-kde", str(DESKTOP)], check=True)
