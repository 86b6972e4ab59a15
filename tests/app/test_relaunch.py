"""How the program starts its own modules: installed, and built into a folder."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

from app import attachment_pdf, relaunch

ROOT = Path(__file__).resolve().parents[2]
ENTRY = ROOT / "packaging" / "entry.py"


def test_an_installed_program_is_started_by_python() -> None:
    command = relaunch.command("app.cli", "--version")
    assert command == [sys.executable, "-P", "-m", "app.cli", "--version"]


def test_a_built_program_is_started_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    monkeypatch.setattr(sys, "executable", "/opt/decodeck")
    command = relaunch.command("app.cli", "chat", "-")
    assert command == ["/opt/decodeck", relaunch.FLAG, "app.cli", "chat", "-"]
    assert relaunch.is_asked(command)


@pytest.mark.parametrize("command", [["decodeck"], ["decodeck", "--child"], ["decodeck", "--child", "os"]])
def test_nothing_else_is_taken_for_a_module_of_ours(command: list[str]) -> None:
    assert not relaunch.is_asked(command)


def test_every_module_that_is_started_is_known_and_there() -> None:
    assert all(importlib.util.find_spec(module) for module in relaunch.MODULES)
    sources = "\n".join(path.read_text("utf-8") for path in (ROOT / "app").rglob("*.py"))
    started = re.findall(r'(?:relaunch\.command|Worker)\(\s*"([a-z_.]+)"', sources)
    assert len(started) >= 6
    assert set(started) <= set(relaunch.MODULES)
    for path in (ROOT / "app").rglob("*.py"):  # pip alone is another's module, and no built program has it
        if path.name != "relaunch.py":
            assert re.findall(r'sys\.executable, .*"-m", "(\w+)', path.read_text("utf-8")) in ([], ["pip"])


def test_the_entry_of_a_built_program_is_the_module_that_it_is_asked_for(tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.pdf"
    damaged.write_bytes(b"%PDF-1.4")
    command = [sys.executable, str(ENTRY), relaunch.FLAG]
    done = subprocess.run([*command, "app.attachment_pdf", str(damaged)], check=False)
    assert done.returncode == attachment_pdf.UNREADABLE
    cli = subprocess.run([*command, "app.cli", "--version"], capture_output=True, text=True, check=True)
    assert cli.stdout.startswith("decodeck ")


def test_the_entry_of_a_built_program_is_the_command_line() -> None:
    done = subprocess.run([sys.executable, str(ENTRY), "--child", "os"], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_a_built_program_gives_others_their_own_libraries(tmp_path: Path) -> None:
    code = (
        f"import os, sys; sys.path.insert(0, {str(ENTRY.parent)!r}); import entry\n"
        "entry._forget_libraries(); print(os.environ.get('LD_LIBRARY_PATH'))"
    )
    for given, expected in (({"LD_LIBRARY_PATH_ORIG": "/theirs"}, "/theirs"), ({}, "None")):
        environment = {"LD_LIBRARY_PATH": "/ours", **given}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        assert done.stdout.strip() == expected
