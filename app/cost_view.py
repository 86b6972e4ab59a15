"""The words of cost: the section of the Lab, and the few in the status bar. Pure functions."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from app.cost import MILLION, Amount, CostLine, Power, Prices, Speeds, answer_money, cost_lines
from app.settings import Settings
from app.typed_setting import shown
from engine.words import mark, tr
from ui import numbers
from ui.lab_values import CostField, CostRow, CostView
from ui.numbers import NBSP, UNKNOWN

_NAMES = {
    "beyond rest": (mark("Electricity, beyond rest"), mark("What is used because tokens are made")),
    "chip": (
        mark("Electricity, the chip's counter"),
        mark("All that the chip counts, at rest too; not at the wall"),
    ),
    "wall": (mark("Electricity, at the wall"), mark("The whole computer while it makes tokens")),
    "hardware": (
        mark("With the computer's price"),
        mark("Its price over the hours of its life, and electricity"),
    ),
    "hardware alone": (
        mark("The computer's price alone"),
        mark("Over the hours that it works in its life"),
    ),
    "api": ("API", mark("The price you have typed")),
}
_IN_STATUS = {  # what the words of the status bar count
    "chip": mark(
        "Electricity, the chip's counter, for a million tokens written: all that the chip counts, "
        "at rest too; not at the wall."
    ),
    "wall": mark(
        "Electricity, at the wall, for a million tokens written: the whole computer while it makes tokens."
    ),
}
_AT_THE_WALL, _PER_MILLION = mark("W at the wall"), mark("{currency} per million")
_FIELDS = (
    ("electricity_price", mark("Electricity"), mark("{currency} per kWh"), mark("The price on your bill")),
    (
        *("power_watts", mark("While it answers"), _AT_THE_WALL),
        mark("The whole computer, read from a meter at the plug"),
    ),
    ("idle_watts", mark("At rest"), _AT_THE_WALL, mark("The same with nothing to do")),
    ("hardware_price", mark("Computer"), "{currency}", mark("What it has cost, or the part that counts")),
    ("hardware_years", mark("Used for"), mark("years"), mark("Until it is replaced")),
    ("hardware_hours", mark("Busy"), mark("hours a day"), mark("Making tokens, on average")),
    (
        *("api_input_price", mark("API, tokens read"), _PER_MILLION),
        mark("What a service takes for a prompt"),
    ),
    ("api_output_price", mark("API, written"), _PER_MILLION, mark("And for an answer")),
)
_SPEEDS = {  # by where they come from
    "": mark("{write}\u00a0tok/s written and {read}\u00a0read"),
    "answer": mark("{write}\u00a0tok/s written and {read}\u00a0read, as the last answer was written"),
    "lab": mark("{write}\u00a0tok/s written and {read}\u00a0read, as the lab has measured"),
    "predicted": mark("{write}\u00a0tok/s written and {read}\u00a0read, as predicted"),
}
_NO_ERRORS: Mapping[str, str] = MappingProxyType({})
_NO_WATTS = mark("Type the watts of this computer to see what tokens cost: nothing here can read them.")
_NO_PRICE = mark("Type the price of electricity to see it in money.")


@dataclass(frozen=True, slots=True)
class Known:
    """All that the costs of a model are made of. ``basis`` says where its speeds come from: the last answer,
    the lab or a prediction.
    """

    settings: Settings
    measured: Power
    speeds: Speeds
    basis: str = ""  # answer | lab | predicted
    answer_tokens: float | None = None  # of the average answer

    @property
    def prices(self) -> Prices:
        chosen = self.settings
        return Prices(
            chosen.electricity_price,
            chosen.hardware_price,
            chosen.hardware_years,
            chosen.hardware_hours,
            chosen.api_input_price,
            chosen.api_output_price,
        )

    @property
    def lines(self) -> tuple[CostLine, ...]:
        typed = Power(self.settings.power_watts, self.settings.idle_watts)
        return cost_lines(typed, self.measured, self.prices, self.speeds)


def cost_view(known: Known, errors: Mapping[str, str] = _NO_ERRORS) -> CostView:
    """The section of the Lab; ``errors`` say why what was typed was not taken, by setting."""
    currency = known.settings.currency
    fields = tuple(
        CostField(
            *(key, tr(label), shown(getattr(known.settings, key))),
            *(tr(unit).format(currency=currency).strip(), tr(tooltip), errors.get(key, "")),
        )
        for key, label, unit, tooltip in _FIELDS
    )
    lines = known.lines
    has_watts = any(line.key in ("beyond rest", "chip", "wall") for line in lines)
    has_speed = known.speeds.write_tps is not None
    missing = "" if has_watts or not has_speed else _NO_WATTS
    if has_watts and known.prices.kwh is None:
        missing = _NO_PRICE
    return CostView(
        fields,
        tuple(_row(line, currency) for line in lines),
        _basis(known) if lines and has_speed else "",
        _answer(known, lines),
        tr(missing),
    )


def status_words(known: Known) -> tuple[str, str]:
    """ "0.14 kWh/M tok · $0.04" and what it counts; empty without a reading or typed watts."""
    line = next((each for each in reversed(known.lines) if each.key in _IN_STATUS), None)
    if line is None or line.written.kwh is None:
        return "", ""
    money = line.written.money
    price = "" if money is None else f" · {_money(money, known.settings.currency)}"
    return f"{_kwh(line.written.kwh)}{NBSP}kWh/M{NBSP}tok{price}", tr(_IN_STATUS[line.key])


def _row(line: CostLine, currency: str) -> CostRow:
    name, tooltip = _NAMES[line.key]
    energy = ""
    if line.read.kwh is not None or line.written.kwh is not None:
        energy = f"{_kwh(line.read.kwh)} · {_kwh(line.written.kwh)}{NBSP}kWh"
    is_hardware = line.key.startswith("hardware")
    read, written = _cost(line.read, currency), _cost(line.written, currency)
    return CostRow(tr(name), "" if is_hardware else energy, read, written, tr(tooltip))


def _cost(amount: Amount, currency: str) -> str:
    return UNKNOWN if amount.money is None else _money(amount.money, currency)


def _kwh(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return numbers.decimal(value, 2 if value < 9.995 else 0)


def _money(value: float, currency: str) -> str:
    """ "$0.04", "CHF 0.00005": two digits that say something, close behind a sign and not behind a word."""
    digits = 2
    while digits < 8 and 0 < value < 0.95 * 10 ** (1 - digits):
        digits += 1
    currency = currency.strip()
    is_sign = not currency or unicodedata.category(currency[-1]) == "Sc"
    return f"{currency}{'' if is_sign else NBSP}{numbers.decimal(value, digits)}"


def _basis(known: Known) -> str:
    chosen, measured = known.settings, known.measured
    watts = []
    if measured.busy_w is not None:
        words = tr("{watts}\u00a0W measured by the chip")
        watts.append(words.format(watts=numbers.decimal(measured.busy_w, 1)))
    if chosen.power_watts is not None:
        watts.append(tr("{watts}\u00a0W as typed").format(watts=numbers.decimal(chosen.power_watts, 0)))
    read, write = numbers.tps(known.speeds.read_tps), numbers.tps(known.speeds.write_tps)
    speeds = tr(_SPEEDS[known.basis]).format(write=write, read=read)
    return f"{', '.join([*watts, speeds])}."


def _answer(known: Known, lines: tuple[CostLine, ...]) -> str:
    """What the average answer takes and costs."""
    tokens, tps = known.answer_tokens, known.speeds.write_tps
    if not tokens or not tps:
        return ""
    money, api = answer_money(lines, tokens), known.prices.api_output
    currency = known.settings.currency
    return _answer_words(money is not None, api is not None).format(
        tokens=numbers.count(round(tokens)),
        seconds=numbers.seconds(tokens / tps),
        money="" if money is None else _money(money, currency),
        price="" if api is None else _money(api * tokens / MILLION, currency),
    )


def _answer_words(has_money: bool, has_api: bool) -> str:
    if has_money and has_api:
        return tr(
            "An answer of {tokens} tokens, the average of your last ones, takes ≈\u00a0{seconds}\u00a0s "
            "and costs {money}; the API takes {price}."
        )
    if has_money:
        return tr(
            "An answer of {tokens} tokens, the average of your last ones, takes ≈\u00a0{seconds}\u00a0s "
            "and costs {money}."
        )
    if has_api:
        return tr(
            "An answer of {tokens} tokens, the average of your last ones, takes ≈\u00a0{seconds}\u00a0s; "
            "the API takes {price}."
        )
    return tr("An answer of {tokens} tokens, the average of your last ones, takes ≈\u00a0{seconds}\u00a0s.")
