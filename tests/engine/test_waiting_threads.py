"""How long threads wait busily is settled before torch comes, and is the user's to say."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

NAMES = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")
SHOW = "import engine, os, sys; print(os.environ.get('GOMP_SPINCOUNT'), 'torch' in sys.modules)"


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ({}, "1000 False"),
        ({"GOMP_SPINCOUNT": "7"}, "7 False"),
        ({"OMP_WAIT_POLICY": "active"}, "None False"),
    ],
)
def test_they_do_not_burn_what_the_others_need_unless_they_are_told_to(
    given: dict[str, str], shown: str
) -> None:
    inherited = {name: value for name, value in os.environ.items() if name not in NAMES}
    run = subprocess.run(
        [sys.executable, "-c", SHOW], env=inherited | given, capture_output=True, text=True, check=True
    )
    assert run.stdout.strip() == shown
