"""The filters and tests that a chat template may use, each checked before and after it runs.

Knows Jinja's filters and how their results grow; does not know messages or models. Filters that no
chat template needs and whose cost has no simple bound (urlize, wordwrap, striptags ...) are left out.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from jinja2.environment import Environment
from jinja2.filters import FILTERS, make_attrgetter
from jinja2.nodes import EvalContext
from jinja2.tests import TESTS
from jinja2.utils import pass_environment, pass_eval_context

from engine.text.guarded import argument, check_percent, check_replace, check_reverse_search, count_lines
from engine.text.limits import Allowance, LimitExceededError
from engine.words import tr

Check = Callable[[Allowance, Any, Sequence[Any], dict[str, Any]], None]
GetAllowance = Callable[[], Allowance]

_NUMBERED = {"batch", "center", "indent", "round", "slice", "tojson"}  # their arguments are widths and counts
_ROUND_DIGITS = 300
_LEFT_OUT = {"filesizeformat", "pprint", "random", "striptags", "urlize", "wordcount", "wordwrap", "xmlattr"}


def to_json(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | str | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    """JSON without HTML escapes, as chat templates expect it: Jinja's own filter writes `\\u003c` for `<`."""
    return json.dumps(
        value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys
    )


def make_filters(allowance: GetAllowance) -> dict[str, Callable[..., Any]]:
    """All filters by name, bound to the allowance that is current when they run."""
    known = {name: function for name, function in FILTERS.items() if name not in _LEFT_OUT}
    known |= {"tojson": to_json, "join": _make_join(allowance), "unique": _make_unique(allowance)}
    return {name: _guard_filter(name, function, allowance) for name, function in known.items()}


def make_tests(allowance: GetAllowance) -> dict[str, Callable[..., Any]]:
    """All tests by name; each use costs a tick."""
    known = cast("Mapping[str, Callable[..., Any]]", TESTS)
    return {name: _guard_test(function, allowance) for name, function in known.items()}


def _guard_filter(name: str, function: Callable[..., Any], current: GetAllowance) -> Callable[..., Any]:
    # The filtered value stands behind Jinja's own argument, where a filter asks for one.
    at = 1 if hasattr(function, "jinja_pass_arg") else 0
    check = _CHECKS.get(name)

    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        allowance = current()
        allowance.charge(40 * len(args))
        if len(args) > at and check is not None:
            check(allowance, args[at], args[at + 1 :], kwargs)
        if name in _NUMBERED:
            for number in (*args[at + 1 :], *kwargs.values()):
                allowance.expect_number(number)
        return allowance.admit(function(*args, **kwargs))

    return guarded


def _guard_test(function: Callable[..., Any], current: GetAllowance) -> Callable[..., Any]:
    @functools.wraps(function)
    def guarded(*args: Any, **kwargs: Any) -> Any:
        current().tick()
        return function(*args, **kwargs)

    return guarded


def _make_join(current: GetAllowance) -> Callable[..., Any]:
    """The `join` filter, which has all its texts weighed before it begins."""

    @pass_eval_context
    def join(context: EvalContext, value: Any, d: Any = "", attribute: Any = None) -> Any:
        allowance = current()
        if isinstance(value, str):
            allowance.expect_items(len(value))
        if attribute is not None:
            value = map(make_attrgetter(context.environment, attribute), value)
        texts = allowance.admit(list(allowance.bounded(value)))
        allowance.expect_text(len(texts) * len(str(d)))
        return FILTERS["join"](context, texts, d)

    return join


def _make_unique(current: GetAllowance) -> Callable[..., Any]:
    """The `unique` filter with a tick for each item: hashes can be made to collide."""

    @pass_environment
    def unique(environment: Environment, value: Any, *args: Any, **kwargs: Any) -> Any:
        return FILTERS["unique"](environment, current().bounded(value), *args, **kwargs)

    return unique


def _check_iterable(allowance: Allowance, value: Any, _args: Sequence[Any], _kwargs: dict[str, Any]) -> None:
    if isinstance(value, str):
        allowance.expect_items(len(value))


def _check_sum(allowance: Allowance, value: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    _check_iterable(allowance, value, args, kwargs)
    if not isinstance(argument(args, kwargs, 1, "start", 0), int | float):
        raise LimitExceededError(tr("it sums up lists, which takes too long"))  # quadratic, in one go


def _check_indent(allowance: Allowance, value: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    width = argument(args, kwargs, 0, "width", 4)
    if not isinstance(value, str):
        return
    lines = count_lines(value)
    allowance.expect_items(lines)
    if isinstance(width, int | str):
        size = len(width) if isinstance(width, str) else max(0, width)
        allowance.expect_text(len(value) + lines * size)


def _check_replace(allowance: Allowance, value: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    old, new = argument(args, kwargs, 0, "old", ""), argument(args, kwargs, 1, "new", "")
    check_replace(allowance, str(value), (str(old), str(new)), {})


def _check_long_text(allowance: Allowance, value: Any, _args: Sequence[Any], _kwargs: dict[str, Any]) -> None:
    if isinstance(value, str):  # these go through it piece by piece in Python
        allowance.expect_items(len(value))


def _check_trim(_allowance: Allowance, value: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    check_reverse_search(str(value), argument(args, kwargs, 0, "chars", None))


def _check_format(allowance: Allowance, value: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    check_percent(allowance, str(value), kwargs or tuple(args))


def _check_round(allowance: Allowance, value: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    allowance.expect_number(argument(args, kwargs, 0, "precision", 0), _ROUND_DIGITS)
    if isinstance(value, int):
        allowance.check_int(value)


def _check_json(allowance: Allowance, value: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> None:
    indent = argument(args, kwargs, 1, "indent", 0) or 0
    separators = argument(args, kwargs, 2, "separators", None)
    items, text_bytes, depth = allowance.weigh(value)
    if isinstance(indent, int | str):
        size = len(indent) if isinstance(indent, str) else max(0, indent)
        allowance.expect_text(text_bytes + items * depth * size)
    _items, separator_bytes, _depth = allowance.weigh(separators)
    if separators is not None:
        allowance.expect_text(text_bytes + items * separator_bytes)


_ITERABLE = {
    *("batch", "dictsort", "groupby", "items", "list", "map", "max", "min", "slice", "sort", "unique"),
    *("reject", "rejectattr", "select", "selectattr"),
}
_CHECKS: dict[str, Check] = {
    **dict.fromkeys(_ITERABLE, _check_iterable),
    **dict.fromkeys(("title", "urlencode"), _check_long_text),
    "format": _check_format,
    "indent": _check_indent,
    "replace": _check_replace,
    "round": _check_round,
    "sum": _check_sum,
    "tojson": _check_json,
    "trim": _check_trim,
}
