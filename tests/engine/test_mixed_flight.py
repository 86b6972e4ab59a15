"""Everything at once: chats that join, are edited, cancelled, paused and evicted while others draft. Whatever
happens around it, an answer is the one that it would have been alone.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.decode.speculation import Offer, Speculation
from engine.engine import Engine
from engine.events import Event, Failed, Finished
from engine.types import GenerateRequest, Message, SamplingParams
from tests.engine.test_engine import drain
from tests.engine.test_many_chats import loaded
from tests.engine.tiny import FAMILIES, tiny_folder

CONTEXT = 160
KINDS = {"all tokens": {}, "windows": FAMILIES["gemma 3"]}
TEXTS = ("one two one two one two", "a", "tell me " * 9, "x" * 70)
SAMPLINGS = (
    SamplingParams(temperature=0.0),
    SamplingParams(temperature=0.9, seed=7),
    SamplingParams(temperature=0.6, seed=3, repeat_penalty=1.3, frequency_penalty=0.2),
)
counter = itertools.count()

ACTIONS = st.one_of(
    st.tuples(
        st.just("ask"),
        st.integers(0, 3),  # chat
        st.sampled_from(TEXTS),
        st.sampled_from(SAMPLINGS),
        st.integers(1, 50),  # tokens
        st.sampled_from(["oldest", "middle", "stop"]),
        st.sampled_from(["auto", "off"]),
    ),
    st.tuples(st.just("edit"), st.integers(0, 3)),
    st.tuples(st.just("steps"), st.integers(1, 25)),
    st.tuples(st.just("cancel"), st.integers(0, 3)),
    st.tuples(st.just("evict")),
    st.tuples(st.just("draft"), st.integers(0, 5)),
)


@dataclass
class Flight:
    """An engine, what was asked of it, and chats as their messages so far."""

    engine: Engine
    asked: dict[str, GenerateRequest] = field(default_factory=dict)
    chats: list[list[Message]] = field(default_factory=lambda: [[] for _ in range(4)])
    running: list[str | None] = field(default_factory=lambda: [None] * 4)
    events: list[Event] = field(default_factory=list)

    def ask(self, chat: int, text: str, sampling: SamplingParams, tokens: int, full: str, mode: str) -> None:
        if self.running[chat] is not None:
            return
        self.chats[chat].append(Message("user", text))
        name = f"r{next(counter)}"
        request = GenerateRequest(
            name, tuple(self.chats[chat]), sampling, tokens, when_full=full, speculate=mode
        )
        self.asked[name], self.running[chat] = request, name
        self.engine.submit(request)

    def edit(self, chat: int) -> None:
        """Back to the first question."""
        if self.running[chat] is None:
            del self.chats[chat][1:]
            self.chats[chat] = []

    def steps(self, count: int) -> None:
        for _ in range(count):
            self.take(self.engine.step())

    def cancel(self, chat: int) -> None:
        if (name := self.running[chat]) is not None:
            self.engine.cancel(name)

    def evict(self) -> None:
        assert self.engine._model is not None
        self.engine._model.store.forget()

    def draft(self, most: int) -> None:
        """From now on drafts are this long at most."""
        LENGTHS[:] = [most]

    def take(self, events: list[Event]) -> None:
        self.events += events
        for event in events:
            if isinstance(event, Finished) and event.request_id in self.running:
                chat = self.running.index(event.request_id)
                self.running[chat] = None
                self.chats[chat].append(Message("assistant", event.text))


LENGTHS = [0]


@pytest.fixture(scope="module", params=KINDS)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("flight") / "model", **KINDS[request.param])


@pytest.fixture(scope="module")
def alone(folder: Path) -> Engine:
    return loaded(folder, context=CONTEXT, sequences=1)


@pytest.fixture(autouse=True)
def _fixed_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drafts as long as the flight wants them: whether they pay is no question here."""

    def offers(self: Speculation, sequences: list[object]) -> list[Offer]:
        most = min(LENGTHS[0], 15 // len(sequences))
        drafts = [sequence.looked_up(most) for sequence in sequences]  # type: ignore[attr-defined]
        return [Offer(draft.ids, draft.kind, len(draft.ids)) for draft in drafts]

    monkeypatch.setattr(Speculation, "offers", offers)


@given(st.lists(ACTIONS, min_size=5, max_size=40))
@settings(
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_every_answer_is_the_one_it_would_have_been_alone(
    folder: Path, alone: Engine, actions: list[tuple[str, ...]]
) -> None:
    flight = Flight(loaded_once(folder))
    for name, *arguments in actions:
        getattr(flight, name)(*arguments)
    flight.take(drain(flight.engine))
    ends = {event.request_id: event for event in flight.events if isinstance(event, Finished)}
    failed = {event.request_id: event.kind for event in flight.events if isinstance(event, Failed)}
    assert ends.keys() == flight.asked.keys()
    for name, request in flight.asked.items():
        check(ends[name], failed.get(name), request, alone)
    assert flight.engine._model is not None
    pool = flight.engine._model.store._pool.pages  # type: ignore[attr-defined]
    assert not pool.running
    assert all(stats.used_pages == 0 for stats in pool.stats())


def check(found: Finished, failed: str | None, request: GenerateRequest, alone: Engine) -> None:
    """Compare with the same request without drafts on an engine that has forgotten everything."""
    assert alone._model is not None
    alone._model.store.forget()
    alone.submit(replace(request, speculate="off"))
    events = drain(alone)
    [expected] = [event for event in events if isinstance(event, Finished)]
    expected_failure = next((event.kind for event in events if isinstance(event, Failed)), None)
    ids, wanted = found.stats.token_ids, expected.stats.token_ids
    if found.reason == "cancelled":
        assert ids == wanted[: len(ids)]
        return
    assert (ids, found.reason, failed) == (wanted, expected.reason, expected_failure)
    assert found.text == expected.text


_ENGINES: dict[Path, Engine] = {}


def loaded_once(folder: Path) -> Engine:
    """One engine for all flights: what one leaves behind is another's start."""
    if folder not in _ENGINES:
        _ENGINES[folder] = loaded(folder, context=CONTEXT, sequences=3)
    return _ENGINES[folder]
