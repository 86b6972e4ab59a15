"""Shapes of the random models, and which tensor gets which type: names such as `1B` and `Q4_K_M,head=Q8_0`.

Pure tables; knows no bytes and no files.
"""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import WishError

QUANTIZED = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K")
SINGLE = ("F16", "BF16", *QUANTIZED)
MATRICES = ("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")


@dataclass(frozen=True, slots=True)
class Shape:
    """Sizes of a Llama with a tied head. Rows of every matrix hold a multiple of 256 elements."""

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    inner: int
    vocab: int
    context: int = 8192

    def matrices(self) -> dict[str, tuple[int, int]]:
        """Shape [out, in] of each matrix of a layer."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        return {
            "attn_q": (queries, self.hidden),
            "attn_k": (keys, self.hidden),
            "attn_v": (keys, self.hidden),
            "attn_output": (self.hidden, queries),
            "ffn_gate": (self.inner, self.hidden),
            "ffn_up": (self.inner, self.hidden),
            "ffn_down": (self.hidden, self.inner),
        }


# Layers of Llama 3.2 1B and 3B, and of a model half as wide, under SmolLM2's smaller vocabulary: 0.49, 1.07
# and 2.97 billion parameters. `tiny` is for tests.
SHAPES: dict[str, Shape] = {
    shape.name: shape
    for shape in (
        Shape("tiny", 2, 256, 4, 2, 64, 512, 512, context=1024),
        Shape("0.5B", 24, 1280, 20, 4, 64, 3584, 49_152),
        Shape("1B", 16, 2048, 32, 8, 64, 8192, 49_152),
        Shape("3B", 28, 3072, 24, 8, 128, 8192, 49_152),
    )
}
# llama.cpp's mixes: most tensors, and the type of the head and of half of `attn_v` and `ffn_down`
_MIXES = {"Q4_K_M": ("Q4_K", "Q6_K"), "Q5_K_M": ("Q5_K", "Q6_K")}


def shape_named(name: str) -> Shape:
    """Raises WishError for a name that is not in SHAPES."""
    if name not in SHAPES:
        raise WishError(f"There is no shape {name!r}.", f"Choose {', '.join(SHAPES)}.")
    return SHAPES[name]


@dataclass(frozen=True, slots=True)
class TypeMix:
    """Which type each tensor has. ``name`` is what it was asked for by, and part of a file's name."""

    name: str
    base: str
    better: str  # of the head and of the layers' tensors that a mix favours
    changes: tuple[tuple[str, str], ...] = ()

    @property
    def head(self) -> str:
        return dict(self.changes).get("head", self.better)

    def of(self, matrix: str, layer: int, layers: int) -> str:
        """The type of one matrix of one layer."""
        changed = dict(self.changes).get(matrix)
        if changed:
            return changed
        favoured = matrix in ("attn_v", "ffn_down") and _gets_more_bits(layer, layers)
        return self.better if favoured else self.base


def _gets_more_bits(layer: int, layers: int) -> bool:
    """Which layers a K mix favours, as `use_more_bits` of llama.cpp's quantizer chooses them."""
    eighth = layers // 8
    return layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2


def parse_mix(text: str) -> TypeMix:
    """`Q4_0`, `Q4_K_M`, `Q4_0,head=Q6_K,ffn_down=Q8_0`. Raises WishError for what is not known."""
    first, *rest = text.split(",")
    base, better = _MIXES.get(first, (first, first))
    _check_type(base)
    changes = []
    for change in rest:
        place, _, type_name = change.partition("=")
        if place not in ("head", *MATRICES):
            raise WishError(f"There is no tensor {place!r}.", f"Choose head, {', '.join(MATRICES)}.")
        _check_type(type_name)
        changes.append((place, type_name))
    return TypeMix(text, base, better, tuple(changes))


def _check_type(name: str) -> None:
    if name not in SINGLE:
        known = ", ".join((*SINGLE, *_MIXES))
        raise WishError(f"Random weights of the type {name!r} cannot be made.", f"Choose {known}.")
