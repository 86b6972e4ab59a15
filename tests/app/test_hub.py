"""The hub: what is asked and what is not, names that come from there, and a sentence for each refusal."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from app.hub import Hub
from app.hub_transport import AccessError
from app.transport import DownloadCancelledError, DownloadError
from tests.app import file_server
from tests.app.file_server import Answer, fixed, silent
from tests.app.hub_server import COMMIT, PlayedHub, PlayedRepo
from tests.app.model_bytes import folder_model, gguf_model

REPO = "maker/tiny-GGUF"


def ask(hub: Hub, words: str = "tiny", kind: str = "gguf") -> list[str]:
    return [found.repo for found in hub.search(words, kind, threading.Event())]


@pytest.fixture
def hub(played: PlayedHub) -> Hub:
    played.repos[REPO] = PlayedRepo(
        {
            "README.md": b"# tiny",
            "tiny-Q8_0.gguf": gguf_model("Q8_0"),
            "tiny-Q4_0.gguf": gguf_model("Q4_0"),
            "mmproj-tiny.gguf": b"GGUF",
        }
    )
    return Hub()


def test_a_search_names_models_with_licence_downloads_and_date(hub: Hub, played: PlayedHub) -> None:
    played.repos["maker/other"] = PlayedRepo({}, ("safetensors",))
    found = hub.search("tiny", "gguf", threading.Event())
    assert [(each.repo, each.downloads, each.licence, each.is_gated, each.updated) for each in found] == [
        (REPO, 1234, "apache-2.0", False, "2026-03-31")
    ]


def test_nothing_is_asked_but_what_the_user_asked_for(hub: Hub, played: PlayedHub) -> None:
    assert played.asked == []
    ask(hub)
    hub.files(REPO, threading.Event())
    assert played.asked == ["/api/models", f"/api/models/{REPO}"]


def test_the_files_are_sorted_into_models_by_bits_at_one_commit(hub: Hub) -> None:
    files = hub.files(REPO, threading.Event())
    assert [variant.label for variant in files.variants] == ["Q4_0", "Q8_0"]
    assert files.commit == COMMIT and files.variants[0].files[0].sha256
    assert "vision" in files.notes[0]


def test_the_parts_of_a_split_model_are_one_and_an_incomplete_one_is_left_out(
    hub: Hub, played: PlayedHub
) -> None:
    parts = {f"big/big-Q4_0-{n:05d}-of-00003.gguf": b"x" * n for n in (1, 2, 3)}
    lost = {"big-Q8_0-00001-of-00002.gguf": b"x"}
    played.repos[REPO].files = parts | lost
    (variant,) = hub.files(REPO, threading.Event()).variants
    assert [file.name for file in variant.files] == list(parts)
    assert variant.label == "Q4_0" and variant.size_bytes == 6


def test_safetensors_come_with_what_describes_them_and_without_pickles(hub: Hub, played: PlayedHub) -> None:
    extra = {"pytorch_model.bin": b"x", "onnx/model.onnx": b"x", "modeling_tiny.py": b"x"}
    played.repos["maker/tiny"] = PlayedRepo(folder_model() | extra, ("safetensors",))
    (variant,) = hub.files("maker/tiny", threading.Event()).variants
    assert sorted(file.name for file in variant.files) == [
        "config.json",
        "model.safetensors",
        "tokenizer_config.json",
    ]


@pytest.mark.parametrize(
    "name",
    [
        "../evil.gguf",
        "/etc/evil.gguf",
        "a/../../evil.gguf",
        "a\\..\\evil.gguf",
        "C:evil.gguf",
        "a\0.gguf",
        " .gguf/..",
    ],
)
def test_a_name_that_leads_out_of_the_folder_is_no_file(hub: Hub, played: PlayedHub, name: str) -> None:
    played.repos[REPO].files = {name: b"x"}
    assert hub.files(REPO, threading.Event()).variants == ()


def test_pickled_weights_alone_are_said_to_be_no_model(hub: Hub, played: PlayedHub) -> None:
    played.repos[REPO].files = {"pytorch_model.bin": b"x", "config.json": b"{}"}
    files = hub.files(REPO, threading.Event())
    assert files.variants == () and "could run code" in files.notes[0]


@pytest.mark.parametrize(
    ("mood", "words", "is_access"),
    [
        (fixed(b"{}", 403, X_Error_Code="GatedRepo"), "licence", True),
        (fixed(b"{}", 401, X_Error_Code="GatedRepo"), "licence", True),
        (fixed(b"{}", 401), "access token", True),
        (fixed(b"{}", 403), "refuses", True),
        (fixed(b"{}", 401, X_Error_Code="RepoNotFound"), "no model", False),
        (fixed(b"{}", 404), "no model", False),
        (fixed(b"{}", 429, Retry_After="5"), "Wait 5 s", False),
        (fixed(b"{}", 503), "cannot answer", False),
        (fixed(b"<html>please log in"), "something else", False),
    ],
)
def test_each_refusal_has_its_sentence(
    hub: Hub, played: PlayedHub, mood: Answer, words: str, is_access: bool
) -> None:
    played.mood = mood
    with pytest.raises(DownloadError) as caught:
        hub.files(REPO, threading.Event())
    assert words in str(caught.value)
    assert isinstance(caught.value, AccessError) is is_access
    assert ("licence" in str(caught.value)) == (words == "licence")
    assert len(played.asked) == 1  # the library's own tries are not made


def test_a_silent_hub_is_left_when_the_user_cancels(hub: Hub, played: PlayedHub) -> None:
    cancel = threading.Event()

    def quiet(handler: object) -> None:
        cancel.set()
        silent(handler)  # type: ignore[arg-type]

    played.mood = quiet
    with pytest.raises(DownloadCancelledError):
        hub.search("tiny", "gguf", cancel)


def test_without_a_network_the_sentence_says_that_models_here_still_work(
    plain_network: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(DownloadError) as caught:
        ask(Hub())
    assert caught.value.is_offline and "still work" in caught.value.hint


def test_the_proxy_and_its_refusal_are_named(
    hub: Hub, played: PlayedHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", played.plan.url)
    monkeypatch.setenv("HF_ENDPOINT", "https://hub.example")
    with pytest.raises(DownloadError, match="proxy"):
        ask(Hub())


def test_a_token_goes_to_the_hub_and_to_no_other_host(
    played: PlayedHub, hub: Hub, make_server: Callable[[], PlayedHub]
) -> None:
    other = make_server()
    other.repos[REPO] = played.repos[REPO]
    played.elsewhere = other.plan.url
    owner = Hub(token=lambda: "hf_secret_token")
    owner.files(REPO, threading.Event())
    url = owner.url(REPO, COMMIT, "tiny-Q4_0.gguf")
    reply = owner.client.get(url, headers=owner.headers())
    assert reply.status_code == 200
    assert set(played.plan.logins) == {"Bearer hf_secret_token"}
    assert other.plan.logins == [None]


def test_a_wrong_name_is_refused_without_asking(hub: Hub, played: PlayedHub) -> None:
    with pytest.raises(DownloadError, match="owner/name"):
        hub.files("../../etc", threading.Event())
    assert played.asked == []


def test_the_client_of_the_library_refuses_addresses_nobody_asked_for(hub: Hub) -> None:
    from app.hub_transport import make_hub_client

    with make_hub_client() as client, pytest.raises(DownloadError, match="not asked for"):
        client.get("http://127.0.0.1:9/api/agent-harnesses")


@pytest.fixture
def guarded(plain_network: None, certificate: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PlayedHub]:
    """The hub behind a certificate of a company's own."""
    with file_server.running(certificate) as plan:
        hub = PlayedHub(plan)
        plan.answer = hub.answer
        monkeypatch.setenv("HF_ENDPOINT", plan.url)
        yield hub


def test_an_unknown_certificate_is_named_in_a_search_too(guarded: PlayedHub) -> None:
    with pytest.raises(DownloadError, match="is not trusted"):
        ask(Hub())


def test_a_certificate_of_the_environment_is_trusted_in_a_search_too(
    guarded: PlayedHub, certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.with_suffix(".crt")))
    guarded.repos[REPO] = PlayedRepo({})
    assert ask(Hub()) == [REPO]
