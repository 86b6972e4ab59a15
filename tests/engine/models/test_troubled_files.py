"""Files that change under a load, lie under odd names, or are no files at all."""

from __future__ import annotations

import os
import stat
import sys
import unicodedata
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
import torch

from engine.engine import Engine
from engine.errors import EngineError, ModelFileError
from engine.events import Chunk, Finished, Loaded
from engine.fit.plan import plan
from engine.models.checkpoint import Checkpoint
from engine.models.load import load_decoder
from engine.models.signature import open_regular
from engine.models.spec import read_spec, scan_folder
from engine.types import GenerateRequest, LoadPlan, LoadSpec, Message, ModelSpec, SamplingParams
from tests.engine.models.built import TORCH, run
from tests.engine.models.test_gguf_parts import CONFIG, IDS, KEYS
from tests.engine.models.writers import gguf_bytes, llama_tensors, tiny_state, write_split
from tests.engine.tiny import tiny_folder

POSIX = pytest.mark.skipif(os.name == "nt", reason="Windows keeps open files as they are")
TENSORS = llama_tensors(tiny_state(CONFIG), CONFIG)
OTHER = llama_tensors(tiny_state(CONFIG, seed=7), CONFIG)


def write(path: Path, seed: int = 0) -> Path:
    """The same header for every seed, and other weights."""
    path.write_bytes(gguf_bytes(KEYS, OTHER if seed else TENSORS))
    return path


def make_plan(path: Path | str) -> LoadPlan:
    return plan(read_spec(str(path)), TORCH, LoadSpec(str(path), format="f32", context=64))


def answer(engine: Engine, tokens: int = 8) -> str:
    sampling = SamplingParams(temperature=0)
    engine.submit(GenerateRequest("r", (Message("user", "hi"),), sampling, max_tokens=tokens))
    events = []
    while engine.is_busy:
        events += engine.step()
    [end] = [event for event in events if isinstance(event, Finished)]
    assert end.reason in ("length", "stop")
    return "".join(event.text for event in events if isinstance(event, Chunk))


def logits(made: LoadPlan, between: Callable[[], None] = lambda: None) -> torch.Tensor:
    """Of a load in whose middle something happens."""
    with Checkpoint(made.model) as checkpoint:
        loading, pieces = load_decoder(made, checkpoint), 0
        while True:
            try:
                next(loading)
            except StopIteration as end:
                return run(end.value, IDS, [4])
            pieces += 1
            if pieces == 5:
                between()


def outcome(loading: Iterable[object]) -> object:
    """The last event of a load, or the reason why there is none."""
    try:
        *_, end = loading
    except ModelFileError as error:
        return error
    return end


def truncate(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def empty(path: Path) -> None:
    path.write_bytes(b"")


def touch(path: Path) -> None:
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1_000_000_000))


