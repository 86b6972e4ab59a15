"""Disks that hang, stutter and fail under a load: it goes on, ends with a typed error, or is dropped."""

from __future__ import annotations

import gc
import os
import signal
import threading
import weakref
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from engine import loading as loading_module
from engine.engine import Engine
from engine.errors import ModelFileError
from engine.events import Loaded, LoadProgress
from engine.fit.plan import plan
from engine.machine import Hardware
from engine.models import checkpoint as checkpoint_module
from engine.models import strips
from engine.models.checkpoint import Checkpoint
from engine.models.load import load_decoder
from engine.models.spec import read_spec
from engine.models.strips import StripReader
from engine.types import LoadPlan, LoadSpec
from engine.waiting import drained
from tests.engine.models.built import TORCH, run
from tests.engine.models.disk import Disk, disk
from tests.engine.models.test_gguf_parts import CONFIG, IDS, KEYS
from tests.engine.models.writers import (
    llama_metadata,
    llama_tensors,
    tiny_state,
    write_folder,
    write_gguf,
    write_split,
)

__all__ = ["disk"]
UP = "blk.1.ffn_up.weight"
WIDE = CONFIG | {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 1, "vocab_size": 128}
WIDE |= {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "tie_word_embeddings": False}
WIDE_KEYS = llama_metadata(WIDE)


def make_plan(path: Path, format: str = "f32", hardware: Hardware = TORCH) -> LoadPlan:
    return plan(read_spec(str(path)), hardware, LoadSpec(str(path), format=format, context=64, threads=2))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_gguf(tmp_path / "m.gguf", KEYS, llama_tensors(tiny_state(CONFIG), CONFIG))


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Many tiny products on several threads would wait for each other most of the time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def made(model: Path) -> LoadPlan:
    return make_plan(model)


def logits(made: LoadPlan) -> torch.Tensor:
    with Checkpoint(made.model) as checkpoint:
        return run(drained(load_decoder(made, checkpoint)), IDS, [4])


def load_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("decodeck-")]


def join(threads: list[threading.Thread]) -> None:
    for thread in threads:
        thread.join(20)
    assert not any(thread.is_alive() for thread in threads)


# -- hanging ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("format", ["f32", "bf16", "int8"])
def test_a_load_whose_read_hangs_can_be_dropped_and_leaves_nothing(
    format: str, native: bool, model: Path, disk: Disk, request: pytest.FixtureRequest
) -> None:
    hardware = TORCH
    if native:
        hardware = replace(TORCH, native=request.getfixturevalue("kernels").instruction_set)
    loading = Engine().load(make_plan(model, format, hardware))
    begun = next(event for event in loading if event.phase == "weights")  # type: ignore[union-attr]
    disk.hangs = True
    while not disk.waiting.acquire(blocking=False):
        begun = next(loading)  # type: ignore[assignment]
    for _ in range(5):  # it goes on saying where it stands
        assert next(loading) == replace(begun, remaining_s=None)  # type: ignore[type-var]
    loading.close()
    left = load_threads()
    assert left  # with the read that nobody waits for
    disk.let_go()
    join(left)


def test_what_a_hanging_read_holds_is_given_back_when_it_returns(made: LoadPlan, disk: Disk) -> None:
    checkpoint = Checkpoint(made.model)
    out = torch.empty(96, 64)
    alive = weakref.ref(out.untyped_storage())
    with StripReader(checkpoint, 2) as reader:
        disk.hangs = True
        reading = reader.copy(UP, out)
        next(reading)
        disk.waiting.acquire()
        reading.close()
    files = [file._file for file in checkpoint._files]
    checkpoint.close()
    assert not any(file.closed for file in files)  # their numbers must not become another file's
    left = load_threads()
    disk.let_go()
    join(left)
    assert all(file.closed for file in files)
    del out, reading, reader
    gc.collect()
    assert alive() is None


