"""Where other programs keep their models, by system and environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from app.library_places import Place, elsewhere, places

HOME = Path("/home/me")
MODELS = Path("/data/models")


def found(environment: dict[str, str] | None = None, system: str = "linux") -> dict[str, list[Path]]:
    listed: dict[str, list[Path]] = {}
    for place in elsewhere(environment or {}, HOME, system):
        listed.setdefault(place.title, []).append(place.folder)
    return listed


def test_our_own_folder_comes_first_and_is_the_only_one_we_may_delete_from() -> None:
    listed = places(MODELS, [Path("/mnt/more")], [Path("/mnt/x.gguf")], {}, HOME, "linux")
    listed += elsewhere({}, HOME, "linux")
    assert listed[0] == Place("Decodeck", MODELS) and listed[1].folder == Path("/mnt/more")
    assert [place.is_ours for place in listed] == [True] + [False] * (len(listed) - 1)


def test_on_linux() -> None:
    listed = found()
    assert listed["Hugging Face cache"] == [HOME / ".cache/huggingface/hub"]
    assert HOME / ".lmstudio/models" in listed["LM Studio"]
    assert HOME / ".local/share/Jan/data/llamacpp/models" in listed["Jan"]
    assert listed["GPT4All"] == [HOME / ".local/share/nomic.ai/GPT4All"]
    assert listed["llama.cpp cache"] == [HOME / ".cache/llama.cpp"]
    assert listed["Ollama"] == [HOME / ".ollama/models", Path("/usr/share/ollama/.ollama/models")]


def test_on_macos_and_windows() -> None:
    mac, windows = found(system="darwin"), found({"LOCALAPPDATA": "/L", "APPDATA": "/R"}, "win32")
    assert mac["GPT4All"] == [HOME / "Library/Application Support/nomic.ai/GPT4All"]
    assert mac["llama.cpp cache"] == [HOME / "Library/Caches/llama.cpp"]
    assert windows["GPT4All"] == [Path("/L/nomic.ai/GPT4All")]
    assert Path("/R/Jan/data/llamacpp/models") in windows["Jan"]
    assert windows["Ollama"] == [HOME / ".ollama/models"]


@pytest.mark.parametrize(
    ("environment", "folder"),
    [
        ({"HF_HOME": "/hf"}, "/hf/hub"),
        ({"HF_HUB_CACHE": "/cache", "HF_HOME": "/hf"}, "/cache"),
        ({"HUGGINGFACE_HUB_CACHE": "/old"}, "/old"),
        ({"XDG_CACHE_HOME": "/xdg"}, "/xdg/huggingface/hub"),
    ],
)
def test_the_hugging_face_cache_follows_its_variables(environment: dict[str, str], folder: str) -> None:
    assert found(environment)["Hugging Face cache"] == [Path(folder)]


def test_other_programs_variables_are_followed() -> None:
    listed = found({"LLAMA_CACHE": "/lc", "OLLAMA_MODELS": "/om"})
    assert listed["llama.cpp cache"] == [Path("/lc")] and listed["Ollama"][0] == Path("/om")
