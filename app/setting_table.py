"""The table of settings: each declared once, with what it may be and what is said of it. Knows no file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from app.setting_rules import ByModel, Device, Flag, Folder, Number, OneOf, Rule, Text
from engine import words
from engine.decode import overflow
from engine.decode.limits import RANGES, Range
from engine.fit import choices, guard
from engine.fit.advice import PREFERENCES
from engine.types import SamplingParams, TemplateOptions
from engine.words import mark

THEMES = ("system", "light", "dark")
TEXT_SIZES = ("90", "100", "110", "125", "150")  # percent
LANGUAGES = ("system", *words.LANGUAGES)
THINKING = ("auto", "on", "off")  # auto: as the model's template has it by itself
FORMATS = ("auto", *choices.FORMATS)
SPECULATE = ("auto", "ngram", "draft", "off")
KV = ("auto", "32", "16", "8", "4")


@dataclass(frozen=True, slots=True)
class Card:
    """How a setting is declared: what it may be, and what a person is told of it, in English.

    ``group`` is one of GROUPS; those of REMEMBERED are what the window was like, and stand in no dialog.
    ``counts_from`` says when a change counts: at once, from the next "load" of a model, or the next "start".
    """

    rule: Rule
    label: str
    help: str
    group: str
    unit: str = ""
    none: str = ""  # what is meant where there is no value
    counts_from: str = ""


APPEARANCE, MODELS = mark("Appearance"), mark("Models and memory")
ANSWERS, COSTS = mark("Answers"), mark("Costs")
REMEMBERED = "Remembered"  # shown nowhere, as their cards are
GROUPS = (APPEARANCE, MODELS, ANSWERS, COSTS, REMEMBERED)


def _setting(default: object, rule: Rule, label: str, help: str, group: str, **more: str) -> Any:
    """A field with its card; Any, because the field's own annotation is the type."""
    return field(default=default, metadata={"card": Card(rule, label, help, group, **more)})


_SAMPLING = SamplingParams()
_TOP_K = Number(replace(RANGES["top_k"], low=0))  # less is off too, and tells a person nothing
_PIXELS = Number(Range(1, 1 << 15, is_whole=True), may_be_none=True)
_TOKENS = Number(Range(1, 1 << 24, is_whole=True), may_be_none=True)
_AMOUNT = Number(Range(0, 1e9), may_be_none=True)
_CONTEXT = Number(Range(choices.MIN_CONTEXT, 1 << 24, is_whole=True), may_be_none=True)
_THREADS = Number(Range(1, 1024, is_whole=True), may_be_none=True)
_MINUTES = Number(Range(1, 1440, is_whole=True), may_be_none=True)
_THEME = OneOf(THEMES, (mark("System"), mark("Light"), mark("Dark")))
_TEXT_SIZE = OneOf(TEXT_SIZES, is_percent=True)
_LANGUAGE = OneOf(LANGUAGES, (mark("System"), *words.LANGUAGES.values()))
_GUARD = OneOf(guard.LEVELS, (mark("Strict"), mark("Relaxed"), mark("Off")))
_PREFERENCE = OneOf(PREFERENCES, (mark("Quality"), mark("Speed"), mark("Context")))
_THINKING = OneOf(THINKING, (mark("Auto"), mark("On"), mark("Off")))
_WHEN_FULL = OneOf(overflow.POLICIES, (mark("Stop"), mark("Oldest"), mark("Middle")))
_SPECULATE = OneOf(SPECULATE, (mark("Auto"), mark("N-gram"), mark("Model"), mark("Off")))
OF_A_MODEL: dict[str, Rule] = {
    "format": OneOf(FORMATS),
    "context": _CONTEXT,
    "kv": OneOf(KV),
    "gpu_layers": Number(Range(0, 1 << 16, is_whole=True), may_be_none=True),
    "draft": Text(),
}
"""By the names of the fields of LoadSpec."""
_BY_MODEL = Card(ByModel(OF_A_MODEL), "Models", "What was applied in Tuning, by model.", REMEMBERED)


