"""Every goal of performance of the program, and how each is measured."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from app.bench import child
from app.bench.contenders import Ours, file_step_bytes
from app.bench.interleave import Samples, Spread, ratios, values
from app.bench.lab import Lab
from app.bench.lengths import DECODE_STEPS, DEEP_TOKENS, MOST_LOADS, PROMPT_TOKENS
from app.bench.process import WorkerError
from app.bench.quality import DEFAULT_TOKENS, FILE_EXACT_KV, measure_quality
from app.bench.roofline import AT_LEAST, BELOW, Goal, Outcome
from app.bench.runs import bandwidth_fraction
from app.bench.speculation import Counted, chats, count, depth_of, time_stream
from app.bench.streams import EDIT, FREE, SUMMARY
from engine.models.spec import read_spec

BILLION = "1B"
RUNTIME_GROWTH_BYTES = 60_000_000  # what a runtime may grow by itself after its first product
_READ_PIECE_BYTES = 1 << 23

# Our 4-bit files, and llama.cpp's with as many bits in the file or more
_FOUR_BIT = {"Q4_0": ("Q4_0", "Q4_1", "Q4_K_M"), "Q4_K_M": ("Q4_K_M", "Q4_1")}


def decode_four_bit(lab: Lab) -> Outcome:
    """Each of our 4-bit files against the best of theirs; the worse of our results counts."""
    ours = {types: lab.ours(lab.random(BILLION, types)) for types in _FOUR_BIT}
    rivals = dict.fromkeys(rival for listed in _FOUR_BIT.values() for rival in listed)
    theirs = {types: lab.theirs(lab.random(BILLION, types)) for types in rivals}
    sides = {f"ours {types}": side for types, side in ours.items()} | {
        f"theirs {types}": side for types, side in theirs.items()
    }
    samples = lab.in_turn({name: _decode(side.step_s, 0) for name, side in sides.items()})
    results, notes, read = [], [], {}
    for types, listed in _FOUR_BIT.items():
        best = min(listed, key=lambda rival: Spread.of(values(samples, f"theirs {rival}")).median)
        results.append(_speed_ratio(samples, f"ours {types}", f"theirs {best}"))
        notes.append(f"{types} {results[-1].median:.2f} over their {best}")
        read[f"ours {types}"] = ours[types].held.step_bytes(0)
        read[f"theirs {best}"] = file_step_bytes(read_spec(theirs[best].path))
    return Outcome(min(results, key=lambda result: result.median), "; ".join(notes), read)


def decode_against(file: Callable[[Lab], Path]) -> Callable[[Lab], Outcome]:
    """The same file on both sides, in an empty context."""

    def measure(lab: Lab) -> Outcome:
        path = file(lab)
        ours, theirs = lab.ours(path), lab.theirs(path)
        samples = lab.in_turn({"ours": _decode(ours.step_s, 0), "theirs": _decode(theirs.step_s, 0)})
        note = _speeds_note(samples, 1)
        return Outcome(_speed_ratio(samples, "ours", "theirs"), note, _read_bytes(ours))

    return measure


def prefill_against(file: Callable[[Lab], Path]) -> Callable[[Lab], Outcome]:
    """The same file on both sides, a prompt of 512 tokens."""

    def measure(lab: Lab) -> Outcome:
        path = file(lab)
        ours, theirs = lab.ours(path), lab.theirs(path)
        samples = lab.in_turn(
            {
                "ours": lambda: ours.prefill_s(PROMPT_TOKENS),
                "theirs": lambda: theirs.prefill_s(PROMPT_TOKENS),
            }
        )
        note = _speeds_note(samples, PROMPT_TOKENS)
        return Outcome(_speed_ratio(samples, "ours", "theirs"), note, _read_bytes(ours))

    return measure


def bandwidth(lab: Lab) -> Outcome:
    """Bytes that decoding reads in a second, over the pulses beside it."""
    ours = lab.ours(_four_bit(lab))
    samples = lab.in_turn({"ours": _decode(ours.step_s, 0)})
    step_bytes = ours.held.step_bytes(DECODE_STEPS // 2)  # in the middle of the measurement
    spread = Spread.of(bandwidth_fraction(step, step_bytes) for step in samples["ours"])
    gbps = Spread.of(step.gbps for step in samples["ours"]).median
    return Outcome(spread, f"of {gbps:.1f} GB/s", {"ours": step_bytes})


def deep_over_empty(lab: Lab) -> Outcome:
    """Decode speed after 2,048 tokens over that in an empty context."""
    ours = lab.ours(_four_bit(lab))
    samples = lab.in_turn({"deep": _decode(ours.step_s, DEEP_TOKENS), "empty": _decode(ours.step_s, 0)})
    speeds = [1 / Spread.of(values(samples, name)).median for name in ("deep", "empty")]
    note = f"{speeds[0]:.1f} and {speeds[1]:.1f} tok/s, {ours.held.kv_bits}-bit KV"
    read = {"deep": ours.held.step_bytes(DEEP_TOKENS), "empty": ours.held.step_bytes(0)}
    return Outcome(_speed_ratio(samples, "deep", "empty"), note, read)


def rows_over_one(rows: int) -> Callable[[Lab], Outcome]:
    """Time of a step that verifies ``rows`` tokens of one sequence, over that of one token."""

    def measure(lab: Lab) -> Outcome:
        ours = lab.ours(_four_bit(lab))
        samples = lab.in_turn(
            {
                "many": lambda: ours.step_s(DECODE_STEPS, 0, rows=rows),
                "one": lambda: ours.step_s(DECODE_STEPS, 0, rows=1),
            }
        )
        many, one = (1e3 * Spread.of(values(samples, name)).median for name in ("many", "one"))
        return Outcome(_speed_ratio(samples, "one", "many"), f"{many:.1f} and {one:.1f} ms")

    return measure


def four_chats_over_one(lab: Lab) -> Outcome:
    """Tokens per second of four greedy chats together over those of one."""
    ours = lab.ours(_four_bit(lab))
    samples = lab.in_turn(
        {
            "four": lambda: ours.step_s(DECODE_STEPS, 0, batch=4),
            "one": lambda: ours.step_s(DECODE_STEPS, 0, batch=1),
        }
    )
    four, one = (num / Spread.of(values(samples, name)).median for name, num in (("four", 4), ("one", 1)))
    ratio = _speed_ratio(samples, "four", "one")
    spread = Spread(4 * ratio.median, 4 * ratio.min, 4 * ratio.max)
    return Outcome(spread, f"{four:.1f} and {one:.1f} tok/s")


def drafts_over_plain(file: Callable[[Lab], Path], kind: str) -> Callable[[Lab], Outcome]:
    """What drafts gain on a recorded answer, by counts; the clock's word is in the note. The tokens are the
    starter's: a random model has none that text is written in.
    """

    def measure(lab: Lab) -> Outcome:
        ours = lab.ours(file(lab))
        source, counted = _counted(lab, ours)
        timed = time_stream(ours, counted[kind].stream, source, lab.in_turn)
        clock = timed.gain
        note = f"by the clock {clock.median:.2f} ({clock.min:.2f}-{clock.max:.2f}); {timed.plain_tps:.1f}"
        note += f" and {timed.drafted_tps:.1f} tok/s"
        return Outcome(Spread.of([counted[kind].chosen.goodput]), note)

    return measure


def drafts_over_best_fixed(lab: Lab) -> Outcome:
    """What goodput gains over what the best fixed length does, by counts, on the worst kind of text."""
    _, counted = _counted(lab, lab.ours(lab.starter()))
    worst = min(counted.values(), key=lambda each: each.over_best)
    notes = (f"{kind} {each.over_best:.3f} of length {each.best}" for kind, each in counted.items())
    return Outcome(Spread.of([worst.over_best]), "; ".join(notes))


def _counted(lab: Lab, ours: Ours) -> tuple[str, dict[str, Counted]]:
    """All recorded chats by counts, and the model whose tokens they have."""
    source, streams = chats(read_spec(ours.path), lab.starter())
    costs = lab.row_costs(ours, depth_of(streams))
    return source, {kind: count(each, costs, ours.held.is_native) for kind, each in streams.items()}


def window(lab: Lab) -> Outcome:
    """Speed in the window over that without one: `decodeck smoke` in a process of its own."""
    command = ["smoke", "--json", "--model", str(lab.starter()), "--threads", str(lab.threads)]
    report = json.loads(_output_of(command))
    return Outcome(Spread(**report["decode_ratio"]), "decodeck smoke")


def load_over_read(lab: Lab) -> Outcome:
    """Seconds of Engine.load in fresh processes over seconds of reading the file once; both warm, in turn.

    The note has a second load in the same process too: where a system takes long to give out new memory, as
    virtual machines do, the difference is that and not the load's own work.
    """
    path = _four_bit(lab)
    read_s(path)
    samples: dict[str, list[float]] = {"load": [], "again": [], "read": []}
    for _ in range(min(lab.repeat, MOST_LOADS)):
        with closing(Ours(lab.wish(path))) as ours:
            samples["load"].append(ours.load_s)
            samples["again"].append(ours.load_again_s())
        samples["read"].append(read_s(path))
    ratios = [load / read for load, read in zip(samples["load"], samples["read"], strict=True)]
    load, again, read = (Spread.of(each).median for each in samples.values())
    note = f"{load:.2f} and {read:.2f} s; again in the same process {again:.2f} s, {again / read:.1f} times"
    return Outcome(Spread.of(ratios), note)


def read_s(path: Path) -> float:
    """Seconds of reading a file once with plain reads into one buffer."""
    buffer = bytearray(_READ_PIECE_BYTES)
    started = time.perf_counter()
    with path.open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass
    return time.perf_counter() - started


def growth_over_held(lab: Lab) -> Outcome:
    """Growth of resident memory after the first product, less what a runtime needs, over weights and KV."""
    ratios, notes = [], []
    for _ in range(min(lab.repeat, MOST_LOADS)):
        with closing(Ours(lab.wish(_four_bit(lab)))) as ours:
            ours.prefill_s(PROMPT_TOKENS)
            ours.step_s(DECODE_STEPS, PROMPT_TOKENS)
            memory = ours.memory()
        held = memory["memory_bytes"]["weights"] + memory["memory_bytes"]["kv_used"]
        ratios.append((memory["rss_growth_bytes"] - RUNTIME_GROWTH_BYTES) / held)
        notes.append(f"{memory['rss_growth_bytes'] / 1e6:.0f} MB for {held / 1e6:.0f} MB held")
    return Outcome(Spread.of(ratios), notes[-1])


def first_token(lab: Lab) -> Outcome:
    """Seconds from starting `decodeck chat` to the first byte of its answer; files are warm."""
    path = lab.starter()
    first_byte_s(path, lab.threads)
    return Outcome(Spread.of(first_byte_s(path, lab.threads) for _ in range(lab.repeat)), "decodeck chat")


def first_byte_s(path: Path, threads: int) -> float:
    """Seconds from the start of the process to the first byte on standard output."""
    options = ["--max-tokens", "4", "--temperature", "0", "--model", str(path), "--threads", str(threads)]
    started = time.perf_counter()
    with child.command(["chat", "Why is the sky blue?", *options]) as chat:
        assert chat.stdout is not None
        first = chat.stdout.read(1)
        seconds = time.perf_counter() - started
        _, said = chat.communicate()
    if not first:
        raise WorkerError("decodeck chat gave no answer.", _last_line(said))
    return seconds


def int8_activations(lab: Lab) -> Outcome:
    """What rounding activations to 8 bits costs, in % of perplexity: the file's bits against float32, which
    have the same weights, both with 32-bit KV.
    """
    path = lab.starter()
    measured = measure_quality(lab.wish(path), (FILE_EXACT_KV,), DEFAULT_TOKENS, lab.say)
    exact, rounded = measured.formats
    note = f"{rounded.perplexity:.3f} and {exact.perplexity:.3f}, KL {rounded.kl:.5f} nats"
    return Outcome(Spread.of([100 * (rounded.perplexity / exact.perplexity - 1)]), note)


def _output_of(arguments: list[str]) -> bytes:
    """Standard output of one of this program's commands. Raises WorkerError where it fails."""
    with child.command(arguments) as running:
        out, said = running.communicate()
    if running.returncode:
        raise WorkerError(f"decodeck {arguments[0]} failed.", _last_line(said))
    return out


