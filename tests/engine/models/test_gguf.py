"""The GGUF header reader: what a good file says, and refusals of everything else."""

from __future__ import annotations

import os
import struct
import sys
import tracemalloc
from pathlib import Path

import gguf as oracle
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine.errors import EngineError, ModelFileError, UnsafeModelError, UnsupportedModelError
from engine.models import gguf
from tests.engine.models.writers import RawTensor, Typed, gguf_bytes, text, write_gguf

ONE = {"general.architecture": "llama"}


def floats(name: str, count: int = 64, offset: int | None = None) -> RawTensor:
    return RawTensor(name, (count,), "F32", np.arange(count, dtype=np.float32).tobytes(), offset)


def read(
    tmp_path: Path, raw: bytes, name: str = "m.gguf", limits: gguf.Limits | None = None
) -> gguf.GgufHeader:
    path = tmp_path / name
    path.write_bytes(raw)
    return gguf.read_header(str(path), limits)


def test_every_metadata_type_is_read(tmp_path: Path) -> None:
    values = {
        "u8": Typed("u8", 255),
        "i8": Typed("i8", -3),
        "u16": Typed("u16", 65535),
        "i16": Typed("i16", -300),
        "u32": Typed("u32", 1 << 31),
        "i32": Typed("i32", -5),
        "u64": Typed("u64", 1 << 63),
        "i64": Typed("i64", -(1 << 62)),
        "f32": Typed("f32", 0.5),
        "f64": Typed("f64", 0.1),
        "yes": True,
        "no": False,
        "text": "пр é🙂",
        "empty": "",
        "texts": ["a", "", "é"],
        "none": Typed("array:str", []),
        "ints": Typed("array:i32", [1, -2]),
        "flags": Typed("array:bool", [True, False]),
        "doubles": Typed("array:f64", [0.1, 0.2]),
    }
    header = read(tmp_path, gguf_bytes(values))
    want = {key: value.value if isinstance(value, Typed) else value for key, value in values.items()}
    assert header.metadata == want
    assert header.metadata["yes"] is True
    assert header.metadata["flags"] == [True, False]


def test_a_file_of_the_format_authors_writer_is_read_alike(tmp_path: Path) -> None:
    path = tmp_path / "m.gguf"
    writer = oracle.GGUFWriter(str(path), "llama")
    writer.add_context_length(99)
    writer.add_token_list([f"t{i}" for i in range(1000)])
    matrix = np.arange(128, dtype=np.float32).reshape(2, 64)
    writer.add_tensor("a", matrix)
    packed = oracle.quants.quantize(matrix, oracle.GGMLQuantizationType.Q8_0)
    writer.add_tensor("b", packed, raw_dtype=oracle.GGMLQuantizationType.Q8_0)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    header = gguf.read_header(str(path))
    assert header.metadata["llama.context_length"] == 99
    assert header.metadata["tokenizer.ggml.tokens"] == [f"t{i}" for i in range(1000)]
    reader = oracle.GGUFReader(str(path))
    for ours, theirs in zip(header.tensors, reader.tensors, strict=True):
        assert (ours.name, ours.shape[::-1]) == (theirs.name, tuple(theirs.shape))
        assert (ours.type, ours.offset, ours.nbytes) == (
            theirs.tensor_type.name,
            theirs.data_offset,
            theirs.n_bytes,
        )


def test_version_two_has_the_same_layout(tmp_path: Path) -> None:
    header = read(tmp_path, gguf_bytes(ONE, [floats("a")], version=2))
    assert (header.version, header.tensors[0].name) == (2, "a")


def test_an_array_longer_than_one_read_is_whole(tmp_path: Path) -> None:
    words = [f"word {i} " * (i % 7) for i in range(70_000)]
    numbers = list(range(500_000))
    header = read(tmp_path, gguf_bytes({"words": words, "n": Typed("array:u32", numbers), "z": "end"}))
    assert header.metadata == {"words": words, "n": numbers, "z": "end"}


def test_text_that_is_not_utf8_gets_a_replacement(tmp_path: Path) -> None:
    header = read(tmp_path, gguf_bytes({"a": b"\xff!", "b": [b"\xfe"]}))
    assert header.metadata == {"a": "�!", "b": ["�"]}


