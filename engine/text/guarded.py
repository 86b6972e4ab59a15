"""What a template may do with texts and numbers, each with its cost known before it is done.

Knows Python's string operations and how they grow; does not know Jinja's syntax, messages or models.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterable
from typing import Any

from engine.text.limits import Allowance, LimitExceededError
from engine.words import tr

_REVERSE_NEEDLE = 64  # longest text that is searched from the right without a look at the product
_SEARCH_STEPS = 50_000_000
_FIELD_CHARS = 1300  # the longest number within the limits, written out
_NUMBER = re.compile(r"\d+")
_PERCENT_OPTIONS = re.compile(r"[^a-zA-Z%]*")
_LINE_ENDS = "\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029"

_PLAIN_TEXT_METHODS = (
    *("capitalize", "casefold", "lower", "swapcase", "title", "upper"),
    *("count", "endswith", "find", "index", "partition", "removeprefix", "removesuffix", "startswith"),
    *("isalnum", "isalpha", "isascii", "isdecimal", "isdigit", "isidentifier", "islower", "isnumeric"),
    *("isprintable", "isspace", "istitle", "isupper"),
)
_METHODS: dict[type, frozenset[str]] = {
    dict: frozenset({"copy", "get", "items", "keys", "values"}),
    list: frozenset({"copy", "count", "index"}),
    tuple: frozenset({"count", "index"}),
    int: frozenset({"bit_length"}),
    float: frozenset({"is_integer"}),
}


def count_lines(text: str) -> int:
    """Upper bound of the lines that `str.splitlines` would make."""
    return 1 + sum(text.count(end) for end in _LINE_ENDS)


def method_is_allowed(owner: object, name: str) -> bool:
    """Whether a template may call this method of a plain value. All others are refused."""
    if isinstance(owner, str):
        return name in _TEXT_CHECKS
    return any(isinstance(owner, kind) and name in names for kind, names in _METHODS.items())


def call_text_method(allowance: Allowance, method: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    """Call a bound method of a text after its result was found to be of a bearable size and cost."""
    text, name = method.__self__, method.__name__  # type: ignore[attr-defined]
    args, kwargs = _TEXT_CHECKS[name](allowance, text, args, kwargs)
    return method(*args, **kwargs)


def argument(args: Any, kwargs: Any, index: int, name: str, default: Any) -> Any:
    """An argument of a call, given by place or by name."""
    return args[index] if len(args) > index else kwargs.get(name, default)


def _no_check(_allowance: Allowance, _text: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
    return args, kwargs


def _check_width(allowance: Allowance, _text: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
    allowance.expect_number(argument(args, kwargs, 0, "width", 0), allowance.limits.text_bytes)
    return args, kwargs


def _check_tabs(allowance: Allowance, text: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
    size = argument(args, kwargs, 0, "tabsize", 8)
    if isinstance(size, int):
        allowance.expect_text(len(text) + text.count("\t") * max(0, size))
    return args, kwargs


def check_replace(allowance: Allowance, text: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
    """Size of `text.replace(old, new)`, whatever count is given."""
    old, new = argument(args, kwargs, 0, "old", ""), argument(args, kwargs, 1, "new", "")
    if isinstance(old, str) and isinstance(new, str):
        count = text.count(old) if old else len(text) + 1
        allowance.expect_text(len(text) + count * (max(0, len(new) - len(old))))
    return args, kwargs


def _check_join(allowance: Allowance, text: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
    if len(args) != 1:
        return args, kwargs
    if isinstance(args[0], str):
        allowance.expect_items(len(args[0]))
    items = allowance.admit(list(args[0]))
    allowance.expect_text(len(items) * len(text))
    return (items,), kwargs


def check_reverse_search(text: str, wanted: object) -> None:
    """Python searches from the right, and strips sets of characters, in len(text) × len(wanted) steps."""
    if not isinstance(wanted, str) or len(wanted) <= _REVERSE_NEEDLE:
        return
    if len(text) * len(wanted) > _SEARCH_STEPS:
        raise LimitExceededError(tr("it searches a text in a way that takes too long"))


def _check_reverse(_allowance: Allowance, text: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
    for wanted in args:
        check_reverse_search(text, wanted)
    return args, kwargs


def _check_split(allowance: Allowance, text: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
    sep, most = argument(args, kwargs, 0, "sep", None), argument(args, kwargs, 1, "maxsplit", -1)
    check_reverse_search(text, sep)
    if isinstance(sep, str) and sep:
        pieces = text.count(sep)
    else:  # runs of white space: at most every second character
        pieces = len(text) // 2 + 1
        if pieces > allowance.limits.items:
            pieces = len(text.split(None, allowance.limits.items + 1))
    if not isinstance(most, int) or most < 0 or most > allowance.limits.items:
        allowance.expect_items(pieces)
    return args, kwargs


def _check_lines(allowance: Allowance, text: str, args: Any, kwargs: Any) -> tuple[Any, Any]:
    allowance.expect_items(count_lines(text))
    return args, kwargs


_TEXT_CHECKS: dict[str, Callable[[Allowance, str, Any, Any], tuple[Any, Any]]] = {
    **dict.fromkeys(_PLAIN_TEXT_METHODS, _no_check),
    **dict.fromkeys(("center", "ljust", "rjust", "zfill"), _check_width),
    **dict.fromkeys(("strip", "lstrip", "rstrip", "rfind", "rindex", "rpartition"), _check_reverse),
    **dict.fromkeys(("split", "rsplit"), _check_split),
    "expandtabs": _check_tabs,
    "replace": check_replace,
    "join": _check_join,
    "splitlines": _check_lines,
}


def check_field(allowance: Allowance, spec: str) -> None:
    """Refuse the format of one field of `str.format` that has a huge or a computed width."""
    _width(allowance, spec, "{")


def check_percent(allowance: Allowance, text: str, values: object) -> None:
    """Bound what `text % values` can make: no huge or computed widths, few enough fields."""
    num_fields, width, at = 0, 0, text.find("%")
    while at >= 0:
        allowance.tick()
        num_fields += 1
        at = _skip_key(text, at + 1)
        options = _PERCENT_OPTIONS.match(text, at)
        width += _width(allowance, options.group() if options else "", "*")
        at = text.find("%", (options.end() if options else at) + 1)
    items, text_bytes, _depth = allowance.weigh(values)
    allowance.expect_text(len(text) + width + num_fields * (text_bytes + items * _FIELD_CHARS))


def _width(allowance: Allowance, options: str, computed: str) -> int:
    """Sum of the widths and precisions in one field's options; computed ones are refused."""
    numbers = _NUMBER.findall(options)
    if computed in options or any(len(number) > 4 for number in numbers):
        raise LimitExceededError(tr("it formats a text with a width that is too large"))
    width = sum(map(int, numbers))
    allowance.expect_text(width)
    return width


