"""Answers held to a JSON schema or a regex, by llguidance: https://github.com/guidance-ai/llguidance.

At every token the library says which may follow, so that the answer stays one of the language. It knows bytes
of tokens alone: its vocabulary is made of our tokenizer's. Control tokens have no bytes and never come, but
those that end an answer, where it may end. The library is an extra, imported when it is asked for.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import Future
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from engine.decode.limits import check_form
from engine.errors import EngineError, WishError
from engine.foreign import printable
from engine.text.channels import ANSWER
from engine.text.reply import Reply
from engine.text.tokenizer import Tokenizer
from engine.waiting import in_background
from engine.words import mark, tr

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer
    from llguidance._lib import JsonCompileOptions

Mask = NDArray[np.bool_]

_SHOWN_CHARS = 300
# Without a bound some models write white space for ever. What else the schema's own key "x-guidance" could
# loosen stays as strict as JSON and the schema are.
_JSON_OPTIONS: JsonCompileOptions = {
    "whitespace_pattern": r"[ \n]{1,32}",
    "item_separator": ",",
    "key_separator": ":",
    "coerce_one_of": False,
    "lenient": False,
}
# Of the library's errors: the grammar that a regex was put into, and remarks for its developers.
_BESIDE_THE_POINT = re.compile(r"\n\s*\d+ \||<non-verbose/>")
# Its own sentences that our users cannot act on, and ours for them.
_OUR_WORDS = (
    (re.compile(r"NoExtension"), mark("no answer fulfils it")),  # where nothing can follow
    (re.compile(r"oneOf"), mark("oneOf is not supported where several of its kinds can hold; write anyOf")),
    (
        re.compile(r"look-?around"),
        mark("it looks ahead or behind (such as (?=…) or \\b), which is not supported"),
    ),
    (re.compile(r"lexer_fuel|lexer_states|too (?:large|complex)"), mark("it is too complex")),
)
# What is told of a form that cannot be used.
_SCHEMA, _REGEX = (
    mark("The JSON schema cannot be used: {reason}."),
    mark("The regex cannot be used: {reason}."),
)
# A tenth of what the library allows by itself: what takes longer than 0.2 s to look through is given up.
_LEXER_FUEL = 100_000
_MOST_LEXER_STATES = 50_000  # of up to 2 kB each


class Constraint:
    """Where one answer is in its language, and what may follow."""

    def __init__(self, matcher: LLMatcher, vocabulary: LLTokenizer, vocab_size: int, name: str) -> None:
        self._matcher, self._vocabulary, self._vocab_size, self._name = matcher, vocabulary, vocab_size, name

    @property
    def is_complete(self) -> bool:
        """Whether the answer is one of the language and nothing can follow."""
        return self._matcher.is_stopped() and not self._matcher.is_error()

    def allowed(self, draft: Sequence[int] = ()) -> Mask:
        """Which tokens [vocab] may follow, or would after the tokens of ``draft``, all of which may be taken
        one after another. Raises WishError where that takes more work than an answer may.
        """
        if draft:
            taken = self._matcher.try_consume_tokens(list(draft))
            assert taken == len(draft), "a draft goes as far as `standing` says"
        bits = np.frombuffer(self._matcher.compute_bitmask(), np.uint8)
        error = self._matcher.get_error()
        if draft and not error:
            self._matcher.rollback(len(draft))
        if error:
            raise _refused(self._name, error)
        return np.unpackbits(bits, count=self._vocab_size, bitorder="little").view(np.bool_)

    def standing(self, draft: Sequence[int]) -> int:
        """How many tokens of ``draft`` may be taken one after another."""
        return self._matcher.validate_tokens(list(draft))

    def take(self, tokens: Sequence[int]) -> bool:
        """Go on behind the tokens; False where they may not follow, or that takes more work than an answer
        may.
        """
        return self._matcher.consume_tokens(list(tokens))

    def refusal(self) -> WishError:
        """Why it cannot go on."""
        return _refused(self._name, self._matcher.get_error())

    def take_text(self, text: str) -> bool:
        """Go on behind a text; False where it may not follow."""
        return self.take(self._vocabulary.tokenize_bytes(text.encode(errors="replace")))


class Guide:
    """Holds one reply to a constraint: its answer alone, so that a thought which the prompt has opened, and
    the words before a message, are free. Only the reply may not end before its answer.
    """

    def __init__(self, constraint: Constraint, reply: Reply, eos_ids: AbstractSet[int]) -> None:
        """Raises WishError where the answer has begun already, and not as it must."""
        self._constraint, self._reply = constraint, reply
        self._eos_ids = sorted(eos_ids)
        self._has_begun = False
        self._begin(reply.begun)

    @property
    def is_complete(self) -> bool:
        """Whether the answer has ended as it must: nothing can follow."""
        return self._has_begun and self._constraint.is_complete

    @property
    def has_begun(self) -> bool:
        """Whether the reply is in its answer."""
        return self._has_begun

    def standing(self, draft: Sequence[int]) -> int:
        """How many tokens of ``draft`` can be judged: none before the answer begins, since the draft may
        begin it.
        """
        return self._constraint.standing(draft) if self._has_begun else 0

    def masked(self, logits: Tensor, draft: Sequence[int] = ()) -> Tensor:
        """Logits [vocab] of what follows ``draft``, −inf for what may not follow, on their device and without
        waiting for it. What is no number stays none. Raises WishError where nothing may follow.
        """
        size = logits.shape[0]
        keep = np.zeros(size, np.bool_)
        if self._has_begun:
            allowed = self._constraint.allowed(draft)[:size]
            keep[: allowed.shape[0]] = allowed
        else:
            keep[:] = True
            keep[[token for token in self._eos_ids if token < size]] = False
        if not keep.any():
            raise WishError(tr("No token of this model can follow here."), tr("Change the schema or regex."))
        if logits.device.type == "cpu":  # numpy's, for the reason that `penalties` gives
            row = logits.numpy()
            return torch.from_numpy(np.subtract(row, np.inf, out=row.copy(), where=~keep))
        kept = torch.from_numpy(keep).to(logits.device, non_blocking=True)
        return torch.where(kept, logits, logits - torch.inf)

    def accept(self, token: int) -> None:
        """Follow a token that the reply has taken. Raises WishError where the model began its answer within
        the token that ended its thought, and not as it must, or where going on takes too much work.
        """
        if not self._has_begun:
            self._begin(self._reply.text(ANSWER) + self._reply.held)
        elif not self._constraint.take([token]):
            raise self._constraint.refusal()  # the token was one that may follow: it takes too much work

    def _begin(self, text: str) -> None:
        """Begin where the reply is in its answer, of which ``text`` is there."""
        if self._reply.kind != ANSWER:
            return
        self._has_begun = True
        self._reply.hold_answer()
        if text and not self._constraint.take_text(text):
            raise WishError(
                tr("The answer did not begin as its schema or regex has it."),
                tr("Ask again, or without thinking."),
            )


class Grammars:
    """Compiles what the answers of one model are held to. Safe to use from several threads."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._lock = threading.Lock()
        self._vocabulary: LLTokenizer | None = None

    def start(self, json_schema: str, regex: str) -> Future[Constraint] | None:
        """Compile on a thread of its own; None where both are empty. Raises WishError at once for what can be
        told at once.
        """
        if not json_schema and not regex:
            return None
        check_form(json_schema, regex)
        return in_background(partial(self.compile, json_schema, regex), "grammar")

    def compile(self, json_schema: str, regex: str) -> Constraint:
        """The beginning of an answer of this form. One of the two is empty.

        Takes some milliseconds, a second for thousands of keys, without Python's lock. The first time the
        vocabulary is read, too: a second for 128,000 tokens, with that lock held for up to 0.4 s at a time.
        Raises WishError for what cannot be compiled and for what no answer fulfils.
        """
        name = _SCHEMA if json_schema else _REGEX
        try:
            return self._compiled(json_schema, regex, name)
        except (KeyboardInterrupt, SystemExit, EngineError):
            raise
        except BaseException as error:  # a panic of a Rust library is no Exception
            raise _refused(name, str(error)) from None

    def _compiled(self, json_schema: str, regex: str, name: str) -> Constraint:
        import llguidance

        vocabulary = self._read_vocabulary()
        grammar = (
            llguidance.LLMatcher.grammar_from_json_schema(json_schema, overrides=_JSON_OPTIONS)
            if json_schema
            else llguidance.LLMatcher.grammar_from_regex(regex)
        )
        limits = llguidance.LLParserLimits(
            initial_lexer_fuel=_LEXER_FUEL, max_lexer_states=_MOST_LEXER_STATES, verbose_errors=False
        )
        matcher = llguidance.LLMatcher(vocabulary, grammar, log_level=0, limits=limits)
        if matcher.is_error():
            raise _refused(name, matcher.get_error())
        constraint = Constraint(matcher, vocabulary, self._tokenizer.vocab_size, name)
        constraint.allowed()  # the first takes longest, and tells whether there is an answer at all
        return constraint

    def _read_vocabulary(self) -> LLTokenizer:
        with self._lock:
            if self._vocabulary is None:
                self._vocabulary = _vocabulary(self._tokenizer)
            return self._vocabulary


