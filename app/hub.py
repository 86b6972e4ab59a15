"""Models on the Hugging Face hub, or on the mirror that HF_ENDPOINT names: search, files, addresses.

Asks through huggingface_hub when it is called, and for nothing before. Names that come from there are
checked: they become names on this disk.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

import httpx2

from app import hub_transport
from app.transport import DownloadError, make_client
from engine.foreign import printable
from engine.models import gguf_parts
from engine.offline import offline
from engine.words import tr

if TYPE_CHECKING:
    from huggingface_hub import HfApi

DEFAULT_ENDPOINT = "https://huggingface.co"
MOST_FOUND = 40
_REPO = re.compile(r"[\w.-]{1,96}/[\w.-]{1,96}")
_NAME = re.compile(r"[^\x00-\x1f\x7f<>:\"|?*\\]{1,180}")
_QUANT = re.compile(r"(?:^|[-._/])(I?Q\d[A-Z0-9_]*|MXFP4\w*|T?Q\d_\d|BF16|F16|FP16|F32|FP32)", re.IGNORECASE)
_BESIDE = re.compile(r"[\w.-]+\.(json|jinja|txt)|tokenizer\.model", re.IGNORECASE)
_SHARD = re.compile(r"model-\d{5}-of-\d{5}\.safetensors")
_SINGLE = "model.safetensors"


@dataclass(frozen=True, slots=True)
class Repo:
    """A model that a search found."""

    repo: str
    downloads: int | None
    licence: str
    is_gated: bool
    updated: str = ""  # a date, 2026-03-31


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """One file; ``sha256`` is None where the hub does not say it."""

    name: str
    size_bytes: int
    sha256: str | None = None


@dataclass(frozen=True, slots=True)
class Variant:
    """Files that are one model: a GGUF with its parts, or the safetensors with what describes them."""

    label: str  # Q4_K_M, BF16, safetensors
    files: tuple[RemoteFile, ...]
    is_gguf: bool

    @property
    def size_bytes(self) -> int:
        """Of all files."""
        return sum(file.size_bytes for file in self.files)

    @property
    def key(self) -> str:
        """Its first file, which tells it from the repository's others."""
        return self.files[0].name


@dataclass(frozen=True, slots=True)
class Files:
    """What a repository holds at one commit. ``notes`` say what was left out."""

    repo: str
    commit: str
    licence: str
    downloads: int | None
    variants: tuple[Variant, ...]
    notes: tuple[str, ...] = ()


def endpoint() -> str:
    """The hub, or the mirror that HF_ENDPOINT names."""
    return os.environ.get("HF_ENDPOINT", "").strip().rstrip("/") or DEFAULT_ENDPOINT


def page_of(repo: str) -> str:
    """The address of a model's page."""
    return f"{endpoint()}/{repo}"


@dataclass(slots=True)
class Hub:
    """The hub as one person sees it. ``token`` gives the access token, "" where there is none.

    Methods wait for the network: call them on a lane. They raise DownloadError with a sentence, AccessError
    for what needs a login, and DownloadCancelledError soon after ``cancel``.
    """

    token: Callable[[], str] = lambda: ""
    open_client: Callable[[], httpx2.Client] = make_client
    _client: httpx2.Client | None = field(default=None, init=False)

    @property
    def client(self) -> httpx2.Client:
        """One for all requests of this object: connections are used again."""
        if self._client is None:
            self._client = self.open_client()
        return self._client

    def close(self) -> None:
        """Close its connections."""
        if self._client is not None:
            self._client.close()

    def search(self, words: str, kind: str, cancel: threading.Event) -> tuple[Repo, ...]:
        """Models whose name has ``words``, those downloaded most first. ``kind``: gguf or safetensors."""
        with hub_transport.calling(self.client, cancel):
            found = self._api().list_models(
                search=words,
                filter=[kind],
                sort="downloads",
                limit=MOST_FOUND,
                expand=["downloads", "gated", "lastModified", "tags"],
                token=self.token() or False,
            )
            return tuple(_repo(each) for each in found if _REPO.fullmatch(str(each.id)))

    def files(self, repo: str, cancel: threading.Event) -> Files:
        """The models in a repository, small ones first."""
        if not _REPO.fullmatch(repo):
            words = tr("{name} is not the name of a model.").format(name=printable(repo))
            raise DownloadError(words, tr("It reads owner/name."))
        with hub_transport.calling(self.client, cancel):
            found = self._api().model_info(repo, files_metadata=True, token=self.token() or False)
        if not isinstance(found.sha, str) or not re.fullmatch(r"[0-9a-f]{7,64}", found.sha):
            words = tr("{host} sent no list of files for {repo}.")
            raise DownloadError(words.format(host=endpoint(), repo=repo))
        there = [file for each in found.siblings or () if (file := _remote_file(each)) is not None]
        variants = (*_ggufs(there), *_safetensors(there))
        return Files(repo, found.sha, _licence(found), found.downloads, variants, _notes(there))

    def url(self, repo: str, commit: str, file: str) -> str:
        """Where a file of a commit is."""
        _prepare()
        from huggingface_hub import hf_hub_url

        return hf_hub_url(repo, file, revision=commit, endpoint=endpoint())

    def headers(self) -> dict[str, str]:
        """The login of a request for a file, if there is one."""
        token = self.token()
        return {"Authorization": f"Bearer {token}"} if token else {}

    def _api(self) -> HfApi:
        _prepare()
        from huggingface_hub import HfApi

        return HfApi(endpoint=endpoint())


