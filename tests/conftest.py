"""Fixtures that all tests share: the starter model (one download), the cases folder, an own home."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
CASES = Path(__file__).resolve().parents[2] / "shared" / "cases"


@pytest.fixture(scope="session")
def cases_dir() -> Path:
    """The folder of real inputs beside the checkout; tests skip where it is absent."""
    if not CASES.is_dir():
        pytest.skip(f"no cases at {CASES}")
    return CASES


@pytest.fixture(autouse=True)
def _own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every test has its own data folder, so no test sees a person's chats or another test's."""
    monkeypatch.setenv("DECODECK_HOME", str(tmp_path_factory.mktemp("home")))


@pytest.fixture(scope="session")
def starter_path() -> Path:
    """The real starter model, downloaded once and shared between runs; CI fails without it."""
    given = os.environ.get("DECODECK_TEST_STARTER")
    if given:
        return Path(given)
    from app import starter
    from engine.errors import EngineError

    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "decodeck-tests"
    before = os.environ.get("DECODECK_HOME")
    os.environ["DECODECK_HOME"] = str(home)
    try:
        return starter.installed_path() or starter.ensure(lambda _: None, threading.Event())
    except EngineError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"the starter model is not here and cannot be downloaded: {error}")
    finally:
        if before is None:
            del os.environ["DECODECK_HOME"]
        else:
            os.environ["DECODECK_HOME"] = before
