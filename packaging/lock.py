"""``python packaging/lock.py``: writes the lock file of this platform and Python into packaging/lock.

Every package that is shipped or builds what is shipped, at one version, with the SHA-256 of the wheel that
pip takes here: ``pip install --require-hashes -r`` of it gives the same files again, or fails. Versions that
stand there are kept; ``--upgrade`` chooses anew.
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import contents
from licences import normal

FOLDER = Path(__file__).resolve().parent / "lock"
EXTRAS = (*contents.EXTRAS, "package")
HEAD = """\
# Made by `python packaging/lock.py` for {title}. Do not edit.
# A version with +cpu is of https://download.pytorch.org/whl/cpu (--extra-index-url), all else of PyPI.
"""


def name() -> str:
    """The lock file for what this runs on."""
    major, minor, _ = platform.python_version_tuple()
    return f"{platform.system().lower()}-{platform.machine().lower()}-py{major}{minor}.txt"


def resolve(constraints: Path | None) -> list[dict[str, Any]]:
    """What pip would install, from its report. Raises CalledProcessError where there is no solution."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--dry-run", "--ignore-installed"]
        command += ["--only-binary=:all:", "--report", str(report), f"{contents.ROOT}[{','.join(EXTRAS)}]"]
        command += ["--constraint", str(constraints)] if constraints else []
        subprocess.run(command, check=True)
        found: list[dict[str, Any]] = json.loads(report.read_text("utf-8"))["install"]
    return found


def lines(installs: list[dict[str, Any]]) -> list[str]:
    """One requirement with its hash for each package but this one, by name."""
    found = {}
    for install in installs:
        project = normal(install["metadata"]["name"])
        if project != "decodeck":
            version, archive = install["metadata"]["version"], install["download_info"]["archive_info"]
            found[project] = f"{project}=={version} --hash=sha256:{archive['hashes']['sha256']}"
    return [found[project] for project in sorted(found)]


def versions(path: Path) -> str:
    """A lock file as constraints: its versions without the hashes, which constraints cannot have."""
    kept = (line.partition(" --hash")[0] for line in path.read_text("utf-8").splitlines())
    return "\n".join(line for line in kept if "==" in line)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--upgrade", action="store_true", help="do not keep the versions that stand there")
    options = parser.parse_args(arguments)
    target = FOLDER / name()
    with tempfile.TemporaryDirectory() as folder:
        kept = Path(folder, "constraints.txt")
        if target.is_file() and not options.upgrade:
            kept.write_text(versions(target), "utf-8")
        found = lines(resolve(kept if kept.is_file() else None))
    title = f"{platform.system()} on {platform.machine()}, Python {platform.python_version()}"
    FOLDER.mkdir(exist_ok=True)
    target.write_text("\n".join([HEAD.format(title=title) + found[0], *found[1:]]) + "\n", "utf-8")
    print(f"{len(found)} packages in {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