def test_a_part_that_comes_when_the_load_was_dropped_is_not_used(made: LoadPlan, disk: Disk) -> None:
    used: list[slice] = []
    with Checkpoint(made.model) as checkpoint, StripReader(checkpoint, 1) as reader:
        disk.hangs = True
        reading = reader.use(UP, lambda address, part: used.append(part))
        next(reading)
        reading.close()
        left = load_threads()
    disk.let_go()
    join(left)
    assert used == []


@pytest.mark.parametrize("what", ["open", "header", "text"])
def test_a_load_that_waits_for_a_file_can_be_dropped(
    what: str, made: LoadPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, files = threading.Event(), []
    target, name = {
        "open": (checkpoint_module, "open_regular"),
        "header": (checkpoint_module, "read_header"),
        "text": (loading_module.ChatText, "load"),
    }[what]
    original = getattr(target, name)

    def hang(*args: object) -> object:
        assert goes_on.wait(60)
        result = original(*args)
        files.append(result)
        return result

    monkeypatch.setattr(target, name, hang)
    loading = Engine().load(made)
    last: object = None
    for event in loading:  # until it has nothing to do but to wait
        if event == last:
            break
        last = event
    assert isinstance(last, LoadProgress)
    loading.close()
    left = load_threads()
    assert left
    goes_on.set()
    join(left)
    assert files
    if what == "open":
        assert files[0][0].closed  # type: ignore[index]


def test_a_process_whose_load_hangs_can_end(made: LoadPlan, disk: Disk) -> None:
    """The threads of an executor would be waited for."""
    loading = Engine().load(made)
    disk.hangs = True
    while not disk.waiting.acquire(blocking=False):
        next(loading)
    threads = load_threads()
    assert len(threads) >= 2
    assert all(thread.daemon for thread in threads)
    loading.close()
    disk.let_go()
    join(threads)


# -- stuttering ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("most_bytes", [1, 7, 100])
def test_short_reads_are_put_together(most_bytes: int, made: LoadPlan, disk: Disk) -> None:
    expected = logits(made)
    disk.most_bytes = most_bytes * 100
    assert torch.equal(logits(made), expected)


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="signals interrupt reads on POSIX only")
def test_signals_interrupt_no_load(made: LoadPlan) -> None:
    expected, seen = logits(made), []
    before = signal.signal(signal.SIGALRM, lambda *_: seen.append(1))
    signal.setitimer(signal.ITIMER_REAL, 1e-3, 1e-3)
    try:
        while len(seen) < 5:
            assert torch.equal(logits(made), expected)
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("fails_at", [1, 2, 10, -1])
def test_an_error_of_the_disk_ends_the_load_in_words_and_the_next_one_works(
    fails_at: int, made: LoadPlan, disk: Disk
) -> None:
    engine = Engine()
    list(engine.load(made))
    num_reads = len(disk.sizes)
    disk.fails_at = len(disk.sizes) + (fails_at if fails_at > 0 else num_reads)
    with pytest.raises(ModelFileError, match=r"m\.gguf: cannot be read \(Input/output error\)") as caught:
        list(engine.load(made))
    assert caught.value.hint
    assert engine.plan is None
    assert engine.memory().weights_bytes == 0
    disk.fails_at = None
    *_, end = engine.load(made)
    assert isinstance(end, Loaded)


def test_an_error_in_one_part_of_a_split_model_names_that_part(tmp_path: Path, disk: Disk) -> None:
    paths = write_split(tmp_path, "s", KEYS, llama_tensors(tiny_state(CONFIG), CONFIG))
    made = make_plan(paths[0])
    at = {tensor.name: tensor for tensor in made.model.tensors}
    with Checkpoint(made.model) as checkpoint:
        for name, info in at.items():
            disk.fails_at = len(disk.sizes) + 1
            with pytest.raises(ModelFileError, match=paths[info.file].name):
                checkpoint.raw(name)


