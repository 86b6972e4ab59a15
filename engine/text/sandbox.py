"""A Jinja environment for templates that came with a model file, in which nothing can freeze or eat memory.

Knows Jinja and the limits; does not know messages, control tokens or models.

Why this and not a thread or a process with a deadline: Python cannot stop a thread, and a single C call
(`'x' * 10**10`) holds the interpreter lock, so the window would freeze whatever thread it ran on. A process
can be killed, but to start one costs 0.1-0.3 s before every answer, and a fork of a process full of torch
threads is unsafe. Here instead no single operation is ever large: every value is weighed when it is made,
every operation that grows is estimated first, every loop, call and comparison passes a deadline, and what is
not on the list of allowed calls is refused. So a deadline that is checked between operations does hold.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import SecurityError
from jinja2.ext import Extension, loopcontrols
from jinja2.lexer import Token, TokenStream
from jinja2.parser import Parser
from jinja2.runtime import BlockReference, Context, LoopContext, Macro, Undefined
from jinja2.sandbox import (
    ImmutableSandboxedEnvironment,
    SandboxedEscapeFormatter,
    SandboxedFormatter,
    safe_range,
)
from jinja2.utils import Cycler, Joiner, Namespace
from markupsafe import Markup

from engine.text.filters import make_filters, make_tests
from engine.text.guarded import call_text_method, check_field, combine, joined, method_is_allowed
from engine.text.limits import Allowance, LimitExceededError, Limits
from engine.words import tr

_DATE_FORMAT_CHARS = 100


class RefusedError(jinja2.TemplateError):
    """The template called `raise_exception`: it refuses these messages, in its own words."""


class Sandbox(ImmutableSandboxedEnvironment):
    """Jinja's immutable sandbox, configured as chat templates expect, with every operation counted.

    One environment serves one rendering at a time: `allowance` is replaced before each.
    """

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "**", "%"})

    def __init__(self, limits: Limits, now: Callable[[], datetime]) -> None:
        super().__init__(
            trim_blocks=True,
            lstrip_blocks=True,
            optimized=False,  # constants would be computed at compile time, outside all limits
            extensions=[_Counting, _Generation, loopcontrols],
        )
        self.allowance = Allowance(limits)
        self.code_generator_class = _CodeGenerator
        self.finalize = self._emit
        self.concat = self._concat  # type: ignore[method-assign]
        self.filters.clear()
        self.filters.update(make_filters(lambda: self.allowance))
        self.tests.clear()
        self.tests.update(make_tests(lambda: self.allowance))
        self.globals = {
            "range": safe_range,
            "dict": _MakeDict(self),
            "namespace": _Namespace,
            "cycler": Cycler,
            "joiner": Joiner,
            "raise_exception": _raise_exception,
            "strftime_now": _Now(now),
        }

    # What the generated code calls (see _CodeGenerator).
    def tick(self) -> None:
        """One statement block, loop body or macro body begins."""
        self.allowance.tick()

    def made(self, value: Any) -> Any:
        """A list, dict, tuple, slice or comparison was made."""
        return self.allowance.admit(value)

    def joined(self, join: Callable[[Iterable[Any]], str], values: tuple[Any, ...]) -> Any:
        """The `~` operator."""
        return joined(self.allowance, join, values)

    def new_buffer(self) -> list[str]:
        """Where a macro or a block assignment gathers its output."""
        return _Buffer(self.allowance)

    def _emit(self, value: Any) -> str:
        self.allowance.tick()
        return self.allowance.text_of(value)

    def _concat(self, pieces: Iterable[str]) -> str:
        texts = list(pieces)
        self.allowance.expect_text(sum(map(len, texts)))
        text: str = self.allowance.admit("".join(texts))
        return text

    # What Jinja's sandbox calls.
    def getattr(self, obj: Any, attribute: str) -> Any:
        self.allowance.tick()
        return super().getattr(obj, attribute)

    def getitem(self, obj: Any, argument: Any) -> Any:
        self.allowance.tick()
        return super().getitem(obj, argument)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        return combine(self.allowance, operator, left, right)

    def unsafe_undefined(self, obj: Any, attribute: str) -> Undefined:
        """Refuse at once what Jinja lets through as an empty text until it is used further."""
        said = tr("the attribute {name} of a {kind} is not allowed")
        raise SecurityError(said.format(name=repr(attribute), kind=repr(type(obj).__name__)))

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """`str.format` never gets out bare: its fields reach attributes, and its widths any size."""
        if not isinstance(value, types.MethodType | types.BuiltinMethodType):
            return None
        if not isinstance(value.__self__, str) or value.__name__ not in ("format", "format_map"):
            return None
        return _Format(self, value.__self__, is_map=value.__name__ == "format_map")

    def call(self, __context: Context, __obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Call what is on the list of allowed things; the result is weighed."""
        own = {name: value for name, value in kwargs.items() if name not in _SCOPES}
        self.allowance.admit((args, own))  # a macro can print them all, a cycler keeps them
        self.allowance.enter()
        try:
            return self.allowance.admit(self._call(__context, __obj, args, own))
        finally:
            self.allowance.leave()

    def _call(self, context: Context, target: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        if isinstance(target, types.MethodType | types.BuiltinMethodType):
            owner = target.__self__
            if isinstance(owner, str) and method_is_allowed(owner, target.__name__):
                return call_text_method(self.allowance, target, args, kwargs)
            if not isinstance(owner, _OWNERS) and not method_is_allowed(owner, target.__name__):
                said = tr("the call of {name} is not allowed").format(name=repr(target.__name__))
                raise SecurityError(said)
        elif not isinstance(target, _CALLABLES) and not any(target is allowed for allowed in _FUNCTIONS):
            said = tr("a call of {kind} is not allowed").format(kind=repr(type(target).__name__))
            raise SecurityError(said)
        return context.call(target, *args, **kwargs)


class _Namespace(Namespace):
    """`namespace(...)` whose names cannot begin with an underscore and whose content is never printed."""

    def __init__(*args: Any, **kwargs: Any) -> None:
        self, args = args[0], args[1:]
        for name in dict(*args, **kwargs):
            _check_name(name)
        Namespace.__init__(self, *args, **kwargs)

    def __setitem__(self, name: str, value: Any) -> None:
        _check_name(name)
        super().__setitem__(name, value)

    def __repr__(self) -> str:
        return "<Namespace>"  # namespaces can hold each other: their text would have no bound


def _check_name(name: object) -> None:
    if isinstance(name, str) and name.startswith("_"):
        raise SecurityError(tr("the name {name} is not allowed in a namespace").format(name=repr(name)))


class _MakeDict:
    """`dict(...)` without the type's attributes, a tick for each key: hashes can be made to collide."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._sandbox = sandbox

    def __call__(self, *args: Any, **kwargs: Any) -> dict[Any, Any]:
        if len(args) == 1 and not isinstance(args[0], Mapping):
            args = (self._sandbox.allowance.bounded(args[0]),)
        return dict(*args, **kwargs)

    def fromkeys(self, keys: Iterable[Any], value: Any = None) -> dict[Any, Any]:
        """dict.fromkeys"""
        return dict.fromkeys(self._sandbox.allowance.bounded(keys), value)


class _Now:
    """`strftime_now(format)`: the date, which some templates write into the system message."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now

    def __call__(self, format: str) -> str:
        if len(format) > _DATE_FORMAT_CHARS:
            raise LimitExceededError(tr("it formats a date with a text that is too long"))
        return self._now().strftime(format)


def _raise_exception(message: object = "") -> None:
    raise RefusedError(str(message))


class _Format:
    """A text's `format` method: sandboxed attributes, bounded widths."""

    def __init__(self, sandbox: Sandbox, text: str, is_map: bool) -> None:
        self._sandbox, self._text, self._is_map = sandbox, text, is_map

    def __call__(self, *args: Any, **kwargs: Any) -> str:
        values: Mapping[str, Any] = kwargs
        if self._is_map:
            if kwargs or len(args) != 1 or not isinstance(args[0], Mapping):
                raise TypeError("format_map() takes one mapping")
            values, args = args[0], ()
        if isinstance(self._text, Markup):
            formatter = _MarkupFormatter(self._sandbox, escape=self._text.escape)
            return Markup(formatter.vformat(self._text, args, values))
        return _Formatter(self._sandbox).vformat(self._text, args, values)


class _Formatter(SandboxedFormatter):
    """A formatter whose fields are checked one by one, for they can reach large texts through attributes."""

    _env: Sandbox
    _num_chars = 0

    def format_field(self, value: Any, format_spec: str) -> str:
        allowance = self._env.allowance
        check_field(allowance, format_spec)
        allowance.weigh(value)
        text: str = allowance.admit(super().format_field(value, format_spec))
        self._num_chars += len(text)
        allowance.expect_text(self._num_chars)
        return text

    def convert_field(self, value: Any, conversion: Any) -> Any:
        self._env.allowance.weigh(value)
        return self._env.allowance.admit(super().convert_field(value, conversion))


class _MarkupFormatter(_Formatter, SandboxedEscapeFormatter):
    """The same for a text whose fields are escaped."""


_CALLABLES = (Macro, BlockReference, LoopContext, Undefined, _Format, _MakeDict, _Now, Cycler, Joiner)
_FUNCTIONS = (safe_range, _raise_exception, _Namespace, Cycler, Joiner)
_SCOPES = ("_loop_vars", "_block_vars")  # Jinja's compiler adds them to a call's arguments
_OWNERS = (LoopContext, Cycler, _MakeDict)  # of Python methods that may be called


class _Buffer(list[str]):
    """A list of output pieces that counts its slots; their sum is checked when they are joined."""

    def __init__(self, allowance: Allowance) -> None:
        super().__init__()
        self._allowance = allowance

    def append(self, piece: str) -> None:
        self._allowance.charge(16)
        super().append(piece)

    def extend(self, pieces: Iterable[str]) -> None:
        for piece in pieces:
            self.append(piece)


class _CodeGenerator(CodeGenerator):
    """Jinja's compiler, which writes a counted call wherever plain Python would run uncounted."""

    environment: Sandbox

    def visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> Any:
        self.environment.tick()
        return super().visit(node, *args, **kwargs)

    def blockvisit(self, nodes: Iterable[nodes.Node], frame: Frame) -> None:
        self.writeline("environment.tick()")
        super().blockvisit(nodes, frame)

    def buffer(self, frame: Frame) -> None:
        frame.buffer = self.temporary_identifier()
        self.writeline(f"{frame.buffer} = environment.new_buffer()")

    def _output_child_to_const(self, node: nodes.Expr, frame: Frame, finalize: Any) -> str:
        if not isinstance(node, nodes.TemplateData):
            raise nodes.Impossible
        return super()._output_child_to_const(node, frame, finalize)

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802
        join = "str_join"
        if frame.eval_ctx.volatile:
            join = "(markup_join if context.eval_ctx.volatile else str_join)"
        elif frame.eval_ctx.autoescape:
            join = "markup_join"
        self.write(f"environment.joined({join}, (")
        for part in node.nodes:
            self.visit(part, frame)
            self.write(", ")
        self.write("))")

    def _write_made(self, write: Callable[[Any, Frame], None], node: nodes.Expr, frame: Frame) -> None:
        self.write("environment.made(")
        write(node, frame)
        self.write(")")

    def visit_List(self, node: nodes.List, frame: Frame) -> None:  # noqa: N802
        self._write_made(super().visit_List, node, frame)

    def visit_Dict(self, node: nodes.Dict, frame: Frame) -> None:  # noqa: N802
        self._write_made(super().visit_Dict, node, frame)

    def visit_Compare(self, node: nodes.Compare, frame: Frame) -> None:  # noqa: N802
        self._write_made(super().visit_Compare, node, frame)

    def visit_Tuple(self, node: nodes.Tuple, frame: Frame) -> None:  # noqa: N802
        if node.ctx == "load":
            self._write_made(super().visit_Tuple, node, frame)
        else:
            super().visit_Tuple(node, frame)

    def visit_Getitem(self, node: nodes.Getitem, frame: Frame) -> None:  # noqa: N802
        if isinstance(node.arg, nodes.Slice):
            self._write_made(super().visit_Getitem, node, frame)
        else:
            super().visit_Getitem(node, frame)


class _Counting(Extension):
    """Bounds the time and the number of tokens of a compilation."""

    environment: Sandbox

    def filter_stream(self, stream: TokenStream) -> Iterator[Token]:
        most = self.environment.allowance.limits.source_tokens
        for count, token in enumerate(stream):
            self.environment.tick()
            if count >= most:
                raise LimitExceededError(tr("it is too long"))
            yield token


class _Generation(Extension):
    """`{% generation %}` marks what a model wrote, for training; here it only groups."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> nodes.Node:
        line = next(parser.stream).lineno
        body = parser.parse_statements(("name:endgeneration",), drop_needle=True)
        return nodes.Scope(body).set_lineno(line)
