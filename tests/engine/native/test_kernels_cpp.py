"""The C++ program in tests/native, built under sanitizers: every kernel of every instruction set."""

from __future__ import annotations

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
FOLDERS = (ROOT / "engine" / "native", ROOT / "tests" / "native")
FLAGS = ("-std=c++17", "-g", "-O1", "-fno-sanitize-recover=all", "-fno-math-errno", "-ffp-contract=off")
WARNINGS = ("-Wall", "-Wextra", "-Wno-psabi", "-Werror")


@pytest.fixture(scope="module")
def compiler() -> str:
    """The C++ compiler; CI fails without one."""
    found = shutil.which(os.environ.get("CXX", "g++"))
    if found is None:
        if os.environ.get("CI"):
            pytest.fail("there is no C++ compiler")
        pytest.skip("there is no C++ compiler")
    return found


def build(compiler: str, sanitizers: str, folder: Path) -> Path:
    """Compile the kernels and their tests side by side and link them into one program."""
    flags = (*FLAGS, *WARNINGS, "-pthread", f"-fsanitize={sanitizers}")
    objects = {source: folder / f"{source.stem}.o" for place in FOLDERS for source in place.glob("*.cpp")}

    def compile_one(source: Path) -> None:
        run(compiler, *flags, f"-I{FOLDERS[0]}", "-c", str(source), "-o", str(objects[source]))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(compile_one, objects))
    program = folder / "kernels"
    run(compiler, *flags, *map(str, objects.values()), "-o", str(program))
    return program


def run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "unexpected memory mapping" in done.stderr:
        pytest.skip("this thread sanitizer cannot run where addresses are this random")
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sanitizers", "part"),
    [("address,undefined", ""), ("thread", "threads")],
    ids=["every test without a fault of memory", "threads without a race"],
)
def test_kernels_agree_with_float64(compiler: str, tmp_path: Path, sanitizers: str, part: str) -> None:
    program, shares = str(build(compiler, sanitizers, tmp_path)), os.cpu_count() or 1
    with ThreadPoolExecutor(shares) as pool:
        list(pool.map(lambda share: run(program, part, str(share), str(shares)), range(shares)))
