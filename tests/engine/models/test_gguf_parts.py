"""Split GGUF models: any part stands for the whole, and what does not belong together is said (B031)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from app import readouts
from engine.errors import EngineError, ModelFileError
from engine.fit.plan import plan
from engine.machine import Hardware
from engine.models import gguf_parts
from engine.models.checkpoint import Checkpoint
from engine.models.gguf_parts import PartName, models
from engine.models.gguf_spec import AdditionError
from engine.models.load import load_decoder
from engine.models.spec import read_spec, scan_folder
from engine.native.library import NativeLibrary
from engine.text.chat import ChatText
from engine.types import LoadSpec, Message, ModelSpec
from engine.waiting import drained
from tests.engine.models.built import TORCH, run
from tests.engine.models.writers import (
    RawTensor,
    Typed,
    byte_vocabulary,
    gguf_bytes,
    llama_metadata,
    llama_tensors,
    part_name,
    tiny_state,
    write_gguf,
    write_split,
)

CONFIG: dict[str, Any] = {
    "vocab_size": 259,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
}
TEMPLATE = "{% for m in messages %}{{ m.content }}{% endfor %}"
KEYS = llama_metadata(CONFIG) | byte_vocabulary(["<s>", "ab", "</s>"], TEMPLATE)
KEYS |= {
    "tokenizer.ggml.merges": ["a b"],
    "tokenizer.ggml.token_type": Typed("array:i32", [1] * 256 + [3, 1, 3]),
}
IDS = [72, 105, 32, 200, 3, 77]


def tensors(type_name: str = "F32") -> list[RawTensor]:
    return llama_tensors(tiny_state(CONFIG), CONFIG, type_name)


def split(folder: Path, stem: str = "m", count: int = 3, **options: Any) -> list[Path]:
    return write_split(folder, stem, KEYS, tensors(), count, **options)


def refused(path: Path, reason: str, kind: type[EngineError] = ModelFileError) -> EngineError:
    with pytest.raises(kind, match=reason) as caught:
        read_spec(str(path))
    assert type(caught.value) is kind
    return caught.value


def logits(spec: ModelSpec, hardware: Hardware = TORCH) -> torch.Tensor:
    made = plan(spec, hardware, LoadSpec(spec.path, format="f32", context=64))
    with Checkpoint(made.model) as checkpoint:
        return run(drained(load_decoder(made, checkpoint)), IDS, [4])


@pytest.fixture
def whole(tmp_path: Path) -> ModelSpec:
    return read_spec(str(write_gguf(tmp_path / "whole" / "m.gguf", KEYS, tensors())))


@pytest.fixture(autouse=True)
def _folders(tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()


# -- one model -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("first_has_tensors", [True, False])
@pytest.mark.parametrize("count", [2, 3, 7])
def test_any_part_is_the_whole_model(
    tmp_path: Path, whole: ModelSpec, count: int, first_has_tensors: bool
) -> None:
    paths = split(tmp_path / "a folder with spaces", count=count, first_has_tensors=first_has_tensors)
    specs = [read_spec(str(path)) for path in paths]
    assert all(spec == specs[0] for spec in specs)
    assert specs[0].path == str(paths[0])
    assert specs[0].files == tuple(str(path) for path in paths)
    assert specs[0].name == "m"
    assert specs[0].num_params == whole.num_params
    assert {tensor.name for tensor in specs[0].tensors} == {tensor.name for tensor in whole.tensors}
    assert sum(t.nbytes for t in specs[0].tensors) == sum(t.nbytes for t in whole.tensors)


@pytest.mark.parametrize("is_native", [False, True])
def test_its_logits_are_the_unsplit_file_s(
    tmp_path: Path, whole: ModelSpec, is_native: bool, request: pytest.FixtureRequest
) -> None:
    hardware = TORCH
    if is_native:
        kernels: NativeLibrary = request.getfixturevalue("kernels")
        hardware = Hardware("test", 2, None, None, native=kernels.instruction_set)
    expected = logits(whole, hardware)
    assert torch.equal(logits(read_spec(str(split(tmp_path)[1])), hardware), expected)


def test_its_tokenizer_and_template_are_those_of_the_first_part(tmp_path: Path) -> None:
    spec = read_spec(str(split(tmp_path)[2]))
    with Checkpoint(spec, verify_later=True) as checkpoint:
        header = checkpoint.verify()
    for text in (ChatText.load(spec.path, header), ChatText.load(spec.path)):
        assert text.prompt([Message("user", "hi")])[0] == text.tokenizer.encode("hi")


def test_it_is_one_entry_with_the_size_of_all_parts(tmp_path: Path, whole: ModelSpec) -> None:
    paths = split(tmp_path / "models" / "sub folder")
    write_gguf(paths[0].parent / "mmproj-m-f16.gguf", {"general.architecture": "clip"}, tensors()[:1])
    [(path, spec)] = scan_folder(str(tmp_path / "models"))
    assert isinstance(spec, ModelSpec)
    assert path == spec.path == str(paths[0])
    row, unsplit = readouts.model_row(path, spec, path), readouts.model_row(whole.path, whole, "")
    assert (row.name, row.detail, row.is_loaded) == (unsplit.name, unsplit.detail, True)


@pytest.mark.parametrize(
    ("stem", "spelled"),
    [("m", str.upper), ("M", str.lower), ("Llama-3 é", str.upper), ("a-00001-of-00002", str)],
)
def test_capitals_do_not_matter(tmp_path: Path, stem: str, spelled: Any) -> None:
    paths = split(tmp_path, stem)
    renamed = [path.rename(path.with_name(spelled(path.name))) for path in paths[1:]]
    assert read_spec(str(renamed[1])).files == (str(paths[0]), *map(str, renamed))
    assert len(scan_folder(str(tmp_path))) == 1


def test_of_two_spellings_the_same_one_comes_first(tmp_path: Path) -> None:
    upper = [path.rename(path.with_name(path.name.upper())) for path in split(tmp_path)]
    lower = split(tmp_path)
    if lower[0].samefile(upper[0]):
        pytest.skip("this disk does not tell capitals apart")
    for paths in (upper, lower):
        assert read_spec(str(paths[2])).files == tuple(map(str, paths))


def test_a_folder_of_parts_is_their_model(tmp_path: Path) -> None:
    paths = split(tmp_path / "m")
    (tmp_path / "m" / "config.json").write_text("{}")
    (tmp_path / "m" / "mmproj-m.gguf").write_bytes(b"")
    assert read_spec(str(tmp_path / "m")).files == tuple(map(str, paths))
    [(path, _)] = scan_folder(str(tmp_path))
    assert path == str(paths[0])


def test_two_models_in_a_folder_with_a_config_are_two_entries(tmp_path: Path) -> None:
    first, second = split(tmp_path / "m", "x"), split(tmp_path / "m", "y", 2)
    (tmp_path / "m" / "config.json").write_text("{}")
    assert [path for path, _ in scan_folder(str(tmp_path))] == [str(first[0]), str(second[0])]
    refused(tmp_path / "m", "there are 2 GGUF models here")


def test_a_whole_model_may_be_called_like_a_part(tmp_path: Path) -> None:
    for name in ("m-00001-of-00001.gguf", "m-00002-of-00003.gguf"):
        path = write_gguf(tmp_path / name, KEYS, tensors())
        assert read_spec(str(path)).files == (str(path),)
    counted = write_gguf(tmp_path / "m.gguf", KEYS | {"split.count": Typed("u16", 1)}, tensors())
    assert read_spec(str(counted)).files == (str(counted),)


# -- not one model ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [1, 2, 3])
def test_a_missing_part_is_named_whichever_is_picked(tmp_path: Path, missing: int) -> None:
    paths = split(tmp_path)
    paths[missing - 1].unlink()
    for path in (path for path in paths if path.exists()):
        error = refused(path, "2 of 3 parts are there")
        assert error.message.startswith(f"{paths[missing - 1]}: ")
        assert "same folder" in error.hint
    [(path, error)] = scan_folder(str(tmp_path))
    assert path == str(next(path for path in paths if path.exists()))
    assert paths[missing - 1].name in str(error)


def test_of_many_missing_parts_one_is_named_and_all_are_counted(tmp_path: Path) -> None:
    paths = split(tmp_path, count=7)
    for path in paths[1:6]:
        path.unlink()
    refused(paths[6], rf"{paths[1].name}: this part of the model is missing, and 4 more \(2 of 7")


@pytest.mark.parametrize(
    ("inside", "reason"),
    [
        ({"split.count": Typed("u16", 3)}, "part 2 of 3 of a split model, but its name says 2 of 2"),
        ({"split.no": Typed("u16", 0)}, "part 1 of 2 of a split model, but its name says 2 of 2"),
        ({"split.no": Typed("u16", 9)}, "part 10 of 2"),
        ({"split.no": "two"}, "split.no is 'two', not a whole number"),
        ({"split.count": Typed("u64", 1 << 40)}, "split.count is .* out of any sensible range"),
    ],
)
def test_a_part_whose_name_and_content_disagree_is_refused_with_both(
    tmp_path: Path, inside: dict[str, object], reason: str
) -> None:
    paths = split(tmp_path, count=2)
    keys = {"split.no": Typed("u16", 1), "split.count": Typed("u16", 2)} | inside
    paths[1].write_bytes(gguf_bytes(keys, tensors()[-3:]))
    refused(paths[1], reason)
    with pytest.raises(ModelFileError, match=r"by its name|split"):
        read_spec(str(paths[0]))


def test_a_part_under_another_name_says_which_it_is(tmp_path: Path) -> None:
    path = split(tmp_path)[1].rename(tmp_path / "model.gguf")
    error = refused(path, "this is part 2 of 3 of a split model, but its name does not say so")
    assert "NAME-00002-of-00003.gguf" in error.hint


def test_parts_of_different_models_are_told_apart(tmp_path: Path) -> None:
    paths, other = split(tmp_path), split(tmp_path / "other", count=4)
    shorter = [path.read_bytes() for path in split(tmp_path / "shorter")]
    keys = {"split.no": Typed("u16", 1), "split.count": Typed("u16", 3)}
    paths[1].write_bytes(gguf_bytes(keys, tensors()[8:10]))
    refused(paths[0], r"has 21 tensors, but its 3 parts hold \d+")
    paths[1].write_bytes(gguf_bytes(keys, tensors()[:7]))
    refused(paths[0], f"{paths[1].name}: tensor 'token_embd.weight' is in another part too")
    paths[1].write_bytes(other[1].read_bytes())
    refused(paths[0], f"{paths[1].name}: by its name this is part 2 of 3, by its content part 2 of 4")
    paths[1].write_bytes(gguf_bytes(KEYS, tensors()))
    refused(paths[0], "by its content a whole model")
    paths[1].write_bytes(shorter[1])
    assert read_spec(str(paths[0])).num_layers == 2


@pytest.mark.parametrize("cut", [1, 1000])
def test_a_part_that_is_cut_off_is_named(tmp_path: Path, cut: int) -> None:
    paths = split(tmp_path)
    paths[2].write_bytes(paths[2].read_bytes()[:-cut])
    refused(paths[0], f"{paths[2].name}: the file is {cut:,} bytes short: tensor ")
    paths[2].write_bytes(b"")
    refused(paths[0], f"{paths[2].name}: the file is empty")


def test_a_part_that_goes_away_later_is_named(tmp_path: Path) -> None:
    paths = split(tmp_path)
    spec = read_spec(str(paths[0]))
    paths[1].unlink()
    with pytest.raises(ModelFileError, match=f"{paths[1].name}: "):
        Checkpoint(spec)


def test_an_unheard_of_number_of_parts_costs_nothing(tmp_path: Path) -> None:
    keys = {"split.no": Typed("u16", 4), "split.count": Typed("u32", 99_999)}
    path = write_gguf(tmp_path / part_name("m", 5, 99_999), keys, tensors()[:1])
    refused(path, r"m-00001-of-99999\.gguf: this part of the model is missing, and 99,?997 more \(1 of 99999")


# -- names -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("m-00001-of-00003.gguf", ("m", 1, 3)),
        ("M-00002-OF-00003.GGUF", ("M", 2, 3)),
        ("a b\n-00010-of-00010.gguf", ("a b\n", 10, 10)),
        ("x-00001-of-00002-00001-of-00003.gguf", ("x-00001-of-00002", 1, 3)),
        ("m-00000-of-00003.gguf", None),
        ("m-00004-of-00003.gguf", None),
        ("m-00001-of-00001.gguf", None),
        ("m-1-of-3.gguf", None),
        ("m-00001-of-00003.gguf.part", None),
        ("-00001-of-00003.gguf", None),
        ("m-٠٠٠٠١-of-٠٠٠٠٣.gguf", None),
        ("m.gguf", None),
    ],
)
def test_what_a_name_says(name: str, part: tuple[str, int, int] | None) -> None:
    found = PartName.parse(name)
    assert (found and (found.stem, found.number, found.count)) == part
    if found is not None:
        assert found.other(found.number) == name
        assert PartName.parse(found.other(1)) is not None


def test_models_among_names() -> None:
    names = ["b.gguf", "M-00003-of-00003.gguf", "m-00002-OF-00003.gguf", "c.gguf.part", "d.safetensors"]
    names += ["mmproj-b.gguf", "b-MMPROJ-f16.gguf", "x-00002-of-00002.gguf", "m-00001-of-00002.gguf"]
    assert models(names) == [
        "b.gguf",
        "m-00002-OF-00003.gguf",
        "x-00002-of-00002.gguf",
        "m-00001-of-00002.gguf",
    ]


# -- what lies beside ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("mmproj-model-f16.gguf", {"general.architecture": "clip"}),
        ("model.mmproj-Q8_0.gguf", {"general.architecture": "clip"}),
        ("vision.gguf", {"general.architecture": "clip"}),
        ("projector.gguf", {"general.type": "mmproj", "general.architecture": "llama"}),
        ("lora.gguf", {"general.type": "adapter", "general.architecture": "llama"}),
    ],
)
def test_a_projector_is_never_offered_and_is_explained_when_picked(
    tmp_path: Path, name: str, keys: dict[str, object]
) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    model = write_gguf(folder / "model.gguf", KEYS, tensors())
    path = write_gguf(folder / name, keys, tensors()[:1])
    assert [each for each, _ in scan_folder(str(folder))] == [str(model)]
    error = refused(path, "addition to a model", AdditionError)
    assert "main file" in error.hint


@pytest.mark.parametrize(
    "name", ["x.gguf.part1of2", "x.GGUF.PART2OF2", "x.gguf-split-a", "x.gguf.part_b", "x.gguf.001"]
)
def test_a_piece_cut_by_hand_is_explained_and_not_offered(tmp_path: Path, name: str) -> None:
    path = tmp_path / "models" / name
    path.parent.mkdir()
    raw = gguf_bytes(KEYS, tensors())
    for piece in (raw[: len(raw) // 2], raw[len(raw) // 2 :]):
        path.write_bytes(piece)
        assert "Join the pieces" in refused(path, "one piece of a file that was cut by hand").hint
    assert scan_folder(str(path.parent)) == []


def test_reading_parts_opens_no_other_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = split(tmp_path)
    split(tmp_path, "other")
    opened: list[str] = []
    read = gguf_parts.gguf.read_header
    monkeypatch.setattr(
        gguf_parts.gguf, "read_header", lambda path: opened.append(Path(path).name) or read(path)
    )
    read_spec(str(paths[1]))
    assert sorted(opened) == [path.name for path in paths]
