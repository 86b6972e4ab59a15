"""Continuous batching: which answers run, what each step reads and decodes, and the events of it.

Works on one loaded model; knows neither files nor how a model is loaded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass
from itertools import islice

from torch import Tensor

from engine.decode.acceptance import Verdict, verify
from engine.decode.constraint import Grammars
from engine.decode.draft_model import DraftModel
from engine.decode.governor import ThreadGovernor
from engine.decode.limits import check_speculate
from engine.decode.prompts import Fitted, Prompts
from engine.decode.sampler import choose_all
from engine.decode.sequence import Sequence
from engine.decode.speculation import Offer, Speculation, without
from engine.errors import EngineError, MemoryLimitError, WishError
from engine.events import ContextShifted, Event, Failed, Paused
from engine.kv.store import KVStore
from engine.models.decoder import Runner, Segment
from engine.text.chat import ChatText
from engine.types import GenerateRequest, LoadPlan
from engine.waiting import POLL_S
from engine.words import tr

MOST_STEPS = 4096  # that are kept until somebody takes them


@dataclass(frozen=True, slots=True)
class TimedStep:
    """One token of one chat that had the step for itself: the tokens before it, and the seconds it took."""

    tokens: int
    seconds: float


class Scheduler:
    """All answers of one model, from the request to the end."""

    def __init__(
        self,
        plan: LoadPlan,
        runner: Runner,
        text: ChatText,
        store: KVStore,
        governor: ThreadGovernor,
        clock: Callable[[], float],
        draft: DraftModel | None = None,
    ) -> None:
        self._plan = plan
        self._runner = runner
        self._text = text
        self._store = store
        self._governor = governor
        self._clock = clock
        self._prompts = Prompts(text, plan.context, plan.model.vocab_size)
        self._grammars = Grammars(text.tokenizer)
        self._speculation = Speculation(plan, clock, runner.capabilities.can_trim, draft)
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []  # the oldest first
        self._is_full = False  # one that ran waits for room
        self._pending: list[Event] = []
        self._steps: deque[TimedStep] = deque(maxlen=MOST_STEPS)

    @property
    def is_busy(self) -> bool:
        """Whether ``step`` has something to do."""
        return bool(self._waiting or self._running or self._pending)

    @property
    def held_tokens(self) -> tuple[int, ...]:
        """Tokens in the cache of each running answer, the oldest first; a shared beginning counts in each."""
        return tuple(sequence.cache.length for sequence in self._running)

    def submit(self, request: GenerateRequest) -> None:
        """Queue ``request``. Raises WishError for values that cannot be used, and for the id of an answer
        that is not over.
        """
        name = request.request_id
        if any(sequence.request.request_id == name for sequence in self._all()):
            said = tr("An answer {name} is under way.").format(name=repr(name))
            raise WishError(said, tr("Give every request its own id."))
        check_speculate(request.speculate)
        form = self._grammars.start(request.json_schema, request.regex)
        self._waiting.append(Sequence(request, self._text.tokenizer, self._clock, form))

    def cancel(self, request_id: str) -> None:
        """End an answer now. Unknown ids are ignored."""
        for sequence in self._all():
            if sequence.request.request_id == request_id:
                self._end(sequence, "cancelled")

    def end_all(self, reason: str) -> None:
        """End every answer."""
        for sequence in self._all():
            self._end(sequence, reason)

    def abort(self) -> None:
        """End every answer as failed, after an error that no sequence can be blamed for."""
        for sequence in self._all():
            if sequence.is_admitted:
                self._store.drop(sequence.pause())
        self._speculation.forget()
        self.end_all("error")
        self._store.forget()

    def step(self) -> None:
        """Admit what fits, read one piece of one prompt, decode for every running answer."""
        self._admit()
        if not self._prefill():
            self._speculation.catch_up(self._running)
        self._decode()

    def take_events(self) -> list[Event]:
        """What has happened since the last call."""
        events, self._pending = self._pending, []
        return events

    def take_steps(self) -> list[TimedStep]:
        """The plain steps since the last call."""
        steps = list(self._steps)
        self._steps.clear()
        return steps

    def _all(self) -> list[Sequence]:
        return [*self._running, *self._waiting]

    # -- beginning

    def _admit(self) -> None:
        if self._waiting:
            self._governor.reconsider()
        while self._may_admit and (sequence := self._next_in_line()):
            self._waiting.remove(sequence)
            try:
                if not sequence.is_prepared:
                    self._prepare(sequence)
            except EngineError as error:
                self._fail(sequence, error)
                continue
            sequence.admit(self._store.begin(sequence.ids))
            self._running.append(sequence)
            self._pending.append(sequence.prefilled_event())

    @property
    def _may_admit(self) -> bool:
        """One that waits for room goes first, once another has ended."""
        return len(self._running) < self._plan.max_sequences and not (self._is_full and self._running)

    def _next_in_line(self) -> Sequence | None:
        """The first that has the form of its answer compiled, or needs none. Where all there is to do is to
        compile, it waits a moment.
        """
        forms = [sequence.form for sequence in self._waiting if sequence.form is not None]
        if forms and not self._running and len(forms) == len(self._waiting):
            wait(forms, POLL_S, FIRST_COMPLETED)
        return next((s for s in self._waiting if s.form is None or s.form.done()), None)

    def _prepare(self, sequence: Sequence) -> None:
        """Give ``sequence`` its prompt. Raises TemplateError, WishError, ContextError."""
        request = sequence.request
        fitted = self._prompts.of(request)
        prompt = fitted.prompt
        reply = self._text.reply(prompt.end, request.stop, request.template, prompt.said)
        sequence.prepare(prompt.ids, prompt.notes, reply)
        self._say_shifted(sequence, fitted)

    def _say_shifted(self, sequence: Sequence, fitted: Fitted) -> None:
        if fitted.dropped_tokens:
            name = sequence.request.request_id
            self._pending.append(ContextShifted(name, fitted.dropped_turns, fitted.dropped_tokens))

    # -- one step

    def _prefill(self) -> bool:
        """One piece of the first prompt in line, so that running answers never wait longer than a piece;
        whether there was one.
        """
        sequence = next((s for s in self._running if s.is_prefilling), None)
        if sequence is None or not self._has_room(sequence, self._plan.prefill_piece):
            return False
        ids = sequence.next_ids(self._plan.prefill_piece)
        is_last = sequence.cache.length + len(ids) == len(sequence.ids)
        rows = self._runner.forward([Segment(sequence.cache, ids, wants_logits=is_last)])
        sequence.ran(ids)
        if not is_last:
            self._pending.append(sequence.prefilled_event())
            return True
        self._store.settle(sequence.cache)
        self._pending.append(sequence.prefilled_event())
        self._take([sequence], [Offer()], [[rows[0]]])
        return True

    def _decode(self) -> None:
        """One token for every sequence that has its prompt, and what was rightly guessed of the next ones."""
        for sequence in [s for s in self._running if not s.is_prefilling]:
            if sequence.is_admitted:  # else another one needed its room
                self._has_room(sequence, 1)
        ready = [s for s in self._running if not s.is_prefilling]
        if not ready:
            return
        offers = [
            offer if s.cache.reserve(1 + offer.length) else without(offer)
            for s, offer in zip(ready, self._speculation.offers(ready), strict=True)
        ]
        segments = [
            Segment(s.cache, [s.ids[-1], *offer.checked], wants_all_logits=True)
            for s, offer in zip(ready, offers, strict=True)
        ]
        started = self._clock()
        logits = self._runner.forward(segments)
        took = self._clock() - started
        if logits.shape[0] == len(ready):
            self._governor.observe(took)
        self._speculation.observe_step(offers, took)
        rows = iter(logits)
        tokens = ready[0].cache.length
        self._take(ready, offers, [list(islice(rows, 1 + offer.length)) for offer in offers])
        if logits.shape[0] == 1:
            self._steps.append(TimedStep(tokens, self._clock() - started))

    def _has_room(self, sequence: Sequence, piece: int) -> bool:
        """Whether there is room for what ``sequence`` runs next. Where other answers hold all of it the
        youngest gives its own up and waits.
        """
        rows = len(sequence.next_ids(piece))
        while not sequence.cache.reserve(rows):
            if len(self._running) == 1:
                raise MemoryLimitError(
                    tr("The KV cache has no room for the answer."),
                    tr("Raise the context length, or start a new chat."),
                )
            youngest = self._running[-1]
            self._pause(youngest)
            if youngest is sequence:
                return False
        return True

    def _pause(self, sequence: Sequence) -> None:
        self._running.remove(sequence)
        self._speculation.leave(sequence)
        self._store.release(sequence.pause())
        self._waiting.appendleft(sequence)
        self._is_full = True
        self._pending.append(Paused(sequence.request.request_id))

    def _take(self, sequences: list[Sequence], offers: list[Offer], rows: list[list[Tensor]]) -> None:
        """Let each sequence take what its rows [vocab] say: row j follows the first j tokens of its offer."""
        plain: list[tuple[Sequence, Offer, Tensor, Tensor]] = []
        for sequence, offer, each in zip(sequences, offers, rows, strict=True):
            try:
                if offer.length:
                    self._accept(sequence, offer, self._verdict(sequence, offer, each), each)
                else:
                    plain.append((sequence, offer, sequence.draw(each[0]), each[0]))
            except EngineError as error:
                self._fail(sequence, error)
        tokens = choose_all([draw for _, _, draw, _ in plain])  # a step without drafts waits here
        for (sequence, offer, _, row), token in zip(plain, tokens, strict=True):
            try:
                self._accept(sequence, offer, Verdict(0, token), [row])
            except EngineError as error:
                self._fail(sequence, error)

    def _verdict(self, sequence: Sequence, offer: Offer, rows: list[Tensor]) -> Verdict:
        """How much of an offer stands, and the token after that."""
        return verify(offer.checked, sequence.target(offer.checked, rows), offer.q)

    def _accept(self, sequence: Sequence, offer: Offer, verdict: Verdict, rows: list[Tensor]) -> None:
        """Give ``sequence`` its next tokens; what was guessed wrongly leaves its cache. Raises NumericsError,
        WishError.
        """
        came = (*offer.checked[: verdict.accepted], verdict.token)
        known = len(sequence.ids) + verdict.accepted  # tokens in the cache that stand
        for token, row in zip(came, rows, strict=False):
            self._pending += sequence.accept(token, row)
            if sequence.reason is not None:
                break
        length = min(known, len(sequence.ids))
        if sequence.cache.length > length:
            sequence.cache.trim(length)
        self._speculation.observe_draft(sequence, offer, came)
        if sequence.generated:
            self._pending.append(sequence.step_event())
        if sequence.is_full and sequence.reason is None:
            self._shift(sequence)
        if sequence.reason is not None:
            self._leave(sequence)
            self._pending.append(sequence.finished_event())

    def _shift(self, sequence: Sequence) -> None:
        """The context is full: go on with a part of the chat, or end."""
        fitted = self._prompts.shorter(sequence.request, sequence.prompt, sequence.generated)
        if fitted is None:
            self._pending += sequence.end("context")
            return
        self._say_shifted(sequence, fitted)
        self._speculation.leave(sequence)
        self._store.release(sequence.shift(fitted.prompt.ids))
        sequence.admit(self._store.begin(sequence.ids))

    # -- ending

    def _fail(self, sequence: Sequence, error: EngineError) -> None:
        request_id = sequence.request.request_id
        self._pending.append(Failed(request_id, error.kind, error.message, error.hint))
        if sequence.is_admitted:
            self._speculation.leave(sequence, is_sound=False)
            self._store.drop(sequence.pause())  # what it computed is not to be trusted
        self._end(sequence, "error")

    def _end(self, sequence: Sequence, reason: str) -> None:
        self._pending += sequence.end(reason)
        self._leave(sequence)
        self._pending.append(sequence.finished_event())

    def _leave(self, sequence: Sequence) -> None:
        self._is_full = False
        if sequence in self._running:
            self._running.remove(sequence)
        elif sequence in self._waiting:
            self._waiting.remove(sequence)
        if sequence.is_admitted:
            self._speculation.leave(sequence)
            self._store.release(sequence.pause())
