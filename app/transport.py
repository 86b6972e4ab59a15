"""One request that can be given up at any moment, and a plain sentence for whatever goes wrong on the way.

Knows HTTP, proxies, certificates and ``file:`` addresses; not what is fetched or where it is kept.
"""

from __future__ import annotations

import contextlib
import os
import queue
import socket
import ssl
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass, url2pathname

import httpx2

from engine.errors import EngineError
from engine.words import tr

CHUNK_BYTES = 1 << 16
_POLL_S = 0.05  # how long Cancel can go unseen
_CHUNKS_AHEAD = 16
_TIMEOUT = httpx2.Timeout(30.0, connect=10.0)
_PASSING_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})


class DownloadError(EngineError):
    """A download did not work.

    ``may_pass``: the same request may work in a moment. ``is_offline``: nothing was reached at all.
    ``wait_s``: how long the server asks us to wait.
    """

    kind = "download"

    def __init__(
        self,
        message: str,
        hint: str = "",
        *,
        may_pass: bool = False,
        is_offline: bool = False,
        wait_s: float = 0.0,
    ) -> None:
        super().__init__(message, hint)
        self.may_pass = may_pass
        self.is_offline = is_offline
        self.wait_s = wait_s


class DownloadCancelledError(DownloadError):
    """The user stopped the download; what has arrived is kept."""

    kind = "cancelled"


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer to one request; header names in lower case. ``chunks`` can be read once.

    ``url`` is where the answer came from in the end, after redirects.
    """

    url: str
    status: int
    headers: Mapping[str, str]
    chunks: Iterator[bytes]

    @property
    def content_bytes(self) -> int | None:
        """Size of the body, where the server says it and sends the body as it is."""
        length = self.headers.get("content-length", "")
        return int(length) if length.isdecimal() and not self.is_encoded else None

    @property
    def is_encoded(self) -> bool:
        """The body is compressed on the way, so its offsets are not those of the file."""
        return self.headers.get("content-encoding", "identity").strip().lower() not in ("", "identity")


def shown(url: str) -> str:
    """``url`` without name, password and query: fit for a log or a message."""
    parts = urlsplit(url)
    host = parts.netloc.rpartition("@")[2]
    return f"{parts.scheme}://{host}{parts.path}"


def host_of(url: str) -> str:
    """Host and port of ``url``, without credentials."""
    return urlsplit(url).netloc.rpartition("@")[2] or shown(url)


def make_client() -> httpx2.Client:
    """A client that follows the proxies and certificates of the environment and the system.

    Certificates are always verified. Raises DownloadError naming the variable that is wrong.
    """
    verify = _certificates()
    try:
        return httpx2.Client(verify=verify, timeout=_TIMEOUT, follow_redirects=True)
    except (ValueError, ImportError, httpx2.InvalidURL) as error:
        raise DownloadError(
            tr("The proxy that is set for this computer cannot be used."),
            tr("Look at HTTPS_PROXY, HTTP_PROXY and ALL_PROXY: only http:// and https:// proxies work."),
        ) from error


def _certificates() -> ssl.SSLContext | bool:
    """What to verify with: httpx2's own choice, unless only the variables of other programs name a file."""
    own = [name for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if os.environ.get(name)]
    others = [name for name in ("REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE") if os.environ.get(name)]
    for name in (own or others)[:1]:
        place = os.environ[name]
        try:
            if os.path.isdir(place):
                return ssl.create_default_context(capath=place)
            return ssl.create_default_context(cafile=place)
        except OSError as error:  # an SSLError is one too
            raise DownloadError(
                tr("The certificate file of {name} cannot be read: {place}.").format(name=name, place=place),
                tr("Correct {name}, or unset it.").format(name=name),
            ) from error
    return True


@contextlib.contextmanager
def open_reply(
    client: httpx2.Client, url: str, headers: Mapping[str, str], cancel: threading.Event
) -> Iterator[Reply]:
    """Send a GET and give its Reply; the connection is closed at the end of the block.

    Raises DownloadCancelledError within a tenth of a second after ``cancel``, even while the server is
    silent, and DownloadError for everything that goes wrong before or between the chunks.
    """
    if urlsplit(url).scheme == "file":
        with _open_file(url, headers, cancel) as reply:
            yield reply
        return
    pump = _Pump(client, url, headers, cancel)
    try:
        yield pump.reply()
    finally:
        pump.abandon()


