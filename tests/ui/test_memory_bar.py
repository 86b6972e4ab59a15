"""The memory bar: all parts, in order, adding up; nothing is hidden."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pytestqt.qtbot import QtBot

from ui import theme
from ui.gauge_values import MemoryView
from ui.memory_bar import MemoryBar, part_widths

GB = 1_000_000_000
LOADED = MemoryView(
    "RAM", 4_290_000_000, 990_000_000, 270_000_000, 430_000_000, 310_000_000, 420_000_000, 1_870_000_000
)


@pytest.fixture
def bar(qtbot: QtBot) -> MemoryBar:
    widget = MemoryBar()
    qtbot.addWidget(widget)
    widget.resize(340, widget.height())
    return widget


@given(st.lists(st.integers(0, 20 * GB), min_size=1, max_size=5), st.integers(0, 20 * GB))
def test_parts_fill_their_share_and_none_disappears(parts: list[int], free: int) -> None:
    total = sum(parts) + free
    widths = part_widths(parts, total, 328)
    assert all((width > 0) == (part > 0) for width, part in zip(widths, parts, strict=True)) or total == 0
    assert sum(widths) <= 328 + 1e-6
    if total and all(part * 328 / total >= 3 or part == 0 for part in parts):
        assert sum(widths) == pytest.approx(sum(parts) * 328 / total)


def test_all_values_are_told_in_order(bar: MemoryBar) -> None:
    bar.set_view(LOADED)
    assert bar.sentence() == (
        "RAM: 2.42 of 4.29 gigabytes. Weights 0.99, KV used 0.27, KV reserved 0.43, Working 0.31, "
        "Other apps 0.42, Free 1.87"
    )


def test_what_apply_would_add_is_told_and_dashed(bar: MemoryBar) -> None:
    bar.set_view(replace(LOADED, pending=700_000_000))
    assert bar.sentence().endswith("0.70 more after Apply")


def test_before_loading_only_what_is_there_is_listed(bar: MemoryBar) -> None:
    bar.set_view(MemoryView("RAM", 16 * GB, other=7 * GB, free=9 * GB, pending=380_000_000))
    assert bar.sentence() == "RAM: 7.00 of 16.0 gigabytes. Other apps 7.00, Free 9.00, 0.38 more when loaded"


def test_unknown_memory_is_a_dash_not_zero(bar: MemoryBar) -> None:
    assert bar.sentence() == "Memory not known yet"
    bar.grab()


def test_every_part_has_its_colour_in_the_bar(bar: MemoryBar) -> None:
    bar.set_view(LOADED)
    image = bar.grab().toImage()
    row = {image.pixelColor(x, 29).name() for x in range(6, 334)}
    colors = theme.palette()
    for token in ("mem_weights", "mem_kv", "mem_working", "mem_other", "mem_free"):
        assert getattr(colors, token).name() in row


def test_the_same_view_again_repaints_nothing(
    bar: MemoryBar, tick: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    bar.set_view(LOADED)
    tick()
    repaints: list[bool] = []
    monkeypatch.setattr(bar, "update", lambda: repaints.append(True))
    bar.set_view(replace(LOADED))
    bar.set_view(replace(LOADED, other=LOADED.other + 90_000, free=LOADED.free - 90_000))  # too little to see
    tick(3)
    assert not repaints


def test_the_name_says_which_memory(bar: MemoryBar) -> None:
    bar.set_view(replace(LOADED, label="VRAM"))
    assert bar.accessibleName() == "Memory, VRAM"


def test_gaps_in_pages_are_told_where_there_are_any(bar: MemoryBar) -> None:
    assert "gaps" not in bar.toolTip()
    bar.set_view(replace(LOADED, kv_waste=1_200_000))
    assert "1.2\u00a0MB of it are gaps in its pages" in bar.toolTip()
    bar.set_view(replace(LOADED, kv_used=0))
    assert "gaps" not in bar.toolTip()


def test_a_cache_of_a_few_megabytes_is_no_zero_and_is_seen_to_grow(bar: MemoryBar) -> None:
    bar.set_view(replace(LOADED, kv_used=1_200_000))
    assert "KV used 1.2\u00a0MB," in bar.sentence()
    bar.set_view(replace(LOADED, kv_used=1_400_000))
    assert "KV used 1.4\u00a0MB," in bar.sentence()
