"""`decodeck bench`: its options and what each of them runs. Knows no measurement and no table.

Imports only what the chosen report needs, when it needs it.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from engine.errors import WishError
from engine.types import LoadSpec

DEFAULT_REPEAT = 5
MOST_BATCH = 64
_FLAGS = {"contexts": "--context", "batches": "--batch", "formats": "--format"}


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What the command line knows and the bench does not: models, the common wish, standard error."""

    model: Callable[[], Path]  # the one that every command would use
    starter: Callable[[], Path]
    wish: LoadSpec  # without a path
    say: Callable[[str], None]


def add_options(parser: argparse.ArgumentParser) -> None:
    """All options of the command but the ones that other commands have too."""
    parser.argument_default = argparse.SUPPRESS
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--model", metavar="PATH", help="GGUF file or Hugging Face folder")
    which.add_argument("--random", metavar="SHAPE:TYPES", help="random weights, such as 1B:Q4_K_M,head=Q8_0")
    parser.add_argument("--format", "--quant", dest="formats", metavar="F,F", help="as for chat, several")
    parser.add_argument(
        "--context", dest="contexts", metavar="N,N", help="tokens in the cache, default 0,2048"
    )
    parser.add_argument("--batch", dest="batches", metavar="N,N", help="sequences at once, default 1")
    parser.add_argument("--kv", metavar="BITS", help="auto, 32, 16, 8 or 4")
    parser.add_argument("--device", metavar="DEVICE", help="auto or cpu")
    parser.add_argument("--threads", type=int, metavar="N", help="default: one for each physical core")
    parser.add_argument("--repeat", type=int, metavar="N", help="rounds, default 5")
    parser.add_argument("--tokens", type=int, metavar="N", help="of --quality: how much text, default 16,384")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--against", metavar="llama-cpp", help="the same file in another engine, in turn")
    what.add_argument("--roofline", nargs="*", metavar="GOAL", help="every goal, or the named ones")
    what.add_argument("--kernels", action="store_true", help="every kernel on the model's matrices")
    what.add_argument("--quality", action="store_true", help="perplexity and KL divergence by format")
    what.add_argument("--speculation", action="store_true", help="what drafts bring on recorded answers")
    what.add_argument("--predict", action="store_true", help="predictions beside what comes of them")


def run(arguments: argparse.Namespace, around: Surroundings) -> int:
    """Measure and print. Raises WishError for options that cannot be, and what measuring raises."""
    from app.bench import tables
    from engine.hardware.probe import probe

    if around.wish.device not in ("auto", "cpu"):
        raise WishError(
            f"Device {around.wish.device!r} cannot be measured in this version.", "Choose auto or cpu."
        )
    if _repeat(arguments) < 1:
        raise WishError(f"--repeat {arguments.repeat} cannot be used.", "Give 1 or more.")
    if "tokens" in arguments and "quality" not in arguments:
        raise WishError("--tokens says how much text --quality reads.", "Give both, or leave it out.")
    if "against" in arguments:
        measure, lines = _against, tables.ratio_lines
    elif "roofline" in arguments:
        measure, lines = _roofline, tables.goal_lines
    elif "kernels" in arguments:
        measure, lines = _kernels, tables.kernel_lines
    elif "quality" in arguments:
        measure, lines = _quality, tables.quality_lines
    elif "speculation" in arguments:
        measure, lines = _speculation, tables.speculation_lines
    elif "predict" in arguments:
        from app.bench.predict_tables import predict_lines

        measure, lines = _predict, predict_lines
    else:
        measure, lines = _runs, tables.run_lines
    report = {"hardware": asdict(probe())} | measure(arguments, around)
    print(json.dumps(report) if "json" in arguments else "\n".join(lines(report)))
    return 0


def _runs(arguments: argparse.Namespace, around: Surroundings) -> dict[str, Any]:
    from app.bench.runs import Grid, run_grid

    formats = tuple(_texts(arguments, "formats")) or (around.wish.format,)
    contexts = _numbers(arguments, "contexts", "0,2048", 0, 1 << 24)
    grid = Grid(formats, contexts, _numbers(arguments, "batches", "1", 1, MOST_BATCH))
    return run_grid(_wish(arguments, around), grid, _repeat(arguments), around.say)


def _against(arguments: argparse.Namespace, around: Surroundings) -> dict[str, Any]:
    from app.bench.against import compare
    from app.bench.contenders import require_llama_cpp

    if "contexts" in arguments or "batches" in arguments or around.wish.context:
        raise WishError("--against chooses contexts and batches itself.", "Leave them out.")
    if arguments.against != "llama-cpp":
        raise WishError(f"There is no engine {arguments.against!r} to compare with.", "Give llama-cpp.")
    formats = _texts(arguments, "formats") or [around.wish.format]
    if len(formats) > 1:
        raise WishError("--against compares one format.", "Give one with --format.")
    require_llama_cpp()  # before a model is fetched or written
    return compare(replace(_wish(arguments, around), format=formats[0]), _repeat(arguments), around.say)


def _roofline(arguments: argparse.Namespace, around: Surroundings) -> dict[str, Any]:
    from app.bench.goals import GOALS
    from app.bench.roofline import chosen, measure_goals

    threads = around.wish.threads
    has_choice = any(name in arguments for name in (*_FLAGS, "model", "random"))
    if has_choice or around.wish != LoadSpec("", threads=threads):
        raise WishError("--roofline chooses models, formats and contexts itself.", "Leave them out.")
    return measure_goals(
        chosen(GOALS, arguments.roofline), threads, _repeat(arguments), around.starter, around.say
    )


