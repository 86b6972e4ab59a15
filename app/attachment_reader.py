"""Reads a file as text to attach to a message, with bounds on all that it can make us do. Knows no window."""

from __future__ import annotations

import codecs
import os
import stat
import subprocess
from pathlib import Path

from app import relaunch
from app.attachment_pdf import ENCRYPTED, NO_PACKAGE, PAGE_END
from engine.errors import EngineError
from engine.words import mark, tr
from ui.attachment_text import AttachedText, attached

MOST_BYTES = 2_000_000  # of a text; more than most contexts hold
MOST_PDF_BYTES = 100_000_000
PDF_S = 20.0
KINDS = mark("Text, code, CSV, JSON, Markdown and PDF files can be attached.")
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),  # begins like the next one
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class AttachmentError(EngineError):
    """A file cannot be attached."""

    kind = "attachment"


def read_attachment(path: str) -> AttachedText:
    """The text of a file. Waits for the disk, and for a PDF up to ``PDF_S``.

    What is too long is cut, and its note says so. Raises AttachmentError where the file is no text.
    """
    place = Path(path)
    try:
        if not stat.S_ISREG(place.stat().st_mode):  # a pipe or a device may never end, or never begin
            raise AttachmentError(tr("{file} is not a file.").format(file=place.name), tr(KINDS))
        with place.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
            size = os.fstat(file.fileno()).st_size
    except OSError as error:
        words = tr("{file} could not be read: {reason}.")
        reason = error.strerror or error
        raise AttachmentError(words.format(file=place.name, reason=reason)) from error
    if b"%PDF-" in data[:1024]:
        text, note = _pdf_text(place, size)
    else:
        text, note = _decoded(place.name, data)
    if not text.strip():
        raise AttachmentError(tr("{file} is empty.").format(file=place.name), tr(KINDS))
    return attached(place.name, text, note)


def _decoded(name: str, data: bytes) -> tuple[str, str]:
    """The text and its note. Raises AttachmentError for what is no text."""
    is_cut = len(data) > MOST_BYTES
    coding = next((coding for bom, coding in _BOMS if data.startswith(bom)), "utf-8")
    try:
        # a cut may go through a character: an incremental decoder keeps that back
        text = codecs.getincrementaldecoder(coding)().decode(data[:MOST_BYTES], final=not is_cut)
    except UnicodeDecodeError as error:
        words = tr("{file} is not text that can be read.").format(file=name)
        hint = tr("A text in an older encoding has to be saved as UTF-8 first.")
        raise AttachmentError(words, f"{tr(KINDS)} {hint}") from error
    if "\0" in text:
        raise AttachmentError(tr("{file} is not text.").format(file=name), tr(KINDS))
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if not is_cut:
        return text, ""
    return text[: text.rfind("\n") + 1] or text, f"the first {MOST_BYTES // 1_000_000} MB"


def _pdf_text(path: Path, size: int) -> tuple[str, str]:
    """The text of a PDF's pages, read in a process of its own that can be ended: a file can keep the reader
    busy for ever, or fill the memory. What was read in time is kept.
    """
    if size > MOST_PDF_BYTES:
        most = tr("At most {size} MB are read.").format(size=MOST_PDF_BYTES // 1_000_000)
        raise AttachmentError(tr("{file} is too large for a PDF.").format(file=path.name), most)
    command = relaunch.command("app.attachment_pdf", str(path.absolute()))
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=PDF_S,
        )
        output, code = done.stdout, done.returncode
    except subprocess.TimeoutExpired as error:
        output, code = error.stdout or b"", 0
    if code == NO_PACKAGE:
        words = tr("{file} is a PDF, and the package pypdf, which reads them, is not installed.")
        raise AttachmentError(words.format(file=path.name), tr("Run pip install pypdf."))
    if code == ENCRYPTED:
        words = tr("{file} is protected by a password.")
        raise AttachmentError(words.format(file=path.name), tr("Save it without one first."))
    return _pages(path.name, output.decode("utf-8", "replace"), code)


def _pages(name: str, output: str, code: int) -> tuple[str, str]:
    """The whole pages of what the reader wrote: the number of all pages, then page after page."""
    count, _, rest = output.partition(PAGE_END)
    pages = rest.split(PAGE_END)[:-1]
    total = int(count) if count.isdecimal() else 0
    if not pages:
        words = tr("{file} took too long to read.")
        if code or not total:
            words = tr("{file} could not be read as a PDF.")
        raise AttachmentError(words.format(file=name), tr("Open it elsewhere and attach its text."))
    text = "\n\n".join(page.strip() for page in pages if page.strip())
    if not text:
        words = tr("{file} has no text: it may be a scan.")
        raise AttachmentError(words.format(file=name), tr("Its text has to be recognized first."))
    return text, "" if len(pages) == total else f"pages 1 to {len(pages)} of {total}"
