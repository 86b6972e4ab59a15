"""What the page about the speed shows in the designed states."""

from __future__ import annotations

from ui.gauge_values import BatchRow, Door, DraftRow, ExplainView, JudgedRow, StepPart, WhyView

STARTER = "SmolLM2-135M-Instruct"
WHY = WhyView("Memory-bound: 82% of each step is reading 0.10\u00a0GB of weights", can_explain=True)
DOORS = (
    Door("As loaded", "", 324_000_000, 119_600_000, 285_300_000, 88.2, 36.1),
    Door(
        "At 16 bits",
        "Most weights are held at 4 bits and read in full for every token.",
        *(470_800_000, 292_000_000, 458_000_000),
        *(43.1, 27.2, 2.05),
    ),
    Door(
        "Without GQA",
        "3 query heads share each head of keys and values (grouped-query attention).",
        *(685_000_000, 165_700_000, 662_800_000),
        *(61.0, 16.9, 1.45),
    ),
    Door("Without its window", "Every layer reads the whole chat: there is no window."),
)


def _judged(place: int, when: str, format: str, error: float, note: str = "") -> JudgedRow:
    what, tokens, chats = f"{format} · {STARTER}", 1431 - 97 * place, 2 if place == 2 else 1
    return JudgedRow(when, what, tokens, chats, 88.0, 88.0 * (1 + error), error, note)


EXPLAIN = ExplainView(
    f"{STARTER} · 4-bit · 1,431 of 8,192 tokens in the chat",
    1431,
    8192,
    "Predictions rest on what was measured of this computer, corrected by real answers, ±6%.",
    WHY,
    (StepPart("Weights", 8.9, 96_600_000), StepPart("Context", 1.3, 23_000_000), StepPart("Fixed cost", 1.0)),
    DOORS,
    tuple(BatchRow(count, 88 / count**0.5, 88 * count**0.5) for count in (1, 2, 4, 8)),
    tuple(DraftRow(n, 1 + 0.6 * n**0.7, 60 + 12 * n - n**2) for n in (0, 1, 2, 3, 4, 6, 8)),
    "71% of 3.0 guesses a step were right here. Quickest: 6 guesses a step.",
    (
        _judged(0, "today 14:32", "file", 0.024),
        _judged(1, "today 14:30", "file", -0.031),
        _judged(2, "today 14:11", "file", -0.42, "Another program used the cores."),
        _judged(3, "29 Nov 09:40", "bf16", 0.093),
    ),
    "Median error of the 3 answers like the last one: 3.1%.",
)
