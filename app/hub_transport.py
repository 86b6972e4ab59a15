"""What huggingface_hub sends its requests through: our client, our timeouts, our sentences, and Cancel.

Left to itself the library waits without end, tries again by rules of its own and asks for more than it was
told to. Here every request is one that the program knows, and every failure a DownloadError.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

import httpx2

from app.transport import DownloadError, Reply, explain_status, host_of, open_reply, shown

MOST_BYTES = 16_000_000  # of a list of models or files
_ALLOWED = ("/api/models",)


@dataclass(frozen=True, slots=True)
class _Call:
    client: httpx2.Client
    cancel: threading.Event


_call: ContextVar[_Call] = ContextVar("hub call")


@contextmanager
def calling(client: httpx2.Client, cancel: threading.Event) -> Iterator[None]:
    """What huggingface_hub asks for within the block goes through ``client`` and ends with ``cancel``."""
    token = _call.set(_Call(client, cancel))
    try:
        yield
    finally:
        _call.reset(token)


def make_hub_client() -> httpx2.Client:
    """The client for ``huggingface_hub.set_client_factory``."""
    return httpx2.Client(transport=_HubTransport())


class _HubTransport(httpx2.BaseTransport):
    """Answers with status 200 alone; everything else is raised as a DownloadError."""

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        url = str(request.url)
        place = urlsplit(url).path
        call = _call.get(None)
        if call is None or request.method != "GET" or not any(part in place for part in _ALLOWED):
            raise DownloadError(f"{shown(url)} was not asked for.")
        headers = {"Accept": "application/json"}
        if login := request.headers.get("authorization"):
            headers["Authorization"] = login
        body = bytearray()
        with open_reply(call.client, url, headers, call.cancel) as reply:
            if reply.status != 200:
                raise explain_hub(reply, url)
            for chunk in reply.chunks:
                body += chunk
                if len(body) > MOST_BYTES:
                    raise DownloadError(f"{host_of(url)} sent far more than expected.")
        if bytes(body[:256]).lstrip()[:1] not in (b"{", b"["):
            raise DownloadError(
                f"{host_of(url)} sent something else than a list.",
                "The network may ask for a login, or HF_ENDPOINT may be wrong.",
            )
        links = {"link": reply.headers["link"]} if "link" in reply.headers else {}
        kinds = {"content-type": "application/json"} | links
        return httpx2.Response(200, headers=kinds, content=bytes(body), request=request)


class AccessError(DownloadError):
    """The hub wants a login, an accepted licence, or another token."""

    kind = "gated"


def explain_hub(reply: Reply, url: str) -> DownloadError:
    """The sentence for a hub's answer without content. A missing repository is told apart from a gated one by
    the hub's own code, since it answers 401 to both.

    https://huggingface.co/docs/hub/api (X-Error-Code)
    """
    host, code = host_of(url), reply.headers.get("x-error-code", "")
    repo = repo_in(url)
    page = f"{urlsplit(url).scheme}://{host}/{repo}"
    if reply.status in (401, 403) and code == "GatedRepo":
        return AccessError(
            f"{repo} wants its licence accepted first.",
            f"Accept it at {page} and add an access token of your account.",
        )
    if code == "RepoNotFound" or (reply.status == 404 and not code and "/resolve/" not in url):
        return DownloadError(f"{host} has no model {repo}, or it is private.", "Check the name.")
    if code in ("EntryNotFound", "RevisionNotFound"):
        return DownloadError(
            f"{repo} was changed on {host}: the file that was asked for is no longer there.",
            "Look at its files again.",
        )
    if reply.status in (401, 403):
        text = "does not accept the access token" if reply.status == 401 else "refuses access to"
        what = f"{host} {text}." if reply.status == 401 else f"{host} {text} {repo}."
        return AccessError(what, "The token may have ended, or lack the right to read. Add another one.")
    if reply.status == 429:
        waits = explain_status(reply, url)
        wait = f" Wait {waits.wait_s:.0f} s." if waits.wait_s else ""
        return DownloadError(
            f"{host} was asked too often (status 429).{wait}",
            "An access token raises the limit.",
            may_pass=True,
            wait_s=waits.wait_s,
        )
    return explain_status(reply, url)


def repo_in(url: str) -> str:
    """The repository that an address of the hub speaks of: "owner/name", or what there is of it."""
    path = unquote(urlsplit(url).path)
    path = path.partition("/api/models")[2] or path
    parts = path.strip("/").split("/")
    for mark in ("resolve", "revision"):
        if mark in parts[1:]:
            parts = parts[: parts.index(mark, 1)]
    return "/".join(parts[-2:])
