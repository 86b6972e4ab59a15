"""What an import may bring with it, seen in a process of its own."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("torch", "transformers", "numpy", "tokenizers", "safetensors", "jinja2")


def loaded_by(*modules: str) -> set[str]:
    code = f"import sys\nimport {', '.join(modules)}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return {name.partition(".")[0] for name in done.stdout.split()}


def test_the_window_and_the_advisor_open_without_torch() -> None:
    found = loaded_by("ui.main_window", "engine.fit.plan", "engine.models.gguf", "engine.models.spec")
    assert not found.intersection(HEAVY)


def test_what_the_window_process_imports_brings_no_torch() -> None:
    assert not loaded_by("app.main").intersection({"torch", "transformers", "numpy"})


def test_the_command_line_opens_without_qt_and_torch() -> None:
    assert not loaded_by("app.cli").intersection({"PySide6", "httpx2", *HEAVY})


@pytest.mark.parametrize(
    "module", ["engine.types", "engine.events", "engine.errors", "engine.fit.bytes", "engine.quant.formats"]
)
def test_the_shared_words_are_standard_library(module: str) -> None:
    found = loaded_by(module) - set(sys.stdlib_module_names)
    assert found - {"engine", "__main__", "__editable___decodeck_0_1_0_finder"} <= {
        name for name in found if name.startswith(("_", "sitecustomize", "usercustomize", "distutils"))
    }


def test_answering_imports_neither_the_oracle_nor_qt() -> None:
    found = loaded_by("engine.engine", "app.answer")
    assert "torch" in found
    assert not found.intersection({"transformers", "gguf", "accelerate", "PySide6"})
