"""From the tensors of a file to the weights of a decoder, matrix by matrix, in the planned format."""

from __future__ import annotations

from collections.abc import Generator

import torch

from engine.events import LoadProgress
from engine.fit.devices import device_of, placed_matrices
from engine.models.checkpoint import Checkpoint
from engine.models.decoder import Decoder, Layer, Weights
from engine.models.families import GROUPS
from engine.models.matrices import Held, MatrixReader
from engine.models.placement import CPU, planned_runs
from engine.models.strips import StripReader
from engine.models.vectors import VectorReader
from engine.native import library as native
from engine.native.library import NativeLibrary
from engine.quant.bits_and_bytes import LlmInt8Linear, Nf4Linear
from engine.quant.gpu_linear import GpuInt4Linear
from engine.quant.linear import Int4Linear
from engine.types import LoadPlan


def load_decoder(plan: LoadPlan, checkpoint: Checkpoint) -> Generator[LoadProgress, None, Decoder]:
    """Read all weights; yields after every strip of rows. Peak memory: what is held plus one strip; for a GPU
    one matrix.
    """
    placed = placed_matrices(plan)
    total = sum(each.matrix.nbytes for each in placed)
    library = _library() if plan.is_native else None
    held: dict[str, list[Held]] = {}
    done = 0
    with StripReader(checkpoint, plan.threads) as strip_reader:
        readers = {
            device: MatrixReader(
                plan.model,
                checkpoint,
                strip_reader,
                library if device == CPU.type else None,
                sum(each.matrix.nbytes for each in placed if each.device == device),
                torch.device(device),
            )
            for device in {each.device for each in placed}
        }
        for matrix, device in ((each.matrix, each.device) for each in placed):
            loading = readers[device].read(matrix)
            made: Held | None = None
            while made is None:
                with torch.inference_mode():
                    rows, made = next(loading)
                fraction = (done + matrix.nbytes * rows / matrix.rows) / total
                yield LoadProgress(0.02 + 0.96 * fraction, "weights")
            done += matrix.nbytes
            held.setdefault(_place(matrix.words[0]), []).append(made)
        names = (tensor.name for tensor in plan.model.tensors if len(tensor.shape) < 2)
        yield from strip_reader.read_ahead(names, LoadProgress(0.98, "weights"))
    with torch.inference_mode():
        return _decoder(plan, checkpoint, held, library)


def _library() -> NativeLibrary:
    """The native kernels on torch's threads."""
    library = native.load()
    assert library is not None, "a plan has native kernels only where the probe found them"
    native.connect_parallel(library)
    return library


def _decoder(
    plan: LoadPlan, checkpoint: Checkpoint, held: dict[str, list[Held]], library: NativeLibrary | None
) -> Decoder:
    spec = plan.model
    vectors = VectorReader(spec, checkpoint, lambda word: torch.device(device_of(plan, word)))
    embedding = held["embedding"][0]
    packed = Int4Linear | GpuInt4Linear | Nf4Linear | LlmInt8Linear
    assert not isinstance(embedding, packed), "its rows are looked up"
    weights = Weights(
        embedding=embedding,
        layers=[_layer(f"layers.{index}.", held, vectors) for index in range(spec.num_layers)],
        output_norm=vectors.read("output_norm"),
        head=held["head"][0] if "head" in held else embedding,
        is_tied="head" not in held,
    )
    return Decoder(
        spec, weights, plan.context, planned_runs(plan), library, vectors.rope_factors(plan.context)
    )


def _place(word: str) -> str:
    """The layer's place that a file tensor goes to: q, k and v share one, gate and up another."""
    kind = word.rpartition(".")[2]
    place = next((group for group, words in GROUPS.items() if kind in words), kind)
    return word[: len(word) - len(kind)] + place


def _layer(prefix: str, held: dict[str, list[Held]], vectors: VectorReader) -> Layer:
    return Layer(
        qkv=tuple(held[prefix + "qkv"]),
        output=held[prefix + "o"][0],
        gate_up=tuple(held[prefix + "gate_up"]),
        down=held[prefix + "down"][0],
        attention_norm=vectors.find(prefix + "attention_norm"),
        mlp_norm=vectors.find(prefix + "mlp_norm"),
        post_attention_norm=vectors.find(prefix + "post_attention_norm"),
        post_mlp_norm=vectors.find(prefix + "post_mlp_norm"),
        q_norm=vectors.find(prefix + "q_norm"),
        k_norm=vectors.find(prefix + "k_norm"),
        qkv_bias=vectors.bias(prefix, "qkv"),
        output_bias=vectors.bias(prefix, "o"),
        gate_up_bias=vectors.bias(prefix, "gate_up"),
        down_bias=vectors.bias(prefix, "down"),
    )
