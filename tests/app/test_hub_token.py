"""The access token: in the keyring, else for this session; never in a log."""

from __future__ import annotations

import logging

import keyring
import keyring.backend
import keyring.errors
import pytest

from app.hub_token import HubToken, TokenError

SECRET = "hf_abcdefghijklmnop"


class Memory(keyring.backend.KeyringBackend):
    """A keyring that works."""

    priority = 1.0  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}

    def get_password(self, service: str, username: str) -> str | None:
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self.kept[service, username] = password


class Broken(Memory):
    """A keyring whose service is not there: a backend may raise anything."""

    def get_password(self, service: str, username: str) -> str | None:
        raise RuntimeError(f"no service for {SECRET}")

    set_password = get_password  # type: ignore[assignment]


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> Memory:
    monkeypatch.delenv("HF_TOKEN", raising=False)
    backend = Memory()
    monkeypatch.setattr(keyring.core, "_keyring_backend", backend)
    return backend


def test_a_token_is_kept_in_the_keyring_and_found_by_the_next_run(memory: Memory) -> None:
    assert HubToken().keep(f"  {SECRET}\n")
    assert list(memory.kept.values()) == [SECRET]
    assert HubToken().get() == SECRET


def test_without_a_keyring_it_lasts_for_this_session_and_that_is_told(
    memory: Memory, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(keyring.core, "_keyring_backend", Broken())
    caplog.set_level(logging.DEBUG)
    token = HubToken()
    assert token.get() == ""
    assert not token.keep(SECRET)
    assert token.get() == SECRET and SECRET not in caplog.text


def test_the_environment_has_one_where_the_keyring_has_none(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", SECRET)
    assert HubToken().get() == SECRET


@pytest.mark.parametrize(
    "text", ["", "short", "two words here", "hf_bad\x00token", "hf_\nAuthorization: x", "ü" * 20]
)
def test_what_cannot_be_a_token_is_refused_without_repeating_it(memory: Memory, text: str) -> None:
    with pytest.raises(TokenError) as caught:
        HubToken().keep(text)
    assert not text or text not in str(caught.value)
    assert memory.kept == {}
