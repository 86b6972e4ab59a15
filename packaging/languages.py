"""``python packaging/languages.py``: collects the window's texts for Qt Linguist, compiles translated ones.

``assets/languages/de.ts`` is what translators edit (with ``pyside6-linguist`` or by hand), ``de.qm`` what the
program reads. Texts that are gone are dropped, new ones stand there unfinished; the command names their
number and ends with 1 where there are any.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import PySide6

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "assets" / "languages"
SOURCES = ("app", "engine", "ui")
TOOLS = Path(PySide6.__file__).parent  # they come with it, and need not be on the PATH
_ALIASES = "tr+=tr,tr+=mark"  # our own functions, found by their names


def collect(path: Path) -> None:
    """Bring a .ts file up to date with the sources. Raises CalledProcessError where lupdate fails."""
    files = sorted(str(file.relative_to(ROOT)) for name in SOURCES for file in (ROOT / name).rglob("*.py"))
    options = ["-no-obsolete", "-locations", "none", "-tr-function-alias", _ALIASES]
    command = [str(TOOLS / "lupdate"), *files, "-ts", str(path.relative_to(ROOT)), *options]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)


def compile_into(path: Path, target: Path) -> None:
    """Make the .qm of a .ts file. Raises CalledProcessError where lrelease fails."""
    command = [str(TOOLS / "lrelease"), str(path), "-qm", str(target)]
    subprocess.run(command, check=True, capture_output=True)


def unfinished(path: Path) -> list[str]:
    """Source texts of a .ts file that have no translation yet."""
    messages = ElementTree.parse(path).getroot().iter("message")
    return [_source(each) for each in messages if _is_open(each)]


def _source(message: ElementTree.Element) -> str:
    return message.findtext("source") or ""


def _is_open(message: ElementTree.Element) -> bool:
    found = message.find("translation")
    return found is None or found.get("type") == "unfinished"


def main() -> int:
    """Update and compile every language there is."""
    missing = 0
    for path in sorted(FOLDER.glob("*.ts")):
        collect(path)
        compile_into(path, path.with_suffix(".qm"))
        open_texts = unfinished(path)
        missing += len(open_texts)
        print(f"{path.name}: {len(open_texts)} without a translation")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
