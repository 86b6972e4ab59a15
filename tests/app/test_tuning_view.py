"""What the Tuning panel is told: sizes, speeds with their ±, zones, verdicts in words that are true."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from app import tuning_view
from app.landscape import Ground, Landscape, ground, survey
from app.tuning_view import Scene, format_keys
from engine.capabilities import Capabilities, GenericOptions
from engine.fit.plan import plan
from engine.fit.speed import Prediction
from engine.machine import Gpu, Hardware
from engine.types import LoadPlan, LoadSpec, ModelSpec
from tests.fakes import HARDWARE, make_plan, make_spec
from ui.tuning_values import FormatChoice, HeatView, TuningView

NBSP = "\u00a0"
NATIVE = replace(HARDWARE, native="avx2")
ALL = ("f32", "bf16", "int8", "int4", "nf4")
WITH_FILE = ("f32", "bf16", "int8", "file", "int4", "nf4")
GPU = Gpu(0, "A GPU", "cuda", 8_000_000_000, 8_000_000_000, ("f32", "bf16"))
SPEED = Prediction(50.0, 41.3, 30.0, 0.31, 900.0, 0.06, "measured")


def typed(type_name: str) -> ModelSpec:
    return replace(make_spec(), tensors=tuple(replace(t, type=type_name) for t in make_spec().tensors))


def grounded(wanted: LoadPlan, loaded: LoadPlan, hardware: Hardware) -> Ground:
    spec, draft = wanted.model, wanted.draft.model if wanted.draft else None
    formats = format_keys(spec, hardware, {wanted.format, loaded.format})
    places = {wanted.context, loaded.context}
    return ground(spec, hardware, wanted.wish, 0, draft, "quality", formats, places)


def view_of(hardware: Hardware = HARDWARE, loaded: LoadPlan | None = None, **wish: Any) -> TuningView:
    """The dock for a wish, with what ``loaded`` says loaded."""
    wanted = plan(make_spec(), hardware, LoadSpec("/models/tiny.gguf", **wish))
    loaded = loaded or wanted
    return tuning_view.tuning_view(Scene(loaded, wanted, survey(grounded(wanted, loaded, hardware))))


def choices(hardware: Hardware) -> dict[str, FormatChoice]:
    return {choice.key: choice for choice in view_of(hardware).formats}


# Formats


def test_the_file_format_is_offered_only_where_it_is_smaller() -> None:
    assert format_keys(make_spec(), HARDWARE) == WITH_FILE
    assert format_keys(typed("BF16"), NATIVE) == ALL
    assert format_keys(typed("Q8_0"), HARDWARE) == ALL  # torch's kernels have no home for it
    assert format_keys(typed("Q8_0"), NATIVE) == WITH_FILE


def test_what_is_loaded_or_chosen_is_always_among_the_formats() -> None:
    in_use = {"f16", "file"}
    expected = ("f32", "bf16", "f16", "int8", "file", "int4", "nf4")
    assert format_keys(typed("BF16"), HARDWARE, in_use) == expected


def test_a_format_that_cannot_run_is_shown_off_with_its_reason() -> None:
    off = choices(HARDWARE)["nf4"]
    assert (off.label, off.fit, off.detail) == ("NF4", "off", "not on this CPU")
    assert "AVX-512 BF16" in off.tooltip
    fast = replace(HARDWARE, instruction_sets=("avx512_bf16",))
    assert "pip install" in choices(fast)["nf4"].tooltip
    assert choices(replace(fast, has_bitsandbytes=True))["nf4"].fit == "fits"


def test_formats_have_plain_names_sizes_and_speeds() -> None:
    found = choices(NATIVE)
    labels = [choice.label for choice in found.values()]
    assert labels == ["32-bit", "16-bit", "8-bit", "File 4.7-bit", "4-bit", "NF4"]
    size, speed = found["bf16"].detail.split(" · ")
    assert size.endswith(f"{NBSP}MB") and speed.endswith(f"{NBSP}tok/s")
    assert "Nothing is gained" in found["int8"].tooltip
    assert "Nothing is gained" not in found["file"].tooltip


def test_a_draft_model_makes_no_format_heavier() -> None:
    alone = plan(make_spec(), HARDWARE, LoadSpec("/models/tiny.gguf"))
    draft = make_spec("/models/draft.gguf")
    wish = LoadSpec("/models/tiny.gguf", draft=draft.path)
    both = plan(make_spec(), HARDWARE, wish, draft=draft)
    assert both.bytes.weights > alone.bytes.weights
    sizes = []
    for wanted in (alone, both):
        scene = Scene(wanted, wanted, survey(grounded(wanted, wanted, HARDWARE)))
        sizes.append([each.detail.split(" · ")[0] for each in tuning_view.tuning_view(scene).formats])
    assert sizes[0] == sizes[1]


# Context, heatmap


def test_the_dock_shows_the_loaded_and_the_wished_settings() -> None:
    view = view_of(loaded=make_plan(), format="bf16", context=1024)
    assert (view.loaded_format, view.chosen_format) == ("file", "bf16")
    assert (view.loaded_context, view.chosen_context, view.trained_context) == (4096, 1024, 4096)
    assert [choice.key for choice in view.formats] == list(WITH_FILE)
    assert (view.tight_from, view.spills_from, view.no_fit_from) == (None, None, None)
    assert view.context_stops == (512, 1024, 2048, 4096, 8192)
    assert view.recommended


def test_zones_begin_where_the_first_context_does_not_fit() -> None:
    spec, wish = make_spec(trained_context=1 << 20), LoadSpec("/models/tiny.gguf", format="file", context=512)

    def needs(context: int) -> int:
        parts = plan(spec, HARDWARE, replace(wish, context=context)).bytes
        return parts.total - parts.overhead

    free = (needs(1 << 19) + needs(1 << 20)) // 2
    poor = replace(HARDWARE, ram_total_bytes=1_000_000, ram_free_bytes=free)
    made = plan(spec, poor, wish)
    view = tuning_view.tuning_view(Scene(made, made, survey(grounded(made, made, poor))))
    assert (view.tight_from, view.no_fit_from) == (None, 1 << 20)
    assert view_of(replace(HARDWARE, ram_free_bytes=0), format="file", context=512).no_fit_from == 512


def test_the_heatmap_has_what_can_run_and_agrees_with_segments_and_verdict() -> None:
    view = view_of(NATIVE, loaded=plan(make_spec(), NATIVE, LoadSpec("/models/tiny.gguf")), format="int8")
    heat = view.heat
    assert isinstance(heat, HeatView)
    assert [row.key for row in heat.rows] == ["f32", "bf16", "int8", "file", "int4"]
    assert {tuple(cell.context for cell in row.cells) for row in heat.rows} == {view.context_stops}
    assert (heat.chosen, heat.loaded) == (("int8", 4096), ("file", 4096))
    cell = next(cell for row in heat.rows if row.key == "int8" for cell in row.cells if cell.context == 4096)
    assert cell.fit == "fits" and cell.tps is not None
    words = f"{tuning_view.numbers.predicted_tps(cell.tps)}{NBSP}tok/s"
    assert view.verdict is not None
    assert words in view.verdict.detail
    assert words in next(each.detail for each in view.formats if each.key == "int8")


def test_a_long_scale_loses_its_shortest_contexts_in_the_heatmap() -> None:
    spec = make_spec(trained_context=131_072)
    made = plan(spec, HARDWARE, LoadSpec(spec.path))
    view = tuning_view.tuning_view(Scene(made, made, survey(grounded(made, made, HARDWARE))))
    assert len(view.context_stops) > tuning_view.MOST_COLUMNS
    assert view.heat is not None
    contexts = [cell.context for cell in view.heat.rows[0].cells]
    assert contexts == list(view.context_stops[-tuning_view.MOST_COLUMNS :])


def test_before_the_survey_there_is_no_heatmap_but_all_else() -> None:
    made = make_plan()
    view = tuning_view.tuning_view(Scene(made, made, survey(grounded(made, made, HARDWARE), (4096,))))
    assert view.heat is None and view.recommended == ""
    assert len(view.formats) == len(WITH_FILE)
    assert view.context_stops == (512, 1024, 2048, 4096, 8192)


# Verdicts


def with_verdict(verdict: str, **changes: Any) -> LoadPlan:
    return replace(make_plan(), verdict=verdict, **changes)


def with_spare(spare: int, **changes: Any) -> LoadPlan:
    """A plan whose devices leave so much free."""
    made = make_plan()
    share = made.devices[0]
    free = share.bytes.total - share.bytes.overhead + spare
    return replace(made, devices=(replace(share, free_bytes=free),), **changes)


@pytest.mark.parametrize(
    ("made", "title"),
    [
        (with_spare(1_204_000_000), f"Fits · 1.20{NBSP}GB spare"),
        (with_spare(310_000_000, verdict="tight"), f"Tight · 0.31{NBSP}GB spare"),
        (with_spare(-3_400_000_000, verdict="no"), f"Does not fit · 3.40{NBSP}GB short"),
        (with_verdict("spills", spilled=0.18, slowdown=6.2), "Spills 18% to RAM · about 6× slower"),
        (with_verdict("spills", spilled=0.02, slowdown=1.2), "Spills 2% to RAM · a little slower"),
        (
            with_verdict("spills", spilled=0.5, slowdown=30.0, disk_layers=1),
            "Spills 50% to disk · about 30× slower",
        ),
    ],
)
def test_a_verdict_is_words(made: LoadPlan, title: str) -> None:
    view = tuning_view.verdict_view(made, SPEED)
    assert (view.kind, view.title) == (made.verdict, title)


def test_unknown_memory_is_said() -> None:
    made = make_plan()
    unknown = replace(made, verdict="tight", devices=(replace(made.devices[0], free_bytes=None),))
    assert tuning_view.verdict_view(unknown, SPEED).title == "Tight · free memory unknown"


def test_a_prediction_stands_with_its_band_and_its_basis() -> None:
    view = tuning_view.verdict_view(make_plan(), SPEED)
    assert view.detail == f"41{NBSP}tok/s ±6% · first token 0.3{NBSP}s"
    assert "measured of this computer." in view.tooltip
    guessed = tuning_view.verdict_view(make_plan(), replace(SPEED, basis="default", band=0.5))
    assert "±50%" in guessed.detail and "typical values" in guessed.tooltip


def landscape_of(made: LoadPlan, hardware: Hardware = HARDWARE) -> Landscape:
    return survey(grounded(made, made, hardware))


def test_what_does_not_fit_names_what_would() -> None:
    huge = make_plan(context=1 << 30)
    assert huge.verdict == "no"
    view = tuning_view.verdict_view(huge, SPEED, landscape_of(huge))
    assert view.detail.startswith("Recommended: ") and view.detail.endswith(" context")
    assert "tok/s" not in view.detail
    poor = replace(HARDWARE, ram_free_bytes=0)
    none = plan(make_spec(), poor, LoadSpec("/models/tiny.gguf"))
    assert tuning_view.verdict_view(none, SPEED, landscape_of(none, poor)).detail == "Choose a smaller model"


# KV precision, drafting, devices


def kv(hardware: Hardware = HARDWARE, in_use: Collection[int] = (16,), **wish: Any) -> dict[str, Any]:
    made = plan(make_spec(), hardware, LoadSpec("/models/tiny.gguf", **wish))
    return {each.key: each for each in tuning_view.kv_choices(made, in_use)}


def test_kv_precisions_are_three_and_32_bits_where_they_are_in_use() -> None:
    assert list(kv()) == ["16", "8", "4"]
    assert list(kv(in_use=(32, 16))) == ["32", "16", "8", "4"]
    assert {each.fit for each in kv().values()} == {"fits"}


def test_a_kv_precision_that_cannot_be_had_is_off_and_says_why() -> None:
    found = kv(replace(HARDWARE, gpus=(GPU,)), format="bf16")
    assert (found["16"].fit, found["8"].fit, found["4"].fit) == ("fits", "off", "off")
    assert "processor" in found["8"].tooltip


def test_auto_shows_what_it_has_picked_and_a_draft_model_what_it_takes() -> None:
    alone, draft = make_plan(), make_spec("/models/little.gguf")
    both = plan(make_spec(), HARDWARE, LoadSpec("/models/tiny.gguf", draft=draft.path), draft=draft)
    assert tuning_view.drafting_view(alone, alone, "auto").in_use == "ngram"
    assert tuning_view.drafting_view(both, both, "auto").in_use == "draft"
    assert tuning_view.drafting_view(both, both, "ngram").in_use is None
    assert tuning_view.drafting_view(alone, alone, "off").model == ""
    model = tuning_view.drafting_view(both, alone, "draft").model
    assert both.draft is not None
    assert model == f"little · {tuning_view.numbers.size(both.draft.bytes.total)}"


def test_a_model_that_cannot_go_back_cannot_draft() -> None:
    why = "Its state cannot be taken back."
    options = GenericOptions("a class", "It is not lean", (), capabilities=Capabilities(no_trim=why))
    made = replace(make_plan(), model=replace(make_spec(), generic=options))
    view = tuning_view.drafting_view(made, made, "auto")
    assert view.chosen == "off"
    assert {each.key: each.fit for each in view.choices} == {
        "auto": "off",
        "off": "fits",
        "ngram": "off",
        "draft": "off",
    }
    assert view.choices[0].tooltip == why


def test_layers_are_split_only_where_there_is_a_gpu() -> None:
    assert view_of().gpu_layers is None
    with_gpu = replace(HARDWARE, gpus=(GPU,))
    view = view_of(with_gpu, format="bf16", gpu_layers=1).gpu_layers
    assert view is not None
    assert (view.chosen, view.total, view.name) == (1, 2, "A GPU")
    assert view_of(with_gpu, format="bf16", device="cpu").gpu_layers is None


def test_layers_that_a_gpu_has_no_room_for_are_said() -> None:
    for free, verdict, title in ((0, "spills", "Spills"), (8_000_000_000, "fits", "Fits")):
        hardware = replace(HARDWARE, gpus=(replace(GPU, free_bytes=free),))
        view = view_of(hardware, format="bf16").verdict
        assert view is not None
        assert view.kind == verdict
        assert view.title.startswith(title)


# Apply


@pytest.mark.parametrize(
    ("percent", "left_s", "expected"), [(None, None, 2.0), (25, None, 1.5), (25, 7.0, 7.0)]
)
def test_a_reload_takes_as_long_as_its_bytes_unless_it_was_measured(
    percent: int | None, left_s: float | None, expected: float
) -> None:
    made = make_plan()
    scene = Scene(made, made, landscape_of(made), "ready", percent, load_s=2.0, left_s=left_s)
    assert tuning_view.tuning_view(scene).reload_s == pytest.approx(expected)
    wide = plan(make_spec(), HARDWARE, LoadSpec("/models/tiny.gguf", format="f32"))
    longer = tuning_view.tuning_view(replace(scene, wanted=wide, percent=None, left_s=None)).reload_s
    assert longer == pytest.approx(2.0 * wide.bytes.weights / made.bytes.weights)
