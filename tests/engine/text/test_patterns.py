"""Patterns of foreign tokenizers: published ones pass, those whose time explodes do not."""

from __future__ import annotations

import re

import pytest
from tokenizers import Regex

from engine.errors import TokenizerError
from engine.text import patterns

CONTRACTIONS = "'s|'t|'re|'ve|'m|'ll|'d"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
PUBLISHED = {
    "gpt-2": rf"{CONTRACTIONS}| ?\p{{L}}+| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|\s+(?!\S)|\s+",
    "llama 3": rf"(?i:{CONTRACTIONS})|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "llama 4": rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+(?i:{CONTRACTIONS})?"
    rf"|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*(?i:{CONTRACTIONS})?|\p{{N}}{{1,3}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "tekken": rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*|\p{{N}}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "possessive": r"[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]",
    "deepseek": r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    "digits from the right": r"(?=(\d{3})+(?!\d))",
    "bloom": r" ?[^(\s|[.,!?…。，、।۔،])]+",
    "han": r"[\p{Han}]+|[\p{L}&&[^\p{Han}]]+",
    "one digit": r"\p{N}",
    "white space": " {2,}",
    "braces and brackets": r"a{}|b{|[]x]+|[[:alpha:]]+|\x{41}|(?i)x",
}


@pytest.mark.parametrize("pattern", PUBLISHED.values(), ids=PUBLISHED)
def test_published_patterns_pass(pattern: str) -> None:
    Regex(pattern)  # it is one
    patterns.check(pattern)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        (r"(a+)+$", "repeats something itself"),
        (r"(?:a*)*b", "repeats something itself"),
        (r"(a|aa)+$", "repeats something itself"),
        (r"(?:(?:a?){4}b?){100}", "repeats something itself"),
        (r"((\d{3})+)+", "repeats something itself"),
        (r"(?=(a+)+b)", "repeats something itself"),
        (r"[(](a+)+[)]", "repeats something itself"),
        (r"\((a+\))+", "repeats something itself"),
        (r"[^]()](a+)+", "repeats something itself"),
        (r"x{2,3}+y", "repeats a repetition"),
        (r"a**", "repeats a repetition"),
        ("a?" * 30 + "a" * 30, "too many parts"),
        ("(a|a)" * 30, "too many parts"),
        (r"(a*)\1", "refers"),
        (r"(?<x>a\g<x>?)", "refers"),
        (r"\k<x>", "refers"),
        (r"(?x)a#(", "unknown kind"),
        (r"(?(1)a|b)", "unknown kind"),
        (r"\c((a+)+", "unknown escape"),
        (r"a)", "not open"),
        (r"(a", "leaves a group open"),
        ("a" * 5000, "longer than"),
    ],
)
def test_patterns_that_explode_or_hide_something_are_refused(pattern: str, reason: str) -> None:
    with pytest.raises(TokenizerError, match=re.escape(reason)) as caught:
        patterns.check(pattern)
    assert len(caught.value.message) < 250
