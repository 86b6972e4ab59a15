"""What LaTeX's names stand for in Unicode, and how each behaves between its neighbours. No Qt.

The libraries for this are no help: pylatexenc is slow to import, has no scripts and lacks names as common as
``\\ne``; unicodeit knows no structure. Greek letters and alphabets come from Python's own Unicode names.
"""

from __future__ import annotations

import unicodedata
from functools import lru_cache


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


_RELATIONS = """
le ≤ leq ≤ leqslant ≤ ge ≥ geq ≥ geqslant ≥ ne ≠ neq ≠ approx ≈ equiv ≡ sim ∼ simeq ≃ cong ≅ propto ∝
ll ≪ gg ≫ in ∈ notin ∉ ni ∋ subset ⊂ supset ⊃ subseteq ⊆ supseteq ⊇ subsetneq ⊊ supsetneq ⊋ to → gets ←
rightarrow → leftarrow ← leftrightarrow ↔ Rightarrow ⇒ Leftarrow ⇐ Leftrightarrow ⇔ implies ⟹
impliedby ⟸ iff ⟺ mapsto ↦ longrightarrow ⟶ longleftarrow ⟵ Longrightarrow ⟹ Longleftarrow ⟸
longmapsto ⟼ hookrightarrow ↪ hookleftarrow ↩ rightharpoonup ⇀ rightleftharpoons ⇌ leadsto ⇝
rightsquigarrow ⇝ uparrow ↑ downarrow ↓ updownarrow ↕ nearrow ↗ searrow ↘ perp ⊥ parallel ∥ nparallel ∦
mid ∣ nmid ∤ models ⊨ vdash ⊢ dashv ⊣ prec ≺ succ ≻ preceq ≼ succeq ≽ lesssim ≲ gtrsim ≳ asymp ≍ doteq ≐
triangleq ≜ coloneqq ≔ colon : lt < gt > sqsubseteq ⊑ trianglelefteq ⊴ therefore ∴ because ∵
"""
_BINARY = """
pm ± mp ∓ times × div ÷ cdot · ast ∗ star ⋆ circ ∘ bullet ∙ oplus ⊕ ominus ⊖ otimes ⊗ odot ⊙ cup ∪ cap ∩
uplus ⊎ sqcup ⊔ sqcap ⊓ setminus ∖ vee ∨ wedge ∧ lor ∨ land ∧ dagger † ddagger ‡ wr ≀ amalg ⨿ ltimes ⋉
rtimes ⋊ bmod mod
"""
_LARGE = """
sum ∑ prod ∏ coprod ∐ int ∫ iint ∬ iiint ∭ oint ∮ bigcup ⋃ bigcap ⋂ bigvee ⋁ bigwedge ⋀ bigoplus ⨁
bigotimes ⨂ bigsqcup ⨆
"""
_ORDINARY = r"""
infty ∞ partial ∂ nabla ∇ forall ∀ exists ∃ nexists ∄ emptyset ∅ varnothing ∅ neg ¬ lnot ¬ hbar ℏ ell ℓ
Re ℜ Im ℑ aleph ℵ beth ℶ wp ℘ imath ı jmath ȷ angle ∠ measuredangle ∡ triangle △ square □ Box □
blacksquare ■ Diamond ◇ diamond ⋄ top ⊤ bot ⊥ prime ′ backslash \ degree ° checkmark ✓ surd √ ldots …
dots … dotsc … cdots ⋯ dotsb ⋯ vdots ⋮ ddots ⋱ S § P ¶ pounds £ euro € copyright © complement ∁ flat ♭
sharp ♯ natural ♮ clubsuit ♣ heartsuit ♥ spadesuit ♠ diamondsuit ♦ QED ∎ qed ∎ blacktriangle ▲ lozenge ◊
bigstar ★ i ı o ø O Ø l ł L Ł ss ß ae æ AE Æ aa å AA Å oe œ OE Œ
"""
_OPENING = "langle ⟨ lfloor ⌊ lceil ⌈ lvert | lVert ‖ lbrace { lbrack ["
_CLOSING = "rangle ⟩ rfloor ⌋ rceil ⌉ rvert | rVert ‖ rbrace } rbrack ]"
_BARS = "vert | Vert ‖ | ‖"
FUNCTIONS = _names(
    """
    arccos arcsin arctan arg argmax argmin cos cosh cot coth csc deg det dim exp gcd hom inf ker lcm lg
    lim liminf limsup ln log max min Pr sec sgn sin sinh sup tan tanh tr rank span
    """
)
SPACES = {
    **dict.fromkeys((",", ":", ";", ">", "thinspace", "enspace"), "\u2009"),
    **dict.fromkeys((" ", "\n", "space", "hfill", "newline"), " "),
    **dict.fromkeys(("quad", "qquad"), "\u2003"),
    **dict.fromkeys(("!", "/", "negthinspace"), ""),
}
# Names that only change how TeX sets a formula.
SILENT = _names(
    """
    displaystyle textstyle scriptstyle limits nolimits nonumber notag middle big Big bigg Bigg bigl bigr
    Bigl Bigr biggl biggr Biggl Biggr bigm Bigm left right rm bf it sf tt cal boldmath mathstrut strut
    hline centering allowbreak relax
    """
)
ACCENTS = {
    **dict.fromkeys(("hat", "widehat"), "\u0302"),
    **dict.fromkeys(("tilde", "widetilde"), "\u0303"),
    **dict.fromkeys(("bar", "overline"), "\u0305"),
    **dict.fromkeys(("vec", "overrightarrow"), "\u20d7"),
    **dict.fromkeys(("cancel", "bcancel", "xcancel", "sout"), "\u0336"),
    "dot": "\u0307",
    "ddot": "\u0308",
    "check": "\u030c",
    "breve": "\u0306",
    "acute": "\u0301",
    "grave": "\u0300",
    "mathring": "\u030a",
    "underline": "\u0332",
}
# What a text macro does with its letters: the words of their Unicode names.
ALPHABETS = {
    **dict.fromkeys(("mathbb", "Bbb"), "DOUBLE-STRUCK"),
    **dict.fromkeys(("mathcal", "mathscr"), "SCRIPT"),
    **dict.fromkeys(("mathbf", "boldsymbol", "bm", "textbf"), "BOLD"),
    "mathfrak": "FRAKTUR",
}
PLAIN = _names(
    """
    text mathrm mathsf mathtt textrm textsf texttt textup textnormal mbox hbox operatorname textit emph
    """
)


