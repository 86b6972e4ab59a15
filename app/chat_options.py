"""What `decodeck chat` can be told of one answer, and the request that it makes of this.

Knows arguments and settings; not models, nor how an answer is shown.
"""

from __future__ import annotations

import argparse
import sys
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine.decode.limits import MOST_SCHEMA_BYTES, SPECULATE, check_form, checked
from engine.errors import WishError
from engine.types import GenerateRequest, Message, SamplingParams

if TYPE_CHECKING:
    from app.settings import Settings


def add_options(chat: argparse.ArgumentParser) -> None:
    """The prompt and the options of one answer; what is not given comes from the settings."""
    chat.add_argument("prompt", metavar="PROMPT", help="the message, or - to read it from standard input")
    chat.argument_default = argparse.SUPPRESS
    chat.add_argument("--system", metavar="TEXT", help="instructions that come before the message")
    chat.add_argument("--max-tokens", type=int, metavar="N")
    _add_sampling(chat)
    _add_form(chat)
    _add_drafting(chat)
    chat.add_argument("--stop", action="append", metavar="TEXT")
    thinking = chat.add_mutually_exclusive_group()
    thinking.add_argument(
        "--think",
        action="store_const",
        const=True,
        help="the model thinks first, where its template has a switch; thoughts are shown dimmed on"
        " a terminal and left out elsewhere, and stand apart from the text with --json",
    )
    thinking.add_argument("--no-think", dest="think", action="store_const", const=False, help="it does not")
    chat.add_argument(
        "--plain", action="store_true", help="continue the text as it is, for models without a chat template"
    )


def _add_sampling(chat: argparse.ArgumentParser) -> None:
    """How tokens are chosen: by the names of the fields of SamplingParams."""
    chat.add_argument("--temperature", type=float, metavar="T", help="0 is greedy")
    chat.add_argument("--top-k", type=int, metavar="K")
    chat.add_argument("--top-p", type=float, metavar="P")
    chat.add_argument("--min-p", type=float, metavar="P")
    chat.add_argument("--seed", type=int, metavar="S")
    chat.add_argument("--repeat-penalty", type=float, metavar="R")
    chat.add_argument("--presence-penalty", type=float, metavar="R", help="for tokens that the answer has")
    chat.add_argument("--frequency-penalty", type=float, metavar="R", help="as often as the answer has them")
    chat.add_argument(
        "--logit-bias",
        type=_bias,
        action="append",
        metavar="ID=B",
        help="added to a token's logit; repeatable",
    )
    chat.add_argument(
        "--logprobs", type=int, metavar="N", help="with --json: log-probabilities of the N likeliest tokens"
    )


def _add_form(chat: argparse.ArgumentParser) -> None:
    """What the answer is held to."""
    chat.add_argument("--json-schema", metavar="FILE", type=Path, help="the answer is JSON of this schema")
    chat.add_argument("--regex", metavar="R", help="the answer matches this as a whole")


def _add_drafting(chat: argparse.ArgumentParser) -> None:
    """Who guesses tokens, which are then checked several at a time."""
    chat.add_argument("--draft", metavar="MODEL", help="a smaller model with the same vocabulary")
    chat.add_argument(
        "--speculate",
        choices=SPECULATE,
        metavar="WAY",
        help="off, ngram (from the chat itself), draft (by the draft model) or auto",
    )


def _bias(text: str) -> tuple[int, float]:
    """ID=B as an id and a bias."""
    token, _, bias = text.partition("=")
    try:
        return int(token), float(bias)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a token's id, = and a number") from None


def request(arguments: argparse.Namespace, chosen: Settings) -> GenerateRequest:
    """The request of the arguments and the settings. Raises WishError for values that cannot be used."""
    prompt = _read_prompt() if arguments.prompt == "-" else arguments.prompt
    if not prompt.strip():
        raise WishError("The message is empty.", "Give a PROMPT, or - and some text on standard input.")
    given = vars(arguments)
    max_tokens = given.get("max_tokens", chosen.max_tokens)
    if max_tokens is not None and max_tokens < 1:
        raise WishError(f"--max-tokens {max_tokens} cannot be used.", "Give 1 or more.")
    system = given.get("system", chosen.system_prompt)
    messages = (*((Message("system", system),) if system else ()), Message("user", prompt))
    stops = tuple(text for text in given.get("stop", ()) if text)
    template = chosen.template()
    if "think" in given:
        template = replace(template, thinking=given["think"])
    template = replace(template, is_plain="plain" in given)
    schema, regex = _form(given)
    return GenerateRequest(
        "chat",
        messages,
        _sampling(given, chosen),
        max_tokens,
        stops,
        template,
        chosen.when_full,
        _speculate(given, chosen),
        json_schema=schema,
        regex=regex,
    )


def _speculate(given: dict[str, Any], chosen: Settings) -> str:
    if "draft" in given and not given["draft"]:
        raise WishError("--draft needs a path.", "Give a GGUF file or a model folder.")
    if given.get("speculate") == "draft" and "draft" not in given:
        raise WishError("--speculate draft has no draft model.", "Add --draft MODEL.")
    way: str = given.get("speculate", chosen.speculate)
    return "auto" if way == "draft" and "draft" not in given else way  # the window's draft model is not here


def _sampling(given: dict[str, Any], chosen: Settings) -> SamplingParams:
    names = [field.name for field in fields(SamplingParams)]
    values = {name: given[name] for name in names if name in given}
    values["logit_bias"] = tuple(values.get("logit_bias", ()))
    sampling = checked(replace(chosen.sampling(), **values))
    if sampling.logprobs and "json" not in given:
        raise WishError("--logprobs has nowhere to be shown.", "Add --json.")
    return sampling


def _form(given: dict[str, Any]) -> tuple[str, str]:
    """The text of a schema and a regex; "" where they are not asked for."""
    schema = _schema(given["json_schema"]) if "json_schema" in given else ""
    regex = given.get("regex", "")
    if ("json_schema" in given and not schema) or ("regex" in given and not regex):
        raise WishError("--json-schema and --regex need what the answer is held to.", "Leave empty ones out.")
    if schema or regex:
        check_form(schema, regex)
    return schema, regex


def _schema(path: Path) -> str:
    try:
        with path.expanduser().open("rb") as file:
            return file.read(MOST_SCHEMA_BYTES + 1).decode()
    except OSError as error:
        raise WishError(f"{path} cannot be read: {error.strerror or error}.", "Give a JSON schema.") from None
    except UnicodeError:
        raise WishError(f"{path} is not UTF-8 text.", "Give a JSON schema.") from None


def _read_prompt() -> str:
    if sys.stdin is None:
        raise WishError("Standard input is closed.", "Give the message as PROMPT.")
    try:
        text = sys.stdin.read()
        text.encode()  # Python may have smuggled undecodable bytes in as lone surrogates
        return text
    except UnicodeError:
        raise WishError("Standard input is not UTF-8 text.", "Give plain text.") from None
