"""The access token for the hub: in the system's keyring, or for this session where there is no keyring.

Knows keyring's interface and HF_TOKEN; a token is never logged and never in a message.
"""

from __future__ import annotations

import logging
import os
import threading

from engine.errors import EngineError
from engine.words import tr

SERVICE, USER = "decodeck", "huggingface"
_MOST_CHARS = 512
_log = logging.getLogger(__name__)


class TokenError(EngineError):
    """What was given cannot be a token."""

    kind = "token"


class HubToken:
    """One token. ``get`` and ``keep`` may wait for the system's keyring: call them on a lane."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._value: str | None = None  # None: nobody has looked yet

    def get(self) -> str:
        """The token that was kept, else that of HF_TOKEN, else ""."""
        with self._lock:
            if self._value is None:
                self._value = _from_keyring() or _cleaned(os.environ.get("HF_TOKEN", ""))
            return self._value

    def keep(self, text: str) -> bool:
        """Use ``text`` from now on; whether it lasts beyond this session. Raises TokenError."""
        token = _cleaned(text)
        if not token:
            raise TokenError(
                tr("This is not an access token."),
                tr("It is one word, such as hf_ and 34 letters: copy it again."),
            )
        with self._lock:
            self._value = token
        return _to_keyring(token)

    def forget(self) -> bool:
        """Remove what was kept; whether none is left, neither in the keyring nor in HF_TOKEN."""
        _out_of_keyring()
        with self._lock:
            self._value = None
        return not self.get()


def _cleaned(text: str) -> str:
    """One word of printable ASCII, without the spaces and line ends of a copy; "" for anything else."""
    token = text.strip()
    is_word = token.isascii() and token.isprintable() and not any(letter.isspace() for letter in token)
    return token if is_word and 8 <= len(token) <= _MOST_CHARS else ""


def _from_keyring() -> str:
    try:
        import keyring

        return _cleaned(keyring.get_password(SERVICE, USER) or "")
    except Exception as error:  # a keyring raises what its backend raises: D-Bus, ctypes, OSError
        _log.info("no keyring can be read: %s", type(error).__name__)
        return ""


def _out_of_keyring() -> None:
    try:
        import keyring

        keyring.delete_password(SERVICE, USER)
    except Exception as error:  # there is none, or no keyring: whoever asked looks whether it is gone
        _log.info("no token was removed from a keyring: %s", type(error).__name__)


def _to_keyring(token: str) -> bool:
    try:
        import keyring

        keyring.set_password(SERVICE, USER, token)
    except Exception as error:  # the token is then kept for this session, and the window says so
        _log.info("no keyring keeps the token: %s", type(error).__name__)
        return False
    return True
