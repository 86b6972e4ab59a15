"""Layers by device: how many fit, what each device holds, which wishes are refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from engine.errors import WishError
from engine.fit.bytes import kv_bytes, weight_bytes
from engine.fit.devices import device_of, gpu_matrices, placed_matrices
from engine.fit.plan import depends_on_gpus, plan
from engine.machine import Gpu, Hardware
from engine.types import LoadPlan, LoadSpec, ModelSpec
from tests.fakes import make_spec

GB = 10**9
ALL = ("f32", "bf16", "f16", "int4g32", "int8row")
GPU = Gpu(0, "A GPU", "cuda", 24 * GB, 20 * GB, ALL)
LAYERS = 12


def make(types: str = "Q4_0", is_tied: bool = True, layers: int = LAYERS) -> ModelSpec:
    """A model of some layers, each of 30 MB or so at 16 bits."""
    spec = make_spec()
    hidden, inner, vocab = 1024, 4096, 8192
    sizes = {64: hidden, 32: hidden // 2, 96: inner, 259: vocab}
    tensors = [
        replace(
            tensor,
            name=tensor.name.replace("blk.0", f"blk.{index}"),
            shape=tuple(sizes[size] for size in tensor.shape),
            type=types if len(tensor.shape) == 2 else "F32",
        )
        for tensor in spec.tensors
        for index in (range(layers) if "blk.0" in tensor.name else (0,))
        if "blk.1" not in tensor.name
    ]
    if not is_tied:
        embedding = next(tensor for tensor in tensors if tensor.name == "token_embd.weight")
        tensors.append(replace(embedding, name="output.weight"))
    return replace(
        spec,
        tensors=tuple(tensors),
        num_layers=layers,
        hidden_size=hidden,
        intermediate_size=inner,
        vocab_size=vocab,
        num_heads=16,
        num_kv_heads=8,
        head_dim=64,
        tied_embeddings=is_tied,
    )


def machine(*gpus: Gpu, ram_free: int | None = 8 * GB, native: str | None = None) -> Hardware:
    return Hardware("A processor", 8, 16 * GB, ram_free, native=native, gpus=gpus)


def made_for(spec: ModelSpec, hardware: Hardware, **wish: object) -> LoadPlan:
    options = {"format": "bf16", "context": 1024} | wish
    return plan(spec, hardware, LoadSpec(spec.path, **options))  # type: ignore[arg-type]


def test_a_machine_without_a_gpu_has_one_share_which_is_the_plan() -> None:
    for gpus in ((), None):
        made = made_for(make(), replace(machine(), gpus=gpus))
        (share,) = made.devices
        assert (share.device, share.layers, share.bytes) == ("cpu", LAYERS, made.bytes)
        assert (share.free_bytes, made.spare_bytes) == (8 * GB, share.spare_bytes)
        assert (made.device, made.gpu_layers, made.free_bytes) == ("cpu", 0, 8 * GB)
        assert made.bytes.weights == weight_bytes(made.model, "bf16")


def test_what_fits_on_the_gpu_lies_there() -> None:
    made = made_for(make(), machine(GPU))
    cpu, gpu = made.devices
    assert (made.device, made.gpu_layers, made.verdict) == ("cuda:0", LAYERS, "fits")
    assert (cpu.layers, cpu.bytes.weights, cpu.bytes.kv_reserved) == (0, 0, 0)
    assert gpu.bytes.weights == weight_bytes(made.model, "bf16")
    assert gpu.bytes.kv_reserved == kv_bytes(made.model, 1024, 16)
    assert (gpu.name, gpu.free_bytes) == ("A GPU", 20 * GB)
    assert made.free_bytes == 28 * GB


@pytest.mark.parametrize("is_tied", [True, False])
@pytest.mark.parametrize("layers", [1, 5, LAYERS])
def test_shares_add_up_to_the_model(layers: int, is_tied: bool) -> None:
    """In whichever part; the embedding is on the processor unless it is the head."""
    spec = make(is_tied=is_tied)
    made = made_for(spec, machine(GPU), gpu_layers=layers)
    cpu, gpu = made.devices
    assert cpu.bytes.weights + gpu.bytes.weights == weight_bytes(spec, "bf16") == made.bytes.weights
    assert cpu.bytes.kv_reserved + gpu.bytes.kv_reserved == kv_bytes(spec, 1024, 16)
    assert (cpu.layers, gpu.layers, made.gpu_layers) == (LAYERS - layers, layers, layers)
    assert device_of(made, "embedding") == ("cuda:0" if is_tied else "cpu")
    assert [device_of(made, word) for word in ("head", "output_norm", "rope_factors")] == [
        "cuda:0",
        "cuda:0",
        "cpu",
    ]
    border = [device_of(made, f"layers.{index}.q") for index in range(LAYERS)]
    assert border == ["cpu"] * (LAYERS - layers) + ["cuda:0"] * layers


def test_matrices_are_placed_once_each_as_their_device_holds_them() -> None:
    made = made_for(make(is_tied=False), machine(GPU, native="avx2"), format="file", gpu_layers=4)
    placed = placed_matrices(made)
    held = {(each.device, each.matrix.held) for each in placed}
    assert held == {("cpu", "int4"), ("cuda:0", "int4g32")}
    words = [word for each in placed for word in each.matrix.words]
    assert len(words) == len(set(words)) == 2 + 7 * LAYERS
    for share in made.devices:
        matrices = sum(each.matrix.nbytes for each in placed if each.device == share.device)
        vectors = 4 * 1024 * (2 * share.layers + (share.device != "cpu"))
        assert share.bytes.weights == matrices + vectors


def test_as_many_layers_as_fit_go_to_the_gpu_and_the_rest_stays() -> None:
    spec = make()
    needed = {n: made_for(spec, machine(GPU), gpu_layers=n).devices[-1].bytes.total for n in (6, 7)}
    small = replace(GPU, total_bytes=100_000_000)  # 3 % of which stay free
    for free, layers in ((needed[7] + 3_000_000 - 1, 6), (needed[7] + 3_000_000, 7)):
        made = made_for(spec, machine(replace(small, free_bytes=free)))
        assert (made.gpu_layers, made.verdict) == (layers, "spills")
        assert made.reasons[0].startswith(f"{layers} of {LAYERS} layers on the GPU.")


def test_a_gpu_that_holds_not_one_layer_leaves_the_plan_to_the_processor() -> None:
    made = made_for(make(), machine(replace(GPU, free_bytes=1_000_000)))
    assert (made.device, made.gpu_layers, len(made.devices)) == ("cpu", 0, 1)
    assert made.verdict == "spills"


def test_a_gpu_whose_free_memory_is_unknown_gets_what_is_asked_for_and_nothing_by_itself() -> None:
    blind = replace(GPU, free_bytes=None)
    assert made_for(make(), machine(blind)).gpu_layers == 0
    made = made_for(make(), machine(blind), gpu_layers=LAYERS)
    assert (made.gpu_layers, made.verdict, made.free_bytes) == (LAYERS, "tight", None)


def test_what_does_not_fit_on_a_device_is_said_whatever_room_the_others_have() -> None:
    spec = make()
    small = replace(GPU, free_bytes=300_000_000)
    assert made_for(spec, machine(small), gpu_layers=LAYERS).verdict == "no"
    assert made_for(spec, machine(GPU, ram_free=1_000_000), gpu_layers=6).verdict == "no"


def test_little_spare_on_any_device_is_tight() -> None:
    spec = make()
    total = made_for(spec, machine(GPU)).devices[-1].bytes.total
    assert made_for(spec, machine(replace(GPU, free_bytes=total + GB // 10))).verdict == "tight"
    assert made_for(spec, machine(GPU, ram_free=100_000_000)).verdict == "tight"


def test_of_several_gpus_the_one_with_most_room_is_taken_unless_one_is_named() -> None:
    other = replace(GPU, index=1, free_bytes=23 * GB)
    hardware = machine(GPU, other)
    assert made_for(make(), hardware).device == "cuda:1"
    assert made_for(make(), hardware, device="cuda:0").device == "cuda:0"
    assert made_for(make(), hardware, device="cuda").device == "cuda:0"
    assert made_for(make(), hardware, device="cpu").device == "cpu"
    assert made_for(make(), hardware, gpu_layers=0).device == "cpu"


def test_more_layers_than_there_are_is_all_of_them() -> None:
    assert made_for(make(), machine(GPU), gpu_layers=999).gpu_layers == LAYERS


@pytest.mark.parametrize(
    ("wish", "gpus", "words"),
    [
        ({"device": "cuda:1"}, (GPU,), "auto, cpu or cuda:0"),
        ({"device": "mps"}, (), "auto or cpu"),
        ({"device": "gpu"}, (GPU,), "auto, cpu or cuda:0"),
        ({"gpu_layers": 4}, (), "auto or cpu"),
        ({"gpu_layers": 4, "device": "cpu"}, (GPU,), "auto, cpu or cuda:0"),
        ({"gpu_layers": -1}, (GPU,), "0 or more"),
    ],
)
def test_a_device_that_is_not_here_is_refused_with_those_that_are(
    wish: dict[str, object], gpus: tuple[Gpu, ...], words: str
) -> None:
    with pytest.raises(WishError) as error:
        made_for(make(), machine(*gpus), **wish)
    assert words in error.value.hint


def test_before_anybody_has_looked_a_plan_is_the_processors() -> None:
    """The engine looks, and makes it anew."""
    unknown = replace(machine(), gpus=None)
    for wish in ({}, {"device": "cuda:0"}, {"gpu_layers": 3}, {"format": "llm-int8"}):
        made = made_for(make(), unknown, **wish)
        assert made.device == "cpu"
        assert depends_on_gpus(made) is bool(wish)
    assert depends_on_gpus(made_for(make(), replace(unknown, ram_free_bytes=GB // 100)))
    assert not depends_on_gpus(made_for(make(), replace(unknown, ram_free_bytes=GB // 100), device="cpu"))
    assert not depends_on_gpus(made_for(make(), machine(ram_free=GB // 100)))


def test_apples_gpu_takes_its_memory_from_the_processors() -> None:
    apple = Gpu(0, "Apple GPU", "mps", 12 * GB, 12 * GB, ALL)
    total = made_for(make(), machine(apple)).devices[-1].bytes.total
    assert made_for(make(), machine(apple, ram_free=total - 1)).verdict == "no"
    made = made_for(make(), machine(apple))
    assert (made.device, made.verdict) == ("mps", "fits")


@pytest.mark.parametrize(
    ("types", "format", "formats", "held"),
    [
        ("Q4_0", "file", ALL, "int4g32"),
        ("Q4_K", "file", ALL, "int4g32"),
        ("Q6_K", "file", ALL, "bf16"),
        ("Q4_K", "file", ("f32", "f16"), "f16"),
        ("Q4_0", "file", ("f32",), "f32"),
        ("F16", "bf16", ("f32", "f16"), "f16"),
        ("F16", "int4", ALL, "int4g32"),
        ("F16", "int8", ALL, "int8row"),
        ("F16", "int8", ("f32", "bf16"), "bf16"),
        ("F16", "nf4", ALL, "nf4"),
        ("F16", "llm-int8", ALL, "llm-int8"),
    ],
)
def test_a_gpu_holds_what_it_was_seen_to_compute(
    types: str, format: str, formats: tuple[str, ...], held: str
) -> None:
    matrices = gpu_matrices(make(types), format, formats)
    assert {each.held for each in matrices if "embedding" not in each.words} == {held}


def test_a_format_for_gpus_alone_leaves_no_layer_on_the_processor() -> None:
    hardware = replace(machine(GPU), has_bitsandbytes=True)
    assert made_for(make(), hardware, format="llm-int8").gpu_layers == LAYERS
    small = replace(hardware, gpus=(replace(GPU, free_bytes=300_000_000),))
    assert made_for(make(), small, format="llm-int8").verdict == "no"


def test_without_a_layer_on_the_processor_its_kernels_are_not_asked_for() -> None:
    hardware = machine(GPU, native="avx2")
    assert made_for(make(), hardware).kernels == "torch"
    assert made_for(make(), hardware, gpu_layers=3).kernels == "native avx2"
