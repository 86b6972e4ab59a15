"""Reads a planned model: weights piece by piece on this thread, tokenizer and template on another.

Knows what belongs to a model; not the formats of its files, and not what is done with it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Generator
from concurrent.futures import Future
from contextlib import closing
from dataclasses import replace
from typing import TypeVar

from engine.capabilities import Capabilities
from engine.events import Loaded, LoadProgress
from engine.fit.draft import check_trims
from engine.models.checkpoint import Checkpoint
from engine.models.decoder import Runner
from engine.models.generic import load_generic
from engine.models.load import load_decoder
from engine.pace import Pace
from engine.text import tokenizer as tokenizers
from engine.text.chat import ChatText
from engine.text.same_vocabulary import check_same
from engine.text.tokenizer import Tokenizer
from engine.types import LoadPlan, ModelSpec
from engine.waiting import in_background, until_done
from engine.words import tr

_OPENED, _READ = 0.02, 0.98  # of the whole load

T = TypeVar("T")


def read_model(plan: LoadPlan) -> Generator[LoadProgress, None, tuple[Runner, ChatText]]:
    """The runner and the text side of a plan. No piece waits for a disk: dropping the generator cancels at
    once, also where a read hangs. Raises ModelFileError, UnsupportedModelError, TokenizerError and
    TemplateError; an error of the text side ends it as soon as it is known.
    """
    checkpoint = yield from _opened(plan.model)
    with checkpoint:
        reading = in_background(functools.partial(_read_text, checkpoint), "decodeck-text")
        try:
            load = load_decoder if plan.model.runner == "lean" else load_generic
            runner = yield from _watching(load(plan, checkpoint), reading)
            [text] = yield from until_done([reading], LoadProgress(_READ, "tokenizer"))
        finally:
            del reading  # an error in it has this frame: a circle would keep the weights alive
    return runner, text


def read_draft(plan: LoadPlan, tokenizer: Tokenizer) -> Generator[LoadProgress, None, Runner]:
    """The runner of the plan's draft model. Its vocabulary is compared before any weight is read.

    Raises WishError where it cannot draft for the model, and else what `read_model` does.
    """
    draft = plan.draft
    assert draft is not None
    check_trims(plan.model, draft.model)
    checkpoint = yield from _opened(draft.model)
    with checkpoint:
        comparing = in_background(functools.partial(_compare, checkpoint, tokenizer), "decodeck-vocabulary")
        try:
            yield from until_done([comparing], LoadProgress(_OPENED, "draft model"))
        finally:
            del comparing
        load = load_decoder if draft.model.runner == "lean" else load_generic
        return (yield from load(draft, checkpoint))


def part(
    loading: Generator[LoadProgress, None, T], first: float, last: float, phase: str = ""
) -> Generator[LoadProgress, None, T]:
    """The same as a part of a whole load, from one fraction to another; under the name of ``phase``."""
    with closing(loading):
        while True:
            try:
                progress = next(loading)
            except StopIteration as end:
                result: T = end.value
                return result
            fraction = first + (last - first) * progress.fraction
            yield replace(progress, fraction=fraction, phase=phase or progress.phase)


def _compare(checkpoint: Checkpoint, tokenizer: Tokenizer) -> None:
    """Raise WishError where the files of a draft model have another vocabulary."""
    header = checkpoint.verify()
    checkpoint.check_open()
    check_same(tokenizer, tokenizers.load(checkpoint.spec.path, header), checkpoint.spec.name)


def lacks(plan: LoadPlan, can: Capabilities) -> tuple[str, ...]:
    """What its runner cannot do, in sentences for the user; the first says who it is."""
    generic = plan.model.generic
    if generic is None:
        return ()
    said = tr("Runs through transformers, slower: {reason}.").format(reason=generic.reason)
    return (said, *can.reasons)


def timed(
    loading: Generator[LoadProgress | Loaded, None, None], clock: Callable[[], float]
) -> Generator[LoadProgress | Loaded, None, None]:
    """The same events, and what is left at the rate that bytes of weights came in over the last seconds."""
    pace, phase = Pace(clock), ""
    with closing(loading):
        for event in loading:
            if isinstance(event, LoadProgress):
                if event.phase != phase:
                    pace.restart()
                    phase = event.phase
                pace.add(event.fraction)
                event = replace(event, remaining_s=pace.remaining_s(1 - event.fraction))
            yield event


def _opened(spec: ModelSpec) -> Generator[LoadProgress, None, Checkpoint]:
    """The opened files: a network's disk may take its time already for that."""
    opening = in_background(functools.partial(Checkpoint, spec, verify_later=True), "decodeck-open")
    try:
        [checkpoint] = yield from until_done([opening], LoadProgress(_OPENED, "files"))
    except GeneratorExit:
        opening.add_done_callback(_close)
        raise
    finally:
        del opening
    return checkpoint


def _close(opening: Future[Checkpoint]) -> None:
    """Close files that nobody waits for any more."""
    if opening.exception() is None:
        opening.result().close()


def _read_text(checkpoint: Checkpoint) -> ChatText:
    """Tokenizer and template of a model whose header is still the one that was planned for. Building them
    keeps the interpreter from everybody else: not for a load that was dropped meanwhile.
    """
    header = checkpoint.verify()
    checkpoint.check_open()
    return ChatText.load(checkpoint.spec.path, header)


def _watching(
    loading: Generator[LoadProgress, None, Runner], reading: Future[ChatText]
) -> Generator[LoadProgress, None, Runner]:
    """Pass ``loading`` on to its end; an error of ``reading`` ends it at once."""
    try:
        while True:
            if reading.done():
                reading.result()
            try:
                progress = next(loading)
            except StopIteration as end:
                runner: Runner = end.value
                return runner
            yield progress
    finally:
        loading.close()
        del loading, reading
