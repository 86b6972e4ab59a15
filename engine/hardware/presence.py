"""Whether a GPU may be here that torch could use, told without importing torch: that takes a second.

Knows device files and the build of torch that is installed. It may say yes where there is none, never no
where there is one.
"""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

_DEVICES = Path("/dev")
_FILES = ("nvidia*", "nvhost-gpu", "dxg", "kfd", "dri/renderD*")
"""NVIDIA's cards, its Tegra, GPUs of Windows under WSL, AMD's, and Intel's and others'."""


def may_have_gpu() -> bool:
    """Whether it is worth asking torch."""
    if platform.system() == "Darwin":
        return platform.machine() == "arm64"
    try:
        build = version("torch")
    except PackageNotFoundError:
        return False
    if build.endswith("+cpu"):
        return False
    return platform.system() != "Linux" or any(any(_DEVICES.glob(pattern)) for pattern in _FILES)
