"""`decodeck fit`: what would fit, and how fast it would be, from the model's header and the machine's facts.

Loads nothing, and imports torch only where there may be a GPU to look for.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from app.bench.tables import aligned
from app.quality_record import QualityFigure, figure_of
from engine.errors import WishError
from engine.fit import advice
from engine.fit.choices import default_context
from engine.machine import Gpu, Hardware
from engine.types import LoadPlan, LoadSpec, MemoryParts, ModelSpec

ALL = "all"
_TITLES: tuple[str, ...] = ("format", "context", "KV", "memory", "verdict", "empty", "half", "full")
_TITLES += ("first token", "longest", "quality")
_UNITS = ("", "", "bits", "GB", "", "tok/s", "tok/s", "tok/s", "s of 1k", "tokens", "perplexity")


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: a wish, whether for all formats and contexts, and what is preferred."""

    wish: LoadSpec  # with a path
    all_formats: bool
    all_contexts: bool
    preference: str


@dataclass(frozen=True, slots=True)
class _Row:
    """A plan with what belongs to its format and KV precision."""

    made: LoadPlan
    longest: int | None
    figure: QualityFigure | None


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options beside those of a load; with them ``--context`` may be all."""
    parser.argument_default = argparse.SUPPRESS
    parser.add_argument("--draft", metavar="MODEL", help="with a smaller model that guesses tokens")
    parser.add_argument(
        "--prefer",
        choices=advice.PREFERENCES,
        metavar="WHAT",
        help=f"of what is recommended: {', '.join(advice.PREFERENCES)}",
    )


def context_type(text: str) -> int | str:
    """A context of the command line: a number, or all."""
    try:
        return ALL if text == ALL else int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number of tokens nor {ALL}") from None


def run(question: Question, as_json: bool, say: Callable[[str], None]) -> int:
    """Print the report. Raises what reading a header and planning raise, WishError for what cannot be."""
    from app import paths, quality_record
    from engine.hardware.probe import probe
    from engine.models.spec import read_spec

    wish = question.wish
    spec = read_spec(wish.path)
    draft = _draft(spec, wish.draft) if wish.draft else None
    hardware = _with_gpus(probe(paths.kernel_times_file()), wish)
    started = time.perf_counter()
    plans = _plans(question, spec, hardware, draft)
    seconds = time.perf_counter() - started
    rows = _rows(plans, spec, hardware, draft, quality_record.figures_of(spec, paths.quality_file()))
    best = advice.recommend(spec, hardware, wish, question.preference, draft=draft)
    if as_json:
        print(json.dumps(_report(spec, hardware, rows, best)))
        return 0
    print("\n".join(_lines(spec, hardware, rows, best)))
    say(f"{len(plans)} plan{'s' * (len(plans) > 1)} in {1e3 * seconds:.1f} ms; nothing was loaded")
    return 0


def _draft(target: ModelSpec, path: str) -> ModelSpec:
    """The header of a draft model. Raises what loading it beside ``target`` would."""
    from engine.fit.draft import check_trims
    from engine.models.spec import read_spec
    from engine.text import tokenizer
    from engine.text.same_vocabulary import check_same

    spec = read_spec(path)
    check_trims(target, spec)
    check_same(tokenizer.load(target.path), tokenizer.load(path), spec.name)
    return spec


def _plans(
    question: Question, spec: ModelSpec, hardware: Hardware, draft: ModelSpec | None
) -> tuple[LoadPlan, ...]:
    """Those asked for, formats outer."""
    wish = question.wish
    formats: Sequence[str] = (wish.format,)
    contexts: Sequence[int] = (wish.context or default_context(spec),)
    if question.all_formats:
        formats = advice.usable_formats(spec, hardware, wish)
    if question.all_contexts:
        contexts = advice.context_steps(spec)
    return advice.grid(spec, hardware, wish, formats, contexts, draft=draft)


def _rows(
    plans: Sequence[LoadPlan],
    spec: ModelSpec,
    hardware: Hardware,
    draft: ModelSpec | None,
    figures: tuple[QualityFigure, ...],
) -> list[_Row]:
    longest: dict[str, int | None] = {}
    for made in plans:
        if made.format not in longest:
            asked = replace(made.wish, format=made.format)
            longest[made.format] = advice.longest_context(spec, hardware, asked, draft=draft)
    return [_Row(made, longest[made.format], figure_of(made, figures)) for made in plans]


def _with_gpus(hardware: Hardware, wish: LoadSpec) -> Hardware:
    """The machine with its GPUs, where the wish lets one be used."""
    from engine.hardware.presence import may_have_gpu

    if wish.device == "cpu":
        return hardware
    if not may_have_gpu():
        return replace(hardware, gpus=())
    from engine.hardware.gpus import GpuProbe

    return replace(hardware, gpus=GpuProbe().read())


def _report(spec: ModelSpec, hardware: Hardware, rows: Sequence[_Row], best: advice.Advice) -> dict[str, Any]:
    """The JSON object of ``decodeck fit``."""
    chosen = best.plan
    return {
        "hardware": _hardware(hardware),
        "model": spec.path,
        "params": spec.num_params,
        "plans": [_plan(row) for row in rows],
        "recommended": {
            "format": chosen.format,
            "context": chosen.context,
            "kv_bits": chosen.kv_bits,
            "verdict": chosen.verdict,
            "reason": best.reason,
        },
    }


def _hardware(hardware: Hardware) -> dict[str, Any]:
    """The machine's facts, and what its GPUs tell at the moment."""
    from engine.hardware.sensors import GpuSensors

    found = asdict(replace(hardware, kernel_times=()))
    known = hardware.calibration
    found["calibration"] = known and {"read_gbps": known.read_gbps, "when": known.when, "basis": known.basis}
    if hardware.gpus:
        readings = GpuSensors().read(hardware.gpus)
        found["gpus"] = [
            asdict(gpu) | asdict(seen) for gpu, seen in zip(hardware.gpus, readings, strict=True)
        ]
    return found