# -- B023 ------------------------------------------------------------------------------------------------

HUGE = {
    "array": "47475546030000000000000000000000010000000000000001000000000000006109000000"
    "040000000000000000000080",
    "string": "474755460300000000000000000000000100000000000000010000000000000061080000000000000000000080",
    "keys": "474755460300000000000000000000000000000000000080",
    "tensors": "474755460300000000000000000000800000000000000000",
    "gigabyte": "4747554603000000000000000000000001000000000000000100000000000000610800000000000040000000",
}
NAMED = {"array": "'a'", "string": "'a'", "keys": "key count", "tensors": "tensor count", "gigabyte": "'a'"}


@pytest.mark.parametrize("case", HUGE)
def test_huge_claims_are_refused_by_field_without_memory(tmp_path: Path, case: str) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(ModelFileError, match=NAMED[case]) as caught:
            read(tmp_path, bytes.fromhex(HUGE[case]))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 10_000_000
    assert "\n" not in str(caught.value)
    assert "m.gguf" in str(caught.value)


def test_strings_and_arrays_beyond_the_limits_are_refused_even_if_they_are_there(tmp_path: Path) -> None:
    limits = gguf.Limits(elements=10, string_bytes=100, name_bytes=20, keys=3, tensors=1)
    for raw, reason in (
        (gguf_bytes({"a": Typed("array:u8", [0] * 6), "b": Typed("array:u8", [0] * 5)}), "at most 4 "),
        (gguf_bytes({"a": "x" * 101}), "at most 100 "),
        (gguf_bytes({"a": ["x" * 101]}), "element 0"),
        (gguf_bytes({"k" * 21: 1}), "at most 20 "),
        (gguf_bytes({f"k{i}": 1 for i in range(4)}), "key count is 4; at most 3"),
        (gguf_bytes({}, [floats("a"), floats("b")]), "tensor count is 2; at most 1"),
    ):
        if "element 0" in reason:  # a long element falls under the limit of strings
            raw = raw.replace(struct.pack("<Q", 101), struct.pack("<Q", 1 << 40))
        with pytest.raises(ModelFileError, match=reason):
            read(tmp_path, raw, limits=limits)


# -- B024 ------------------------------------------------------------------------------------------------


def test_nested_arrays_are_refused_without_recursion(tmp_path: Path) -> None:
    nested = text("a") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 5000
    raw = b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + nested
    with pytest.raises(ModelFileError, match="array of arrays"):
        read(tmp_path, raw)


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (
            bytes.fromhex(
                "4747554603000000000000000000000001000000000000000100000000000000610001000000000000"
            ),
            "unknown type 256",
        ),
        (
            bytes.fromhex("47475546030000000000000000000000010000000000000000000000000000000400000001000000"),
            "is empty",
        ),
        (gguf_bytes([("general.architecture", "llama"), ("general.architecture", "gpt2")]), "appears twice"),
        (gguf_bytes([(b"\xff\xfe", 1)]), "not valid UTF-8"),
        (gguf_bytes({"a": Typed("u8", 2)}).replace(text("a") + b"\0", text("a") + b"\7"), "neither 0 nor 1"),
        (
            gguf_bytes({"a": Typed("array:u8", [1])}).replace(b"\t\0\0\0\0", b"\t\0\0\0\x0d"),
            "element type 13",
        ),
    ],
    ids=["type 256", "empty key", "repeated key", "key bytes", "bool 2", "element type"],
)
def test_odd_keys_and_types_are_refused(tmp_path: Path, raw: bytes, reason: str) -> None:
    with pytest.raises(ModelFileError, match=reason):
        read(tmp_path, raw)


# -- B026 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("alignment", [8, 32, 64, 4096])
def test_an_alignment_of_a_power_of_two_is_followed(tmp_path: Path, alignment: int) -> None:
    metadata = ONE | {"general.alignment": alignment}
    header = read(tmp_path, gguf_bytes(metadata, [floats("a", 3), floats("b", 5)], alignment=alignment))
    assert header.alignment == alignment
    assert header.data_offset % alignment == 0
    assert header.tensors[1].offset - header.tensors[0].offset == max(alignment, 16)


