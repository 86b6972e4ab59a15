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
from engine.words import decimal, tr

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
            raise DownloadError(tr("{address} was not asked for.").format(address=shown(url)))
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
                    words = tr("{host} sent far more than expected.")
                    raise DownloadError(words.format(host=host_of(url)))
        if bytes(body[:256]).lstrip()[:1] not in (b"{", b"["):
            raise DownloadError(
                tr("{host} sent something else than a list.").format(host=host_of(url)),
                tr("The network may ask for a login, or HF_ENDPOINT may be wrong."),
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
            tr("{repo} wants its licence accepted first.").format(repo=repo),
            tr("Accept it at {page} and add an access token of your account.").format(page=page),
        )
    if code == "RepoNotFound" or (reply.status == 404 and not code and "/resolve/" not in url):
        words = tr("{host} has no model {repo}, or it is private.").format(host=host, repo=repo)
        return DownloadError(words, tr("Check the name."))
    if code in ("EntryNotFound", "RevisionNotFound"):
        words = tr("{repo} was changed on {host}: the file that was asked for is no longer there.")
        return DownloadError(words.format(repo=repo, host=host), tr("Look at its files again."))
    if reply.status in (401, 403):
        if reply.status == 401:
            words = tr("{host} does not accept the access token.").format(host=host)
        else:
            words = tr("{host} refuses access to {repo}.").format(host=host, repo=repo)
        hint = tr("The token may have ended, or lack the right to read. Add another one.")
        return AccessError(words, hint)
    if reply.status == 429:
        return _too_often(host, explain_status(reply, url).wait_s)
    return explain_status(reply, url)


def _too_often(host: str, wait_s: float) -> DownloadError:
    if wait_s:
        words = tr("{host} was asked too often (status 429). Wait {seconds} s.")
    else:
        words = tr("{host} was asked too often (status 429).")
    return DownloadError(
        words.format(host=host, seconds=decimal(wait_s, 0)),
        tr("An access token raises the limit."),
        may_pass=True,
        wait_s=wait_s,
    )


def repo_in(url: str) -> str:
    """The repository that an address of the hub speaks of: "owner/name", or what there is of it."""
    path = unquote(urlsplit(url).path)
    path = path.partition("/api/models")[2] or path
    parts = path.strip("/").split("/")
    for mark in ("resolve", "revision"):
        if mark in parts[1:]:
            parts = parts[: parts.index(mark, 1)]
    return "/".join(parts[-2:])
