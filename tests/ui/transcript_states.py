"""The designed states of the transcript: formulas, writing systems, nested blocks, the question of a link."""

from __future__ import annotations

from collections.abc import Callable

from tests.ui.states import finish
from ui.chat_values import MessageView
from ui.main_window import MainWindow
from ui.transcript_menu import ask_about_link

STATS = "212 tokens · 90.4 tok/s · first token 0.21 s"
FORMULAS = r"""The roots of $ax^2 + bx + c = 0$ follow from completing the square:

$$
x_{1,2} = \frac{-b \pm \sqrt{b^2 - 4ac}}{2a}
$$

With \(\Delta = b^2 - 4ac\), two are real where \(\Delta > 0\). In general, for $f \in C^n(\mathbb{R})$,

\[ f(x) = \sum_{k=0}^{n} \frac{f^{(k)}(a)}{k!} (x - a)^k + R_n(x). \]

A rotation by $\varphi$, and a value that depends on the side:

$$ R = \begin{pmatrix} \cos\varphi & -\sin\varphi \\ \sin\varphi & \cos\varphi \end{pmatrix} $$

$$ |x| = \begin{cases} x & \text{if } x \ge 0 \\ -x & \text{otherwise} \end{cases} $$

It costs $5 or $10, and an open $x_1 stays as it is."""
WRITING = """**العربية**: هذا نص من اليمين إلى اليسار مع كلمة English في وسطه و `code` ورقم 42.

**עברית**: שלום, עולם! זה משפט קצר.

**Ελληνικά**: σύντομη πρόταση. **Русский**: короткое предложение.

- Combining: é (e + ◌́), ñ, ǖ, Z͑ͫ̓ͪ̂ͫ̽͏̴̙̤̞͉͚̯̞̠͍A̴̵̜̰͔ͫ͗͢
- שלום `print("مرحبا")` ו־English, 12.5%

```python
# تعليق باللغة العربية
name = "שלום"
```

| Wort | كلمة | מילה |
|------|-----:|:----:|
| Haus | بيت | בית |
| Wasser | ماء | מים |
"""
BLOCKS = """### What to check first

> The disk, because it is the slowest part.
>
> > And then the network.

1. Measure
   - [x] read speed
   - [ ] write speed, with a longer item that has to go over more than one line in the column of text
2. Compare
   1. with the last run
   2. with [the reference](https://example.org/reference?a=1)

---

![a diagram](https://example.org/diagram.png)

| Disk | Read | Write |
|:-----|-----:|------:|
| NVMe | 3.4 GB/s | **2.9 GB/s** |
| SATA | 0.5 GB/s | 0.4 GB/s |
"""


def _say(window: MainWindow, question: str, answer: str) -> None:
    finish(window)
    asked = MessageView("t1", "user", question)
    window.show_chat((asked, MessageView("t2", "assistant", answer, stats=STATS)))


def _formulas(window: MainWindow) -> None:
    _say(window, "When does a quadratic equation have two roots?", FORMULAS)


def _writing_systems(window: MainWindow) -> None:
    _say(window, "اكتب جملة قصيرة بعدة لغات", WRITING)


def _blocks(window: MainWindow) -> None:
    _say(window, "My backup is slow. Where do I begin?", BLOCKS)


def _ask_about_link(window: MainWindow) -> None:
    _blocks(window)
    address = "https://docs.example@login.example.net/reference?topic=disk&from=chat&session=" + "4f1c" * 24
    ask_about_link(window.body.centre.transcript, address)


TRANSCRIPT_STATES: dict[str, Callable[[MainWindow], None]] = {
    "formulas": _formulas,
    "writing-systems": _writing_systems,
    "blocks": _blocks,
    "link": _ask_about_link,
}