def test_a_missing_alignment_means_32(tmp_path: Path) -> None:
    assert read(tmp_path, gguf_bytes(ONE, [floats("a")])).alignment == 32


@pytest.mark.parametrize("alignment", [0, 3, 1 << 30, "32", True, 32.0, [32]])
def test_other_alignments_are_refused(tmp_path: Path, alignment: object) -> None:
    with pytest.raises(ModelFileError, match=r"general\.alignment"):
        read(tmp_path, gguf_bytes(ONE | {"general.alignment": alignment}, [floats("a")]))


# -- B027 ------------------------------------------------------------------------------------------------


def small_file() -> bytes:
    metadata = ONE | {"tokens": ["a", "bc"], "n": Typed("array:i32", [1, 2, 3])}
    return gguf_bytes(metadata, [floats("first"), floats("last")])


@pytest.mark.parametrize("cut", [1, 100, 256, 257, 400])
def test_a_cut_in_the_weights_says_how_much_and_which_tensor(tmp_path: Path, cut: int) -> None:
    name = "last" if cut <= 256 else "first"
    with pytest.raises(ModelFileError, match=f"{cut} bytes short: tensor '{name}'") as caught:
        read(tmp_path, small_file()[:-cut])
    assert "download" in caught.value.hint.lower()


def test_missing_padding_after_the_last_tensor_is_no_fault(tmp_path: Path) -> None:
    raw = gguf_bytes(ONE, [floats("a", 3)])
    assert read(tmp_path, raw[:-20]).tensors[0].nbytes == 12


def test_every_shorter_piece_of_a_file_is_refused(tmp_path: Path) -> None:
    raw = small_file()
    for size in range(len(raw)):
        with pytest.raises(EngineError):
            read(tmp_path, raw[:size])


# -- B029, B030 ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "kind", "reason"),
    [
        (b"<!doctype html><html>", ModelFileError, "web page, .* download failed"),
        (b"\n <HTML><head>", ModelFileError, "web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", ModelFileError, "Git LFS pointer"),
        (b"PK\x03\x04rest", ModelFileError, "zip archive"),
        (b"PK\x03\x04........................archive/data.pkl", UnsafeModelError, "pickle"),
        (b"\x80\x02}q\x00.", UnsafeModelError, "pickle"),
        (struct.pack("<Q", 60) + b'{"a":{}}', ModelFileError, "safetensors file"),
        (b"tjgg\3\0\0\0", UnsupportedModelError, "GGJT"),
        (b"lmgg\3\0\0\0", UnsupportedModelError, "GGML"),
        (b"\x1f\x8b\x08", ModelFileError, "gzip"),
        (b'{"error":"Repository not found"}', ModelFileError, "JSON"),
        (b"Invalid username or password.", ModelFileError, "server's error"),
        (b"\0" * 600, ModelFileError, "zeros"),
        (b"", ModelFileError, "empty"),
        (b"what?", ModelFileError, "not a GGUF file"),
        (b"GGUF" + struct.pack("<IQQ", 1, 0, 0), UnsupportedModelError, "version 1 "),
        (b"GGUF" + struct.pack("<IQQ", 99, 0, 0), UnsupportedModelError, "version 99 "),
        (b"GGUF" + struct.pack("<IQQ", 0, 0, 0), UnsupportedModelError, "version 0 "),
        (
            bytes.fromhex("474755460000000300000000000000000000000000000000"),
            UnsupportedModelError,
            "big-endian",
        ),
        (b"FUGG" + struct.pack(">IQQ", 3, 0, 0), UnsupportedModelError, "big-endian"),
        (b"GGU", ModelFileError, "not a GGUF file"),
        (b"GGUF\3", ModelFileError, "ends inside its header"),
    ],
)
def test_other_files_are_named_for_what_they_are(
    tmp_path: Path, raw: bytes, kind: type[EngineError], reason: str
) -> None:
    with pytest.raises(kind, match=reason) as caught:
        read(tmp_path, raw)
    assert type(caught.value) is kind


def test_a_path_that_is_no_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelFileError, match="no such file"):
        gguf.read_header(str(tmp_path / "nothing.gguf"))
    with pytest.raises(ModelFileError, match="folder"):
        gguf.read_header(str(tmp_path))
    with pytest.raises(ModelFileError):
        gguf.read_header(str(tmp_path / ("x" * 300)))
    with pytest.raises(ModelFileError):
        gguf.read_header("a\0b.gguf")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes have names on POSIX only")
