"""The command line of Decodeck. Qt and torch are imported only inside the command that needs them."""

from __future__ import annotations

import argparse
import io
import json
import logging
import os
import sys
import threading
from collections.abc import Sequence
from dataclasses import fields, replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from app import turns
from app.bench import command as bench
from app.bench.command import Surroundings
from engine.errors import EngineError, MemoryLimitError, WishError
from engine.types import GenerateRequest, LoadPlan, LoadSpec, Message, SamplingParams

if TYPE_CHECKING:
    from app.settings import Settings

OK, OUR_FAULT, USER_FAULT, INTERRUPTED = 0, 1, 2, 130


class _Parser(argparse.ArgumentParser):
    """Errors are one line that says what to do, exit code 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(USER_FAULT, f"decodeck: {message}. See {self.prog} --help\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns 0 done, 1 our fault, 2 the user's or a file's, 130 interrupted."""
    turns.shorten()
    arguments = build_parser().parse_args(argv)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # an answer may hold what the terminal cannot show
            stream.reconfigure(errors="replace")
    try:
        code: int = arguments.run(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except EngineError as error:
        say(str(error))
        return INTERRUPTED if error.kind == "cancelled" else USER_FAULT
    except BrokenPipeError:
        # Whoever read our output has gone; there is nobody left to tell, and nothing to flush at the end.
        if sys.stdout is not None:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return OK
    except OSError as error:
        say(f"{error.strerror or error}. Nothing was changed.")
        return USER_FAULT
    except Exception:
        return _report_bug()
    return code


def build_parser() -> argparse.ArgumentParser:
    model, asked, settings = _model_options(), _asked_options(), _settings_option("set")
    parser = _Parser(
        prog="decodeck",
        description="Chat with a local model and see how fast it decodes.",
        parents=[model, _settings_option("set_first")],
    )
    parser.add_argument("--version", action="version", version=f"decodeck {version('decodeck')}")
    parser.set_defaults(run=run_window)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    chat = commands.add_parser("chat", parents=[model, asked, settings], help="one answer; streams text")
    chat.add_argument("prompt", metavar="PROMPT", help="the message, or - to read it from standard input")
    _sampling_options(chat)
    chat.set_defaults(run=run_chat)
    fetch = commands.add_parser("fetch", parents=[asked], help="download the starter model")
    fetch.set_defaults(run=run_fetch)
    measure = commands.add_parser("bench", parents=[asked, settings], help="measure speed and memory")
    bench.add_options(measure)
    measure.set_defaults(run=run_bench)
    smoke = commands.add_parser("smoke", parents=[model, asked, settings], help="drive the window")
    smoke.add_argument("--screenshot", metavar="F.png", type=Path, help="save a picture of the window")
    smoke.set_defaults(run=run_smoke)
    return parser


def _model_options() -> _Parser:
    """Which model, and how it is loaded."""
    options = _Parser(add_help=False, argument_default=argparse.SUPPRESS)
    options.add_argument("--model", metavar="PATH", help="GGUF file or Hugging Face folder")
    options.add_argument("--format", "--quant", metavar="FORMAT", help="auto, file, f32 (32) or bf16 (16)")
    options.add_argument("--context", type=int, metavar="N", help="context length in tokens")
    options.add_argument("--kv", metavar="BITS", help="auto, 32 or 16")
    options.add_argument("--device", metavar="DEVICE", help="auto or cpu")
    options.add_argument("--threads", type=int, metavar="N", help="default: one for each physical core")
    return options


def _asked_options() -> _Parser:
    """What a command that ends by itself can be told."""
    options = _Parser(add_help=False, argument_default=argparse.SUPPRESS)
    options.add_argument("--offline", action="store_true", help="never download anything")
    options.add_argument("--json", action="store_true", help="one JSON object on standard output")
    return options


def _settings_option(dest: str) -> _Parser:
    """``dest`` differs before and after the command's name: argparse would drop the first of two lists."""
    options = _Parser(add_help=False, argument_default=argparse.SUPPRESS)
    options.add_argument(
        "--set", dest=dest, action="append", metavar="NAME=VALUE", help="a setting for this run"
    )
    return options


def changes(arguments: argparse.Namespace) -> tuple[str, ...]:
    """Every NAME=VALUE of the command line, in order."""
    return (*getattr(arguments, "set_first", ()), *getattr(arguments, "set", ()))


def _sampling_options(chat: argparse.ArgumentParser) -> None:
    """Options of one answer; what is not given comes from the settings."""
    chat.argument_default = argparse.SUPPRESS
    chat.add_argument("--system", metavar="TEXT", help="instructions that come before the message")
    chat.add_argument("--max-tokens", type=int, metavar="N")
    chat.add_argument("--temperature", type=float, metavar="T", help="0 is greedy")
    chat.add_argument("--top-k", type=int, metavar="K")
    chat.add_argument("--top-p", type=float, metavar="P")
    chat.add_argument("--min-p", type=float, metavar="P")
    chat.add_argument("--seed", type=int, metavar="S")
    chat.add_argument("--repeat-penalty", type=float, metavar="R")
    chat.add_argument("--stop", action="append", metavar="TEXT")


def load_spec(arguments: argparse.Namespace, path: Path | str) -> LoadSpec:
    """The wish that the common options state; --set format and context count as if given by their options."""
    from app.settings import Settings, with_value

    chosen, named = Settings(), set()
    for change in changes(arguments):
        chosen = with_value(chosen, change)
        named.add(change.partition("=")[0].strip())
    given = {name: getattr(chosen, name) for name in ("format", "context") if name in named} | vars(arguments)
    names = ("format", "context", "kv", "device", "threads")
    place = str(Path(path).expanduser().absolute()) if path else ""
    return LoadSpec(place, **{name: given[name] for name in names if name in given})


def run_chat(arguments: argparse.Namespace) -> int:
    request = _request(arguments)  # first: a wrong value must not cost a download
    plan = _plan(arguments, model_path(arguments))
    from app import answer, paths
    from engine.engine import Engine

    if sys.stdout is None:
        raise WishError("Standard output is closed.", "Run decodeck chat where its answer can be read.")
    as_json = "json" in arguments
    if plan.hardware.native_missing:
        say(plan.hardware.native_missing)
    engine = Engine(kernel_times=paths.kernel_times_file())
    loaded = answer.load(engine, plan)
    for warning in loaded.warnings:
        say(warning)

    def show(text: str) -> None:
        if not as_json:
            sys.stdout.write(text)
            sys.stdout.flush()

    result = answer.ask(engine, request, on_text=show, on_note=say)
    if as_json:
        print(json.dumps(answer.report(loaded.plan, loaded.kernels, result.finished, result.memory)))
    else:
        print()
    if result.failed:
        say(f"{result.failed.message} {result.failed.hint}")
        return USER_FAULT
    return OK


def _request(arguments: argparse.Namespace) -> GenerateRequest:
    from engine.decode.limits import checked

    prompt = _read_prompt() if arguments.prompt == "-" else arguments.prompt
    if not prompt.strip():
        raise WishError("The message is empty.", "Give a PROMPT, or - and some text on standard input.")
    chosen, given = _settings(arguments), vars(arguments)
    max_tokens = given.get("max_tokens", chosen.max_tokens)
    if max_tokens is not None and max_tokens < 1:
        raise WishError(f"--max-tokens {max_tokens} cannot be used.", "Give 1 or more.")
    system = given.get("system", chosen.system_prompt)
    messages = (*((Message("system", system),) if system else ()), Message("user", prompt))
    names = [field.name for field in fields(SamplingParams)]
    sampling = replace(chosen.sampling(), **{name: given[name] for name in names if name in given})
    stops = tuple(text for text in given.get("stop", ()) if text)
    return GenerateRequest("chat", messages, checked(sampling), max_tokens, stops)


def _read_prompt() -> str:
    if sys.stdin is None:
        raise WishError("Standard input is closed.", "Give the message as PROMPT.")
    try:
        text = sys.stdin.read()
        text.encode()  # Python may have smuggled undecodable bytes in as lone surrogates
        return text
    except UnicodeError:
        raise WishError("Standard input is not UTF-8 text.", "Give plain text.") from None


def _settings(arguments: argparse.Namespace) -> Settings:
    """The saved settings, changed by --set for this run; read once, a damaged file is set aside only once."""
    from app import settings

    if "chosen" not in arguments:
        arguments.chosen, notice = settings.load()
        if notice:
            say(notice)
        for change in changes(arguments):
            arguments.chosen = settings.with_value(arguments.chosen, change)
    chosen: Settings = arguments.chosen
    return chosen


def _plan(arguments: argparse.Namespace, path: Path) -> LoadPlan:
    """The plan of the options, refused here where it does not fit."""
    from app import paths
    from engine.fit.plan import plan, training_sentence
    from engine.hardware.probe import probe
    from engine.models.spec import read_spec

    spec = read_spec(str(path))
    result = plan(spec, probe(paths.kernel_times_file()), load_spec(arguments, path))
    if result.verdict == "no":
        raise MemoryLimitError(
            f"{spec.name} does not fit in memory: {result.reasons[0]}",
            "Choose a smaller format or a shorter context.",
        )
    if result.exceeds_training:
        say(training_sentence(spec))
    return result


def model_path(arguments: argparse.Namespace) -> Path:
    """The model to use: --model, else the last used, else the starter, fetched with a line on stderr."""
    from app import starter

    if "model" in arguments:
        if not arguments.model:
            raise WishError("--model needs a path.", "Give a GGUF file or a model folder.")
        return Path(arguments.model).expanduser().absolute()
    found = starter.usable(_settings(arguments).last_model)
    if found:
        return found
    if "offline" in arguments:
        raise WishError(
            "There is no model on this computer.", "Run decodeck fetch while online, or give --model PATH."
        )
    say(f"fetching the starter model ({starter.MODEL_BYTES / 1e6:.0f} MB)")
    return _fetch_starter()


def starter_path(arguments: argparse.Namespace) -> Path:
    """The starter model, fetched where it is missing."""
    from app import starter

    path = starter.installed_path()
    if path is None and "offline" in arguments:
        raise WishError("The starter model is not on this computer.", "Run decodeck fetch without --offline.")
    return path or _fetch_starter()


def run_fetch(arguments: argparse.Namespace) -> int:
    path = starter_path(arguments)
    if "json" in arguments:
        print(json.dumps({"model": str(path), "bytes": path.stat().st_size}))
    else:
        print(path)
    return OK


def _fetch_starter() -> Path:
    """Download with a progress line; Ctrl+C keeps the part, so that the next run resumes."""
    from app import starter
    from app.download import DownloadProgress

    is_terminal = sys.stderr.isatty()
    shown = -1

    def show(progress: DownloadProgress) -> None:
        nonlocal shown
        percent = 100 * progress.done_bytes // max(1, progress.total_bytes)
        if percent == shown or (not is_terminal and percent % 10):
            return
        shown = percent
        megabytes = f"{progress.done_bytes / 1e6:.0f} of {progress.total_bytes / 1e6:.0f} MB"
        line = f"{progress.phase} {megabytes} · {percent}%"
        sys.stderr.write(f"\r\x1b[K{line}" if is_terminal else f"{line}\n")
        sys.stderr.flush()

    try:
        return starter.ensure(show, threading.Event())
    finally:
        if is_terminal:
            sys.stderr.write("\n")


def run_window(arguments: argparse.Namespace) -> int:
    from app import platform_check

    platform_check.check()
    from app.main import run

    return run(arguments)


def run_smoke(arguments: argparse.Namespace) -> int:
    path = model_path(arguments)
    _plan(arguments, path)  # what cannot be loaded is said before a window opens
    from app.smoke import run

    return run(arguments, path)


def run_bench(arguments: argparse.Namespace) -> int:
    around = Surroundings(
        model=lambda: model_path(arguments),
        starter=lambda: starter_path(arguments),
        wish=load_spec(arguments, ""),
        say=say,
    )
    return bench.run(arguments, around)


def say(line: str) -> None:
    """One line on standard error, if there is one; print would take standard output instead."""
    if sys.stderr is not None:
        print(f"decodeck: {line}", file=sys.stderr)


def _report_bug() -> int:
    from app import logs

    try:
        path = logs.start()
        logging.getLogger("app.cli").exception("a command failed")
        logs.stop()
    except (OSError, RuntimeError):  # a home folder that cannot even be named
        path = None
    say(f"Something went wrong inside Decodeck. The details are in {path or 'no file: the log failed too'}.")
    return OUR_FAULT


if __name__ == "__main__":
    sys.exit(main())
