"""What a call costs: micro-units of a currency, the worst case until the call is over, then what was used."""

import math
import re
from dataclasses import dataclass

MICROS = 1_000_000
MAX_AMOUNT = 1_000_000 * MICROS
_AMOUNT = re.compile(r"([0-9]{1,7})(?:\.([0-9]{1,6}))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """Micro-units (1,000,000 are one dollar, euro, ...). `per_minute` is everything that a minute of this call costs:
    line, speech, model. `reserved` is the worst case; `settled` is None until the call is over."""

    currency: str
    per_minute: int
    reserved: int
    settled: int | None = None

    @property
    def held(self) -> int:
        """What counts against a cap."""
        return self.reserved if self.settled is None else self.settled


def reserve(*, currency: str, per_minute: int, max_seconds: int) -> Cost:
    """The worst case: a minute more than the call may last, as carriers hang up late and bill started minutes."""
    return Cost(currency=currency, per_minute=per_minute, reserved=(math.ceil(max_seconds / 60) + 1) * per_minute)


def used(cost: Cost, seconds: float) -> int:
    """What so many seconds of talk cost: started minutes. Nothing when nobody answered."""
    return math.ceil(seconds / 60) * cost.per_minute


def amount(text: str) -> int:
    """Micro-units from `12`, `0.014`. Raises ValueError."""
    found = _AMOUNT.fullmatch(text)
    micros = int(found[1]) * MICROS + int((found[2] or "").ljust(6, "0")) if found else MAX_AMOUNT + 1
    if micros > MAX_AMOUNT:
        raise ValueError(f"{text!r} is not an amount such as 25 or 0.014, with at most six decimals, up to 1000000")
    return micros


def decimal(micros: int) -> str:
    """The other way round, with at least two decimals."""
    whole, rest = divmod(micros, MICROS)
    digits = f"{rest:06}".rstrip("0").ljust(2, "0")
    return f"{whole}.{digits}"
