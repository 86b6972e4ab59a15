"""The one door to the tokenizers library: its errors, its panics and the lock it would hold.

Does not know files or vocabularies.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from tokenizers import Tokenizer

from engine.errors import EngineError, TokenizerError
from engine.foreign import printable
from engine.words import tr


def ids_of(backend: Tokenizer, text: str) -> list[int]:
    """The library's ids of `text`, without special tokens. Raises TokenizerError."""
    with refusals(tr("This model's tokenizer cannot read this text")):
        # A batch of one: only in a batch does the library let Python's other threads run meanwhile, and a
        # slow pattern in a foreign file must not stop the window.
        (encoding,) = backend.encode_batch_fast([text], add_special_tokens=False)
    return list(encoding.ids)


@contextlib.contextmanager
def refusals(sentence: str, hint: str = "") -> Iterator[None]:
    """What the library raises in the block becomes a TokenizerError that begins with `sentence`.

    Its panics too, which are no Exceptions: a foreign tokenizer must not end the thread that uses it.
    """
    try:
        yield
    except (KeyboardInterrupt, SystemExit, EngineError):
        raise
    except BaseException as error:
        hint = hint or tr("Choose another file of this model.")
        raise TokenizerError(f"{sentence}: {printable(str(error), 200)}.", hint) from None
