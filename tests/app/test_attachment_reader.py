"""Files that are attached: what is text comes whole or cut, everything else is refused by its name."""

from __future__ import annotations

import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from app import attachment_pdf, attachment_reader
from app.attachment_reader import MOST_BYTES, AttachmentError, read_attachment
from ui.attachment_text import AttachedText


def write(path: Path, data: bytes) -> str:
    path.write_bytes(data)
    return str(path)


@pytest.mark.parametrize(
    "data",
    [
        "a\nBäume 木\n".encode(),
        "a\r\nBäume 木\r".encode(),
        "a\nBäume 木\n".encode("utf-8-sig"),
        "a\nBäume 木\n".encode("utf-16"),
        "a\nBäume 木\n".encode("utf-32"),
    ],
)
def test_text_comes_with_plain_line_ends_whatever_its_encoding(tmp_path: Path, data: bytes) -> None:
    path = write(tmp_path / "notes.md", data)
    assert read_attachment(path) == AttachedText("notes.md", "a\nBäume 木\n")


@pytest.mark.parametrize(
    "data",
    [
        b"\x89PNG\r\n\x1a\n\0\0",
        b"PK\x03\x04\xff\xfe\xfd",
        b"abc\0def",
        "caf\xe9".encode("latin-1"),
        b"\xff\xfe\x00",
    ],
)
def test_what_is_no_text_is_refused_by_its_name(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(AttachmentError, match=r"^photo\.txt is not text") as caught:
        read_attachment(write(tmp_path / "photo.txt", data))
    assert caught.value.hint


@pytest.mark.parametrize("data", [b"", b" \n\t\n"])
def test_an_empty_file_is_refused(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(AttachmentError, match=r"a\.txt is empty"):
        read_attachment(write(tmp_path / "a.txt", data))


def test_a_huge_text_is_read_up_to_a_line_and_says_so(tmp_path: Path) -> None:
    path = tmp_path / "big.csv"
    with path.open("wb") as file:
        file.write("é,1\n".encode() * 600_000)
        file.truncate(20_000_000_000)  # sparse: reading all of it would take minutes
    found = read_attachment(str(path))
    assert found.note == "the first 2 MB"
    assert found.text.endswith("é,1\n")
    assert len(found.text.encode()) <= MOST_BYTES


def test_one_line_without_end_is_cut_between_characters(tmp_path: Path) -> None:
    found = read_attachment(write(tmp_path / "line.json", "木".encode() * 1_000_000))
    assert set(found.text) == {"木"}
    assert MOST_BYTES - 3 < len(found.text.encode()) <= MOST_BYTES


@pytest.mark.skipif(sys.platform == "win32", reason="has no such files")
def test_what_never_ends_is_not_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(AttachmentError, match="is not a file"):
            read_attachment(str(path))


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    with pytest.raises(AttachmentError, match=r"^gone\.txt could not be read"):
        read_attachment(str(tmp_path / "gone.txt"))


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test depends on how busy the machine is."""
    monkeypatch.setattr(attachment_reader, "PDF_S", 300.0)


def make_pdf(pages: list[bytes], *, packed: bytes | None = None) -> bytes:
    """A PDF whose pages hold these content streams; ``packed`` takes the place of the last one, deflated."""
    count = len(pages)
    kids = " ".join(f"{4 + 2 * at} 0 R" for at in range(count))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Count {count} /Kids [{kids}] >>".encode(),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for at, stream in enumerate(pages):
        font = f"/Resources << /Font << /F1 3 0 R >> >> /Contents {5 + 2 * at} 0 R"
        objects.append(f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] {font} >>".encode())
        is_packed = packed is not None and at == count - 1
        body = packed if is_packed and packed is not None else stream
        how = " /Filter /FlateDecode" if is_packed else ""
        objects.append(f"<< /Length {len(body)}{how} >>\nstream\n".encode() + body + b"\nendstream")
    out, places = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, 1):
        places.append(len(out))
        out += f"{number} 0 obj\n".encode() + each + b"\nendobj\n"
    table = b"".join(f"{place:010} 00000 n \n".encode() for place in places)
    head = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    tail = f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R >>\nstartxref\n{len(out)}\n%%EOF".encode()
    return out + head + table + tail


def says(text: str) -> bytes:
    return f"BT /F1 12 Tf 50 700 Td ({text}) Tj ET".encode()


def test_a_pdf_is_the_text_of_its_pages(tmp_path: Path) -> None:
    path = write(tmp_path / "report.pdf", make_pdf([says("First page"), says("Second page")]))
    assert read_attachment(path) == AttachedText("report.pdf", "First page\n\nSecond page")


def test_a_pdf_without_text_may_be_a_scan(tmp_path: Path) -> None:
    with pytest.raises(AttachmentError, match="it may be a scan"):
        read_attachment(write(tmp_path / "scan.pdf", make_pdf([b"", b""])))


@pytest.mark.parametrize("data", [b"%PDF-1.4\nnothing", b"%PDF-", make_pdf([says("x")])[:200]])
def test_a_damaged_pdf_is_refused_by_its_name(tmp_path: Path, data: bytes) -> None:
    with pytest.raises(AttachmentError, match=r"^broken\.pdf could not be read as a PDF"):
        read_attachment(write(tmp_path / "broken.pdf", data))


def test_a_small_pdf_cannot_unfold_to_fill_the_memory(tmp_path: Path) -> None:
    packer = zlib.compressobj(9)
    bomb = b"".join(packer.compress(b" " * 10_000_000) for _ in range(12)) + packer.flush()
    path = write(tmp_path / "bomb.pdf", make_pdf([says("Before"), b""], packed=bomb))
    found = read_attachment(path)  # within the time and the memory that the reader gets
    assert found.text == "Before"


def test_pages_that_were_read_in_time_are_kept_and_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stands_still(command: list[str], **options: object) -> None:
        raise subprocess.TimeoutExpired(command, 20.0, b"9\fone\ftwo\fthr")

    monkeypatch.setattr(attachment_reader.subprocess, "run", stands_still)
    found = read_attachment(write(tmp_path / "slow.pdf", b"%PDF-1.4"))
    assert found == AttachedText("slow.pdf", "one\n\ntwo", "pages 1 to 2 of 9")


def test_a_pdf_that_gave_nothing_in_time_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stands_still(command: list[str], **options: object) -> None:
        raise subprocess.TimeoutExpired(command, 20.0, b"9\f")

    monkeypatch.setattr(attachment_reader.subprocess, "run", stands_still)
    with pytest.raises(AttachmentError, match=r"^slow\.pdf took too long to read"):
        read_attachment(write(tmp_path / "slow.pdf", b"%PDF-1.4"))


def test_without_the_package_the_hint_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pypdf", None)
    monkeypatch.setattr(attachment_pdf, "_limit_memory", lambda: None)  # not of this process
    assert attachment_pdf.main("x.pdf") == attachment_pdf.NO_PACKAGE
    script = tmp_path / "python"
    script.write_text(f"#!/bin/sh\nexit {attachment_pdf.NO_PACKAGE}\n")
    script.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(script))
    with pytest.raises(AttachmentError) as caught:
        read_attachment(write(tmp_path / "a.pdf", b"%PDF-1.4"))
    assert caught.value.hint == "Run pip install pypdf."
