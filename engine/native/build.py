"""How setuptools compiles the kernels: a plain shared library, optional, every source at once.

Runs inside the package build, so it imports setuptools and the standard library alone.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from setuptools import Extension
from setuptools.command.build_ext import build_ext
from setuptools.errors import PlatformError

FOLDER = Path("engine/native")  # the build runs at the top of the sources
REQUIRED = "DECODECK_REQUIRE_NATIVE"  # 1: a build that fails fails the install
FLAGS = [
    "-std=c++17",
    "-O3",
    "-g0",
    "-fvisibility=hidden",
    "-fno-math-errno",
    "-fno-tree-ter",  # GCC keeps the order of sums that do not wait for each other
    "-ffp-contract=off",  # the kernels say themselves where they fuse, so that compilers cannot differ
    "-Wall",
    "-Wextra",
    "-Wno-psabi",
]


class BuildKernels(build_ext):
    """Compiles all of engine/native into `_kernels` for ctypes. Always from scratch: nothing can be stale."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.force = True
        for extension in self.extensions:
            extension.sources = [path.as_posix() for path in sorted(FOLDER.glob("*.cpp"))]
            headers = sorted((*FOLDER.glob("*.h"), *FOLDER.glob("*.inl")))
            extension.depends = [path.as_posix() for path in headers]  # so that the sdist has them
            extension.optional = os.environ.get(REQUIRED) != "1"

    def build_extension(self, ext: Extension) -> None:
        """Compile and link one library. What an earlier build left goes first, in case this one fails."""
        target = Path(self.get_ext_fullpath(ext.name))
        target.unlink(missing_ok=True)
        if os.name == "nt":
            raise PlatformError("the native kernels need GCC or Clang; on Windows stock kernels run for now")
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            objects = list(pool.map(self._compile, ext.sources))
        self.compiler.link_shared_object(objects, str(target), build_temp=self.build_temp, target_lang="c++")

    def copy_extensions_to_source(self) -> None:
        """The end of an editable install: the new library beside its sources, or none."""
        for extension in self.extensions:
            (FOLDER / Path(self.get_ext_fullpath(extension.name)).name).unlink(missing_ok=True)
        super().copy_extensions_to_source()

    def _compile(self, source: str) -> str:
        (compiled,) = self.compiler.compile([source], output_dir=self.build_temp, extra_postargs=FLAGS)
        return str(compiled)
