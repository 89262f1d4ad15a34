"""Money: micro-units, the worst case, and what was used."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callmcp.calls.cost import MAX_AMOUNT, amount, decimal, reserve, used


@given(st.integers(0, MAX_AMOUNT))
def test_an_amount_reads_back_as_it_was_written(micros: int) -> None:
    assert amount(decimal(micros)) == micros


@pytest.mark.parametrize(("text", "micros"), [("0", 0), ("25", 25_000_000), ("0.014", 14_000), ("1000000", MAX_AMOUNT)])
def test_an_amount_is_in_whole_units(text: str, micros: int) -> None:
    assert amount(text) == micros


@pytest.mark.parametrize(
    "text", ["", "-1", "1,5", "0.0000001", "1e3", "1.", ".5", "1000000.000001", "99999999", "$5", "\u0661"]
)
def test_what_is_no_amount_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="is not an amount"):
        amount(text)


@given(st.integers(1, 10_000_000), st.integers(30, 14_400), st.data())
def test_no_talk_within_its_limit_costs_more_than_was_reserved(price: int, longest: int, data: st.DataObject) -> None:
    cost = reserve(currency="USD", per_minute=price, max_seconds=longest)
    late = longest + 60  # hung up late by up to a minute

    assert 0 <= used(cost, data.draw(st.floats(0, late))) <= cost.reserved == cost.held


def test_minutes_are_billed_when_they_have_begun() -> None:
    cost = reserve(currency="USD", per_minute=10, max_seconds=600)

    assert [used(cost, seconds) for seconds in (0, 0.1, 60, 60.1, 121)] == [0, 10, 10, 20, 30]
