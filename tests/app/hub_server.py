"""Plays the Hugging Face hub on the local server: search, lists of files, files by ranges, and its moods."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from urllib.parse import parse_qs, unquote, urlsplit

from tests.app.file_server import Answer, Handler, Plan

COMMIT = "0123456789abcdef0123456789abcdef01234567"


@dataclass
class PlayedRepo:
    """One repository of the hub that is played."""

    files: dict[str, bytes]
    tags: tuple[str, ...] = ("gguf", "license:apache-2.0")
    downloads: int = 1234
    gated: str | bool = False
    refuses: Answer | None = None  # how files are answered instead


@dataclass
class PlayedHub:
    """Answers for a Plan; ``asked`` are the paths that came, ``mood`` answers everything in their place."""

    plan: Plan
    repos: dict[str, PlayedRepo] = field(default_factory=dict)
    mood: Answer | None = None
    elsewhere: str = ""  # files are sent from there, as from a CDN
    serve: Callable[[Handler, bytes], None] = field(default=lambda handler, data: send_range(handler, data))

    @property
    def asked(self) -> list[str]:
        return [unquote(urlsplit(path).path) for path, _ in self.plan.requests]

    def answer(self, handler: Handler) -> None:
        if self.mood is not None:
            self.mood(handler)
            return
        place = unquote(urlsplit(handler.path).path)
        if place == "/api/models":
            self._search(handler)
        elif place.startswith("/api/models/"):
            self._list(handler, place.removeprefix("/api/models/").partition("/revision/")[0])
        else:
            self._file(handler, place)

    def _search(self, handler: Handler) -> None:
        query = parse_qs(urlsplit(handler.path).query)
        words, kinds = query.get("search", [""])[0].lower(), query.get("filter", [])
        found = [
            {
                "id": name,
                "modelId": name,
                "downloads": repo.downloads,
                "gated": repo.gated,
                "tags": list(repo.tags),
                "lastModified": "2026-03-31T10:00:00.000Z",
            }
            for name, repo in self.repos.items()
            if words in name.lower() and all(kind in repo.tags for kind in kinds)
        ]
        handler.body(json.dumps(found).encode(), Content_Type="application/json")

    def _list(self, handler: Handler, name: str) -> None:
        repo = self.repos.get(name)
        if repo is None:
            handler.body(b'{"error":"Repository not found"}', 401, X_Error_Code="RepoNotFound")
            return
        siblings = [
            {"rfilename": file, "size": len(data), "blobId": "b", "lfs": _lfs(file, data)}
            for file, data in repo.files.items()
        ]
        value = {
            "id": name,
            "sha": COMMIT,
            "downloads": repo.downloads,
            "gated": repo.gated,
            "tags": list(repo.tags),
            "siblings": siblings,
        }
        handler.body(json.dumps(value).encode(), Content_Type="application/json")

    def _file(self, handler: Handler, place: str) -> None:
        found = re.fullmatch(rf"/(.+/.+)/resolve/{COMMIT}/(.+)", place)
        repo = self.repos.get(found[1]) if found else None
        if found is None or repo is None or found[2] not in repo.files:
            handler.body(b"Entry not found", 404, X_Error_Code="EntryNotFound")
        elif repo.refuses is not None:
            repo.refuses(handler)
        elif self.elsewhere:
            handler.head(302, 0, Location=f"{self.elsewhere}{handler.path}")
        else:
            self.serve(handler, repo.files[found[2]])


def _lfs(name: str, data: bytes) -> dict[str, object] | None:
    """Large files have a hash; the hub keeps small texts otherwise."""
    if name.endswith((".json", ".txt", ".jinja", ".md")):
        return None
    return {"size": len(data), "sha256": hashlib.sha256(data).hexdigest(), "pointerSize": 134}


def send_range(handler: Handler, data: bytes) -> None:
    """A good server: "bytes=a-" and "bytes=a-b"."""
    asked = re.fullmatch(r"bytes=(\d+)-(\d*)", handler.headers.get("Range", ""))
    if asked is None:
        handler.body(data)
        return
    start, end = int(asked[1]), min(len(data), int(asked[2] or len(data)) + (1 if asked[2] else 0))
    if start >= len(data):
        handler.head(416, 0, Content_Range=f"bytes */{len(data)}")
        return
    handler.body(data[start:end], 206, Content_Range=f"bytes {start}-{end - 1}/{len(data)}")