# -- how much is read at once ----------------------------------------------------------------------------


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("source", ["gguf", "folder"])
@pytest.mark.parametrize("native", [False, True])
@pytest.mark.parametrize("format", ["f32", "bf16", "f16", "int8", "int4"])
def test_between_two_looks_at_cancel_a_load_reads_little(
    format: str,
    native: bool,
    source: str,
    tmp_path: Path,
    disk: Disk,
    monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest,
) -> None:
    """A strip of each thread at most: a limit on bytes is one on time, on whatever disk."""
    hardware = TORCH
    if native:
        hardware = replace(TORCH, native=request.getfixturevalue("kernels").instruction_set)
    state = tiny_state(WIDE)
    if source == "gguf":
        path = write_gguf(tmp_path / "m.gguf", WIDE_KEYS, llama_tensors(state, WIDE))
    else:
        path = write_folder(tmp_path / "m", state, WIDE, 2)
    made = make_plan(path, format, hardware)
    head = max(4 * 256 * made.model.head_dim, 4 * 512 * 16)  # rows are read in whole heads and tiles
    strip = 2 * head
    monkeypatch.setattr(strips, "_STRIP_BYTES", strip)
    monkeypatch.setattr(strips, "_PIECE_BYTES", strip // 2)
    monkeypatch.setattr(strips, "STRIP_ELEMENTS", strip // 4)
    read, most = disk.num_bytes, 0
    small = sum(tensor.nbytes for tensor in made.model.tensors if len(tensor.shape) == 1)
    with Checkpoint(made.model) as checkpoint:
        for _ in load_decoder(made, checkpoint):
            most, read = max(most, disk.num_bytes - read), disk.num_bytes
    assert strip // 2 <= most <= max(strip, small)
    assert disk.num_bytes >= sum(tensor.nbytes for tensor in made.model.tensors)


def test_a_strip_is_read_in_100_ms_even_at_the_speed_of_an_old_disk() -> None:
    assert strips._STRIP_BYTES <= 0.1 * 100e6
    assert strips._PIECE_BYTES * 8 <= strips._STRIP_BYTES


def test_what_is_left_is_told_from_the_rate_of_the_last_seconds(made: LoadPlan, disk: Disk) -> None:
    now = [0.0]

    def slow(number: int) -> None:
        now[0] += 0.5  # for every read of a disk

    disk.before_read = slow
    engine = Engine(clock=lambda: now[0])
    events = [event for event in engine.load(made) if isinstance(event, LoadProgress)]
    weights = [event for event in events if event.phase == "weights"]
    assert weights[0].remaining_s is None
    told = [(event.fraction, event.remaining_s) for event in weights if event.remaining_s is not None]
    assert len(told) > 10
    total_s = 0.5 * len(disk.sizes)
    assert all(0 <= left <= 3 * total_s for _, left in told)
    assert told[-1][1] == min(left for _, left in told)
    assert [event.percent for event in events] == sorted(event.percent for event in events)


def test_only_the_files_of_the_model_stay_open_while_it_loads(made: LoadPlan) -> None:
    def num_open() -> int:
        return len(os.listdir("/proc/self/fd"))

    if not Path("/proc/self/fd").exists():
        pytest.skip("open files cannot be counted here")
    engine = Engine()
    list(engine.load(made))
    before = num_open()
    for _ in range(3):
        list(engine.load(made))
        loading = engine.load(made)
        for _ in range(3):
            next(loading)
        loading.close()
        engine.unload()
    join(load_threads())
    gc.collect()
    assert num_open() <= before


def test_no_tokenizer_is_built_for_a_load_that_was_dropped(
    made: LoadPlan, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That keeps the interpreter from all other threads for a tenth of a second and more."""
    goes_on, built = threading.Event(), []
    verify = Checkpoint.verify

    def hang(checkpoint: Checkpoint) -> object:
        header = verify(checkpoint)
        assert goes_on.wait(60)
        return header

    monkeypatch.setattr(Checkpoint, "verify", hang)
    monkeypatch.setattr(loading_module.ChatText, "load", lambda *_: built.append(True))
    loading = Engine().load(made)
    while not any(thread.name == "decodeck-text" for thread in load_threads()):
        next(loading)
    loading.close()
    goes_on.set()
    join(load_threads())
    assert built == []
