"""Figures of quality in words: short under a format, in full and explained in its tooltip."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.quality_record import QualityFigure
from app.quality_words import quality_line, quality_sentence, unmeasured_sentence
from tests.fakes import make_plan

MADE = replace(make_plan(), kernels="native avx2")
EXACT = QualityFigure("f32", 32, "native", 4096, 22.5, 22.5, 0.0)
FILE = QualityFigure("file", 16, "native", 4096, 22.6, 22.5, 0.0031)


@pytest.mark.parametrize(
    ("perplexity", "line"),
    [
        (22.6, "perplexity +0.4%"),
        (22.4, "perplexity −0.4%"),
        (22.501, "perplexity +0.0%"),
        (22.499, "perplexity +0.0%"),
        (22.5 * 1.0994, "perplexity +9.9%"),
        (22.5 * 1.0996, "perplexity +10%"),
        (22.5 * 13, "perplexity +1,200%"),
    ],
)
def test_a_format_shows_how_far_it_is_above_the_reference(perplexity: float, line: str) -> None:
    assert quality_line(replace(FILE, perplexity=perplexity), MADE) == line


def test_the_reference_shows_its_perplexity() -> None:
    assert quality_line(EXACT, MADE) == "perplexity 22.5"
    assert quality_line(replace(EXACT, perplexity=1234.56), MADE) == "perplexity 1,235"
    assert "compared with this one" in quality_sentence(EXACT, MADE)
    assert "KL 0" not in quality_sentence(EXACT, MADE)


def test_in_full_it_has_every_figure_and_what_they_mean() -> None:
    words = quality_sentence(FILE, MADE)
    assert words.startswith("Hardly a difference to 32-bit: ")
    for part in ("perplexity 22.6", "0.4% above 32-bit", "KL 0.003", "4,096 tokens", "lower is better"):
        assert part in words
    assert "0.4% below 32-bit" in quality_sentence(replace(FILE, perplexity=22.4), MADE)
    assert "perplexity 22.5, as in 32-bit; " in quality_sentence(replace(FILE, perplexity=22.501), MADE)


def test_figures_of_other_kernels_than_would_run_are_told_apart() -> None:
    assert "kernels" not in quality_sentence(FILE, MADE)
    assert quality_line(FILE, make_plan()) == "perplexity ≈+0.4%"
    assert quality_sentence(FILE, make_plan()).endswith("with native kernels; those here differ a little.")
    stock = replace(FILE, kernels="torch")
    assert quality_line(stock, make_plan()) == "perplexity +0.4%"
    assert "with torch's kernels; those here" in quality_sentence(stock, MADE)


@pytest.mark.parametrize(
    ("perplexity", "kl", "verdict"),
    [
        (22.5, 0.009, "Hardly a difference"),
        (22.9, 0.001, "A small loss"),
        (22.4, 0.02, "A small loss"),  # by luck the text was foretold better, but the guesses are others
        (24.0, 0.05, "A clear loss"),
        (30.0, 0.3, "A heavy loss"),
    ],
)
def test_the_verdict_goes_by_the_worse_of_both_figures(perplexity: float, kl: float, verdict: str) -> None:
    assert quality_sentence(replace(FILE, perplexity=perplexity, kl=kl), MADE).startswith(verdict)


@pytest.mark.parametrize(
    ("kl", "words"),
    [(0.00062, "0.0006"), (0.0031, "0.003"), (0.0512, "0.051"), (0.634, "0.63"), (-1e-9, "0.0000")],
)
def test_a_divergence_has_the_digits_that_say_something(kl: float, words: str) -> None:
    assert f"KL {words}." in quality_sentence(replace(FILE, kl=kl), MADE)


@pytest.mark.parametrize(
    ("wish", "options"),
    [
        ({}, ""),
        ({"format": "bf16"}, ""),
        ({"format": "f16"}, " --format f16"),
        ({"format": "f16", "kv": "32"}, " --format f16 --kv 32"),
    ],
)
def test_what_was_not_measured_says_how_to(wish: dict[str, str], options: str) -> None:
    words = unmeasured_sentence(make_plan("/my models/a.gguf", **wish))
    command = f'decodeck bench --quality{options} --model "/my models/a.gguf"'
    assert words == f"Quality not measured. To measure it: {command}"


def test_what_the_bench_cannot_run_names_no_command() -> None:
    made = replace(make_plan(), format="llm-int8")
    assert unmeasured_sentence(made) == "Quality not measured."