class _Words:
    """Our tokenizer as the library takes one. It asks how the model would write what the grammar forces."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        # An end that no model has, where this one has none: an answer then ends where nothing can follow.
        self.tokens = [*map(tokenizer.token_bytes, range(tokenizer.vocab_size)), b""]
        self.eos_token_id = min(tokenizer.eos_ids, default=tokenizer.vocab_size)
        self.bos_token_id = tokenizer.bos_id
        self.special_token_ids = [token for token, word in enumerate(self.tokens) if not word]
        self._letters = {word: token for token, word in enumerate(self.tokens) if len(word) == 1}

    def __call__(self, text: bytes) -> list[int]:
        """Ids that stand for exactly these bytes."""
        ids = self._tokenizer.encode(text.decode(errors="replace"), literal=True, goes_on=True)
        if b"".join(self.tokens[token] for token in ids) == text:
            return ids
        return [self._letters[bytes([byte])] for byte in text]  # a tokenizer that writes it in another way


def _vocabulary(tokenizer: Tokenizer) -> LLTokenizer:
    """The library's index of the vocabulary. It keeps Python's lock while it works, so in two pieces."""
    import llguidance

    words = _Words(tokenizer)
    ends = sorted(tokenizer.eos_ids) or [words.eos_token_id]
    plain = llguidance.LLTokenizer(llguidance.TokenizerWrapper(words), eos_token=ends, slices=[])
    return plain.with_slices(llguidance.LLTokenizer.json_slices())


def _refused(name: str, words: str) -> WishError:
    """``name`` is _SCHEMA or _REGEX; ``words`` are the library's, of one line or several."""
    words = _BESIDE_THE_POINT.split(words)[0].strip()
    ours = next((sentence for theirs, sentence in _OUR_WORDS if theirs.search(words)), None)
    reason = tr(ours) if ours else printable(words, _SHOWN_CHARS)
    return WishError(tr(name).format(reason=reason), tr("Change or simplify it."))