@cache
def _prepare() -> None:
    """Import huggingface_hub, which takes half a second, and give it our client once.

    It is imported as offline for all others in the process: ours is the only road out.
    """
    with offline():
        from huggingface_hub import set_client_factory

    set_client_factory(hub_transport.make_hub_client)


def _repo(found: Any) -> Repo:
    updated = found.last_modified.date().isoformat() if found.last_modified else ""
    return Repo(str(found.id), found.downloads, _licence(found), bool(found.gated), updated)


def _licence(found: Any) -> str:
    tags = [tag.removeprefix("license:") for tag in found.tags or () if str(tag).startswith("license:")]
    return printable(tags[0], 40) if tags else ""


def _remote_file(sibling: Any) -> RemoteFile | None:
    """None for names that could lead out of a folder, and for files whose size is not told."""
    name, size = str(sibling.rfilename), sibling.size
    parts = name.split("/")
    is_safe = all(_NAME.fullmatch(part) and part.strip(". ") for part in parts) and len(parts) <= 4
    if not is_safe or not isinstance(size, int) or size < 0:
        return None
    sha256 = sibling.lfs.sha256 if sibling.lfs else None
    is_hash = isinstance(sha256, str) and re.fullmatch(r"[0-9a-f]{64}", sha256)
    return RemoteFile(name, size, sha256 if is_hash else None)


def _ggufs(files: Iterable[RemoteFile]) -> list[Variant]:
    """GGUF models with all their parts; a split one that lacks a part is left out."""
    by_name = {file.name: file for file in files if file.name.lower().endswith(".gguf")}
    found = []
    for first in gguf_parts.models(by_name):
        names = gguf_parts.together(first, by_name)
        part = gguf_parts.PartName.parse(first)
        if part is None or len(names) == part.count:
            label = _QUANT.findall(first.removesuffix(".gguf"))
            shown = label[-1].upper() if label else first.rpartition("/")[2]
            found.append(Variant(shown, tuple(by_name[name] for name in names), True))
    return sorted(found, key=lambda variant: (variant.size_bytes, variant.key))


def _safetensors(files: Iterable[RemoteFile]) -> list[Variant]:
    """The model of the repository's top folder, if it has one: weights, config and tokenizer."""
    top = {file.name: file for file in files if "/" not in file.name}
    shards = sorted(name for name in top if _SHARD.fullmatch(name))
    weights = [_SINGLE] if _SINGLE in top else shards
    if not weights or "config.json" not in top:
        return []
    beside = sorted(name for name in top if _BESIDE.fullmatch(name))
    if _SINGLE in weights:
        beside = [name for name in beside if not name.endswith(".safetensors.index.json")]
    return [Variant("safetensors", tuple(top[name] for name in (*weights, *beside)), False)]


def _notes(files: list[RemoteFile]) -> tuple[str, ...]:
    notes = []
    if any(gguf_parts.is_projector(file.name) for file in files):
        notes.append(tr("The vision part (mmproj) is left out: Decodeck reads text."))
    if not any(file.name.endswith((".gguf", ".safetensors")) for file in files):
        pickles = any(file.name.endswith((".bin", ".pt", ".pth")) for file in files)
        notes.append(
            tr("Only pickled weights, which could run code.") if pickles else tr("No GGUF or safetensors.")
        )
    return tuple(notes)
