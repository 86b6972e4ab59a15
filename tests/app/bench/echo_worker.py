"""A worker for the protocol's tests: it answers, refuses, fails, prints, hangs and dies on command."""

from __future__ import annotations

import os
import sys
import threading
from typing import Any

from app.bench.serving import serve
from engine.errors import WishError


def echo(**values: Any) -> dict[str, Any]:
    return values


def refuse() -> dict[str, Any]:
    raise WishError("No.", "Ask for less.")


def fail() -> dict[str, Any]:
    raise ZeroDivisionError("by zero")


def chatter() -> dict[str, Any]:
    print("a library says hello")
    os.write(1, b"so does another\n")
    return {"done": True}


def hang() -> dict[str, Any]:
    threading.Event().wait()
    return {}


def die(code: int) -> dict[str, Any]:
    print("first line\nlast words", file=sys.stderr, flush=True)
    os._exit(code)


if __name__ == "__main__":
    commands = (echo, refuse, fail, chatter, hang, die)
    serve({command.__name__: command for command in commands})
