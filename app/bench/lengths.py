"""How much is measured: tokens of prompts and contexts, and steps. Plain numbers."""

from __future__ import annotations

from dataclasses import dataclass

from engine.types import ModelSpec

PROMPT_TOKENS = 512
SHORT_PROMPT_TOKENS = 64  # a first message with its template
DEEP_TOKENS = 2048
DECODE_STEPS = 48
ROOM_TOKENS = 64  # in the cache, after the deepest start
MOST_LOADS = 3  # rounds of fresh processes: loads vary little and take long


@dataclass(frozen=True, slots=True)
class Lengths:
    """Tokens of the measurements, fewer where a model was trained for less."""

    prompt: int
    short_prompt: int
    deep: int

    @property
    def context(self) -> int:
        """Capacity of a cache that serves all of them."""
        return max(self.prompt, self.deep) + ROOM_TOKENS

    @classmethod
    def of(cls, spec: ModelSpec) -> Lengths:
        most = max(1, spec.trained_context - ROOM_TOKENS)
        return cls(min(PROMPT_TOKENS, most), min(SHORT_PROMPT_TOKENS, most), min(DEEP_TOKENS, most))