@dataclass(frozen=True, slots=True)
class Settings:
    """All settings. None: not chosen (``context``, ``max_tokens``), drawn anew each time (``seed``).

    ``models`` has what was applied in the window for each model. ``format`` and ``context`` are those of the
    last model where it has none of its own: earlier versions kept them alone.
    """

    theme: str = _setting(
        "system", _THEME, mark("Theme"), mark("Dark or light, or as the system has it."), APPEARANCE
    )
    text_size: str = _setting(
        "100",
        _TEXT_SIZE,
        mark("Text size"),
        mark("All of the window grows with its text."),
        APPEARANCE,
        counts_from="start",
    )
    language: str = _setting(
        "system",
        _LANGUAGE,
        mark("Language"),
        mark("Of words and figures, or as the system has it."),
        APPEARANCE,
        counts_from="start",
    )
    last_model: str | None = _setting(
        None, Text(may_be_none=True), "Last model", "What is loaded at the start.", REMEMBERED
    )
    format: str = _setting(
        "auto", OneOf(FORMATS), "Format", "Of the last model, as earlier versions kept it.", REMEMBERED
    )
    context: int | None = _setting(
        None, _CONTEXT, "Context", "Of the last model, as earlier versions kept it.", REMEMBERED
    )
    models: Mapping[str, Mapping[str, Any]] = field(
        default_factory=dict, hash=False, metadata={"card": _BY_MODEL}
    )
    models_folder: str | None = _setting(
        None,
        Folder(),
        mark("Models folder"),
        mark("Moving it takes the models along, or leaves all as it is."),
        MODELS,
    )
    data_folder: str | None = _setting(
        None,
        Folder(),
        mark("Data folder"),
        mark("Chats and what was measured. Settings stay where they are."),
        MODELS,
    )
    device: str = _setting(
        "auto",
        Device(),
        mark("Device"),
        mark("What models run on. Auto takes the quickest that is there."),
        MODELS,
        counts_from="load",
    )
    threads: int | None = _setting(
        None,
        _THREADS,
        mark("Threads"),
        mark("More than the cores can feed only gets in the way."),
        MODELS,
        none=mark("The quickest, as measured"),
        counts_from="load",
    )
    guard: str = _setting(
        guard.RELAXED,
        _GUARD,
        mark("Memory guard"),
        mark("Strict loads what fits with a margin, Relaxed all that fits, Off everything."),
        MODELS,
        counts_from="load",
    )
    unload_after: int | None = _setting(
        None,
        _MINUTES,
        mark("Unload when idle"),
        mark("Gives the memory back. The next message loads it again."),
        MODELS,
        unit=mark("minutes"),
        none=mark("Never"),
    )
    preference: str = _setting(
        "quality",
        _PREFERENCE,
        mark("Recommend for"),
        mark("What recommended settings are best at."),
        MODELS,
    )
    window_width: int | None = _setting(None, _PIXELS, "Window width", "At the last end.", REMEMBERED)
    window_height: int | None = _setting(None, _PIXELS, "Window height", "At the last end.", REMEMBERED)
    sidebar_open: bool = _setting(True, Flag(), "Sidebar", "Whether it is open.", REMEMBERED)
    tuning_open: bool = _setting(True, Flag(), "Tuning", "Whether it is open.", REMEMBERED)
    system_prompt: str = _setting(
        "",
        Text(is_long=True),
        mark("Instructions"),
        mark("What every chat is told before its first message."),
        ANSWERS,
    )
    max_tokens: int | None = _setting(
        1024,
        _TOKENS,
        mark("Longest answer"),
        mark("An answer ends there; Continue goes on."),
        ANSWERS,
        unit=mark("tokens"),
        none=mark("No limit"),
    )
    thinking: str = _setting(
        "auto",
        _THINKING,
        mark("Thinking"),
        mark("Whether models that can think do so. Auto is as the model has it."),
        ANSWERS,
    )
    when_full: str = _setting(
        overflow.OLDEST,
        _WHEN_FULL,
        mark("When the context is full"),
        mark("The answer stops, or the oldest or the middle part of the chat is left out."),
        ANSWERS,
    )
    speculate: str = _setting(
        "auto",
        _SPECULATE,
        mark("Drafting"),
        mark("Who guesses tokens ahead: faster, and the same answer."),
        ANSWERS,
    )
    temperature: float = _setting(
        _SAMPLING.temperature,
        Number(RANGES["temperature"]),
        mark("Temperature"),
        mark("0 takes the likeliest token each time; more is more varied."),
        ANSWERS,
    )
    top_k: int = _setting(
        _SAMPLING.top_k,
        _TOP_K,
        mark("Top k"),
        mark("Only so many of the likeliest. 0 is off."),
        ANSWERS,
    )
    top_p: float = _setting(
        _SAMPLING.top_p,
        Number(RANGES["top_p"]),
        mark("Top p"),
        mark("The likeliest that make up this share. 1 is off."),
        ANSWERS,
    )
    min_p: float = _setting(
        _SAMPLING.min_p,
        Number(RANGES["min_p"]),
        mark("Min p"),
        mark("At least this share of the likeliest one's chance. 0 is off."),
        ANSWERS,
    )
    seed: int | None = _setting(
        None,
        Number(RANGES["seed"], may_be_none=True),
        mark("Seed"),
        mark("The same seed, the same answer."),
        ANSWERS,
        none=mark("A new one each time"),
    )
    repeat_penalty: float = _setting(
        _SAMPLING.repeat_penalty,
        Number(RANGES["repeat_penalty"]),
        mark("Repeat penalty"),
        mark("Above 1 what was said becomes less likely. 1 is off."),
        ANSWERS,
    )
    presence_penalty: float = _setting(
        _SAMPLING.presence_penalty,
        Number(RANGES["presence_penalty"]),
        mark("Presence penalty"),
        mark("Taken from each token that was used at all. 0 is off."),
        ANSWERS,
    )
    frequency_penalty: float = _setting(
        _SAMPLING.frequency_penalty,
        Number(RANGES["frequency_penalty"]),
        mark("Frequency penalty"),
        mark("Taken from a token for each time it was used. 0 is off."),
        ANSWERS,
    )
    currency: str = _setting("$", Text(most=8), mark("Currency"), mark("Of all prices."), COSTS)
    electricity_price: float | None = _setting(
        None,
        _AMOUNT,
        mark("Electricity"),
        mark("The price on your bill."),
        COSTS,
        unit=mark("per kWh"),
        none=mark("Unknown"),
    )
    power_watts: float | None = _setting(
        None,
        _AMOUNT,
        mark("While it answers"),
        mark("The whole computer, read from a meter at the plug."),
        COSTS,
        unit=mark("W at the wall"),
        none=mark("Unknown"),
    )
    idle_watts: float | None = _setting(
        None,
        _AMOUNT,
        mark("At rest"),
        mark("The same with nothing to do."),
        COSTS,
        unit=mark("W at the wall"),
        none=mark("Unknown"),
    )
    hardware_price: float | None = _setting(
        None,
        _AMOUNT,
        mark("Computer"),
        mark("What it has cost, or the part that counts."),
        COSTS,
        none=mark("Unknown"),
    )
    hardware_years: float | None = _setting(
        None,
        Number(Range(0.1, 50), may_be_none=True),
        mark("Used for"),
        mark("Until it is replaced."),
        COSTS,
        unit=mark("years"),
        none=mark("Unknown"),
    )
    hardware_hours: float | None = _setting(
        None,
        Number(Range(0.01, 24), may_be_none=True),
        mark("Busy"),
        mark("Making tokens, on average."),
        COSTS,
        unit=mark("hours a day"),
        none=mark("Unknown"),
    )
    api_input_price: float | None = _setting(
        None,
        _AMOUNT,
        mark("API, tokens read"),
        mark("What a service takes for a prompt."),
        COSTS,
        unit=mark("per million"),
        none=mark("Unknown"),
    )
    api_output_price: float | None = _setting(
        None,
        _AMOUNT,
        mark("API, tokens written"),
        mark("And for an answer."),
        COSTS,
        unit=mark("per million"),
        none=mark("Unknown"),
    )
    unknown: Mapping[str, object] = field(default_factory=dict, hash=False)  # of newer versions; kept

    def sampling(self) -> SamplingParams:
        """The sampling settings as the engine takes them; what one answer alone can want is left off."""
        names = [each.name for each in fields(SamplingParams) if each.name in CARDS]
        return SamplingParams(**{name: getattr(self, name) for name in names})

    def template(self) -> TemplateOptions:
        """What chat templates are told."""
        return TemplateOptions(thinking=_THINKS[self.thinking])


_THINKS = {"auto": None, "on": True, "off": False}
CARDS: dict[str, Card] = {each.name: each.metadata["card"] for each in fields(Settings) if each.metadata}
"""Every setting's card, by its name."""
