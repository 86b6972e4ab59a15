"""Whether ids mean the same to two models, so that one can draft for the other. Knows tokenizers alone."""

from __future__ import annotations

import re
from itertools import zip_longest

from engine.errors import WishError
from engine.foreign import shown
from engine.text.tokenizer import Tokenizer
from engine.words import tr

_PADDING = re.compile(rb"\[PAD\d+\]")  # as files converted for llama.cpp name rows without a token


def difference(target: Tokenizer, draft: Tokenizer) -> str:
    """What differs between the vocabularies of a model and of its draft, a clause without a full stop; ""
    where every id means the same to both. Rows that no token has may be there or not.
    """
    spelled = [[_meaning(each) for each in tokenizer.spellings()] for tokenizer in (target, draft)]
    pairs = enumerate(zip_longest(*spelled, fillvalue=b""))
    others = [(token, one, other) for token, (one, other) in pairs if one != other]
    if others:
        token, one, other = others[0]
        said = tr(
            "its vocabulary differs in %n token(s), such as {token}: "
            "{own} in the model, {other} in the draft",
            "",
            len(others),
        )
        return said.format(token=token, own=_word(one), other=_word(other))
    if target.bos_id != draft.bos_id:
        said = tr("its text begins with token {token}, the model's with {other}")
        return said.format(token=draft.bos_id, other=target.bos_id)
    if target.eos_ids != draft.eos_ids:
        said = tr("its answers end with {tokens}, the model's with {others}")
        return said.format(tokens=_ids(draft.eos_ids), others=_ids(target.eos_ids))
    return ""


def check_same(target: Tokenizer, draft: Tokenizer, name: str) -> None:
    """Raise WishError where the draft model called ``name`` has another vocabulary than its target."""
    found = difference(target, draft)
    if found:
        raise WishError(
            tr("{name} cannot draft for this model: {reason}.").format(name=name, reason=found),
            tr("Choose a smaller model of the same family."),
        )


def _meaning(spelling: bytes) -> bytes:
    return b"" if _PADDING.fullmatch(spelling) else spelling


def _word(spelling: bytes) -> str:
    return shown(spelling.decode(errors="replace"), 30) if spelling else tr("none", "no word")


def _ids(ids: frozenset[int]) -> str:
    return tr("token {ids}").format(ids=", ".join(map(str, sorted(ids)))) if ids else tr("no token")
