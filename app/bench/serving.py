"""The worker's side of the bench protocol: one JSON object a line on standard input, one answer a line.

    {"do": "decode", "tokens": 32, "depth": 0}  →  {"ok": {"seconds": 0.5}}
                                               or  {"error": {"kind": …, "message": …, "hint": …}}

Knows lines and errors; not what the commands do.
"""

from __future__ import annotations

import json
import os
import queue
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from typing import Any, TextIO

from app import turns
from engine.errors import EngineError

Handler = Callable[..., Mapping[str, Any]]


def serve(handlers: Mapping[str, Handler]) -> None:
    """Answer commands one after another until `quit`. Waiting costs no processor time.

    The end of standard input ends the process at once, in the middle of a command too: whoever asked has
    gone. Ctrl+C is left to the asker.
    """
    turns.shorten()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    answers = _own_stdout()
    lines: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(lines,), daemon=True).start()
    while True:
        command = json.loads(lines.get())
        name = command.pop("do")
        reply = {"ok": {}} if name == "quit" else _answer(handlers[name], command)
        answers.write(json.dumps(reply) + "\n")
        answers.flush()
        if name == "quit":
            os._exit(0)


def _own_stdout() -> TextIO:
    """Standard output for answers alone: what a library prints there goes to standard error."""
    own = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    return own


def _read(lines: queue.SimpleQueue[str]) -> None:
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


def _answer(handler: Handler, arguments: Mapping[str, Any]) -> dict[str, object]:
    try:
        return {"ok": handler(**arguments)}
    except EngineError as error:
        return {"error": {"kind": error.kind, "message": error.message, "hint": error.hint}}
    except Exception as error:
        traceback.print_exc()
        return {"error": {"kind": "bug", "message": f"{type(error).__name__}: {error}", "hint": ""}}
