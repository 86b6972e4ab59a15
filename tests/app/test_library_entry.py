"""What is on this computer: every place, what belongs together, broken ones, all within bounds."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from app import library_walk
from app.library_entry import Headers, Listing, scan
from app.library_places import Place
from engine.models.spec import read_spec
from tests.app.model_bytes import folder_model, gguf_model, projector
from tests.engine.models.writers import TINY, llama_metadata, llama_tensors, tiny_state, write_split


def put(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def put_folder(folder: Path, changes: dict[str, object] | None = None) -> Path:
    for name, data in folder_model(changes).items():
        put(folder / name, data)
    return folder


def look(place: Place, headers: Headers | None = None, hidden: frozenset[str] = frozenset()) -> Listing:
    return scan([place], headers if headers is not None else Headers(), hidden)


def names(listing: Listing) -> list[str]:
    return [entry.name for entry in listing.entries]


@pytest.fixture
def home(tmp_path: Path) -> Place:
    return Place("Decodeck", tmp_path / "models")


def test_a_place_that_is_not_there_holds_nothing(home: Place) -> None:
    assert look(home) == Listing((), (), True)


def test_files_and_folders_are_found_at_any_depth_with_what_their_headers_say(home: Place) -> None:
    put(home.folder / "maker" / "tiny" / "tiny-Q8_0.gguf", gguf_model("Q8_0"))
    put_folder(home.folder / "whole")
    first, second = look(home).entries
    assert (first.name, second.name) == ("tiny", "whole")
    assert first.header.spec is not None and first.header.spec.architecture == "llama"
    assert first.header.has_template and second.header.has_template
    assert first.candidate.size_bytes == len(gguf_model("Q8_0")) and first.candidate.is_ours


def test_a_model_without_a_template_says_so(home: Place) -> None:
    put(home.folder / "tiny.gguf", gguf_model(has_template=False))
    (entry,) = look(home).entries
    assert entry.header.spec is not None and not entry.header.has_template


def test_the_parts_of_a_split_model_are_one_row(home: Place) -> None:
    tensors = llama_tensors(tiny_state(), TINY)
    parts = write_split(home.folder / "big", "big", llama_metadata(TINY), tensors)
    (entry,) = look(home).entries
    assert [Path(file) for file in entry.candidate.files] == parts
    assert entry.header.spec is not None and entry.path == str(parts[0])


def test_a_vision_part_is_no_row_but_is_named_beside_its_model(home: Place) -> None:
    put(home.folder / "see" / "see.gguf", gguf_model())
    put(home.folder / "see" / "mmproj-see.gguf", projector())
    put(home.folder / "other" / "vision-tower.gguf", projector())  # told by its header alone
    (entry,) = look(home).entries
    assert entry.candidate.projectors == ("mmproj-see.gguf",)


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("notes.gguf", b"<!doctype html><html>", "web page"),
        ("empty.gguf", b"", "empty"),
        ("cut.gguf", gguf_model()[:2000], "damaged or cut off"),
        ("short.gguf", gguf_model()[:-500], "short"),
        ("mamba.gguf", gguf_model(architecture="mamba"), "mamba"),
        ("zip.gguf", b"PK\x03\x04" + bytes(600), "zip"),
    ],
)
def test_a_file_that_cannot_run_is_a_row_with_its_reason(
    home: Place, name: str, data: bytes, words: str
) -> None:
    put(home.folder / name, data)
    put(home.folder / "good.gguf", gguf_model())
    listing = look(home)
    broken = next(entry for entry in listing.entries if entry.header.reason)
    assert words in broken.header.reason and str(home.folder) not in broken.header.reason
    assert len(listing.entries) == 2


def test_a_part_that_is_missing_is_named(home: Place) -> None:
    parts = write_split(home.folder, "big", llama_metadata(TINY), llama_tensors(tiny_state(), TINY))
    parts[1].unlink()
    (entry,) = look(home).entries
    assert "00002-of-00003" in entry.header.reason


def test_pickles_are_not_opened_and_their_row_says_why(home: Place) -> None:
    put(home.folder / "old" / "config.json", b'{"model_type": "llama"}')
    put(home.folder / "old" / "pytorch_model.bin", b"\x80\x04cos\nsystem\n")
    (entry,) = look(home).entries
    assert "could run code" in entry.header.reason


def test_an_unfinished_download_is_no_model(home: Place) -> None:
    put(home.folder / "a.gguf.part", gguf_model())
    whole = put(home.folder / "b-00001-of-00002.gguf", gguf_model())
    assert look(home, hidden=frozenset({str(whole)})).entries == ()


def test_two_hundred_models_are_read_once_and_only_changed_ones_again(home: Place) -> None:
    for number in range(50):
        for type_name in ("F32", "F16", "Q8_0"):
            put(home.folder / f"m{number}" / f"m{number}-{type_name}.gguf", gguf_model(type_name))
    for number in range(30):
        put_folder(home.folder / f"folder{number}")
    for number in range(20):
        put(home.folder / "broken" / f"broken{number}.gguf", gguf_model()[: 100 + number])
    headers = Headers()
    assert len(look(home, headers).entries) == 200 and headers.num_reads == 200
    assert len(look(home, headers).entries) == 200 and headers.num_reads == 200
    put(home.folder / "m0" / "m0-F32.gguf", gguf_model("F16"))
    (home.folder / "m1" / "m1-F32.gguf").unlink()
    assert len(look(home, headers).entries) == 199 and headers.num_reads == 201
    assert len(headers.known) == 199


def test_a_link_in_a_circle_ends_and_is_seen_once(home: Place) -> None:
    put(home.folder / "a" / "tiny.gguf", gguf_model())
    os.symlink(home.folder, home.folder / "a" / "again")
    os.symlink(home.folder / "a", home.folder / "b")
    os.symlink(home.folder / "loop", home.folder / "loop")
    assert names(look(home)) == ["tiny"]


def test_a_folder_that_cannot_be_read_is_said_and_the_rest_is_listed(
    home: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(home.folder / "tiny.gguf", gguf_model())
    closed = home.folder / "closed"
    closed.mkdir()
    scandir = os.scandir

    def refusing(path: str | Path) -> object:
        if Path(path) == closed:
            raise PermissionError(13, "Permission denied")
        return scandir(path)

    monkeypatch.setattr(os, "scandir", refusing)
    listing = look(home)
    assert names(listing) == ["tiny"]
    assert listing.notes == (f"{closed} cannot be read: Permission denied.",)


def test_a_huge_folder_is_cut_off_and_says_so(home: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(library_walk, "MOST_ENTRIES", 10)
    for number in range(30):
        put(home.folder / f"{number:02}.txt", b"")
    assert "too many files" in look(home).notes[0]


def test_more_models_than_a_list_can_hold_are_cut_off_and_that_is_said(
    home: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(library_walk, "MOST_MODELS", 3)
    for number in range(5):
        put(home.folder / f"{number}.gguf", gguf_model())
    listing = look(home)
    assert len(listing.entries) == 3 and "first 3" in listing.notes[0]


def test_the_same_file_in_two_places_is_one_row(tmp_path: Path) -> None:
    put(tmp_path / "models" / "tiny.gguf", gguf_model())
    outer, inner = Place("a", tmp_path), Place("b", tmp_path / "models")
    assert len(scan([outer, inner], Headers()).entries) == 1


def test_a_file_named_model_is_called_by_its_folder(home: Place) -> None:
    put(home.folder / "Qwen3-1.7B" / "model.gguf", gguf_model())
    assert names(look(home)) == ["Qwen3-1.7B"]


def put_snapshot(hub: Path, repo: str, commit: str, files: dict[str, bytes], *, is_main: bool = True) -> Path:
    """As huggingface_hub keeps it: blobs, and links to them in a snapshot."""
    root = hub / f"models--{repo.replace('/', '--')}"
    snapshot = root / "snapshots" / commit
    for name, data in files.items():
        blob = put(root / "blobs" / f"{commit}-{name.replace('/', '_')}", data)
        link = snapshot / name
        link.parent.mkdir(parents=True, exist_ok=True)
        os.symlink(os.path.relpath(blob, link.parent), link)
    if is_main:
        put(root / "refs" / "main", commit.encode())
    return snapshot


def test_the_hugging_face_cache_shows_the_current_snapshot_under_the_models_name(tmp_path: Path) -> None:
    put_snapshot(tmp_path, "maker/Tiny", "old", folder_model(), is_main=False)
    snapshot = put_snapshot(tmp_path, "maker/Tiny", "new", folder_model())
    put_snapshot(tmp_path, "maker/Tiny-GGUF", "c", {"Tiny-Q8_0.gguf": gguf_model("Q8_0")})
    put_snapshot(tmp_path, "maker/tokenizer-only", "c", {"config.json": b"{}", "tokenizer.json": b"{}"})
    put(tmp_path / "models--maker--Tiny-GGUF" / "blobs" / "x.incomplete", b"GGUF")
    listing = look(Place("Hugging Face cache", tmp_path, "hub"))
    assert names(listing) == ["Tiny", "Tiny"]
    assert str(snapshot) in {entry.path for entry in listing.entries}
    assert all(entry.header.spec for entry in listing.entries)


def put_ollama(
    store: Path, name: str, layers: list[tuple[str, str]], host: str = "registry.ollama.ai"
) -> None:
    media = "application/vnd.ollama."
    value = {"layers": [{"mediaType": media + kind, "digest": digest} for kind, digest in layers]}
    put(store / "manifests" / "registry.ollama.ai" / name, json.dumps(value).encode())


def digest(number: int) -> str:
    return f"sha256:{number:064x}"


def test_ollamas_manifests_name_the_blobs(tmp_path: Path) -> None:
    put(tmp_path / "blobs" / f"sha256-{1:064x}", gguf_model())
    put_ollama(tmp_path, "library/llama3.2/3b", [("image.model", digest(1)), ("image.projector", digest(2))])
    put_ollama(tmp_path, "someone/own/latest", [("image.model", digest(1))])
    listing = look(Place("Ollama", tmp_path, "ollama"))
    (entry,) = listing.entries  # both names are the same blob
    assert entry.name == "llama3.2:3b" and entry.candidate.projectors
    assert read_spec(entry.path) == entry.header.spec


@pytest.mark.parametrize(
    ("layers", "words"),
    [
        ([("image.model", digest(7))], "ollama pull bad:x"),
        ([("image.model", "sha256:../../../etc/passwd")], "not in the store"),
        ([("image.model", digest(1)), ("image.model", digest(2))], "several blobs"),
        ([("image.tensor", digest(1))], "several blobs"),
    ],
)
def test_an_ollama_model_that_is_no_single_file_says_why(
    tmp_path: Path, layers: list[tuple[str, str]], words: str
) -> None:
    put_ollama(tmp_path, "library/bad/x", layers)
    (entry,) = look(Place("Ollama", tmp_path, "ollama")).entries
    assert words in entry.header.reason and entry.header.spec is None


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 50, b"[]", b'{"layers": 3}', b'{"layers": [1]}', b"[" * 99_999]
)
def test_a_file_that_is_no_manifest_is_left_out(tmp_path: Path, data: bytes) -> None:
    put(tmp_path / "manifests" / "registry.ollama.ai" / "library" / "a" / "b", data)
    assert look(Place("Ollama", tmp_path, "ollama")).entries == ()


def test_rows_that_are_there_already_are_told_while_the_rest_is_read(home: Place) -> None:
    for number in range(4):
        put(home.folder / f"{number}.gguf", gguf_model())
    told: list[int] = []
    ticks = iter(range(100))
    scan([home], Headers(), (), lambda part: told.append(len(part.entries)), lambda: float(next(ticks)))
    assert told == [1, 2, 3, 4]


def test_models_opened_by_their_paths_are_listed_without_what_lies_beside_them(tmp_path: Path) -> None:
    one = put(tmp_path / "loads" / "one.gguf", gguf_model())
    two = put(tmp_path / "loads" / "two.gguf", gguf_model())
    put(tmp_path / "loads" / "never-opened.gguf", gguf_model())
    whole = put_folder(tmp_path / "whole")
    gone = tmp_path / "gone" / "away.gguf"
    listing = look(Place("Opened before", Path(), "opened", models=(one, two, whole, gone)))
    assert [entry.path for entry in listing.entries] == [str(one), str(two), str(whole)]
    assert not any(entry.candidate.is_ours for entry in listing.entries)


def test_an_opened_model_of_a_known_folder_is_one_row_there(home: Place) -> None:
    path = put(home.folder / "tiny.gguf", gguf_model())
    (entry,) = scan([home, Place("Opened before", Path(), "opened", models=(path,))], Headers()).entries
    assert entry.candidate.place == "Decodeck"
