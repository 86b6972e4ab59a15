"""What is said and done about networks, proxies and certificates."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import pytest

from app.download import DownloadError, fetch
from app.transport import shown
from tests.app import file_server
from tests.app.downloads import DATA, SHA256, Reports, get
from tests.app.file_server import Plan

pytestmark = pytest.mark.usefixtures("plain_network")


def test_no_network_is_said_at_once(target: Path) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    began = time.monotonic()
    with pytest.raises(DownloadError, match=f"No connection to 127.0.0.1:{port}") as caught:
        fetch(f"http://127.0.0.1:{port}/f", target, progress=Reports(), cancel=threading.Event())
    assert caught.value.is_offline
    assert "Models on this computer still work" in str(caught.value)
    assert time.monotonic() - began < 5  # nothing is tried again where nothing ever arrived


def test_a_network_that_goes_away_in_between_is_waited_for(server: Plan, target: Path) -> None:
    """The first connection breaks, then nothing answers for two tries, then all is well."""
    server.answer = file_server.dropping(1000, times=1)
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        gone = f"http://127.0.0.1:{closed.getsockname()[1]}/model.gguf"
    with file_server.running() as gateway:
        answers = [f"{server.url}/model.gguf", gone, gone, f"{server.url}/model.gguf"]
        gateway.answer = lambda handler: handler.body(b"", 307, Location=answers.pop(0))
        get(gateway, target)
    assert answers == []
    assert target.read_bytes() == DATA


def test_a_proxy_is_used_and_no_proxy_is_heeded(
    server: Plan, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "http://models.invalid/model.gguf"
    server.files[url] = DATA
    monkeypatch.setenv("HTTP_PROXY", server.url)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    fetch(url, target, size=len(DATA), sha256=SHA256, progress=Reports(), cancel=threading.Event())
    assert server.requests == [(url, None)]
    with file_server.running() as other:
        other.files["/model.gguf"] = DATA
        get(other, target.with_name("second.gguf"))
    assert len(server.requests) == 1


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_wants_a_login_is_named_without_its_password(
    server: Plan, target: Path, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    server.answer = file_server.fixed(b"", 407)
    host = server.url.removeprefix("http://")
    monkeypatch.setenv(f"{scheme.upper()}_PROXY", f"http://user:secret@{host}")
    with pytest.raises(DownloadError, match=f"The proxy {host} asks for a name and a password") as caught:
        fetch(f"{scheme}://models.invalid/f", target, progress=Reports(), cancel=threading.Event())
    assert "secret" not in str(caught.value)


def test_a_proxy_that_is_not_there_is_named(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        proxy = f"127.0.0.1:{closed.getsockname()[1]}"
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    with pytest.raises(DownloadError, match=f"The proxy {proxy} does not answer"):
        fetch("https://models.invalid/f", target, progress=Reports(), cancel=threading.Event())


def test_a_proxy_setting_that_is_no_address_is_said(target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "gopher://old")
    with pytest.raises(DownloadError, match="proxy that is set for this computer cannot be used"):
        fetch("https://models.invalid/f", target, progress=Reports(), cancel=threading.Event())


def test_an_unknown_certificate_is_refused_and_named(certificate: Path, target: Path) -> None:
    with (
        file_server.running(certificate) as server,
        pytest.raises(DownloadError, match=r"certificate of 127\.0\.0\.1:\d+ is not trusted: self"),
    ):
        get(server, target)


@pytest.mark.parametrize("name", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE"])
def test_a_company_certificate_is_trusted_where_the_environment_names_it(
    certificate: Path, target: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, str(certificate.with_suffix(".crt")))
    with file_server.running(certificate) as server:
        server.files["/model.gguf"] = DATA
        get(server, target)
    assert target.read_bytes() == DATA


@pytest.mark.parametrize("content", [None, b"not a certificate"])
def test_a_certificate_setting_that_cannot_be_read_is_named(
    target: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    path = tmp_path / "ca.pem"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv("SSL_CERT_FILE", str(path))
    with pytest.raises(DownloadError, match=r"certificate file of SSL_CERT_FILE cannot be read"):
        fetch("https://models.invalid/f", target, progress=Reports(), cancel=threading.Event())


def test_an_address_is_shown_without_login_and_query() -> None:
    assert shown("https://me:secret@host:8080/simple/?token=x") == "https://host:8080/simple/"
