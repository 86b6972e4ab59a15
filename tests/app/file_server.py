"""A local HTTP server whose misbehaviour a test can script. Knows nothing of the program."""

from __future__ import annotations

import contextlib
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path


class Handler(BaseHTTPRequestHandler):
    """One request; ``plan`` says how it is answered."""

    plan: Plan

    def do_GET(self) -> None:
        self.plan.requests.append((self.path, self.headers.get("Range")))
        self.plan.logins.append(self.headers.get("Authorization"))
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            self.plan.answer(self)

    def do_CONNECT(self) -> None:
        self.plan.requests.append((self.path, None))
        self.send_error(407)

    def log_message(self, format: str, *args: object) -> None:
        pass

    def head(self, status: int, length: int | None, **headers: str) -> None:
        """Send status and headers; an underscore in a name stands for a dash."""
        self.send_response(status)
        if length is not None:
            self.send_header("Content-Length", str(length))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()

    def body(self, data: bytes, status: int = 200, **headers: str) -> None:
        self.head(status, len(data), **headers)
        self.wfile.write(data)


Answer = Callable[[Handler], None]


@dataclass
class Plan:
    """What a server serves, what it was asked, and how it answers."""

    files: dict[str, bytes] = field(default_factory=dict)
    requests: list[tuple[str, str | None]] = field(default_factory=list)
    logins: list[str | None] = field(default_factory=list)
    answer: Answer = field(default=lambda handler: serve(handler))
    url: str = ""
    stop: threading.Event = field(default_factory=threading.Event)


def serve(handler: Handler) -> None:
    """Like a good server without ETag: whole files, and parts where Range asks for them."""
    data = handler.plan.files.get(handler.path)
    if data is None:
        handler.send_error(404)
        return
    start = _start_of(handler)
    if start == 0:
        handler.body(data)
    elif start >= len(data):
        handler.head(416, 0, Content_Range=f"bytes */{len(data)}")
    else:
        span = f"bytes {start}-{len(data) - 1}/{len(data)}"
        handler.body(data[start:], 206, Content_Range=span)


def without_range(handler: Handler) -> None:
    """A server that always sends the whole file."""
    handler.body(handler.plan.files[handler.path])


def fixed(data: bytes, status: int = 200, **headers: str) -> Answer:
    """The same answer to everything."""
    return lambda handler: handler.body(data, status, **headers)


def dropping(num_bytes: int, times: int) -> Answer:
    """Breaks off after ``num_bytes`` of each of the first ``times`` answers; parts are served properly."""
    left = [times]

    def answer(handler: Handler) -> None:
        if left[0] == 0:
            serve(handler)
            return
        left[0] -= 1
        data, start = handler.plan.files[handler.path], _start_of(handler)
        rest = len(data) - start
        handler.head(206 if start else 200, rest, Content_Range=f"bytes {start}-{len(data) - 1}/{len(data)}")
        handler.wfile.write(data[start : start + num_bytes])

    return answer


def stalling(num_bytes: int) -> Answer:
    """Sends some bytes and then nothing until the test ends."""

    def answer(handler: Handler) -> None:
        data = handler.plan.files[handler.path]
        handler.head(200, len(data))
        handler.wfile.write(data[:num_bytes])
        handler.wfile.flush()
        handler.plan.stop.wait(20)

    return answer


def silent(handler: Handler) -> None:
    """Takes the request and never answers."""
    handler.plan.stop.wait(20)


def _start_of(handler: Handler) -> int:
    return int(handler.headers.get("Range", "bytes=0-").removeprefix("bytes=").rstrip("-"))


class _Server(ThreadingHTTPServer):
    """Says nothing of clients that hang up, which is what many tests are about."""

    def handle_error(self, request: object, client_address: object) -> None:
        pass


@contextlib.contextmanager
def running(certificate: Path | None = None) -> Iterator[Plan]:
    """A server on 127.0.0.1 for the length of the block; with ``certificate`` (key inside) it speaks TLS."""
    plan = Plan()
    server = _Server(("127.0.0.1", 0), type("PlannedHandler", (Handler,), {"plan": plan}))
    scheme = "http"
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        scheme = "https"
    plan.url = f"{scheme}://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield plan
    finally:
        plan.stop.set()
        server.shutdown()
        server.server_close()
        thread.join()
