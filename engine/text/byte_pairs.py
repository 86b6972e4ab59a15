"""Builds the encoder of a vocabulary with merges: byte pair encoding after words were cut by a rule.

Knows the tokenizers library; does not know files, special tokens or the names of rules.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers

from engine.text.backend import refusals
from engine.text.splitting import Rule
from engine.text.vocabulary import BYTE_LETTERS, SPACE
from engine.words import tr

# Bytes that everyday text is made of. Published vocabularies lack some others, which hardly ever occur.
_TEXT_BYTES = frozenset({0x09, 0x0A, *range(0x20, 0x7F), *range(0x80, 0xC0), *range(0xC2, 0xF1)})


def build(vocab: dict[str, int], merges: Sequence[str], rule: Rule, warnings: list[str]) -> Tokenizer:
    """The encoder of plain text. `vocab` holds what a text may become, so no merge makes anything else.

    What is left out or lacking is added to `warnings`. Raises TokenizerError.
    """
    pairs = _pairs(merges, vocab)
    if len(pairs) < len(merges):
        said = tr("{count} merges lead out of the vocabulary; ignored.")
        warnings.append(said.format(count=len(merges) - len(pairs)))
    steps: list[Any] = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in rule.patterns]
    with refusals(tr("The file's tokenizer cannot be used")):
        if rule.marks_spaces:
            backend = Tokenizer(models.BPE(vocab=vocab, merges=pairs, byte_fallback=True))
            backend.normalizer = normalizers.Replace(" ", SPACE)
        else:
            _count_missing_bytes(vocab, warnings)
            backend = Tokenizer(models.BPE(vocab=vocab, merges=pairs, ignore_merges=rule.whole_words))
            steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False))
        backend.pre_tokenizer = pre_tokenizers.Sequence(steps)
    return backend


def _count_missing_bytes(vocab: Collection[str], warnings: list[str]) -> None:
    lacking = sum(byte in _TEXT_BYTES and letter not in vocab for letter, byte in BYTE_LETTERS.items())
    if lacking:
        said = tr("The vocabulary lacks {count} of the bytes of text: some characters get lost.")
        warnings.append(said.format(count=lacking))


def _pairs(merges: Sequence[str], vocab: Collection[str]) -> list[tuple[str, str]]:
    """The merges as pairs, in order of priority; those that lead out of the vocabulary are left out."""
    pairs = []
    for merge in merges:
        left, _, right = merge.partition(" ")
        if left in vocab and right in vocab and left + right in vocab:
            pairs.append((left, right))
    return pairs
