"""LaTeX formulas as readable Unicode text: fractions in a line, scripts raised, matrices in rows. No Qt.

What it cannot read stays as it was written. Work and depth are bounded; nothing is expanded or run.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from engine.words import tr
from ui.latex_grid import FENCES, TooLargeError, matrix
from ui.latex_spacing import KINDS, Atom, join
from ui.latex_symbols import (
    ACCENTS,
    ALPHABETS,
    FUNCTIONS,
    PLAIN,
    SILENT,
    SPACES,
    SUBSCRIPTS,
    SUPERSCRIPTS,
    SYMBOLS,
    in_alphabet,
)

MAX_CHARS = 2_000  # of one formula; a longer one stays as it was written
MAX_DEPTH = 24
_TOKEN = re.compile(r"\\\\(?:\[-?[\d.]+ *[a-z]{2}\])?|\\[A-Za-z]+\*?|\\.|\d+(?:[.,]\d+)*|\s+|.", re.DOTALL)
_ROWS = frozenset(
    ("aligned", "align", "gathered", "gather", "split", "equation", "eqnarray", "multline", "flalign")
) | {"alignedat", "alignat"}

_DRAWN = {"-": "−", "'": "′"}
_DRAWN |= {chr(65 + at): chr(0x1D434 + at) for at in range(26)}
_DRAWN |= {chr(97 + at): chr(0x1D44E + at) for at in range(26)} | {"h": "ℎ"}
_ROOTS = {"": "√", "2": "√", "3": "∛", "4": "∜"}
# A number, a letter with its scripts, a differential, or a function of one argument.
_SCRIPTS = "[" + "".join({*SUPERSCRIPTS.values(), *SUBSCRIPTS.values()} - {*"*,"}) + "]*"
_ONE = re.compile(rf"[\d.,]+{_SCRIPTS}|\\[A-Za-z]+|[𝑑∂]?(?:[^\W\d]|∞){_SCRIPTS}(?:\([^()]*\)|!)?")


class _UnreadableError(Exception):
    """The formula stays as it was written."""


def to_text(source: str, *, is_display: bool = False) -> str | None:
    """The formula in Unicode, or None where it cannot be read.

    Variables are in Unicode's mathematical italic letters, bold ones in its bold letters. A formula that
    stands alone (``is_display``) may have several lines.
    """
    if len(source) > MAX_CHARS:
        return None
    try:
        reader = _Reader(source, is_flat=not is_display)
        lines = reader.rows(ends=())
    except (_UnreadableError, TooLargeError):
        return None
    text = ("\n" if is_display else "; ").join(filter(str.strip, lines))
    return text if text.strip() else None


def _script(text: str, table: dict[str, str], mark: str) -> str:
    """``text`` raised or lowered; with ``mark`` before it where Unicode lacks one of its characters."""
    plain = "".join(_plain_letter(letter) for letter in text)
    if all(letter in table for letter in plain):
        return "".join(table[letter] for letter in plain)
    return f"{mark}{text}" if len(text) == 1 else f"{mark}({text})"


def _plain_letter(letter: str) -> str:
    is_styled = letter == "ℎ" or "\U0001d400" <= letter <= "\U0001d7ff"
    return unicodedata.normalize("NFKC", letter) if is_styled else letter


def styled_runs(text: str) -> list[tuple[str, bool, bool]]:
    """What ``to_text`` gave as (text, is bold, is italic), its letters plain again."""
    runs: list[tuple[str, bool, bool]] = []
    for letter in text:
        is_italic = letter == "ℎ" or "\U0001d434" <= letter <= "\U0001d467"
        is_bold = "\U0001d400" <= letter <= "\U0001d433" or "\U0001d7ce" <= letter <= "\U0001d7d7"
        plain = unicodedata.normalize("NFKC", letter) if is_italic or is_bold else letter
        if runs and runs[-1][1:] == (is_bold, is_italic):
            runs[-1] = (runs[-1][0] + plain, is_bold, is_italic)
        else:
            runs.append((plain, is_bold, is_italic))
    return runs


class _Reader:
    """Reads tokens from left to right, each once."""

    def __init__(self, source: str, *, is_flat: bool) -> None:
        self._tokens: list[str] = _TOKEN.findall(source)
        self._at = 0
        self._depth = 0
        self._is_flat = is_flat

    # Tokens

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def _skip_spaces(self) -> str:
        while self._peek().isspace():
            self._at += 1
        return self._peek()

    def _raw_group(self) -> str:
        """The characters of the next group, as they were written."""
        if self._skip_spaces() != "{":
            return self._next()
        self._at += 1
        level = 1
        parts: list[str] = []
        while token := self._next():
            level += (token == "{") - (token == "}")
            if not level:
                return "".join(parts)
            parts.append(token)
        raise _UnreadableError

    # Lists of atoms

    def rows(self, ends: tuple[str, ...]) -> list[str]:
        """Joined lines up to a token of ``ends``, split where the source breaks them."""
        lines = []
        while True:
            lines.append(join(self._atoms((*ends, r"\\"))))
            if not self._next().startswith(r"\\"):
                self._at -= 1
                return lines

    def _atoms(self, ends: tuple[str, ...]) -> list[Atom]:
        """Everything up to a token of ``ends``, which is left to be read; "" stands for the end."""
        atoms: list[Atom] = []
        while (token := self._peek()) and not self._is_end(token, ends):
            self._add(atoms)
        if not token and ends and ends != (r"\\",):
            raise _UnreadableError
        return atoms

    @staticmethod
    def _is_end(token: str, ends: tuple[str, ...]) -> bool:
        return token in ends or (token.startswith(r"\\") and r"\\" in ends)

    def _add(self, atoms: list[Atom]) -> None:
        token = self._next()
        if token in ("^", "_"):
            self._add_script(atoms, token)
        elif token == "'" and atoms:
            atoms[-1].text += "′"
        elif token == "}" or token == "$":
            raise _UnreadableError
        elif not token.isspace() and token != "&":
            self._at -= 1
            atoms.extend(self._atom())

    def _add_script(self, atoms: list[Atom], mark: str) -> None:
        table = SUPERSCRIPTS if mark == "^" else SUBSCRIPTS
        script = _script(self._argument(is_tight=True), table, mark)
        if not atoms or atoms[-1].kind == "space":
            atoms.append(Atom(""))
        base = atoms[-1]
        if base.kind in ("bin", "open", "punct"):
            base.kind = "ord"
        first, *others = base.text.split("\n")
        base.text = "\n".join([first + script, *others]) if mark == "^" else base.text + script

    def _argument(self, *, is_tight: bool = False) -> str:
        """The next group or atom in one line, as the argument of a macro."""
        before, self._is_flat = self._is_flat, True
        token = self._skip_spaces()
        if token == "{":
            self._depth += 1
            self._at += 1
            text = join(self._atoms(("}",)), is_tight=is_tight)
            self._at += 1
            self._depth -= 1
        elif len(token) > 1 and token[0].isdigit():  # TeX takes one digit
            self._tokens[self._at] = token[1:]
            text = token[0]
        else:
            text = join(self._atom(), is_tight=is_tight)
        self._is_flat = before
        return text

    def _option(self) -> str:
        """What stands in square brackets behind a macro."""
        if self._skip_spaces() != "[":
            return ""
        self._at += 1
        text = join(self._atoms(("]",)), is_tight=True)
        self._at += 1
        return text

    # One atom

    def _atom(self) -> list[Atom]:
        """The next group, sign or macro with what belongs to it."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise _UnreadableError
        found = self._read_atom()
        self._depth -= 1
        return found

    def _read_atom(self) -> list[Atom]:
        self._skip_spaces()
        token = self._next()
        if not token or token in ("}", "&", "^", "_", "$"):
            raise _UnreadableError
        if token == "{":
            atoms = self._atoms(("}",))
            self._at += 1
            return atoms if len(atoms) == 1 else [Atom(join(atoms))]
        if token == "~":
            return [Atom(" ", "space")]
        if token[0] != "\\" or len(token) == 1:
            return [Atom(_DRAWN.get(token, token), KINDS.get(token, "ord"))]
        return self._macro(token[1:])

    def _macro(self, name: str) -> list[Atom]:
        if name in SYMBOLS:
            return [Atom(*SYMBOLS[name])]
        if name in SPACES:
            return [Atom(SPACES[name], "space")]
        if name in SILENT:
            return self._delimiter(name)
        if name in ("{", "}", "%", "#", "_", "&", "$"):
            return [Atom(name, KINDS.get(name, "ord"))]
        if name in ACCENTS:
            return [Atom(_accented(self._argument(), ACCENTS[name]))]
        if name in ALPHABETS:
            plain = unicodedata.normalize("NFKC", self._argument())
            return [Atom(in_alphabet(plain, ALPHABETS[name]))]
        if name.rstrip("*") in PLAIN:
            return [self._plain(name)]
        if name == "begin":
            return [self._environment()]
        return self._construct(name)

    def _delimiter(self, name: str) -> list[Atom]:
        """What stands behind ``\\left`` and its like; "." is none."""
        side = {"left": "open", "right": "close"}.get(name)
        if side is None:
            return []
        sign = self._skip_spaces()
        if sign == ".":
            self._at += 1
            return []
        (atom,) = self._atom()
        return [Atom({"<": "⟨", ">": "⟩"}.get(atom.text, atom.text), side)]

    def _plain(self, name: str) -> Atom:
        """Upright words; in ``\\text`` the spaces count."""
        parts = re.split(r"(?<!\\)\$([^$]*)\$", self._raw_group())
        words = "".join(self._inner(part) if place % 2 else _words(part) for place, part in enumerate(parts))
        if name.startswith("operatorname") or words in FUNCTIONS:
            return Atom(words, "op")
        return Atom(words, "text" if len(words) > 1 else "ord")

    def _inner(self, source: str) -> str:
        """A formula inside words."""
        reader = _Reader(source, is_flat=True)
        reader._depth = self._depth
        return join(reader._atoms(()))

    def _construct(self, name: str) -> list[Atom]:
        """A macro with arguments of its own."""
        match name:
            case "frac" | "dfrac" | "tfrac" | "cfrac":
                above, below = self._argument(), self._argument()
                return [Atom(f"{_grouped(above, is_above=True)}/{_grouped(below)}", "frac")]
            case "binom" | "dbinom" | "tbinom":
                upper, lower = self._argument(), self._argument()
                return [Atom(tr("({upper} choose {lower})").format(upper=upper, lower=lower))]
            case "sqrt":
                return [self._root()]
            case "overset" | "stackrel" | "underset":
                over, base = self._argument(is_tight=True), self._argument()
                table, mark = (SUBSCRIPTS, "_") if name == "underset" else (SUPERSCRIPTS, "^")
                return [Atom(base + _script(over, table, mark), "rel" if name == "stackrel" else "ord")]
            case "xrightarrow" | "xleftarrow":
                words = self._argument()
                return [Atom(f"─{words}→" if name == "xrightarrow" else f"←{words}─", "rel")]
            case "pmod":
                return [Atom(" ", "space"), Atom(f"(mod {self._argument()})")]
            case "not":
                (atom, *others) = self._atom()
                negated = unicodedata.normalize("NFC", atom.text + "\u0338")
                return [Atom(negated, atom.kind), *others]
            case "boxed" | "fbox":
                return [Atom(f"[ {self._argument()} ]", "text")]
            case "tag":
                return [Atom("\u2003", "space"), Atom(f"({self._raw_group()})", "text")]
            case "underbrace" | "overbrace" | "substack" | "mathit" | "mathop" | "mathrel" | "mathbin":
                return [Atom(self._argument(), {"mathrel": "rel", "mathbin": "bin"}.get(name, "ord"))]
            case "color" | "label" | "hspace" | "vspace" | "phantom" | "hphantom" | "vphantom":
                self._raw_group()
                return []
            case "textcolor" | "colorbox":
                self._raw_group()
                return [Atom(self._argument())]
        return self._unknown(name)

    def _root(self) -> Atom:
        index = unicodedata.normalize("NFKC", self._option())
        sign = _ROOTS.get(index) or f"{_script(index, SUPERSCRIPTS, '^')}√"
        return Atom(sign + _grouped(self._argument()))

    def _unknown(self, name: str) -> list[Atom]:
        """As it was written, with its groups."""
        text = f"\\{name}"
        while self._peek() == "{":
            text += f"{{{self._argument()}}}"
        return [Atom(text, "text")]

    # Environments

    def _environment(self) -> Atom:
        name = self._raw_group().strip().removesuffix("*")
        if name in ("array", "alignedat", "alignat"):
            self._raw_group()
        elif name not in FENCES and name not in _ROWS:
            raise _UnreadableError
        if name in _ROWS:
            lines = self.rows((r"\end",))
            self._end(name)
            return Atom(self._stacked(lines), "text")
        rows: list[list[str]] = [[]]
        while True:
            rows[-1].append(join(self._atoms(("&", r"\\", r"\end"))))
            token = self._peek()
            if token == r"\end":
                break
            self._at += 1
            if token != "&":
                rows.append([])
        self._end(name)
        rows = [row for row in rows if any(row)] or [[""]]
        if any("\n" in cell for row in rows for cell in row):
            raise _UnreadableError
        return Atom(matrix(rows, FENCES[name], is_flat=self._is_flat))

    def _stacked(self, lines: Sequence[str]) -> str:
        """Lines of one derivation; those that go on with a relation are set in."""
        shown = [line for line in lines if line.strip()]
        if self._is_flat:
            return "; ".join(shown)
        return "\n".join(f"\u2003{line}" if KINDS.get(line[0]) == "rel" else line for line in shown)

    def _end(self, name: str) -> None:
        self._at += 1
        if self._raw_group().strip().removesuffix("*") != name:
            raise _UnreadableError


def _words(source: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"\\([ %&_#$])", r"\1", source).replace("~", " "))


def _accented(text: str, mark: str) -> str:
    """``mark`` on every character that can carry one."""
    return "".join(letter if unicodedata.combining(letter) else letter + mark for letter in text)


def _grouped(text: str, *, is_above: bool = False) -> str:
    """In brackets, unless it is one operand; above the stroke a product is one too, but no root."""
    if is_above and text[:1] in ("√", "∛", "∜"):  # √π/2 could be either
        return f"({text})"
    if is_above and not any(letter.isspace() for letter in text):
        return text
    is_one = _ONE.fullmatch("".join(letter for letter in text if not unicodedata.combining(letter)))
    return text if is_one else f"({text})"
