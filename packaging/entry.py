"""Where the built program begins: the command line, or one of its modules as a child process."""

from __future__ import annotations

import multiprocessing
import os
import sys

from app import relaunch

_LIBRARIES = "LD_LIBRARY_PATH"


def _forget_libraries() -> None:
    """The bootloader tells this process where our libraries lie. A browser that is started from here has its
    own.
    """
    given = os.environ.pop(f"{_LIBRARIES}_ORIG", None)
    os.environ.pop(_LIBRARIES, None)
    if given is not None:
        os.environ[_LIBRARIES] = given


def main() -> int:
    """Run what the command line asks for; returns the exit code."""
    multiprocessing.freeze_support()  # a process that a library starts in this way goes no further
    if getattr(sys, "frozen", False) and sys.platform == "linux":
        _forget_libraries()
    if relaunch.is_asked(sys.argv):
        relaunch.run()
        return 0
    from app import cli

    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