def _last_line(said: bytes) -> str:
    lines = said.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def _decode(step_s: Callable[[int, int], float], depth: int) -> Callable[[], float]:
    return lambda: step_s(DECODE_STEPS, depth)


def _speed_ratio(samples: Samples, over: str, under: str) -> Spread:
    """Speed of one over that of the other, round by round, from the seconds of both."""
    return ratios(samples, under, over)


def _speeds_note(samples: Samples, tokens: int) -> str:
    ours, theirs = (tokens / Spread.of(values(samples, name)).median for name in ("ours", "theirs"))
    return f"{ours:.1f} and {theirs:.1f} tok/s"


def _read_bytes(ours: Ours) -> dict[str, int]:
    return {"ours": ours.held.step_bytes(0), "theirs": file_step_bytes(read_spec(ours.path))}


def _four_bit(lab: Lab) -> Path:
    return lab.random(BILLION, "Q4_0")


def _eight_bit(lab: Lab) -> Path:
    return lab.random(BILLION, "Q8_0")


def _starter(lab: Lab) -> Path:
    return lab.starter()


# Goals that share models stand together: their workers are kept.
GOALS = (
    Goal("decode_1b_4bit_vs_llamacpp", AT_LEAST, 1.15, "×", decode_four_bit),
    Goal("prefill_512_1b_4bit_vs_llamacpp", AT_LEAST, 1.3, "×", prefill_against(_four_bit)),
    Goal("decode_1b_fraction_of_bandwidth", AT_LEAST, 0.90, "of bandwidth", bandwidth),
    Goal("decode_2k_over_empty_1b_int4", AT_LEAST, 0.85, "×", deep_over_empty),
    Goal("step_4_rows_over_1", BELOW, 1.6, "×", rows_over_one(4)),
    Goal("step_8_rows_over_1", BELOW, 2.6, "×", rows_over_one(8)),
    Goal("four_chats_over_one_1b_int4", AT_LEAST, 2.4, "×", four_chats_over_one),
    Goal("drafts_edit_1b_replayed", AT_LEAST, 1.8, "×", drafts_over_plain(_four_bit, EDIT)),
    Goal("load_1b_over_read", BELOW, 2.5, "×", load_over_read),
    Goal("rss_growth_over_held", BELOW, 1.2, "×", growth_over_held),
    Goal("decode_1b_8bit_vs_llamacpp", AT_LEAST, 1.35, "×", decode_against(_eight_bit)),
    Goal("decode_starter_vs_llamacpp", AT_LEAST, 1.2, "×", decode_against(_starter)),
    Goal("prefill_512_starter_vs_llamacpp", AT_LEAST, 2.0, "×", prefill_against(_starter)),
    Goal("drafts_edit_starter", AT_LEAST, 1.8, "×", drafts_over_plain(_starter, EDIT)),
    Goal("drafts_summary_starter", AT_LEAST, 2.2, "×", drafts_over_plain(_starter, SUMMARY)),
    Goal("drafts_free_starter", AT_LEAST, 0.98, "×", drafts_over_plain(_starter, FREE)),
    Goal("drafts_over_best_fixed_starter", AT_LEAST, 0.97, "×", drafts_over_best_fixed),
    Goal("window_over_no_window", AT_LEAST, 0.97, "×", window),
    Goal("start_to_first_token_s", BELOW, 3.0, "s", first_token),
    Goal("int8_activations_perplexity", BELOW, 0.5, "%", int8_activations),
)
