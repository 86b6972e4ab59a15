"""``python packaging/licences.py``: collects the licences of all that is shipped into assets/licences.

Walks what the program needs with the extras that are shipped, and what that needs in turn, as installed in
this environment. A project whose wheel holds no text gets the standard text of the licence it names; where
there is none, the command fails. Those of Debian's libraries are collected while a folder is built.
"""

from __future__ import annotations

import itertools
import re
import sys
import sysconfig
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path

from contents import EXTRAS
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "assets" / "licences"
PREFIX, STANDARD = "python-", "standard-"
_BUILT_WITH = ("pyinstaller",)  # its bootloader begins every built folder
_IS_LICENCE = re.compile(r"(licen[cs]e|copying|notice)[^/]*$", re.IGNORECASE)
_NO_TEXT = (".py", ".pyc", ".pyi", ".html")
# What a wheel without a text says of itself, and the standard texts that stand for it.
_STANDARD = (
    ("LGPL-3.0", ("LGPL-3.0", "GPL-3.0")),
    ("Apache", ("Apache-2.0",)),
)


def shipped(extras: Sequence[str] = ()) -> list[Distribution]:
    """All that the program needs, by name. Raises PackageNotFoundError for what is not installed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    lines = [
        *project["dependencies"],
        *(line for name in extras for line in project["optional-dependencies"][name]),
    ]
    waiting = list(_wanted(lines))
    found: dict[str, Distribution] = {}
    seen: set[tuple[str, tuple[str, ...]]] = set()
    while waiting:
        name, named = waiting.pop()
        if (name, named) not in seen:
            seen.add((name, named))
            found[name] = distribution(name)
            waiting += _wanted(found[name].requires or (), named)
    return [found[name] for name in sorted(found)]


def _wanted(lines: Iterable[str], extras: Sequence[str] = ()) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Names and extras of what is needed on this machine."""
    for needed in map(Requirement, lines):
        marker = needed.marker
        if marker is None or any(marker.evaluate({"extra": extra}) for extra in ("", *extras)):
            yield normal(needed.name), tuple(sorted(needed.extras))


def normal(name: str) -> str:
    """A project's name as registries compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def text_of(project: Distribution) -> str:
    """The licence texts of a project, each once, below its name, version and home. "" where there is none."""
    said = project.metadata
    named = [
        *(said.get_all("License-Expression") or ()),
        _classified(project),
        *(said.get_all("License") or ()),
    ]
    licence = next((each for each in named if each), "")
    texts = list(dict.fromkeys(_texts(project))) or list(_head_comments(project))
    texts = texts or list(_standard_texts(licence))
    if not texts:
        return ""
    head = [f"{said['Name']} {project.version}", licence.splitlines()[0] if licence else ""]
    return "\n\n".join(["\n".join(line for line in head if line), *texts]) + "\n"


def _classified(project: Distribution) -> str:
    lines = project.metadata.get_all("Classifier") or ()
    return ", ".join(line.rpartition(" :: ")[2] for line in lines if line.startswith("License ::"))


def _texts(project: Distribution) -> Iterator[str]:
    for file in sorted(project.files or (), key=str):
        if _IS_LICENCE.search(str(file)) and not str(file).endswith(_NO_TEXT):
            place = Path(str(file.locate()))
            if place.is_file():
                yield place.read_text("utf-8", errors="replace").strip()


def _head_comments(project: Distribution) -> Iterator[str]:
    """The licence that some single modules begin with."""
    for file in project.files or ():
        if len(file.parts) == 1 and file.suffix == ".py":
            lines = Path(str(file.locate())).read_text("utf-8", errors="replace").splitlines()
            comment = "\n".join(line.strip("# ") for line in itertools.takewhile(_is_comment, lines))
            if "Copyright" in comment:
                yield comment.strip()


def _is_comment(line: str) -> bool:
    return line.startswith("#")


def _standard_texts(licence: str) -> Iterator[str]:
    for named, texts in _STANDARD:
        if named in licence:
            for each in texts:
                yield (FOLDER / f"{STANDARD}{each}.txt").read_text("utf-8").strip()
            return


def main() -> int:
    """Write the files; 1 where something that is shipped has no licence text."""
    try:
        projects = [*shipped(EXTRAS), *map(distribution, _BUILT_WITH)]
    except PackageNotFoundError as error:
        print(f"{error.name} is not installed: install what is shipped first.", file=sys.stderr)
        return 1
    texts = {project: text_of(project) for project in projects}
    missing = [project.metadata["Name"] for project, text in texts.items() if not text]
    if missing:
        print(f"No licence text was found for: {', '.join(missing)}.", file=sys.stderr)
        return 1
    for old in FOLDER.glob(f"{PREFIX}*.txt"):
        old.unlink()
    for project, text in texts.items():
        (FOLDER / f"{PREFIX}{normal(project.metadata['Name'])}.txt").write_text(text, "utf-8")
    interpreter = Path(sysconfig.get_path("stdlib")) / "LICENSE.txt"
    if interpreter.is_file():  # some systems ship Python without it
        (FOLDER / "Python.txt").write_text(interpreter.read_text("utf-8"), "utf-8")
    print(f"{len(texts)} licences in {FOLDER}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
