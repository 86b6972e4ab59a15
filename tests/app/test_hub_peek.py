"""Headers that are read by ranges: the spec of the whole file for few bytes, from any kind of server."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from app.hub import Files, Hub
from app.hub_peek import RangeFile, Spent, peek
from app.transport import DownloadCancelledError, DownloadError
from engine.errors import EngineError
from engine.models.spec import read_spec
from engine.types import ModelSpec
from tests.app.file_server import Handler
from tests.app.hub_server import PlayedHub, PlayedRepo, send_range
from tests.app.model_bytes import folder_model, gguf_model
from tests.engine.models.writers import TINY, llama_metadata, llama_tensors, tiny_state, write_split

REPO = "maker/tiny"


def offer(played: PlayedHub, files: dict[str, bytes]) -> Files:
    played.repos[REPO] = PlayedRepo(files)
    return Hub().files(REPO, threading.Event())


def look(files: Files, spent: Spent | None = None) -> ModelSpec:
    return peek(Hub(), files, files.variants[0], threading.Event(), spent or Spent())


def shape(spec: ModelSpec) -> object:
    """All of a spec but where it lies."""
    return spec.architecture, spec.num_layers, spec.trained_context, spec.options, spec.tensors


def test_a_gguf_on_the_hub_has_the_spec_of_the_file(played: PlayedHub, tmp_path: Path) -> None:
    path = tmp_path / "tiny.gguf"
    path.write_bytes(gguf_model("Q8_0"))
    found = look(offer(played, {"tiny.gguf": path.read_bytes()}))
    assert shape(found) == shape(read_spec(str(path)))


def test_the_parts_of_a_split_gguf_are_looked_at_together(played: PlayedHub, tmp_path: Path) -> None:
    parts = write_split(tmp_path, "big", llama_metadata(TINY), llama_tensors(tiny_state(), TINY))
    found = look(offer(played, {f"Q8/{part.name}": part.read_bytes() for part in parts}))
    assert shape(found) == shape(read_spec(str(parts[0])))


def test_safetensors_on_the_hub_have_the_spec_of_the_folder(played: PlayedHub, tmp_path: Path) -> None:
    for name, data in folder_model().items():
        (tmp_path / name).write_bytes(data)
    assert shape(look(offer(played, folder_model()))) == shape(read_spec(str(tmp_path)))


def test_the_weights_are_not_downloaded(played: PlayedHub) -> None:
    files = offer(played, {"tiny.gguf": gguf_model() + bytes(40_000_000)})
    spent = Spent()
    look(files, spent)
    assert 0 < spent.num_bytes < 2_000_000


def test_a_server_that_ignores_ranges_is_not_read_whole(played: PlayedHub) -> None:
    sent: list[int] = []

    def serve(handler: Handler, data: bytes) -> None:
        handler.head(200, len(data))
        for start in range(0, len(data), 1 << 16):
            handler.wfile.write(data[start : start + (1 << 16)])
            sent.append(1 << 16)

    played.serve = serve
    files = offer(played, {"tiny.gguf": gguf_model() + bytes(200_000_000)})
    assert look(files).architecture == "llama"
    assert sum(sent) < 60_000_000  # what lay in the sockets' buffers, and no more


def another_part(handler: Handler, data: bytes) -> None:
    handler.body(data[5:100], 206, Content_Range=f"bytes 5-99/{len(data)}")


def another_length(handler: Handler, data: bytes) -> None:
    handler.body(data[:100], 206, Content_Range="bytes 0-99/100")


def no_span(handler: Handler, data: bytes) -> None:
    handler.body(data[:100], 206)


def compressed(handler: Handler, data: bytes) -> None:
    handler.body(data[:100], 206, Content_Range=f"bytes 0-99/{len(data)}", Content_Encoding="zstd")


def too_little(handler: Handler, data: bytes) -> None:
    handler.body(data[:10], 206, Content_Range=f"bytes 0-9/{len(data)}")


@pytest.mark.parametrize("serve", [another_part, another_length, no_span, compressed, too_little])
def test_a_server_that_lies_is_not_believed(played: PlayedHub, serve: object) -> None:
    played.serve = serve  # type: ignore[assignment]
    with pytest.raises(DownloadError):
        look(offer(played, {"tiny.gguf": gguf_model()}))


def test_a_connection_that_breaks_once_is_asked_again(played: PlayedHub) -> None:
    broken = [True]

    def serve(handler: Handler, data: bytes) -> None:
        if broken.pop() if broken else False:
            handler.head(206, 1000, Content_Range=f"bytes 0-999/{len(data)}")
            handler.wfile.write(data[:10])
            return
        send_range(handler, data)

    played.serve = serve
    assert look(offer(played, {"tiny.gguf": gguf_model()})).architecture == "llama"


@pytest.mark.parametrize(
    ("data", "words"),
    [(b"<!doctype html>" + bytes(600), "web page"), (gguf_model()[:3000], "damaged"), (b"", "empty")],
)
def test_what_is_no_model_is_told_before_a_download(played: PlayedHub, data: bytes, words: str) -> None:
    with pytest.raises(EngineError, match=words):
        look(offer(played, {"tiny.gguf": data}))


def test_a_config_that_is_no_object_is_told(played: PlayedHub) -> None:
    with pytest.raises(DownloadError, match=r"config\.json"):
        look(offer(played, folder_model() | {"config.json": b"[1]"}))


def test_cancel_ends_a_look(played: PlayedHub) -> None:
    cancel = threading.Event()
    cancel.set()
    files = offer(played, {"tiny.gguf": gguf_model()})
    with pytest.raises(DownloadCancelledError):
        peek(Hub(), files, files.variants[0], cancel, Spent())


def test_a_range_file_reads_ahead_in_growing_steps_and_never_beyond_the_end() -> None:
    data = bytes(range(256)) * 8192
    asked: list[tuple[int, int]] = []

    def fetch(start: int, count: int) -> bytes:
        asked.append((start, count))
        return data[start : start + count]

    file = RangeFile(len(data), fetch)
    assert file.read(10) == data[:10] and file.read(10) == data[10:20]
    file.seek(8)
    assert file.read() == data[8:] and file.read(5) == b""
    assert len(asked) <= 4 and sum(count for _, count in asked) == len(data)


def test_a_header_beyond_all_bounds_is_given_up() -> None:
    file = RangeFile(1 << 40, lambda start, count: bytes(count))
    with pytest.raises(DownloadError, match="too large"):
        file.read(1 << 30)
