"""How this program starts one of its own modules as a child process, installed or built into a folder.

A built program has no `python -m`: there its own file is started, with the module's name behind ``FLAG``.
"""

from __future__ import annotations

import runpy
import sys
from collections.abc import Sequence

FLAG = "--child"
MODULES = (  # all that are ever started; a build must hold them, and starts no others
    "app.cli",
    "app.attachment_pdf",
    "app.bench.kernel_worker",
    "app.bench.llama_peer",
    "app.bench.pulse",
    "app.bench.quality_worker",
    "app.bench.worker",
)


def command(module: str, *arguments: str) -> list[str]:
    """The command line that runs ``module`` as ``python -m`` does."""
    if getattr(sys, "frozen", False):
        return [sys.executable, FLAG, module, *arguments]
    # -P: what lies in the current folder is not taken for a module
    return [sys.executable, "-P", "-m", module, *arguments]


def is_asked(arguments: Sequence[str]) -> bool:
    """Whether a built program was started by such a command line; ``arguments`` begin with its own name."""
    return len(arguments) > 2 and arguments[1] == FLAG and arguments[2] in MODULES


def run() -> None:
    """Be the module that the command line names: it sees its own arguments alone, and may end the process."""
    module = sys.argv[2]
    sys.argv = [module, *sys.argv[3:]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)
