"""Where the panels stand at each width of the window."""

from __future__ import annotations

import pytest

from ui.panels import Panels, WidthClass, width_class


@pytest.mark.parametrize(
    ("width", "expected"),
    [
        (800, WidthClass.NARROW),
        (1023, WidthClass.NARROW),
        (1024, WidthClass.MEDIUM),
        (1279, WidthClass.MEDIUM),
        (1280, WidthClass.WIDE),
    ],
)
def test_width_classes_begin_at_1024_and_1280(width: int, expected: WidthClass) -> None:
    assert width_class(width) is expected


def test_a_wide_window_has_both_panels_beside_the_text() -> None:
    plan = Panels().arrange(1440)
    assert (plan.left, plan.right) == (240, 360)
    assert not plan.is_rail
    assert not plan.is_tuning_drawer


def test_a_medium_window_has_the_rail_and_tuning() -> None:
    plan = Panels().arrange(1024)
    assert (plan.left, plan.right, plan.is_rail) == (56, 360, True)


def test_a_narrow_window_closes_tuning_at_first_and_then_lays_it_over_the_text() -> None:
    panels = Panels()
    assert not panels.arrange(800).is_tuning_shown
    assert panels.toggle_tuning(800) is False
    plan = panels.arrange(800)
    assert plan.is_tuning_shown
    assert plan.is_tuning_drawer
    assert plan.right == 0


def test_resizing_never_overrides_what_the_user_chose() -> None:
    panels = Panels()
    assert panels.toggle_tuning(1440) is True
    assert panels.toggle_sidebar(1440) is True
    for width in (800, 1100, 1440):
        plan = panels.arrange(width)
        assert plan.is_rail
        assert not plan.is_tuning_shown


def test_a_drawer_does_not_survive_another_width_class() -> None:
    panels = Panels()
    panels.arrange(1100)
    panels.toggle_sidebar(1100)
    assert panels.arrange(1100).is_sidebar_drawer
    panels.arrange(1300)
    assert not panels.arrange(1100).is_sidebar_drawer