def _table(words: str) -> dict[str, str]:
    found = words.split()
    return dict(zip(found[::2], found[1::2], strict=True))


def _greek() -> dict[str, str]:
    names = (
        "alpha beta gamma delta epsilon zeta eta theta iota kappa mu nu xi omicron pi rho sigma tau upsilon"
    )
    found = {"lambda": "λ", "Lambda": "Λ", "varsigma": "ς", "varphi": "φ", "phi": "ϕ", "vartheta": "ϑ"}
    found |= {"epsilon": "ϵ", "varepsilon": "ε", "varpi": "ϖ", "varrho": "ϱ", "varkappa": "ϰ", "digamma": "ϝ"}
    for name in f"{names} epsilon phi chi psi omega".split():
        found.setdefault(name, unicodedata.lookup(f"GREEK SMALL LETTER {name}"))
        found[name.title()] = unicodedata.lookup(f"GREEK CAPITAL LETTER {name}")
    return found


# Name to (text, class); the classes are TeX's: ord, op, bin, rel, open, close.
SYMBOLS: dict[str, tuple[str, str]] = {
    name: (text, kind)
    for kind, table in (
        ("ord", _greek() | _table(_ORDINARY) | _table(_BARS)),
        ("rel", _table(_RELATIONS)),
        ("bin", _table(_BINARY)),
        ("op", _table(_LARGE) | {name: name for name in FUNCTIONS}),
        ("open", _table(_OPENING)),
        ("close", _table(_CLOSING)),
    )
    for name, text in table.items()
}


def in_alphabet(text: str, style: str) -> str:
    """The letters of ``text`` in one of Unicode's mathematical alphabets; what has no such form stays."""
    return "".join(_styled(letter, style) for letter in text)


@lru_cache(maxsize=1024)
def _styled(letter: str, style: str) -> str:
    name = unicodedata.name(letter, "")
    for found in (
        name.replace("LATIN", f"MATHEMATICAL {style}").replace("LETTER ", ""),
        name.replace("LATIN CAPITAL LETTER", f"{style} CAPITAL"),
        name.replace("LATIN SMALL LETTER", f"{style} SMALL"),
        name.replace("LATIN CAPITAL LETTER", "BLACK-LETTER CAPITAL") if style == "FRAKTUR" else "",
        name.replace("DIGIT", f"MATHEMATICAL {style} DIGIT"),
        name.replace("GREEK", f"MATHEMATICAL {style}").replace("LETTER ", ""),
    ):
        if found and found != name:
            try:
                return unicodedata.lookup(found)
            except KeyError:
                continue
    return letter


_RAISED = {"′": "′", "*": "*", "∗": "*", "∘": "°", "†": "†", "‡": "‡", "⊤": "ᵀ", ",": ",", "−": "⁻", "°": "°"}
_LOWERED = {",": ",", "−": "₋"}


def _scripts(kind: str, table: dict[str, str]) -> dict[str, str]:
    """Unicode knows which characters are the raised or lowered form of another one."""
    blocks = (range(0x00B2, 0x00BA), range(0x02B0, 0x02E5), range(0x1D2C, 0x1D6B), range(0x1D9B, 0x1DC0))
    for code in (*(code for block in blocks for code in block), *range(0x2070, 0x20A0), 0x2C7C):
        parts = unicodedata.decomposition(chr(code)).split()
        if len(parts) == 2 and parts[0] == kind:
            table.setdefault(chr(int(parts[1], 16)), chr(code))
    return table


SUPERSCRIPTS = _scripts("<super>", _RAISED)
SUBSCRIPTS = _scripts("<sub>", _LOWERED)