def _skip_key(text: str, at: int) -> int:
    """Index behind a mapping key `(name)`, whose parentheses may be nested."""
    if text[at : at + 1] != "(":
        return at
    depth = 0
    for index in range(at, len(text)):
        depth += {"(": 1, ")": -1}.get(text[index], 0)
        if depth == 0:
            return index + 1
    return len(text)


def combine(allowance: Allowance, symbol: str, left: Any, right: Any) -> Any:
    """A binary operator of a template, refused where its result would be out of all proportion."""
    for value in (left, right):
        if isinstance(value, int):
            allowance.check_int(value)
    if symbol == "*":
        _check_repeat(allowance, left, right)
        _check_repeat(allowance, right, left)
    elif symbol == "**":
        _check_power(allowance, left, right)
    elif symbol == "%" and isinstance(left, str):
        check_percent(allowance, left, right)
    return allowance.admit(_OPERATORS[symbol](left, right))


def _check_repeat(allowance: Allowance, value: object, times: object) -> None:
    if not isinstance(times, int):
        return
    if isinstance(value, str):
        allowance.expect_text(len(value) * max(0, times))
    elif isinstance(value, list | tuple):
        allowance.expect_items(len(value) * max(0, times))


def _check_power(allowance: Allowance, base: object, exponent: object) -> None:
    if isinstance(base, int) and isinstance(exponent, int) and abs(base) > 1:
        bits = abs(exponent) * math.log2(abs(base))
        if bits > allowance.limits.int_bits:
            raise LimitExceededError(tr("it computes a number that is too large"))


_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "**": operator.pow,
    "%": operator.mod,
}


def joined(allowance: Allowance, join: Callable[[Iterable[Any]], str], values: Iterable[Any]) -> Any:
    """The `~` operator: every value as text, the sum of lengths known before they are put together."""
    texts = [allowance.text_of(value) for value in values]
    allowance.expect_text(sum(map(len, texts)))
    return allowance.admit(join(texts))
