"""What a runner can do with a model, and how a model is run that the lean decoder does not serve.

Words of `engine.types`, frozen values, standard library only.
"""

from __future__ import annotations

from dataclasses import dataclass

_F32_BYTES = 4


@dataclass(frozen=True, slots=True)
class CacheLayer:
    """What one layer of a model that transformers runs keeps of a sequence."""

    per_token: int = 0  # numbers of a token's keys and values, in the model's precision
    conv: int = 0  # numbers of a convolution's last inputs, whatever the length; in the model's precision
    recurrent: int = 0  # numbers of a running state, whatever the length; in float32
    indexer: int = 0  # numbers of a token by which the layer chooses whom it attends to
    indexer_f32: int = 0  # the same of a layer that keeps them in float32
    in_window: int = 0  # numbers of a token's keys and values, of which the last `window` alone are kept
    window: int = 0  # tokens
    per_block: int = 0  # numbers to which so many tokens together are compressed
    block: int = 1  # tokens

    @property
    def has_state(self) -> bool:
        """Whether it keeps something whose size does not grow with the tokens."""
        return bool(self.conv or self.recurrent)

    @property
    def attends(self) -> bool:
        """Whether it keeps keys and values."""
        return bool(self.per_token or self.in_window)

    @property
    def can_trim(self) -> bool:
        """Whether all it keeps is a list of tokens that the cache holds itself: they can be taken back."""
        others = self.indexer, self.indexer_f32, self.in_window, self.per_block
        return not (self.has_state or any(others))

    def nbytes(self, tokens: int, kv_bits: int) -> int:
        """Bytes that ``tokens`` take: the most while there are so many or fewer."""
        growing = (self.per_token + self.indexer) * tokens + self.per_block * (tokens // self.block)
        numbers = growing + self.in_window * min(tokens, self.window) + self.conv
        return numbers * kv_bits // 8 + _F32_BYTES * (self.recurrent + self.indexer_f32 * tokens)


@dataclass(frozen=True, slots=True)
class Scan:
    """A running state of layers and the convolution before it, in the sizes that all kinds of it have."""

    rule: str  # how it is computed: mamba | mamba2 | delta, joint delta | kda; conv: a convolution alone
    heads: int  # of values
    value_dim: int  # numbers of a head's values
    kernel: int  # tokens that the convolution before it sees
    key_heads: int = 0
    key_dim: int = 0  # numbers of a head's keys: the state has so many for each number of a value
    chunk: int = 1  # tokens that are computed at once; a piece is padded to a multiple of it

    @property
    def conv(self) -> int:
        """Numbers of the convolution's last inputs: values, keys and queries."""
        return (self.heads * self.value_dim + 2 * self.key_heads * self.key_dim) * self.kernel

    @property
    def recurrent(self) -> int:
        """Numbers of the state."""
        return self.heads * self.value_dim * self.key_dim


@dataclass(frozen=True, slots=True)
class Latent:
    """Heads whose keys and values are made of one compressed vector a token (MLA, arXiv 2405.04434)."""

    key_dim: int  # numbers of a head's queries and keys
    rotated_dim: int  # of them, those that all heads share
    value_dim: int


@dataclass(frozen=True, slots=True)
class Experts:
    """Feed-forward parts of which every token passes a few."""

    number: int
    chosen: int
    width: int  # of one
    dense_width: int  # of what all tokens pass, beside them or in other layers; 0: nothing


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a runner can do. Every lack is a sentence that says why; empty: it can."""

    no_trim: str = ""
    no_shared_prefix: str = ""
    no_batch: str = ""

    @property
    def can_trim(self) -> bool:
        """Whether a cache can forget its last tokens."""
        return not self.no_trim

    @property
    def can_share_prefix(self) -> bool:
        """Whether sequences can share what they keep of a common beginning."""
        return not self.no_shared_prefix

    @property
    def can_batch(self) -> bool:
        """Whether several sequences are computed at once rather than one after another."""
        return not self.no_batch

    @property
    def reasons(self) -> tuple[str, ...]:
        return tuple(each for each in (self.no_trim, self.no_shared_prefix, self.no_batch) if each)


CAN_ALL = Capabilities()
"""Nothing is lacking: the lean decoder."""


@dataclass(frozen=True, slots=True)
class GenericOptions:
    """How a model is run that the lean decoder does not serve: as the class that transformers has for it."""

    class_name: str  # Qwen3MoeForCausalLM, ...
    reason: str  # why the lean decoder does not, a few words
    cache: tuple[CacheLayer, ...]
    capabilities: Capabilities
    is_stepwise: bool = False  # behind a first piece, tokens go in one by one
    read_fraction: float = 1.0  # of the weights: what one token reads, some experts of all
    num_masks: int = 1  # kinds of attention: over all tokens, in a window
    scan: Scan | None = None  # of the layers with a state
    latent: Latent | None = None  # None: keys and values are kept as they are
    experts: Experts | None = None
    heads: tuple[tuple[int, int], ...] = ()  # where layers differ: heads of keys and values, numbers of one
    inner_copies: int = 3  # of a feed-forward part's widest vector: the gate, the input and their product
    beside: int = 0  # numbers of a token that all layers have beside the residual stream
