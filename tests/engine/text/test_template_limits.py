"""A hostile template ends with a TemplateError: soon, within bounded memory, and with nothing done."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from engine.errors import TemplateError
from engine.text.limits import Allowance, LimitExceededError, Limits
from engine.text.template import ChatTemplate
from engine.types import Message
from tests.engine.text.attacks import ALL, SECRETS, TIME

ROOT = Path(__file__).resolve().parents[3]


def ticking(step_s: float = 0.001) -> Callable[[], float]:
    """A clock that goes on by itself each time it is read: a loop that never reads it would never end."""
    time_s = 0.0

    def clock() -> float:
        nonlocal time_s
        time_s += step_s
        return time_s

    return clock


@pytest.mark.parametrize("name", ALL)
def test_a_hostile_template_is_refused_or_stopped(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:  # B017
    monkeypatch.chdir(tmp_path)
    messages = [Message("user", "hi"), Message("assistant", "ho")]
    with pytest.raises(TemplateError) as caught:
        ChatTemplate(ALL[name], limits=Limits(seconds=0.1)).render(messages)
    assert len(str(caught.value)) < 1000
    assert messages == [Message("user", "hi"), Message("assistant", "ho")]
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", [name for name in SECRETS if "import" not in name and "include" not in name])
def test_a_secret_is_refused_at_the_first_touch(name: str) -> None:
    with pytest.raises(TemplateError, match=r"not allowed|undefined|no loader"):
        ChatTemplate(SECRETS[name]).render([Message("user", "hi")])


def test_an_endless_template_ends_at_its_deadline() -> None:
    with pytest.raises(TemplateError, match="longer than 2 seconds"):
        ChatTemplate(TIME["nested loops"], clock=ticking()).render([Message("user", "hi")])


def test_a_template_works_on_after_it_was_stopped() -> None:
    source = "{% if messages|length > 1 %}" + TIME["nested loops"] + "{% endif %}{{ messages[0].content }}"
    template = ChatTemplate(source, limits=Limits(seconds=0.05))
    with pytest.raises(TemplateError):
        template.render([Message("user", "a"), Message("user", "b")])
    assert template.render([Message("user", "a")]).text == "a"


@pytest.mark.skipif(sys.platform == "win32", reason="the module `resource` is not on Windows")
def test_all_attacks_together_take_little_memory() -> None:
    program = [sys.executable, "-m", "tests.engine.text.attacks"]
    result = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, timeout=300, check=True)
    megabytes = float(result.stdout) / (1024 if sys.platform == "darwin" else 1)  # bytes there, kB elsewhere
    assert megabytes < 250


def test_namespaces_that_hold_each_other_are_printed_without_their_content() -> None:
    nesting = "{% set m.n = namespace(a=m.n, b=m.n) %}"
    source = "{% set m = namespace(n=1) %}{% for i in range(60) %}" + nesting + "{% endfor %}{{ m.n }}"
    assert ChatTemplate(source).render([Message("user", "hi")]).text == "<Namespace>"


def test_a_container_weighs_what_it_holds_as_often_as_it_holds_it() -> None:
    allowance = Allowance(Limits())
    inner = ["ab", 1]
    items, text_bytes, depth = allowance.weigh([inner, inner, {"k": inner}])
    assert (items, depth) == (12, 3)
    assert text_bytes > 3 * len("ab")
    with pytest.raises(LimitExceededError):
        Allowance(Limits(items=11)).weigh([inner, inner, {"k": inner}])


def test_an_iterator_counts_each_item() -> None:
    allowance = Allowance(Limits(items=3))
    assert list(allowance.admit(iter("abc"))) == ["a", "b", "c"]
    with pytest.raises(LimitExceededError):
        list(allowance.admit(iter("abcd")))
