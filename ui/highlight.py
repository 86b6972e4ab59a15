"""Colours code with Pygments in slices of time; knows roles of characters, no colours and no Qt."""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from engine.words import tr

MAX_CHARS = 200_000  # longer code stays plain
MAX_LINE_CHARS = 2_000  # so does code with a longer line: some lexers are slow on one
BUDGET_S = 0.006  # of one slice

# What people call a language, what Pygments calls it, what the header says.
_LANGUAGES: dict[str, tuple[str, str]] = {
    "bash": ("bash", "Bash"),
    "c": ("c", "C"),
    "c#": ("csharp", "C#"),
    "c++": ("cpp", "C++"),
    "cmake": ("cmake", "CMake"),
    "console": ("console", "Console"),
    "cpp": ("cpp", "C++"),
    "cs": ("csharp", "C#"),
    "csharp": ("csharp", "C#"),
    "css": ("css", "CSS"),
    "cuda": ("cuda", "CUDA"),
    "dart": ("dart", "Dart"),
    "diff": ("diff", "Diff"),
    "dockerfile": ("docker", "Dockerfile"),
    "go": ("go", "Go"),
    "haskell": ("haskell", "Haskell"),
    "html": ("html", "HTML"),
    "ini": ("ini", "INI"),
    "java": ("java", "Java"),
    "javascript": ("javascript", "JavaScript"),
    "js": ("javascript", "JavaScript"),
    "json": ("json", "JSON"),
    "jsx": ("javascript", "JSX"),
    "julia": ("julia", "Julia"),
    "kotlin": ("kotlin", "Kotlin"),
    "latex": ("latex", "LaTeX"),
    "lua": ("lua", "Lua"),
    "makefile": ("make", "Makefile"),
    "markdown": ("markdown", "Markdown"),
    "matlab": ("matlab", "MATLAB"),
    "md": ("markdown", "Markdown"),
    "perl": ("perl", "Perl"),
    "php": ("php", "PHP"),
    "powershell": ("powershell", "PowerShell"),
    "py": ("python", "Python"),
    "python": ("python", "Python"),
    "python3": ("python", "Python"),
    "r": ("r", "R"),
    "rb": ("ruby", "Ruby"),
    "rs": ("rust", "Rust"),
    "ruby": ("ruby", "Ruby"),
    "rust": ("rust", "Rust"),
    "scala": ("scala", "Scala"),
    "sh": ("bash", "Shell"),
    "shell": ("bash", "Shell"),
    "sql": ("sql", "SQL"),
    "swift": ("swift", "Swift"),
    "toml": ("toml", "TOML"),
    "ts": ("typescript", "TypeScript"),
    "tsx": ("typescript", "TSX"),
    "typescript": ("typescript", "TypeScript"),
    "xml": ("xml", "XML"),
    "yaml": ("yaml", "YAML"),
    "yml": ("yaml", "YAML"),
    "zig": ("zig", "Zig"),
}


class Run(NamedTuple):
    """Characters ``start`` to ``end`` have one role: keyword, name, string, number, comment, operator."""

    start: int
    end: int
    role: str


def language_title(word: str) -> str:
    """What the header of a code block says for the word behind its fence."""
    known = _LANGUAGES.get(word.lower())
    return known[1] if known else word[:24] or tr("Text")


class Highlighter:
    """Roles of the characters of one finished code block, found as far as they are asked for."""

    def __init__(self, word: str, text: str) -> None:
        self.is_done = False
        self._runs: list[Run] = []
        self._ends: list[int] = []
        self._reached = 0
        known = _LANGUAGES.get(word.lower())
        is_long = len(text) > MAX_CHARS or max(map(len, text.split("\n")), default=0) > MAX_LINE_CHARS
        self._tokens = iter(()) if known is None or is_long else _tokens(known[0], text)

    def advance(self, until: int, budget_s: float = BUDGET_S) -> bool:
        """Read on to character ``until`` or to the end of the time; True when it got there."""
        self._take(1)  # loads the language, once: that does not count
        stop_s = time.perf_counter() + budget_s
        while not self.is_done and self._reached < until:
            self._take(64)
            if time.perf_counter() > stop_s:
                break
        return self.is_done or self._reached >= until

    def _take(self, count: int) -> None:
        for _ in range(count):
            run = next(self._tokens, None)
            if run is None:
                self.is_done = True
                return
            self._reached = run.end
            if run.role:
                self._runs.append(run)
                self._ends.append(run.end)

    def runs(self, start: int, end: int) -> Iterator[Run]:
        """Runs that touch ``start`` to ``end``, cut to it and counted from ``start``."""
        for index in range(bisect_left(self._ends, start + 1), len(self._runs)):
            run = self._runs[index]
            if run.start >= end:
                return
            yield Run(max(run.start, start) - start, min(run.end, end) - start, run.role)


def _tokens(alias: str, text: str) -> Iterator[Run]:
    from pygments.lexers import get_lexer_by_name

    lexer = get_lexer_by_name(alias)
    for start, token, value in lexer.get_tokens_unprocessed(text):
        yield Run(start, start + len(value), _role(token))


@lru_cache(maxsize=256)
def _role(token: object) -> str:
    """The role of a Pygments token type; "" for plain text."""
    from pygments.token import Comment, Keyword, Name, Number, Operator, Punctuation, String

    roles = (
        ((Comment,), "comment"),
        ((Keyword, Operator.Word, Name.Tag), "keyword"),
        ((Name.Function, Name.Class, Name.Builtin, Name.Decorator, Name.Exception, Name.Attribute), "name"),
        ((String,), "string"),
        ((Number,), "number"),
        ((Operator, Punctuation), "operator"),
    )
    for types, role in roles:
        if any(token in kind for kind in types):
            return role
    return ""
