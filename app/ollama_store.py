"""Reads Ollama's store: a manifest names the blobs of a model, which have no names of their own.

Layout: <store>/manifests/<host>/<owner>/<model>/<tag> and <store>/blobs/sha256-<hex>.
https://github.com/ollama/ollama/blob/main/docs/faq.mdx (where models are stored)
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from app.atomic_file import read_object
from engine.words import tr

_MOST_BYTES = 1_000_000
_DIGEST = re.compile(r"sha256[:-]([0-9a-f]{64})")
_MODEL, _PROJECTOR, _TENSOR = "image.model", "image.projector", "image.tensor"
_HOME = ("registry.ollama.ai", "library")


@dataclass(frozen=True, slots=True)
class OllamaModel:
    """One model of the store. ``blob`` is its GGUF file; empty where ``reason`` says why there is none."""

    name: str
    blob: str
    has_projector: bool = False
    reason: str = ""


def read_manifest(path: Path, store: Path) -> OllamaModel | None:
    """The model of a manifest; None where the file is no manifest or speaks of no model.

    Digests that are no digests are not followed: they would lead out of the store.
    """
    layers = _layers(path)
    name = _name(path.relative_to(store / "manifests"))
    kinds: dict[str, list[str]] = {}
    for kind, digest in layers:
        kinds.setdefault(kind.rpartition("ollama.")[2], []).append(digest)
    models = kinds.get(_MODEL, [])
    if not models and _TENSOR not in kinds:
        return None
    if len(models) != 1:
        return OllamaModel(
            name, "", reason=tr("Its weights lie in several blobs; Decodeck reads one GGUF file.")
        )
    found = _DIGEST.fullmatch(models[0])
    blob = store / "blobs" / f"sha256-{found[1]}" if found else None
    if blob is None or not blob.is_file():
        return OllamaModel(
            name, "", reason=tr("Its weights are not in the store. Run: ollama pull {name}").format(name=name)
        )
    return OllamaModel(name, str(blob), _PROJECTOR in kinds)


def _layers(path: Path) -> list[tuple[str, str]]:
    """(kind, digest) of every layer; nothing for what is no manifest."""
    try:
        layers = read_object(path, _MOST_BYTES).get("layers")
    except (OSError, ValueError):
        return []
    pairs = [
        (layer.get("mediaType"), layer.get("digest"))
        for layer in (layers if isinstance(layers, list) else [])
        if isinstance(layer, dict)
    ]
    return [(kind, digest) for kind, digest in pairs if isinstance(kind, str) and isinstance(digest, str)]


def _name(relative: Path) -> str:
    """ "llama3.2:3b", or with its owner where it is another than Ollama's own library."""
    *owners, tag = relative.parts
    if tuple(owners[:2]) == _HOME:
        owners = owners[2:]
    elif owners[:1] == [_HOME[0]]:
        owners = owners[1:]
    return f"{'/'.join(owners)}:{tag}"
