"""Formulas become readable text; what is none, or cannot be read, stays as it was written."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ui import latex
from ui.growing_text import GrowingText
from ui.latex import styled_runs, to_text
from ui.latex_grid import MAX_CHARS as MAX_GRID_CHARS
from ui.markdown import Prose, parse
from ui.splitter import split


def read(source: str, *, is_display: bool = False) -> str | None:
    text = to_text(source, is_display=is_display)
    return None if text is None else "".join(run for run, *_ in styled_runs(text))


@pytest.mark.parametrize(
    ("source", "text"),
    [
        (r"E = mc^2", "E = mc²"),
        (r"\frac{a+b}{2c}", "(a + b)/(2c)"),
        (r"\frac12 x", "1/2 x"),
        (r"\frac{\partial f}{\partial x}", "∂f/∂x"),
        (r"\frac{1}{\frac{1}{x}}", "1/(1/x)"),
        (r"\frac{P(B|A)P(A)}{P(B)}", "P(B|A)P(A)/P(B)"),
        (r"x_{i,j}^{n+1}", "xᵢ,ⱼⁿ⁺¹"),
        (r"x^{x^2}", "x^(x²)"),
        (r"x^12", "x¹2"),
        (r"\sqrt[3]{x+1} + \sqrt{2}", "∛(x + 1) + √2"),
        (r"\frac{\sqrt{\pi}}{2} + \sqrt{\frac{x}{2}}", "(√π)/2 + √(x/2)"),
        (r"\sum_{i=1}^{n} x_i^2 = \int_0^1 e^{-x}\,dx", "∑ᵢ₌₁ⁿ xᵢ² = ∫₀¹ e⁻ˣ\u2009dx"),
        (r"\lim_{x\to 0}\frac{\sin x}{x}=1", "lim_(x→0) (sin x)/x = 1"),
        (r"\alpha\beta\in\mathbb{R}^n", "αβ ∈ ℝⁿ"),
        (r"A^\top\mathbf{x}, \mathcal{L}", "Aᵀx, ℒ"),
        (r"\text{if } x > 0", "if x > 0"),
        (r"\text{for  all $\alpha_1$\_}", "for all α₁_"),
        (r"-b \pm -c", "−b ± −c"),
        (r"\left\{ \frac{a}{b} \right.", "{a/b"),
        (r"a\not\in B, a \ne b", "a ∉ B, a ≠ b"),
        (r"\vec{v}\cdot\hat{n}", "v⃗ · n̂"),
        (r"f''(x)", "f′′(x)"),
        (r"90^\circ", "90°"),
        (r"\binom{n}{k}", "(n choose k)"),
        (r"x \equiv 1 \pmod{n}", "x ≡ 1 (mod n)"),
        (r"\unknown{x}^2", r"\unknown{x}²"),
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", "(1, 2; 3, 4)"),
    ],
)
def test_a_formula_in_a_line(source: str, text: str | None) -> None:
    assert read(source) == text


def test_rows_stand_on_lines_of_their_own_where_there_is_room() -> None:
    matrix = read(r"A = \begin{bmatrix} 1 & 20 \\ 300 & 4 \end{bmatrix}", is_display=True)
    assert matrix == "A = ⎡ 1    20 ⎤\n    ⎣ 300  4  ⎦"
    cases = read(r"|x| = \begin{cases} x & x \ge 0 \\ -x & \text{else} \end{cases}", is_display=True)
    assert cases == "|x| = ⎧ x   x ≥ 0\n      ⎩ −x  else"
    steps = read(r"\begin{aligned} a &= b + c \\ &= d \end{aligned}", is_display=True)
    assert steps == "a = b + c\n\u2003= d"


@pytest.mark.parametrize(
    "source",
    [
        r"\frac{a}",
        "{",
        "}",
        "x^",
        "a $ b",
        r"\begin{pmatrix} 1",
        r"\begin{tikzpicture}\end{tikzpicture}",
        "",
        " ",
    ],
)
def test_what_is_broken_stays_as_it_was_written(source: str) -> None:
    assert to_text(source) is None
    (block,) = [block for chunk in split(f"so \\({source}\\) is") for block in parse(chunk)]
    assert isinstance(block, Prose)
    assert source.strip() in "".join(span.text for span in block.spans)


@pytest.mark.parametrize(
    "source",
    [
        r"\frac{" * 300,
        "{" * 1_900,
        r"\sqrt" * 390,
        r"\hat" * 490 + "x",
        r"\hat{" * 20 + "x" * 1_000 + "}" * 20,
        r"\mathbb{" * 20 + "x" * 1_500 + "}" * 20,
        r"\text{" * 300,
        r"\left" * 390,
        r"\begin{cases}" * 140,
        r"\begin{pmatrix}" + "a" * 1_000 + r"&\\" * 300 + r"\end{pmatrix}",
        "x^" * 990,
        r"\\" * 990,
        "x" * (latex.MAX_CHARS + 1),
    ],
    ids=lambda source: source[:12],
)
def test_depth_and_size_are_bounded(source: str) -> None:
    text = to_text(source, is_display=True)
    assert text is None or len(text) <= MAX_GRID_CHARS + 2 * latex.MAX_CHARS


_PIECES = r"\frac { } ^ _ x 12 \\ & \begin{cases} \end{cases} \left( \text \sqrt [ ] ' $ \ \not \hat + = ~"
_PIECE = st.sampled_from((*_PIECES.split(), " ", "\n"))


@given(st.lists(_PIECE, max_size=40).map("".join), st.booleans())
@settings(max_examples=300, deadline=None)
def test_no_formula_makes_it_fail(source: str, is_display: bool) -> None:
    text = to_text(source, is_display=is_display)
    assert text is None or (text.strip() and (is_display or "\n" not in text))


# In a message


def shown(text: str) -> list[Prose]:
    found = [block for chunk in split(text) for block in parse(chunk)]
    assert all(isinstance(block, Prose) for block in found)
    return [block for block in found if isinstance(block, Prose)]


def words(block: Prose) -> str:
    return "".join(span.text for span in block.spans)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("so $a_1 * b * c_2$ is", "so a₁ * b * c₂ is"),
        (r"so \(x_1\) and \[x_2\] is", "so x₁ and x₂ is"),
        ("**bold $x^2$**", "bold x²"),
        ("| $x_1$ |", "| x₁ |"),
        ("It costs $5 and $10, or US$3.", "It costs $5 and $10, or US$3."),
        ("$5 for one or two (US$)", "$5 for one or two (US$)"),
        ("export $HOME/$PATH", "export $HOME/$PATH"),
        (r"\$5 and \$6", "$5 and $6"),
        ("`$x_1$`", "$x_1$"),
        ("an open $x_1 stays", "an open $x_1 stays"),
        ("$$x$$ in a line", "x in a line"),
    ],
)
def test_signs_of_a_formula_in_running_text(text: str, expected: str) -> None:
    assert [words(block) for block in shown(text)] == [expected]


def test_variables_are_italic_and_their_letters_plain() -> None:
    (block,) = shown(r"$\sin x = \mathbf{v}$")
    assert [(span.text, span.italic, span.bold) for span in block.spans] == [
        ("sin ", False, False),
        ("x", True, False),
        (" = ", False, False),
        ("v", False, True),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "$$\na\n+ b\n= c\n$$",
        "\\[\na\n+ b\n= c\n\\].",
        "$$a + b = c$$",
        "\\begin{equation}\na + b = c\n\\end{equation}",
    ],
)
def test_a_formula_that_stands_alone_is_one_block(text: str) -> None:
    before, block, after = shown(f"Before\n{text}\nAfter")
    assert (before.form, block.form, after.form) == ("", "lines", "")
    assert words(block).rstrip(".") == "a + b = c"
    assert words(block).endswith(".") == ("]." in text)


def test_a_formula_of_a_list_item_keeps_its_place() -> None:
    one, formula, two = shown("1. one\n   $$x^2$$\n2. two")
    assert [one.level, formula.level, two.level] == [1, 1, 1]
    assert [one.marker, formula.marker, two.marker] == ["1.", "", "2."]


@pytest.mark.parametrize("ending", ["\n\n# Heading\n\n- a", "", "\nline" * 60])
def test_a_formula_without_an_end_is_text_again(ending: str) -> None:
    found = shown(f"$$\nx_1 and *two*{ending}")
    assert words(found[0]).startswith("$$\nx_1 and two")
    assert not any(block.form for block in found)
    if "#" in ending:
        assert [block.heading for block in found] == [0, 1, 0]


STREAM = "Text $x_1$ of\n\n$$\n\\frac{a}{b}\n= c\n$$\n\n- \\(y\\) and $5\n- \\[ z\n\nend $$ open"


@pytest.mark.parametrize("step", [1, 2, 3, 7])
def test_a_stream_ends_as_the_whole_text_does(step: int) -> None:
    growing = GrowingText()
    for start in range(0, len(STREAM), step):
        growing.append(STREAM[start : start + step])
        growing.read(is_open=True)
    growing.read(is_open=False)
    whole = GrowingText(STREAM)
    whole.read(is_open=False)
    assert [item.text(0, item.length) for item in growing.items] == [
        item.text(0, item.length) for item in whole.items
    ]


def test_the_work_for_a_stream_of_formulas_does_not_grow_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []

    def counted(source: str, *, is_display: bool = False) -> str | None:
        sizes.append(len(source))
        return to_text(source, is_display=is_display)

    monkeypatch.setattr("ui.markdown.to_text", counted)
    growing = GrowingText()
    totals = []
    for _ in range(2):
        for number in range(200):
            growing.append(f"Let $x_{number}$ be\n\n$$\\frac{{{number}}}{{\\sqrt{{x}}}}$$\n\n")
            growing.read(is_open=True)
        totals.append(sum(sizes))
    assert totals[1] - totals[0] < 1.3 * totals[0]
