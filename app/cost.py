"""What tokens cost, from watts, speeds and prices. Pure arithmetic; what is unknown makes nothing up.

kWh of a million tokens = W / (tokens per second) · 10⁶ / 3.6·10⁶.
"""

from __future__ import annotations

from dataclasses import dataclass

MILLION = 1_000_000
_J_PER_KWH = 3_600_000
_S_PER_HOUR, _DAYS_PER_YEAR = 3600, 365.25


@dataclass(frozen=True, slots=True)
class Power:
    """Watts while tokens are made and at rest. Typed ones are the whole computer's at the wall; measured ones
    are of the chip that counts them, and without what the power supply loses.
    """

    busy_w: float | None = None
    rest_w: float | None = None

    @property
    def beyond_rest_w(self) -> float | None:
        """What is used because tokens are made; None where one of both is unknown, or they contradict."""
        if self.busy_w is None or self.rest_w is None or self.rest_w >= self.busy_w:
            return None
        return self.busy_w - self.rest_w


@dataclass(frozen=True, slots=True)
class Prices:
    """What the user has typed, in one currency."""

    kwh: float | None = None
    hardware: float | None = None
    years: float | None = None  # that the hardware is used for,
    hours: float | None = None  # so many a day
    api_input: float | None = None  # of a million tokens
    api_output: float | None = None

    @property
    def hardware_per_s(self) -> float | None:
        """Of the hardware, for each second that it works in its life."""
        if self.hardware is None or not self.years or not self.hours:
            return None
        return self.hardware / (self.years * _DAYS_PER_YEAR * self.hours * _S_PER_HOUR)


@dataclass(frozen=True, slots=True)
class Speeds:
    """Tokens a second that are read, as a prompt, and written, as an answer."""

    read_tps: float | None = None
    write_tps: float | None = None


@dataclass(frozen=True, slots=True)
class Amount:
    """Of a million tokens."""

    kwh: float | None = None
    money: float | None = None


@dataclass(frozen=True, slots=True)
class CostLine:
    """One way of counting: beyond rest | chip: all that it counts | wall | hardware: with its price | api."""

    key: str
    read: Amount
    written: Amount


def cost_lines(typed: Power, measured: Power, prices: Prices, speeds: Speeds) -> tuple[CostLine, ...]:
    """Every way of counting that there is enough known for, the narrowest first."""
    beyond = measured.beyond_rest_w if measured.beyond_rest_w is not None else typed.beyond_rest_w
    lines = [
        _line("beyond rest", beyond, prices, speeds),
        _line("chip", measured.busy_w, prices, speeds),
        _line("wall", typed.busy_w, prices, speeds),
        _with_hardware(typed.busy_w if typed.busy_w is not None else measured.busy_w, prices, speeds),
    ]
    if prices.api_input is not None or prices.api_output is not None:
        amounts = Amount(money=prices.api_input), Amount(money=prices.api_output)
        lines.append(CostLine("api", *amounts))
    return tuple(line for line in lines if line is not None)


def answer_money(lines: tuple[CostLine, ...], tokens: float) -> float | None:
    """What an answer of so many tokens costs here, counted as widely as is known; None where nothing is."""
    own = [line.written.money for line in lines if line.key != "api" and line.written.money is not None]
    return own[-1] * tokens / MILLION if own else None


def _line(key: str, watts: float | None, prices: Prices, speeds: Speeds) -> CostLine | None:
    if watts is None or (speeds.read_tps is None and speeds.write_tps is None):
        return None
    return CostLine(key, *(_amount(watts, None, prices, tps) for tps in (speeds.read_tps, speeds.write_tps)))


def _with_hardware(watts: float | None, prices: Prices, speeds: Speeds) -> CostLine | None:
    """Energy and the hardware's share; the share alone where no energy, or no price of it, is known."""
    per_s = prices.hardware_per_s
    if per_s is None or (speeds.read_tps is None and speeds.write_tps is None):
        return None
    amounts = (_amount(watts, per_s, prices, tps) for tps in (speeds.read_tps, speeds.write_tps))
    is_alone = watts is None or prices.kwh is None
    return CostLine("hardware alone" if is_alone else "hardware", *amounts)


def _amount(watts: float | None, per_s: float | None, prices: Prices, tps: float | None) -> Amount:
    if not tps:
        return Amount()
    seconds = MILLION / tps
    kwh = None if watts is None else watts * seconds / _J_PER_KWH
    parts = [
        None if kwh is None or prices.kwh is None else kwh * prices.kwh,
        None if per_s is None else per_s * seconds,
    ]
    known = [part for part in parts if part is not None]
    return Amount(kwh, sum(known) if known else None)