@contextlib.contextmanager
def _open_file(url: str, headers: Mapping[str, str], cancel: threading.Event) -> Iterator[Reply]:
    """A file: address, answered as a server would that knows Range."""
    path = Path(url2pathname(urlsplit(url).path))
    start = int(headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))
    try:
        file = path.open("rb")
        size = os.fstat(file.fileno()).st_size
    except OSError as error:
        raise DownloadError(
            tr("{path} cannot be read: {reason}.").format(path=path, reason=error.strerror or error)
        ) from error

    def chunks() -> Iterator[bytes]:
        file.seek(start)
        while chunk := file.read(CHUNK_BYTES):
            _raise_if(cancel)
            yield chunk

    answer = {"content-length": str(max(0, size - start))}
    if start:
        answer["content-range"] = f"bytes {start}-{size - 1}/{size}"
    with file:
        yield Reply(url, 206 if start else 200, answer, chunks())


def read_small(
    client: httpx2.Client,
    url: str,
    headers: Mapping[str, str],
    cancel: threading.Event,
    limit_bytes: int = 4_000_000,
) -> tuple[Reply, bytes]:
    """The whole body of a page such as a list. Raises DownloadError for a status other than 200 too."""
    body = bytearray()
    with open_reply(client, url, headers, cancel) as reply:
        if reply.status != 200:
            raise explain_status(reply, url)
        for chunk in reply.chunks:
            body += chunk
            if len(body) > limit_bytes:
                raise DownloadError(
                    tr("{host} sent far more than expected for {address}.").format(
                        host=host_of(url), address=shown(url)
                    )
                )
    return reply, bytes(body)


def _raise_if(cancel: threading.Event) -> None:
    if cancel.is_set():
        raise DownloadCancelledError(tr("The download was stopped."))


class _Pump:
    """Reads one answer in a thread of its own, because a read from a silent server cannot be interrupted.

    That thread touches the network and the queue alone: whoever takes the chunks writes the file.
    """

    def __init__(
        self, client: httpx2.Client, url: str, headers: Mapping[str, str], cancel: threading.Event
    ) -> None:
        self._client, self._url, self._headers, self._cancel = client, url, dict(headers), cancel
        self._items: queue.Queue[tuple[str, object]] = queue.Queue(_CHUNKS_AHEAD)
        self._abandoned = threading.Event()
        self._socket: socket.socket | None = None
        self._thread = threading.Thread(target=self._run, name="download-read", daemon=True)
        self._thread.start()

    def reply(self) -> Reply:
        """Wait for the headers."""
        head = self._take("head")
        assert isinstance(head, httpx2.Response)
        headers = {name.lower(): value for name, value in head.headers.items()}
        return Reply(str(head.url), head.status_code, headers, self._chunks())

    def abandon(self) -> None:
        """Let the thread end, wherever it waits."""
        self._abandoned.set()
        if self._thread.is_alive() and self._socket is not None:
            with contextlib.suppress(OSError, ValueError):
                self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join(_POLL_S)

    def _chunks(self) -> Iterator[bytes]:
        while True:
            chunk = self._take("chunk")
            if not isinstance(chunk, bytes):
                return
            yield chunk

    def _take(self, expected: str) -> object:
        """The next item; None at the end of the body."""
        while True:
            _raise_if(self._cancel)
            try:
                kind, item = self._items.get(timeout=_POLL_S)
            except queue.Empty:
                continue
            if isinstance(item, Exception):
                raise explain(item, self._url) from item
            assert kind in (expected, "end")
            return item

    def _put(self, kind: str, item: object) -> bool:
        """False when nobody takes items any more."""
        while not self._abandoned.is_set():
            with contextlib.suppress(queue.Full):
                self._items.put((kind, item), timeout=_POLL_S)
                return True
        return False

    def _run(self) -> None:
        try:
            with self._client.stream("GET", self._url, headers=self._headers) as response:
                stream = response.extensions.get("network_stream")
                self._socket = stream.get_extra_info("socket") if stream is not None else None
                if not self._put("head", response):
                    return
                for chunk in response.iter_bytes():
                    if not self._put("chunk", chunk):
                        return
            self._put("end", None)
        except Exception as error:  # handed over: it is raised in the thread that takes the items
            self._put("error", error)


