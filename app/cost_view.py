"""The words of cost: the section of the Lab, and the few in the status bar. Pure functions."""

from __future__ import annotations

from dataclasses import dataclass

from app.cost import MILLION, Amount, CostLine, Power, Prices, Speeds, answer_money, cost_lines
from app.settings import Settings
from ui import numbers
from ui.lab_values import CostField, CostRow, CostView
from ui.numbers import NBSP, UNKNOWN

_NAMES = {
    "beyond rest": ("Electricity, beyond rest", "What is used because tokens are made"),
    "chip": ("Electricity, the chip's counter", "All that the chip counts, at rest too; not at the wall"),
    "wall": ("Electricity, at the wall", "The whole computer while it makes tokens"),
    "hardware": (
        "With the computer's price",
        "Its price over the hours of its life, and electricity",
    ),
    "hardware alone": ("The computer's price alone", "Over the hours that it works in its life"),
    "api": ("API", "The price you have typed"),
}
_FIELDS = (
    ("electricity_price", "Electricity", "{currency} per kWh", "The price on your bill"),
    ("power_watts", "While it answers", "W at the wall", "The whole computer, read from a meter at the plug"),
    ("idle_watts", "At rest", "W at the wall", "The same with nothing to do"),
    ("hardware_price", "Computer", "{currency}", "What it has cost, or the part that counts"),
    ("hardware_years", "Used for", "years", "Until it is replaced"),
    ("hardware_hours", "Busy", "hours a day", "Making tokens, on average"),
    ("api_input_price", "API, tokens read", "{currency} per million", "What a service takes for a prompt"),
    ("api_output_price", "API, written", "{currency} per million", "And for an answer"),
)
_NO_WATTS = "Type the watts of this computer to see what tokens cost: nothing here can read them."
_NO_PRICE = "Type the price of electricity to see it in money."


@dataclass(frozen=True, slots=True)
class Known:
    """All that the costs of a model are made of. ``basis`` says where its speeds come from."""

    settings: Settings
    measured: Power
    speeds: Speeds
    basis: str = ""
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


def cost_view(known: Known) -> CostView:
    """The section of the Lab."""
    currency = known.settings.currency
    fields = tuple(
        CostField(key, label, _typed(getattr(known.settings, key)), unit.format(currency=currency), tooltip)
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
        missing,
    )


def status_words(known: Known) -> tuple[str, str]:
    """ "0.14 kWh/M tok · $0.04" and what it counts; empty without a reading or typed watts."""
    line = next((each for each in reversed(known.lines) if each.key in ("wall", "chip")), None)
    if line is None or line.written.kwh is None:
        return "", ""
    money = line.written.money
    price = "" if money is None else f" · {_money(money, known.settings.currency)}"
    name, tooltip = _NAMES[line.key]
    words = f"{_kwh(line.written.kwh)}{NBSP}kWh/M{NBSP}tok{price}"
    return words, f"{name}, for a million tokens written: {tooltip[:1].lower()}{tooltip[1:]}."


def _row(line: CostLine, currency: str) -> CostRow:
    name, tooltip = _NAMES[line.key]
    energy = ""
    if line.read.kwh is not None or line.written.kwh is not None:
        energy = f"{_kwh(line.read.kwh)} · {_kwh(line.written.kwh)}{NBSP}kWh"
    is_hardware = line.key.startswith("hardware")
    read, written = _cost(line.read, currency), _cost(line.written, currency)
    return CostRow(name, "" if is_hardware else energy, read, written, tooltip)


def _cost(amount: Amount, currency: str) -> str:
    return UNKNOWN if amount.money is None else _money(amount.money, currency)


def _kwh(value: float | None) -> str:
    if value is None:
        return UNKNOWN
    return numbers.decimal(value, 2 if value < 9.995 else 0)


def _money(value: float, currency: str) -> str:
    """ "$0.04", "$0.00005": two digits that say something."""
    digits = 2
    while digits < 8 and 0 < value < 0.95 * 10 ** (1 - digits):
        digits += 1
    return f"{currency}{numbers.decimal(value, digits)}"


def _typed(value: float | None) -> str:
    return "" if value is None else f"{value:.10g}"


def _basis(known: Known) -> str:
    chosen, measured = known.settings, known.measured
    watts = []
    if measured.busy_w is not None:
        watts.append(f"{numbers.decimal(measured.busy_w, 1)}{NBSP}W measured by the chip")
    if chosen.power_watts is not None:
        watts.append(f"{numbers.decimal(chosen.power_watts, 0)}{NBSP}W as typed")
    read, write = numbers.tps(known.speeds.read_tps), numbers.tps(known.speeds.write_tps)
    speeds = f"{write}{NBSP}tok/s written and {read}{NBSP}read{known.basis}"
    return f"{', '.join([*watts, speeds])}."


def _answer(known: Known, lines: tuple[CostLine, ...]) -> str:
    """What the average answer takes and costs."""
    tokens, tps = known.answer_tokens, known.speeds.write_tps
    if not tokens or not tps:
        return ""
    words = f"An answer of {numbers.count(round(tokens))} tokens, the average of your last ones, takes"
    time = f"≈{NBSP}{numbers.seconds(tokens / tps)}{NBSP}s"
    money, api = answer_money(lines, tokens), known.prices.api_output
    here = "" if money is None else f" and costs {_money(money, known.settings.currency)}"
    there = (
        "" if api is None else f"; the API takes {_money(api * tokens / MILLION, known.settings.currency)}"
    )
    return f"{words} {time}{here}{there}."
