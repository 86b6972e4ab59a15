"""Whether ids mean the same to two models, so that one can draft for the other. Knows tokenizers alone."""

from __future__ import annotations

import re
from itertools import zip_longest

from engine.foreign import shown
from engine.text.tokenizer import Tokenizer

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
        count = f"{len(others):,} token{'s' if len(others) > 1 else ''}, such as {token}"
        return f"its vocabulary differs in {count}: {_word(one)} in the model, {_word(other)} in the draft"
    if target.bos_id != draft.bos_id:
        return f"its text begins with token {draft.bos_id}, the model's with {target.bos_id}"
    if target.eos_ids != draft.eos_ids:
        return f"its answers end with {_ids(draft.eos_ids)}, the model's with {_ids(target.eos_ids)}"
    return ""


def _meaning(spelling: bytes) -> bytes:
    return b"" if _PADDING.fullmatch(spelling) else spelling


def _word(spelling: bytes) -> str:
    return shown(spelling.decode(errors="replace"), 30) if spelling else "none"


def _ids(ids: frozenset[int]) -> str:
    return f"token {', '.join(map(str, sorted(ids)))}" if ids else "no token"