def _kernels(arguments: argparse.Namespace, around: Surroundings) -> dict[str, Any]:
    from app.bench.kernels import measure_kernels

    if "contexts" in arguments or "batches" in arguments or around.wish.context:
        raise WishError("--kernels times matrices alone.", "Leave contexts and batches out.")
    formats = _texts(arguments, "formats") or [around.wish.format]
    if len(formats) > 1:
        raise WishError("--kernels measures the matrices of one format.", "Give one with --format.")
    wish = replace(_wish(arguments, around), format=formats[0])
    return measure_kernels(wish, _repeat(arguments), around.say)


def _quality(arguments: argparse.Namespace, around: Surroundings) -> dict[str, Any]:
    from app import paths
    from app.atomic_file import StorageError
    from app.bench.quality import DEFAULT_TOKENS, LEAST_TOKENS, cases, measure_quality
    from app.fingerprint import fingerprint
    from app.quality_record import MeasuredModel, keep
    from engine.models.spec import read_spec

    if "contexts" in arguments or "batches" in arguments or around.wish.context:
        raise WishError("--quality reads windows of its own length.", "Leave contexts and batches out.")
    if "repeat" in arguments:
        raise WishError("--quality has nothing to repeat: it measures no speed.", "Leave --repeat out.")
    tokens = getattr(arguments, "tokens", DEFAULT_TOKENS)
    if tokens < LEAST_TOKENS:
        raise WishError(f"--tokens {tokens} cannot be used.", f"Give {LEAST_TOKENS} or more.")
    formats = _texts(arguments, "formats") or [each for each in [around.wish.format] if each != "auto"]
    wish = _wish(arguments, around)
    spec = read_spec(wish.path)
    content = fingerprint(spec)  # of what is measured, should it be replaced meanwhile
    measured = measure_quality(wish, cases(formats, wish.kv), tokens, around.say)
    try:
        keep(paths.quality_file(), MeasuredModel(content, spec.name, measured.figures()))
        around.say("kept; the window shows it beside the formats")
    except StorageError as error:
        around.say(f"not kept for the window. {error}")
    return {"model": wish.path} | measured.as_json()


def _speculation(arguments: argparse.Namespace, around: Surroundings) -> dict[str, Any]:
    from app.bench.speculation import measure_speculation

    if "contexts" in arguments or "batches" in arguments or around.wish.context:
        raise WishError("--speculation reads chats of its own.", "Leave contexts and batches out.")
    formats = _texts(arguments, "formats") or [around.wish.format]
    if len(formats) > 1:
        raise WishError("--speculation measures one format.", "Give one with --format.")
    wish = replace(_wish(arguments, around), format=formats[0])
    # A random model has bytes for tokens, as none does that is used.
    words = around.starter() if "random" in arguments else None
    return measure_speculation(wish, words, _repeat(arguments), around.say)


def _predict(arguments: argparse.Namespace, around: Surroundings) -> dict[str, Any]:
    from app.bench import make_model, model_types
    from app.bench.predict import CONTEXT, Case, cases, measure_predictions

    def random_model(shape: str, types: str) -> Path:
        return make_model.ensure(model_types.shape_named(shape), model_types.parse_mix(types), around.say)

    if "contexts" in arguments or "batches" in arguments:
        raise WishError("--predict fills a context of its own.", "Leave contexts and batches out.")
    formats = _texts(arguments, "formats") or [around.wish.format]
    if "model" in arguments or "random" in arguments:
        path = _wish(arguments, around).path
        chosen = iter([Case(Path(path).name, path, format) for format in formats])
    else:
        chosen = (each for each in cases(random_model) if formats == ["auto"] or each.format in formats)
    context = around.wish.context or CONTEXT
    return measure_predictions(chosen, around.wish, _repeat(arguments), around.say, context)


def _wish(arguments: argparse.Namespace, around: Surroundings) -> LoadSpec:
    """The common wish with a model: that of --random, written where it is missing, else the usual one."""
    if "random" not in arguments:
        return replace(around.wish, path=str(around.model()))
    from app.bench import make_model, model_types

    shape, _, types = arguments.random.partition(":")
    mix = model_types.parse_mix(types)
    return replace(around.wish, path=str(make_model.ensure(model_types.shape_named(shape), mix, around.say)))


def _repeat(arguments: argparse.Namespace) -> int:
    rounds: int = getattr(arguments, "repeat", DEFAULT_REPEAT)
    return rounds


def _texts(arguments: argparse.Namespace, name: str) -> list[str]:
    """Words between commas; none where the option is not given. Raises WishError for empty ones."""
    if name not in arguments:
        return []
    words = [text.strip() for text in getattr(arguments, name).split(",")]
    if not all(words):
        hint = f"Give names between commas, such as {_FLAGS[name]} int8,int4, or leave it out."
        raise WishError(f"{_FLAGS[name]} {getattr(arguments, name)!r} names nothing.", hint)
    return words


def _numbers(
    arguments: argparse.Namespace, name: str, default: str, least: int, most: int
) -> tuple[int, ...]:
    """Numbers between commas, each once. Raises WishError for anything else."""
    listed = getattr(arguments, name, default)
    try:
        numbers = tuple(dict.fromkeys(int(text) for text in listed.split(",")))
    except ValueError:
        numbers = ()
    if not numbers or not all(least <= number <= most for number in numbers):
        hint = f"Give numbers from {least} to {most}, such as {_FLAGS[name]} {default}."
        raise WishError(f"{_FLAGS[name]} {listed} cannot be used.", hint)
    return numbers