def test_a_named_pipe_does_not_block(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe.gguf"
    os.mkfifo(pipe)
    with pytest.raises(ModelFileError, match="regular file"):
        gguf.read_header(str(pipe))


# -- B032 ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    ["моделі/модель é🙂.gguf", "e\u0301.gguf", "#a%20b&c.gguf", "-x.gguf", "a<b>.gguf", "n" * 245 + ".gguf"],
)
def test_any_name_is_read_and_named(tmp_path: Path, name: str) -> None:
    if sys.platform == "win32" and "<" in name:
        pytest.skip("Windows forbids this name")
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    write_gguf(path, ONE, [floats("a")])
    assert gguf.read_header(str(path)).tensors[0].name == "a"
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(ModelFileError) as caught:
        gguf.read_header(str(path))
    assert name in str(caught.value)


# -- tensors ---------------------------------------------------------------------------------------------


def raw_tensor(shape: tuple[int, ...], type_id: int | str = "F32", offset: int = 0) -> RawTensor:
    return RawTensor("t", shape, type_id, b"\0" * 64, offset)


@pytest.mark.parametrize(
    ("tensors", "reason"),
    [
        ([floats("a"), floats("b", offset=0)], "overlap"),
        ([floats("a"), floats("b", offset=224)], "'a' and 'b' overlap"),
        ([floats("a"), floats("a")], "appears twice"),
        ([floats("a"), floats("b", offset=260)], "not a multiple of 32"),
        ([floats("a", offset=(1 << 64) - 32)], "bytes short"),
        ([raw_tensor((2, 2, 2, 2, 2))], "5 dimensions"),
        ([raw_tensor((0, 4))], "below 1"),
        ([raw_tensor((1 << 32, 1 << 32))], "larger than any file"),
        ([raw_tensor((1 << 62, 1 << 62, 1 << 62, 4))], "larger than any file"),
        ([raw_tensor((1 << 40,))], "bytes short: tensor 't'"),
        ([raw_tensor((2, 33), "Q4_0")], "multiple of 32"),
        ([RawTensor("", (1,), "F32", b"\0" * 4)], "is empty"),
    ],
)
def test_impossible_tensors_are_refused(tmp_path: Path, tensors: list[RawTensor], reason: str) -> None:
    with pytest.raises(ModelFileError, match=reason):
        read(tmp_path, gguf_bytes(ONE, tensors))


@pytest.mark.parametrize(("number", "shown"), [(200, "number 200"), (4, "Q4_2"), (31, "Q4_0_4_4")])
def test_an_unknown_type_number_is_refused_with_its_tensor(tmp_path: Path, number: int, shown: str) -> None:
    with pytest.raises(UnsupportedModelError, match=f"'t' has the type {shown}"):
        read(tmp_path, gguf_bytes(ONE, [raw_tensor((4,), number)]))


def test_a_scalar_tensor_has_an_empty_shape(tmp_path: Path) -> None:
    header = read(tmp_path, gguf_bytes(ONE, [RawTensor("s", (), "F32", b"\0" * 4)]))
    assert (header.tensors[0].shape, header.tensors[0].nbytes) == ((), 4)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_changed_bytes_give_a_header_or_a_typed_error(tmp_path: Path, data: st.DataObject) -> None:
    raw = bytearray(small_file())
    end = raw.index(b"last") + 40
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, end))] = data.draw(st.integers(0, 255))
    path = str(tmp_path / "m.gguf")
    header: gguf.GgufHeader | None = None
    message = path
    try:
        header = read(tmp_path, bytes(raw))
    except EngineError as error:
        message = error.message
    assert path in message
    assert header is None or all(each.offset + each.nbytes <= len(raw) for each in header.tensors)


def test_real_vocabularies_are_read(cases_dir: Path) -> None:
    for path in sorted((cases_dir / "vocab").glob("*.gguf")):
        header = gguf.read_header(str(path))
        tokens = header.metadata["tokenizer.ggml.tokens"]
        assert isinstance(tokens, list)
        assert len(tokens) > 32_000 - 1
