"""Fixtures of the tests that download: a local server, a place to download to, a network without proxies."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.app import file_server
from tests.app.downloads import DATA
from tests.app.file_server import Plan

PROXY_NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
CERTIFICATE_NAMES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


@pytest.fixture
def plain_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """The test sees no proxy and no certificates of the machine it runs on."""
    for name in PROXY_NAMES + CERTIFICATE_NAMES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


@pytest.fixture
def server(plain_network: None) -> Iterator[Plan]:
    """A server that has /model.gguf."""
    with file_server.running() as plan:
        plan.files["/model.gguf"] = DATA
        yield plan


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Where a download goes; the folder is not there yet."""
    return tmp_path / "models" / "model.gguf"
