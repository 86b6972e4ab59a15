"""`decodeck PATH`, as a file manager calls it, opens the window with that model."""

from __future__ import annotations

import os

import pytest

from app import cli


@pytest.mark.parametrize(
    "path", ["model.gguf", "MODEL.GGUF", "/models/Llama", "./chat", f"models{os.sep}chat"]
)
def test_a_path_is_the_model_of_the_window(path: str) -> None:
    arguments = cli.build_parser().parse_args(cli.opening([path, "--context", "4096"]))
    assert (arguments.run, arguments.model, arguments.context) == (cli.run_window, path, 4096)


@pytest.mark.parametrize(
    "argv",
    [[], ["chat", "a/b"], ["fetch"], ["--model", "a.gguf"], ["--set=models_dir=/a/b"], ["--model=a/b.gguf"]],
)
def test_commands_and_options_stay_what_they_are(argv: list[str]) -> None:
    assert cli.opening(argv) == argv


def test_a_word_that_is_no_command_is_still_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        cli.main(["Llama"])
    assert caught.value.code == cli.USER_FAULT
    assert "Llama" in capsys.readouterr().err
