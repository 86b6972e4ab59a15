"""How the four kinds of fit are said, drawn and coloured, wherever a model's memory is judged."""

from __future__ import annotations

from engine.words import mark

FIT_WORDS = {
    "fits": mark("fits"),
    "tight": mark("fits tightly"),
    "spills": mark("spills"),
    "no": mark("does not fit"),
}
FIT_ICONS = {"fits": "circle-check", "tight": "triangle-alert", "spills": "triangle-alert", "no": "circle-x"}
FIT_TOKENS = {"fits": "ok", "tight": "warn", "spills": "warn", "no": "bad"}  # names of colours
