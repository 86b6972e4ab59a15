"""Loads a model ten times in each of three ways and prints what the process holds: run as a child, by a test.

`python -m tests.engine.load_cycles FILE FORMAT` prints one JSON object: for each way of ending a load the
resident bytes at its height and after it, cycle by cycle. The garbage collector is off: what it would have to
find is not given back.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable

from engine.engine import Engine
from engine.errors import ModelFileError
from engine.events import LoadProgress
from engine.fit.plan import plan
from engine.hardware.probe import probe, rss_bytes
from engine.models.spec import read_spec
from engine.types import GenerateRequest, LoadPlan, LoadSpec, Message, SamplingParams

CYCLES = 10
_FAR = 0.7  # of a load


def main(path: str, format: str) -> None:
    def made() -> LoadPlan:
        return plan(read_spec(path), probe(), LoadSpec(path, format=format, context=1024))

    def load(engine: Engine, at: Callable[[LoadProgress], bool]) -> None:
        loading = engine.load(made())
        for event in loading:
            if isinstance(event, LoadProgress) and at(event):
                break
        high.append(rss_bytes())
        loading.close()

    def used(engine: Engine) -> None:
        load(engine, lambda event: False)
        sampling = SamplingParams(temperature=0)
        engine.submit(GenerateRequest("r", (Message("user", "hello there"),), sampling, max_tokens=4))
        while engine.is_busy:
            engine.step()
        high[-1] = rss_bytes()

    def cancelled(engine: Engine) -> None:
        load(engine, lambda event: event.fraction > _FAR)

    def failed(engine: Engine) -> None:
        def change(event: LoadProgress) -> bool:
            if event.fraction > _FAR:
                high.append(rss_bytes())
                os.utime(path)
            return False

        try:
            load(engine, change)
        except ModelFileError:
            del high[len(low) + 1 :]
        else:
            raise AssertionError("a file that changes ends a load")

    gc.disable()
    engine, report = Engine(), {}
    for name, cycle in (("used", used), ("cancelled", cancelled), ("failed", failed)):
        high: list[int] = []
        low: list[int] = []
        for _ in range(CYCLES):
            cycle(engine)
            engine.unload()
            low.append(rss_bytes())
        report[name] = {"high": high, "low": low}
    print(json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