def _plan(row: _Row) -> dict[str, Any]:
    from engine.fit.speed import predict

    made, speed = row.made, predict(row.made)
    return {
        "format": made.format,
        "context": made.context,
        "kv_bits": made.kv_bits,
        "devices": [
            {"name": share.name, "free_bytes": share.free_bytes, "bytes": _parts(share.bytes)}
            for share in made.devices
        ],
        "bytes": _parts(made.bytes),
        "verdict": made.verdict,
        "reasons": list(made.reasons),
        "decode_tps": {"empty": speed.empty, "half": speed.half, "full": speed.full},
        "ttft_s_1k": speed.ttft_1k_s,
        "band": speed.band,
        "basis": speed.basis,
        "max_context": row.longest,
        "quality": row.figure
        and {
            "perplexity": row.figure.perplexity,
            "reference_perplexity": row.figure.reference_perplexity,
            "kl": row.figure.kl,
            "tokens": row.figure.tokens,
        },
    }


def _parts(parts: MemoryParts) -> dict[str, int]:
    return asdict(parts) | {"total": parts.total}


def _lines(spec: ModelSpec, hardware: Hardware, rows: Sequence[_Row], best: advice.Advice) -> list[str]:
    """The report for a terminal."""
    parameters = f"{spec.num_params / 1e9:.2f} billion parameters"
    lines = [f"{spec.name}: {parameters}, {spec.weight_bits:.1f} bits each in the file"]
    lines += _machine_lines(hardware)
    lines += ["", *aligned([_TITLES, _UNITS, *map(_cells, rows)]), ""]
    if len(rows) == 1:
        lines += [f"{rows[0].made.verdict}: {reason}" for reason in rows[0].made.reasons[:1]]
        lines += list(rows[0].made.reasons[1:])
    own = _gb(rows[0].made.ram_bytes.overhead)
    lines.append(f"Memory and what is spare leave out the program itself, {own} GB.")
    lines += _band_lines(rows)
    chosen = best.plan
    what = f"{chosen.format}, {chosen.context:,} tokens, {chosen.kv_bits}-bit KV"
    return [*lines, f"Recommended: {what}. {best.reason}"]


def _band_lines(rows: Sequence[_Row]) -> list[str]:
    """How far off the speeds may be, and what they rest on: for all formats alike, or each by its own."""
    formats: dict[str, list[str]] = {}
    for row in rows:
        speed = _speed(row.made)
        said = f"±{100 * speed.band:.0f} %, {_BASES[speed.basis]}."
        listed = formats.setdefault(said, [])
        if row.made.format not in listed:
            listed.append(row.made.format)
    if len(formats) == 1:
        return [f"Speeds are {said}" for said in formats]
    return [f"Speeds of {', '.join(names)} are {said}" for said, names in formats.items()]


_BASES = {
    "measured": "measured on this machine",
    "corrected": "measured on this machine and corrected by real answers",
    "default": "estimated: not measured here yet",
}


def _speed(made: LoadPlan) -> Any:
    from engine.fit.speed import predict

    return predict(made)


def _machine_lines(hardware: Hardware) -> list[str]:
    ram = f"{_gb(hardware.ram_free_bytes)} of {_gb(hardware.ram_total_bytes)} GB free"
    lines = [
        f"{hardware.cpu_name}, {hardware.physical_cores} cores, {hardware.native or 'no'} kernels, {ram}"
    ]
    return lines + [_gpu_line(gpu) for gpu in hardware.gpus or ()]


def _gpu_line(gpu: Gpu) -> str:
    shared = ", shared with the processor" if gpu.shares_ram else ""
    return f"{gpu.name} ({gpu.device}), {_gb(gpu.free_bytes)} of {_gb(gpu.total_bytes)} GB free{shared}"


def _gb(nbytes: int | None) -> str:
    return "unknown" if nbytes is None else f"{nbytes / 1e9:.2f}"


def _cells(row: _Row) -> tuple[str, ...]:
    made, speed = row.made, _speed(row.made)
    keys = f"/{made.key_bits}" if made.key_bits not in (None, made.kv_bits) else ""
    return (
        made.format,
        f"{made.context:,}",
        f"{made.kv_bits}{keys}",
        " + ".join(_gb(share.needed_bytes) for share in made.devices),
        made.verdict,
        f"{speed.empty:.1f}",
        f"{speed.half:.1f}",
        f"{speed.full:.1f}",
        f"{speed.ttft_1k_s:.1f}",
        "?" if row.longest is None else f"{row.longest:,}",
        f"{100 * row.figure.change:+.1f} %" if row.figure else "–",
    )


def question(arguments: argparse.Namespace, wish_of: Callable[[Path], LoadSpec], path: Path) -> Question:
    """From the command line's words, of which ``all`` is none of a wish: ``wish_of`` reads the others."""
    all_formats = getattr(arguments, "format", "") == ALL
    all_contexts = getattr(arguments, "context", None) == ALL
    for name, is_all in (("format", all_formats), ("context", all_contexts)):
        if is_all:
            delattr(arguments, name)
    if getattr(arguments, "draft", None) == "":
        raise WishError("--draft needs a path.", "Give a GGUF file or a model folder.")
    return Question(wish_of(path), all_formats, all_contexts, getattr(arguments, "prefer", "quality"))
