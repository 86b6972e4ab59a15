"""`decodeck bench --speculation`: what drafts bring on recorded answers, by counts and by the clock.

Knows what is measured and in which order; not how drafts are made, and not how it is printed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from app.bench.contenders import Ours
from app.bench.interleave import Samples, Spread, ratios, values, warmed
from app.bench.streams import Stream, read_streams
from engine.decode.goodput import MAX_ROWS, ChatDrafting, StepCosts, cost_prior
from engine.decode.lookup import Draft
from engine.decode.replay import ByGoodput, FixedLength, Replayed, replay
from engine.errors import WishError
from engine.fit.plan import plan
from engine.hardware.probe import probe
from engine.models.spec import read_spec
from engine.text.chat import ChatText
from engine.types import LoadSpec, ModelSpec

LENGTHS = (0, 1, 2, 3, 4, 6, 8, 12)  # fixed ones, compared with the engine's own choice
COST_STEPS = 12
_DRAFTED, _PLAIN = "drafted", "plain"
InTurn = Callable[[Mapping[str, Callable[[], float]]], Samples]
Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Step:
    """One step of an answer: drafted tokens that were checked, tokens that came, why drafting is off."""

    checked: int
    came: int
    off: str

    @classmethod
    def listed(cls, steps: Sequence[Sequence[Any]]) -> tuple[Step, ...]:
        return tuple(cls(*each) for each in steps)


@dataclass(frozen=True, slots=True)
class RowCosts:
    """Steps of 1 … MAX_ROWS rows: milliseconds, and how often the time of a step of one row."""

    ms: tuple[Spread, ...]
    over_one: tuple[Spread, ...]

    def of(self, rows: int) -> float:
        """More rows cost no less: where they seem to, the clock was unsteady."""
        return max(spread.median for spread in self.over_one[:rows])

    def as_json(self) -> list[dict[str, Any]]:
        return [
            {"rows": rows, "ms": ms.median, "cost": cost.median, "spread": cost.as_json()}
            for rows, (ms, cost) in enumerate(zip(self.ms, self.over_one, strict=True), 1)
        ]


@dataclass(frozen=True, slots=True)
class Counted:
    """One chat by counts: with every fixed length, and as goodput chooses."""

    stream: Stream
    fixed: Mapping[int, Replayed]
    chosen: Replayed
    steps: tuple[Step, ...]  # as goodput chose

    @property
    def best(self) -> int:
        """The fixed length that gains most."""
        return max(self.fixed, key=lambda length: self.fixed[length].goodput)

    @property
    def over_best(self) -> float:
        """What goodput gains over what the best fixed length does."""
        return self.chosen.goodput / self.fixed[self.best].goodput


@dataclass(frozen=True, slots=True)
class Timed:
    """One chat by the clock: the engine with drafts over the engine without, round by round."""

    gain: Spread
    drafted_tps: float
    plain_tps: float
    steps: tuple[Step, ...]  # of the last round with drafts

    def as_json(self) -> dict[str, Any]:
        speeds = {"gain": self.gain.as_json(), "tps": self.drafted_tps, "plain_tps": self.plain_tps}
        return speeds | {"tokens_per_step": tokens_per_step(self.steps)} | choices(self.steps)


def measure_speculation(wish: LoadSpec, words: Path | None, repeat: int, say: Say) -> dict[str, object]:
    """The `speculation` of the JSON report and what stands behind it. The chats are made of the tokens of the
    model ``words`` where the model's rows have room for them, else of its own.

    Raises WishError for a model that cannot take tokens back, and what loading raises.
    """
    spec = read_spec(wish.path)
    if spec.capabilities.no_trim:
        raise WishError(f"{spec.name} decodes without drafts. {spec.capabilities.no_trim}")
    source, streams = chats(spec, words)
    wish = replace(wish, context=max(wish.context or 0, *(stream.length for stream in streams.values())))
    plan(spec, probe(), wish)  # a wrong wish is refused before anything runs

    def in_turn(contenders: Mapping[str, Callable[[], float]]) -> Samples:
        return warmed(contenders, repeat, pulse=lambda: 0.0)  # only ratios of neighbours are told

    with closing(Ours(wish)) as ours:
        say(f"measuring steps of 1 to {MAX_ROWS} rows")
        costs = row_costs(ours, depth_of(streams), in_turn)
        found: list[tuple[Counted, Timed]] = []
        for kind, stream in streams.items():
            say(f"decoding {kind}: {len(stream.answer)} tokens behind {len(stream.prompt)}")
            counted = count(stream, costs, ours.held.is_native)
            found.append((counted, time_stream(ours, stream, source, in_turn)))
    return {
        "model": ours.path,
        "format": ours.held.format,
        "kernels": ours.held.kernels,
        "threads": ours.held.threads,
        "tokens_of": source,
        "step_costs": costs.as_json(),
        "speculation": [
            _figures(counted.stream, length, replayed)
            for counted, _ in found
            for length, replayed in counted.fixed.items()
        ],
        "goodput": [_chosen(counted) | {"wall": timed.as_json()} for counted, timed in found],
    }


def chats(spec: ModelSpec, words: Path | None) -> tuple[str, dict[str, Stream]]:
    """The recorded chats, and the path of the model whose tokens they are made of."""
    if words is not None:
        text = ChatText.load(str(words))
        if text.tokenizer.vocab_size <= spec.vocab_size:
            return str(words), read_streams(text)
    return spec.path, read_streams(ChatText.load(spec.path))


def depth_of(streams: Mapping[str, Stream]) -> int:
    """Tokens in the cache in the middle of an answer, for all chats one number."""
    return sum(len(each.prompt) + len(each.answer) // 2 for each in streams.values()) // len(streams)


def row_costs(ours: Ours, depth: int, in_turn: InTurn) -> RowCosts:
    """Time steps of all numbers of rows behind ``depth`` tokens, a step of one row in turn with each."""

    def steps(rows: int) -> Callable[[], float]:
        return lambda: ours.step_s(COST_STEPS, depth, rows=rows)

    many = range(2, MAX_ROWS + 1)
    beside = {rows: f"1 beside {rows}" for rows in many}
    contenders: dict[str, Callable[[], float]] = {}
    for rows in many:
        contenders |= {beside[rows]: steps(1), str(rows): steps(rows)}
    samples = in_turn(contenders)
    ones = [second for rows in many for second in values(samples, beside[rows])]
    times = [ones, *(values(samples, str(rows)) for rows in many)]
    return RowCosts(
        tuple(Spread.of(1e3 * each for each in seconds) for seconds in times),
        (Spread.of([1.0]), *(ratios(samples, str(rows), beside[rows]) for rows in many)),
    )


def count(stream: Stream, costs: RowCosts, is_native: bool) -> Counted:
    """Replay one chat. Goodput begins with what the engine believes of rows before it has measured any."""

    def run(rule: FixedLength | ByGoodput) -> Replayed:
        return replay(stream.prompt, stream.answer, rule, costs.of, stream.ends)

    noted = _Noted(ChatDrafting(), StepCosts(cost_prior(is_native)))
    fixed = {length: run(FixedLength(length)) for length in LENGTHS}
    return Counted(stream, fixed, run(noted), tuple(noted.steps))


class _Noted(ByGoodput):
    """The same choices, noted step by step."""

    def __init__(self, chat: ChatDrafting, costs: StepCosts) -> None:
        super().__init__(chat, costs)
        self.steps: list[Step] = []

    def observe(self, draft: Draft, checked: int, came: Sequence[int], cost: float) -> None:
        super().observe(draft, checked, came, cost)
        self.steps.append(Step(checked, len(came), self.chat.reason or ""))


def time_stream(ours: Ours, stream: Stream, words: str, in_turn: InTurn) -> Timed:
    """Decode one chat with drafts and without, in turn."""
    steps: list[list[Any]] = []

    def seconds(speculate: str) -> float:
        told = ours.force(stream, speculate, words)
        if speculate != "off":
            steps[:] = told["steps"]
        return float(told["seconds"])

    samples = in_turn({_DRAFTED: lambda: seconds("ngram"), _PLAIN: lambda: seconds("off")})
    drafted_tps, plain_tps = (1 / Spread.of(values(samples, name)).median for name in (_DRAFTED, _PLAIN))
    return Timed(ratios(samples, _PLAIN, _DRAFTED), drafted_tps, plain_tps, Step.listed(steps))


def tokens_per_step(steps: Sequence[Step]) -> float:
    return sum(step.came for step in steps) / max(1, len(steps))


def choices(steps: Sequence[Step]) -> dict[str, Any]:
    """What was chosen: how many steps checked how many tokens, and where drafting was off and why.

    ``off``: ``at`` and ``tokens`` count the answer's tokens after its first one.
    """
    off: list[dict[str, Any]] = []
    done, before = 0, ""
    for step in steps:
        done += step.came
        if step.off and not before:
            off.append({"at": done, "tokens": 0, "reason": step.off})
        elif step.off:
            off[-1]["tokens"] += step.came
        before = step.off
    lengths = Counter(step.checked for step in steps)
    return {"lengths": {str(length): lengths[length] for length in sorted(lengths)}, "off": off}


def _figures(stream: Stream, length: int | None, replayed: Replayed) -> dict[str, Any]:
    return {
        "text": stream.kind,
        "length": length,
        "tokens_per_step": replayed.tokens_per_step,
        "rows_cost": replayed.mean_cost,
        "gain": replayed.goodput,
    }


def _chosen(counted: Counted) -> dict[str, Any]:
    """`_figures` of what goodput chose, without one length, beside the best fixed one."""
    stream = counted.stream
    tokens = {"prompt_tokens": len(stream.prompt), "tokens": len(stream.answer)}
    best = {"best_length": counted.best, "over_best": counted.over_best}
    return _figures(stream, None, counted.chosen) | tokens | best | choices(counted.steps)
