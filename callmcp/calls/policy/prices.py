"""What a minute costs: of the line, by the beginning of the number, and of speech and model, whatever the number."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from callmcp.calls.cost import amount
from callmcp.calls.policy.limits import PREFIX
from callmcp.errors import InvalidArguments

SPEECH, MODEL = "speech", "model"
MOST_PRICES = 17  # that may say something of one number: speech, model, and a prefix for each of up to 15 digits


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """`of` is a prefix such as +49, `speech` or `model`; `per_minute` in micro-units of the deployment's currency."""

    account_id: str
    of: str
    per_minute: int


def priced(account_id: str, of: str, per_minute: str) -> Price:
    """Raises InvalidArguments."""
    if of not in {SPEECH, MODEL} and not PREFIX.fullmatch(of):
        raise InvalidArguments.of("of", f"{of!r} is not the beginning of a number such as +49, nor speech or model")
    try:
        return Price(account_id=account_id, of=of, per_minute=amount(per_minute))
    except ValueError as error:
        raise InvalidArguments.of(of, str(error)) from None


def prices_for(number: str) -> Sequence[str]:
    """Every `of` that may say something of this number's price."""
    return [SPEECH, MODEL, *(number[:length] for length in range(2, len(number) + 1))]


def per_minute(number: str, prices: Mapping[str, int], otherwise: int) -> int:
    """Everything together, by the longest prefix; `otherwise` when no prefix fits."""
    line = max((of for of in prices if of.startswith("+") and number.startswith(of)), key=len, default=None)
    return otherwise if line is None else prices[line] + prices.get(SPEECH, 0) + prices.get(MODEL, 0)
