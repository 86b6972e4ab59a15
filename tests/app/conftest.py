"""Fixtures of the tests that download: a local server, a place to download to, a network without proxies."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from app import library_places
from tests.app import file_server
from tests.app.downloads import DATA
from tests.app.file_server import Plan
from tests.app.hub_server import PlayedHub

PROXY_NAMES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
CERTIFICATE_NAMES = ("SSL_CERT_FILE", "SSL_CERT_DIR", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE")


@pytest.fixture(autouse=True)
def _no_other_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test sees the models that other programs of this machine have."""
    monkeypatch.setattr(library_places, "elsewhere", lambda *_: ())


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


@pytest.fixture
def played(server: Plan, monkeypatch: pytest.MonkeyPatch) -> PlayedHub:
    """The hub, played by the local server; the program finds it through HF_ENDPOINT."""
    hub = PlayedHub(server)
    server.answer = hub.answer
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    monkeypatch.delenv("HF_TOKEN", raising=False)
    return hub


@pytest.fixture
def make_server(plain_network: None) -> Iterator[Callable[[], PlayedHub]]:
    """More servers that play the hub, each a host of its own."""
    with ExitStack() as stack:

        def make() -> PlayedHub:
            plan = stack.enter_context(file_server.running())
            hub = PlayedHub(plan)
            plan.answer = hub.answer
            return hub

        yield make


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A self-signed certificate for 127.0.0.1 with its key."""
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("no openssl here to make a certificate with")
    path = tmp_path_factory.mktemp("certificate") / "own.pem"
    command = (
        "req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=127.0.0.1 -addext subjectAltName=IP:127.0.0.1"
    )
    subprocess.run(
        [openssl, *command.split(), "-keyout", str(path), "-out", str(path.with_suffix(".crt"))],
        check=True,
        capture_output=True,
    )
    path.write_bytes(path.read_bytes() + path.with_suffix(".crt").read_bytes())
    return path
