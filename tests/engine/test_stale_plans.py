"""Plans that time has overtaken: the engine looks at the memory itself before it loads, and stays usable."""

from __future__ import annotations

from pathlib import Path

import pytest

from engine import engine as engine_module
from engine.engine import Engine
from engine.errors import MemoryLimitError
from engine.events import Loaded
from engine.fit.plan import plan
from engine.hardware.probe import probe
from engine.models.spec import read_spec
from engine.types import LoadPlan, LoadSpec
from tests.engine.tiny import tiny_folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny_folder(tmp_path_factory.mktemp("tiny") / "m")


def made_for(folder: Path, **changes: object) -> LoadPlan:
    wish = LoadSpec(str(folder), format="f32", context=512, device="cpu", threads=1, **changes)  # type: ignore[arg-type]
    return plan(read_spec(str(folder)), probe(), wish)


def leave_free(nbytes: int, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Let another program take all memory but ``nbytes``; counts how often the engine looks."""
    looked: list[int] = []

    def ram_bytes() -> tuple[int, int]:
        looked.append(nbytes)
        return 16 * 10**9, nbytes

    monkeypatch.setattr(engine_module.machine, "ram_bytes", ram_bytes)
    return looked


def test_memory_that_went_since_the_plan_is_an_error_in_words_and_no_retries(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, engine = made_for(folder), Engine()
    need = made.bytes.total - made.bytes.overhead
    looked = leave_free(need - 1, monkeypatch)
    with pytest.raises(MemoryLimitError) as caught:
        list(engine.load(made))
    assert "Another program has taken memory since it was planned." in caught.value.message
    assert caught.value.hint.startswith("It fits ")
    assert len(looked) == 1
    assert engine.plan is None
    monkeypatch.undo()
    assert isinstance(list(engine.load(made))[-1], Loaded)


def test_what_was_loaded_before_is_given_back_before_the_engine_looks(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, engine = made_for(folder), Engine()
    list(engine.load(made))
    need = made.bytes.total - made.bytes.overhead
    leave_free(need, monkeypatch)
    assert isinstance(list(engine.load(made))[-1], Loaded)


def test_a_plan_that_is_to_be_loaded_anyway_is(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made, engine = made_for(folder, anyway=True), Engine()
    leave_free(1, monkeypatch)
    assert isinstance(list(engine.load(made))[-1], Loaded)
