"""The short list of models to begin with: data from which fit and speed follow without a download.

Knows how the K-quant mix Q4_K_M gives its tensors their types; asks no server for anything.
"""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from engine.fit.plan import plan
from engine.fit.speed import predict
from engine.machine import Hardware
from engine.models import families
from engine.quant import formats
from engine.types import DecoderOptions, LoadSpec, ModelSpec, RopeSpec, TensorInfo
from engine.words import mark

SHOWN = 3
SLOWEST_TPS = 4.0  # below it people read faster than the model writes
_MORE_BITS = ("v", "down")  # of Q4_K_M: in some layers at 6 bits
_BLOCK = 256
_TEXTS = ("name", "repo", "file", "praise", "licence")
PRAISES = (
    mark("small and quick"),
    mark("good answers"),
    mark("better answers"),
    mark("best answers"),
    mark("best balance"),
)
"""Those of the list, which is no place that texts are collected from."""


@dataclass(frozen=True, slots=True)
class Offer:
    """One model of the list. ``size_bytes`` is what its file had when the list was made."""

    name: str
    repo: str
    file: str
    praise: str
    licence: str
    size_bytes: int
    spec: ModelSpec


@dataclass(frozen=True, slots=True)
class OfferList:
    """All of them, smallest first, and the day on which they were looked up."""

    dated: str
    offers: tuple[Offer, ...]


@cache
def offer_list() -> OfferList:
    """The list that comes with the program."""
    text = (files("assets") / "models" / "offers.toml").read_text("utf-8")
    value = tomllib.loads(text)
    return OfferList(str(value["dated"]), tuple(_offer(each) for each in value["model"]))


def suited(hardware: Hardware) -> tuple[Offer, ...]:
    """The largest offers that fit this machine and write as fast as people read, or what comes nearest."""
    plans = [(offer, plan(offer.spec, hardware, LoadSpec(offer.file))) for offer in offer_list().offers]
    fitting = [(offer, made) for offer, made in plans if made.verdict != "no"]
    quick = [offer for offer, made in fitting if predict(made).half >= SLOWEST_TPS]
    chosen = quick[-SHOWN:]
    for offer, _ in fitting:  # a slow one is better than an empty place
        if len(chosen) < SHOWN and offer not in chosen:
            chosen.append(offer)
    return tuple(sorted(chosen, key=lambda offer: offer.size_bytes))


def _offer(value: dict[str, object]) -> Offer:
    name, repo, file, praise, licence = (str(value[key]) for key in _TEXTS)
    return Offer(name, repo, file, praise, licence, _number(value, "bytes"), _spec(value))


def _number(value: dict[str, object], name: str) -> int:
    number = value[name]
    assert isinstance(number, int)
    return number


def _spec(value: dict[str, object]) -> ModelSpec:
    """The spec of a GGUF file in Q4_K_M that is not here, with every tensor in the type that it has there."""
    options = DecoderOptions(biases=("qkv",) if value["has_qkv_biases"] else ())
    context = _number(value, "context")
    spec = ModelSpec(
        path=str(value["file"]),
        source="gguf",
        name=str(value["name"]),
        architecture=str(value["architecture"]),
        num_layers=_number(value, "layers"),
        hidden_size=_number(value, "hidden"),
        intermediate_size=_number(value, "intermediate"),
        num_heads=_number(value, "heads"),
        num_kv_heads=_number(value, "kv_heads"),
        head_dim=_number(value, "head_dim"),
        vocab_size=_number(value, "vocabulary"),
        trained_context=context,
        norm_eps=1e-6,
        rope=RopeSpec(original_context=context),
        tied_embeddings=bool(value["tied"]),
        sliding_window=None,
        files=(str(value["file"]),),
        tensors=(),
        options=options,
    )
    names, shapes = families.tensor_names(spec), families.tensor_shapes(spec)
    tensors, offset = [], 0
    for word, name in names.items():
        kind = _type(word, spec, shapes[word][-1]) if len(shapes[word]) > 1 else "F32"
        num_bytes = formats.nbytes(kind, shapes[word])
        tensors.append(TensorInfo(name, shapes[word], kind, 0, offset, num_bytes))
        offset += num_bytes
    return replace(spec, tensors=tuple(tensors))


def _type(word: str, spec: ModelSpec, cols: int) -> str:
    """The type of a matrix in Q4_K_M; rows that K blocks of 256 do not divide get one of blocks of 32.

    Source: llama.cpp, src/llama-quant.cpp (use_more_bits, and the fallbacks).
    """
    if word == "embedding":
        has_more = spec.tied_embeddings
    elif word == "head":
        has_more = True
    else:
        _, number, part = word.split(".", 2)
        layer, layers = int(number), spec.num_layers
        is_chosen = layer < layers // 8 or layer >= 7 * layers // 8 or (layer - layers // 8) % 3 == 2
        has_more = part in _MORE_BITS and is_chosen
    if cols % _BLOCK:
        return "Q8_0" if has_more else "Q5_0"
    return "Q6_K" if has_more else "Q4_K"
