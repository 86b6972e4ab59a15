"""What the goals of speed are measured with: model files, workers kept between goals, and the pulse.

Knows where things come from and when they go; no goals.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path

from app.bench import make_model, model_types
from app.bench.contenders import Contender, Ours, Pulse, Theirs
from app.bench.interleave import Samples, warmed
from app.bench.lengths import DEEP_TOKENS, ROOM_TOKENS
from app.bench.speculation import RowCosts, row_costs
from engine.types import LoadSpec

MOST_WORKERS = 6  # loaded at once; the largest comparison has five
_Key = tuple[type[Contender], str]


class Lab:
    """Use it within `opened`. ``threads`` is the same for everybody; ``starter`` finds the starter's file."""

    def __init__(
        self,
        threads: int,
        repeat: int,
        starter: Callable[[], Path],
        pulse: Callable[[], float],
        say: Callable[[str], None],
    ) -> None:
        self.threads = threads
        self.repeat = repeat
        self.say = say
        self.pulse = pulse
        self.starter = starter
        self._workers: OrderedDict[_Key, Contender] = OrderedDict()
        self._costs: dict[str, RowCosts] = {}

    @classmethod
    @contextmanager
    def opened(
        cls, threads: int, repeat: int, starter: Callable[[], Path], say: Callable[[str], None]
    ) -> Iterator[Lab]:
        """A lab whose workers end with the block."""
        with closing(Pulse(threads)) as pulse:
            lab = cls(threads, repeat, starter, pulse, say)
            try:
                yield lab
            finally:
                lab.close()

    def random(self, shape: str, types: str) -> Path:
        """A model with random weights, written where it is missing."""
        return make_model.ensure(model_types.shape_named(shape), model_types.parse_mix(types), self.say)

    def wish(self, path: Path) -> LoadSpec:
        """How every model is loaded: the bits of its file, room for the deepest context."""
        return LoadSpec(str(path), context=DEEP_TOKENS + ROOM_TOKENS, threads=self.threads)

    def ours(self, path: Path) -> Ours:
        """This program with a loaded model; the worker is kept for the next goal."""
        found = self._kept((Ours, str(path)), lambda: Ours(self.wish(path)))
        assert isinstance(found, Ours)
        return found

    def theirs(self, path: Path) -> Contender:
        """llama.cpp with a loaded model; the worker is kept for the next goal."""
        return self._kept((Theirs, str(path)), lambda: Theirs(self.wish(path)))

    def row_costs(self, ours: Ours, depth: int) -> RowCosts:
        """What rows cost on a model; measured once for all goals."""
        if ours.path not in self._costs:
            self._costs[ours.path] = row_costs(ours, depth, self.in_turn)
        return self._costs[ours.path]

    def in_turn(self, contenders: Mapping[str, Callable[[], float]]) -> Samples:
        """`repeat` rounds after one that does not count."""
        return warmed(contenders, self.repeat, self.pulse)

    def close(self) -> None:
        while self._workers:
            self._workers.popitem()[1].close()

    def _kept(self, key: _Key, make: Callable[[], Contender]) -> Contender:
        """The worker of ``key``; the one that was not used for longest makes room for a new one."""
        if key not in self._workers:
            if len(self._workers) == MOST_WORKERS:
                self._workers.popitem(last=False)[1].close()
            self._workers[key] = make()
        self._workers.move_to_end(key)
        return self._workers[key]
