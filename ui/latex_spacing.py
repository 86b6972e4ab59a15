"""Sets the spaces of a formula between its parts, by the classes that TeX gives them. No Qt."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ui.latex_grid import beside
from ui.latex_symbols import SYMBOLS

KINDS = {text: kind for text, kind in SYMBOLS.values() if len(text) == 1}
KINDS |= dict.fromkeys("=<>:", "rel") | dict.fromkeys("+-*−", "bin") | dict.fromkeys(",;", "punct")
KINDS |= dict.fromkeys("([{⟨", "open") | dict.fromkeys(")]}⟩", "close") | dict.fromkeys("|/‖", "ord")
_OPERANDS = ("ord", "close", "frac", "op", "text")


@dataclass(slots=True)
class Atom:
    """``text`` and how it behaves: ord, op, bin, rel, open, close, punct, frac, text or space."""

    text: str
    kind: str = "ord"


def join(atoms: Sequence[Atom], *, is_tight: bool = False) -> str:
    """One text, with the spaces that TeX would set."""
    parts: list[str] = []
    before = ""  # the kind of the last atom that was no space
    last = len(atoms) - 1
    is_spaced = True
    for place, atom in enumerate(atoms):
        kind = atom.kind
        if kind == "bin" and (before not in _OPERANDS or place == last):
            kind = "ord"
        if not is_spaced and kind != "space" and _has_gap(before, kind, is_tight):
            parts.append(" ")
        parts.append(atom.text)
        is_spaced = not atom.text or atom.text[-1].isspace()
        before = kind if kind != "space" else before
        if kind == "ord" and atom.kind == "bin":
            before = "sign"
    return beside(parts)


def _has_gap(before: str, after: str, is_tight: bool) -> bool:
    if "op" in (before, after) and before in _OPERANDS and after in ("ord", "frac", "op", "text"):
        return True
    if is_tight or not before:
        return False
    pair = (before, after)
    if "rel" in pair or "bin" in pair or before == "punct":
        return True
    if "frac" in pair or "text" in pair:
        return before in _OPERANDS and after in ("ord", "frac", "text", *(["open"] * (before == "frac")))
    return False
