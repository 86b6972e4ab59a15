"""Giving memory back: what the C library keeps for later allocations goes to the system. Knows no tensors.

Standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os


def trim() -> None:
    """Give free pages of the heap back. Freed blocks of up to 32 MB, which most matrices are, stay with the
    process otherwise. https://man7.org/linux/man-pages/man3/malloc_trim.3.html
    """
    with contextlib.suppress(AttributeError, OSError):  # a C library that does so by itself, or not at all
        if os.name == "nt":
            ctypes.CDLL("msvcrt")._heapmin()
        else:
            ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))