def overwrite(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(gguf_bytes(KEYS, OTHER))
    touch(path)  # a clock of files may be slower than a test


def append(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"more")


def replace_file(path: Path) -> None:
    os.replace(write(path.with_suffix(".new"), seed=7), path)


def delete(path: Path) -> None:
    path.unlink()


def swap_with_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


CHANGES = (truncate, empty, touch, overwrite, append)
GONE = (replace_file, delete, swap_with_folder)


@pytest.mark.parametrize("change", CHANGES)
def test_a_file_written_to_under_a_load_ends_it_in_words(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    path = write(tmp_path / "m.gguf")
    made = make_plan(path)
    with pytest.raises(ModelFileError, match=r"m\.gguf: the file changed while it was loaded") as caught:
        logits(made, lambda: change(path))
    assert "again" in caught.value.hint


@POSIX
@pytest.mark.parametrize("change", GONE)
def test_a_load_goes_on_with_the_file_it_opened(tmp_path: Path, change: Callable[[Path], None]) -> None:
    path = write(tmp_path / "m.gguf")
    made = make_plan(path)
    expected = logits(made)
    assert torch.equal(logits(made, lambda: change(path)), expected)


@POSIX
@pytest.mark.parametrize("change", [*CHANGES, *GONE])
@pytest.mark.parametrize("pieces", [0, 1, 8])
def test_whenever_a_file_changes_the_engine_has_a_model_or_a_reason(
    tmp_path: Path, change: Callable[[Path], None], pieces: int
) -> None:
    path, engine = write(tmp_path / "m.gguf"), Engine()
    loading = engine.load(make_plan(path))
    for _ in range(pieces):
        next(loading)
    change(path)
    ended = outcome(loading)
    if isinstance(ended, ModelFileError):
        assert str(path) in ended.message
        assert ended.hint
        assert engine.plan is None
    else:
        assert isinstance(ended, Loaded)
        assert answer(engine)
    list(engine.load(make_plan(write(tmp_path / "good.gguf"))))
    assert answer(engine)


@POSIX
@pytest.mark.parametrize("change", [*CHANGES, *GONE])
def test_a_loaded_model_needs_its_file_no_more(tmp_path: Path, change: Callable[[Path], None]) -> None:
    path, engine = write(tmp_path / "m.gguf"), Engine()
    list(engine.load(make_plan(path)))
    expected = answer(engine)
    change(path)
    assert answer(engine) == expected
    assert answer(engine, tokens=30).startswith(expected)


@POSIX
@pytest.mark.parametrize("change", [truncate, delete])
def test_a_folder_s_shards_are_no_different(tmp_path: Path, change: Callable[[Path], None]) -> None:
    place = tiny_folder(tmp_path / "m")
    engine = Engine()
    list(engine.load(make_plan(place)))
    expected = answer(engine)
    made, shard = make_plan(place), place / "model.safetensors"
    change(shard)
    with pytest.raises(ModelFileError, match="m"):
        list(Engine().load(made))
    assert answer(engine) == expected


def test_two_instances_load_the_same_file_at_once(tmp_path: Path) -> None:
    made = make_plan(write(tmp_path / "m.gguf"))
    first, second = Engine(), Engine()
    loads = [first.load(made), second.load(made)]
    while loads:
        loads = [load for load in loads if next(load, None) is not None]
    assert answer(first) == answer(second)
    assert torch.equal(first.logits(IDS), second.logits(IDS))
    first.unload()
    assert answer(second)


# -- names -----------------------------------------------------------------------------------------------

DEEP = "/".join(["a long folder name of forty-six characters, so"] * 6)
NAMES = [
    "моделі/模型 é🙂.gguf",
    unicodedata.normalize("NFD", "é.gguf"),
    DEEP + "/m.gguf",
    "n" * 245 + ".gguf",
    "50%20off #1 & more.gguf",
    "-x.gguf",
    "--model.gguf",
    "dots...gguf",
    " leading and trailing .gguf",
    "<b>bold</b> &amp; [x](y).gguf",
    "a\nb\t.gguf",
    "quote ' and \" and `.gguf",
    "back\\slash.gguf",
    "~home.gguf",
    "$HOME %TEMP% *.gguf",
]


@pytest.mark.parametrize("name", NAMES)
def test_a_model_of_any_name_is_listed_loaded_and_deleted(tmp_path: Path, name: str) -> None:  # B032
    if os.name == "nt" and any(letter in '<>:"|?*\\\n\t' for letter in name):
        pytest.skip("Windows forbids this name")
    path = tmp_path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    write(path)
    [(found, spec)] = scan_folder(str(path.parent))
    assert found == str(path)
    assert isinstance(spec, ModelSpec)
    assert spec.name.isprintable()
    engine = Engine()
    *_, loaded = engine.load(make_plan(found))
    assert isinstance(loaded, Loaded)
    assert answer(engine)
    path.unlink()
    assert scan_folder(str(path.parent)) == []


@pytest.mark.parametrize("name", ["模型 é🙂", "trailing dot.", "#1%20&", "-folder", "m.gguf"])
def test_a_model_folder_of_any_name_is_listed_and_loaded(tmp_path: Path, name: str) -> None:  # B032
    if os.name == "nt" and name.endswith("."):
        pytest.skip("Windows drops the dot")
    place = tiny_folder(tmp_path / name)
    [(found, spec)] = scan_folder(str(tmp_path))
    assert found == str(place)
    assert isinstance(spec, ModelSpec)
    engine = Engine()
    list(engine.load(make_plan(found)))
    assert answer(engine)


@pytest.mark.parametrize("name", ["-x.gguf", "m #1.gguf", "é🙂.gguf"])
def test_a_path_from_here_is_as_good_as_a_whole_one(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:  # B032
    write(tmp_path / name)
    monkeypatch.chdir(tmp_path)
    assert torch.equal(logits(make_plan(name)), logits(make_plan(tmp_path / name)))
    part = write_split(tmp_path, "s", KEYS, TENSORS)[1].name
    assert [Path(file).name for file in read_spec(part).files] == [
        f"s-0000{number}-of-00003.gguf" for number in (1, 2, 3)
    ]


@pytest.mark.skipif(sys.platform in ("win32", "darwin"), reason="names are text there")
def test_a_name_that_is_no_text_is_read_all_the_same(tmp_path: Path) -> None:  # B032
    path = tmp_path / os.fsdecode(b"caf\xe9.gguf")
    try:
        write(path)
    except OSError:
        pytest.skip("this disk takes no such name")
    [(found, spec)] = scan_folder(str(tmp_path))
    assert isinstance(spec, ModelSpec)
    assert spec.name.encode()  # what is shown is text
    assert torch.equal(logits(make_plan(found)), logits(make_plan(write(tmp_path / "m.gguf"))))


# -- no files --------------------------------------------------------------------------------------------


def refused(path: Path | str, reason: str) -> EngineError:
    with pytest.raises(ModelFileError, match=reason) as caught:
        read_spec(str(path))
    assert "\n" not in str(caught.value)
    return caught.value


@POSIX
def test_a_pipe_is_refused_without_waiting_for_a_writer(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m.gguf")
    refused(tmp_path / "m.gguf", "not a regular file")
    os.mkfifo(tmp_path / "m-00001-of-00002.gguf")
    [(_, first), (_, second)] = scan_folder(str(tmp_path))
    assert isinstance(first, ModelFileError)
    assert isinstance(second, ModelFileError)


@POSIX
def test_a_pipe_that_takes_a_file_s_place_is_refused_without_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path / "m.gguf")
    before = path.stat()
    path.unlink()
    os.mkfifo(path)
    monkeypatch.setattr(Path, "stat", lambda *_, **__: before)
    with pytest.raises(ModelFileError, match="not a regular file"):
        open_regular(str(path))


def test_a_folder_called_like_a_model_is_looked_into(tmp_path: Path) -> None:
    place = tmp_path / "x.gguf"
    place.mkdir()
    refused(place, "no weights here")
    inner = write(place / "m.gguf")
    assert read_spec(str(place)).path == str(inner)


@POSIX
def test_links_that_lead_nowhere_or_in_a_circle_are_refused(tmp_path: Path) -> None:
    (tmp_path / "a.gguf").symlink_to(tmp_path / "b.gguf")
    (tmp_path / "b.gguf").symlink_to(tmp_path / "a.gguf")
    (tmp_path / "gone.gguf").symlink_to(tmp_path / "nothing.gguf")
    (tmp_path / "loop").symlink_to(tmp_path)
    refused(tmp_path / "a.gguf", r"a\.gguf: cannot be read \(Too many levels")
    refused(tmp_path / "gone.gguf", r"gone\.gguf: there is no such file")
    good = write(tmp_path / "good.gguf")
    (tmp_path / "link.gguf").symlink_to(good)
    results = dict(scan_folder(str(tmp_path)))
    assert {Path(path).name for path, each in results.items() if isinstance(each, ModelSpec)} == {
        "good.gguf",
        "link.gguf",
    }


@pytest.mark.skipif(not hasattr(os, "SEEK_DATA"), reason="holes cannot be seen here")
def test_a_file_with_a_hole_where_weights_should_be_is_an_unfinished_download(tmp_path: Path) -> None:
    config = CONFIG | {"hidden_size": 256, "intermediate_size": 512}
    raw = gguf_bytes(
        KEYS | {"llama.embedding_length": 256, "llama.feed_forward_length": 512},
        llama_tensors(tiny_state(config), config),
    )
    path = tmp_path / "m.gguf"
    path.write_bytes(raw)
    spec = read_spec(str(path))
    down = next(tensor for tensor in spec.tensors if tensor.name == "blk.1.ffn_down.weight")
    for keeps in (down.offset, down.offset + down.nbytes):  # up to the hole, and behind it too
        path.unlink()
        with path.open("wb") as file:
            file.write(raw[: down.offset])
            file.truncate(len(raw))
            if keeps > down.offset:
                file.seek(keeps)
                file.write(raw[keeps:])
        if path.stat().st_blocks * 512 >= len(raw):
            pytest.skip("this disk keeps no holes")
        error = refused(path, r"tensor 'blk\.1\.ffn_down\.weight' was never written")
        assert "download" in error.hint


def test_a_file_of_zeros_alone_is_told_from_a_model(tmp_path: Path) -> None:
    with (tmp_path / "m.gguf").open("wb") as file:
        file.truncate(1 << 30)
    refused(tmp_path / "m.gguf", "begins with zeros; its download was cut")


def test_a_file_that_cannot_be_examined_is_a_reason_and_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, opened = write(tmp_path / "m.gguf"), []

    def fail(descriptor: int) -> os.stat_result:
        opened.append(descriptor)
        raise OSError(116, os.strerror(116))

    monkeypatch.setattr(os, "fstat", fail)
    refused(path, r"m\.gguf: cannot be read")
    monkeypatch.undo()
    assert opened
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])


@pytest.mark.parametrize("function", ["open", "stat"])
def test_a_file_without_permission_says_so(
    tmp_path: Path, function: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As for somebody who is not the system's administrator."""
    path = write(tmp_path / "m.gguf")
    original = getattr(os, function)

    def deny(place: object, *args: object, **options: object) -> object:
        if str(place) == str(path):
            raise PermissionError(13, os.strerror(13), str(place))
        return original(place, *args, **options)

    monkeypatch.setattr(os, function, deny)
    refused(path, "no permission to read|cannot be read")
    [(_, error)] = scan_folder(str(tmp_path)) or [("", None)]
    assert error is None or isinstance(error, ModelFileError)


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="permissions do not bind here")
def test_permissions_of_the_disk_are_told(tmp_path: Path) -> None:
    path = write(tmp_path / "locked" / "m.gguf") if (tmp_path / "locked").mkdir() is None else tmp_path
    path.chmod(0)
    refused(path, "no permission to read this file")
    path.parent.chmod(stat.S_IXUSR)
    with pytest.raises(ModelFileError, match="cannot be read"):
        scan_folder(str(path.parent))
    path.parent.chmod(0o700)


@POSIX
def test_a_model_in_a_read_only_folder_is_loaded(tmp_path: Path) -> None:
    place = tiny_folder(tmp_path / "m")
    for each in (*place.iterdir(), place):
        each.chmod(0o555 if each.is_dir() else 0o444)
    try:
        engine = Engine()
        list(engine.load(make_plan(place)))
        assert answer(engine)
    finally:
        place.chmod(0o755)
