"""What the C library keeps of freed memory for later allocations, and when the system gets it back. Knows no
tensors.

Standard library only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os


def expect_blocks(nbytes: int) -> None:
    """Let freed blocks of so many bytes, at most 32 MB, stay with the process. What takes such blocks again
    and again, as a piece of a prompt does, would otherwise get them from the system page by page, which takes
    half as long as the piece. glibc learns it from one block that is freed: M_MMAP_THRESHOLD in
    https://man7.org/linux/man-pages/man3/mallopt.3.html
    """
    if os.name == "nt":
        return
    with contextlib.suppress(AttributeError, OSError):
        library = ctypes.CDLL(None)
        library.malloc.restype = ctypes.c_void_p
        library.free(ctypes.c_void_p(library.malloc(ctypes.c_size_t(nbytes))))


def trim() -> None:
    """Give free pages of the heap back. Freed blocks of up to 32 MB, which most matrices are, stay with the
    process otherwise. https://man7.org/linux/man-pages/man3/malloc_trim.3.html
    """
    with contextlib.suppress(AttributeError, OSError):  # a C library that does so by itself, or not at all
        if os.name == "nt":
            ctypes.CDLL("msvcrt")._heapmin()
        else:
            ctypes.CDLL(None).malloc_trim(ctypes.c_size_t(0))