def explain(error: Exception, url: str) -> DownloadError:
    """The sentence for an error of the network: it names the certificate, the proxy or the network."""
    host = host_of(url)
    certificate = _cause(error, ssl.SSLCertVerificationError)
    if isinstance(certificate, ssl.SSLCertVerificationError):
        reason = certificate.verify_message or certificate.reason
        return DownloadError(
            tr("The certificate of {host} is not trusted: {reason}.").format(host=host, reason=reason),
            tr("If your network inspects encrypted traffic, set SSL_CERT_FILE to its certificate file."),
        )
    if isinstance(error, httpx2.ProxyError):
        return _explain_proxy(error, url)
    if _cause(error, ssl.SSLError) and isinstance(error, httpx2.ConnectError):
        return DownloadError(
            tr("No secure connection to {host} could be made.").format(host=host),
            tr("Check the proxy settings."),
        )
    if isinstance(error, httpx2.ConnectError | httpx2.ConnectTimeout):
        proxy = proxy_for(url)
        if proxy:
            return DownloadError(
                tr("The proxy {host} does not answer.").format(host=host_of(proxy)),
                tr("Check HTTPS_PROXY and HTTP_PROXY, and the network."),
                is_offline=True,
            )
        return DownloadError(
            tr("No connection to {host}.").format(host=host),
            tr("Check the network and try again. Models on this computer still work."),
            is_offline=True,
        )
    if isinstance(error, httpx2.UnsupportedProtocol | httpx2.InvalidURL):
        return DownloadError(
            tr("{address} is not an address that can be downloaded from.").format(address=shown(url))
        )
    if isinstance(error, httpx2.TooManyRedirects | httpx2.DecodingError):
        return DownloadError(
            tr("{host} sent an answer that cannot be followed: {kind}.").format(
                host=host, kind=type(error).__name__
            )
        )
    if isinstance(error, httpx2.TransportError):
        return DownloadError(
            tr("The connection to {host} broke off.").format(host=host),
            tr("Try again: the download goes on where it stopped."),
            may_pass=True,
        )
    return DownloadError(tr("The download from {host} failed: {reason}.").format(host=host, reason=error))


def explain_status(reply: Reply, url: str) -> DownloadError:
    """The sentence for an answer with a status that carries no file."""
    status, name = reply.status, unquote(urlsplit(url).path.rstrip("/").rpartition("/")[2])
    known = {"host": host_of(url), "name": name, "status": status}
    if status == 407:
        return _proxy_login(url)
    if status in (401, 403):
        return DownloadError(
            tr("{host} refuses access to {name} (status {status}).").format(**known),
            tr("It may need a login."),
        )
    if status in (404, 410):
        return DownloadError(tr("{host} does not have {name} (status {status}).").format(**known))
    if status in _PASSING_STATUS:
        after = reply.headers.get("retry-after", "")
        return DownloadError(
            tr("{host} cannot answer at the moment (status {status}).").format(**known),
            tr("Try again in a few minutes."),
            may_pass=True,
            wait_s=min(60.0, float(after)) if after.isdecimal() else 0.0,
        )
    return DownloadError(tr("{host} answered with status {status} instead of {name}.").format(**known))


def proxy_for(url: str) -> str | None:
    """The proxy that the environment or the system names for ``url``."""
    parts = urlsplit(url)
    proxies = getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(parts.hostname or ""):
        return None
    return proxy if "://" in proxy else f"http://{proxy}"


def _proxy_login(url: str) -> DownloadError:
    proxy = proxy_for(url)
    asks = tr("The proxy asks for a name and a password.")
    if proxy:
        asks = tr("The proxy {host} asks for a name and a password.").format(host=host_of(proxy))
    return DownloadError(asks, tr("Put them into HTTPS_PROXY, as in http://name:password@host:port."))


def _explain_proxy(error: Exception, url: str) -> DownloadError:
    if "407" in str(error):
        return _proxy_login(url)
    proxy = proxy_for(url)
    refused = tr("The proxy of this computer refused the connection to {host}.").format(host=host_of(url))
    if proxy:
        refused = tr("The proxy {proxy} refused the connection to {host}.").format(
            proxy=host_of(proxy), host=host_of(url)
        )
    return DownloadError(refused, tr("Check HTTPS_PROXY and HTTP_PROXY."))


def _cause(error: BaseException, kind: type[BaseException]) -> BaseException | None:
    """``error`` or the first of its causes that is of ``kind``."""
    seen: BaseException | None = error
    for _ in range(10):
        if seen is None or isinstance(seen, kind):
            return seen
        seen = seen.__cause__ or seen.__context__
    return None
