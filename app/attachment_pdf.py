"""``python -m app.attachment_pdf FILE``: the text of a PDF on standard output, page by page as they are read.

The number of pages comes first; every part ends with a form feed. A process of its own, because what a file
makes the reader do has no end that one could count on. Knows no program around it.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pypdf import PdfReader

MOST_PDF_PAGES = 1_000
MOST_PDF_CHARS = 2_000_000
MOST_MEMORY_BYTES = 2 << 30
PAGE_END = "\f"
NO_PACKAGE, ENCRYPTED, UNREADABLE = 3, 4, 5  # exit codes


def main(path: str) -> int:
    """Write the text; the exit code says why there is none."""
    _limit_memory()
    try:
        import pypdf
    except ImportError:
        return NO_PACKAGE
    logging.disable()  # what it has to say of a damaged file is no text of it
    try:
        reader = pypdf.PdfReader(path)
        if reader.is_encrypted and not reader.decrypt(""):
            return ENCRYPTED
        sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
        _write(str(len(reader.pages)))
        for text in _texts(reader):
            _write(text.replace(PAGE_END, "\n"))
    except Exception:  # whatever a damaged file makes the reader raise; pages so far stand
        return UNREADABLE
    return 0


def _texts(reader: PdfReader) -> Iterator[str]:
    """Pages until there are enough characters."""
    left = MOST_PDF_CHARS
    for page in reader.pages[:MOST_PDF_PAGES]:
        text = page.extract_text()
        left -= len(text)
        if left < 0:
            return
        yield text


def _write(text: str) -> None:
    sys.stdout.write(text + PAGE_END)
    sys.stdout.flush()  # what is out survives the end of the time


def _limit_memory() -> None:
    """A small file can unfold to any size. Not every system has such a limit."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY_BYTES, MOST_MEMORY_BYTES))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
