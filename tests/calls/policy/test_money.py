"""Prices and budgets."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callmcp.calls.cost import reserve
from callmcp.calls.policy.limits import Level, Limits
from callmcp.calls.policy.money import budgets, verdict
from callmcp.calls.policy.prices import MOST_PRICES, per_minute, priced, prices_for
from callmcp.errors import InvalidArguments

moments = st.datetimes(datetime(2024, 1, 1), datetime(2032, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001 - the strategy's own form
numbers = st.from_regex(r"\+[1-9][0-9]{6,14}", fullmatch=True)


@pytest.mark.parametrize(
    ("number", "price"),
    [("+14155550100", 100 + 7), ("+14165550100", 250 + 7), ("+493023125000", 40 + 7), ("+33123456789", 999)],
)
def test_the_longest_prefix_counts_and_speech_and_model_are_added(number: str, price: int) -> None:
    table = {"+1": 100, "+1416": 250, "+49": 40, "speech": 5, "model": 2}

    assert per_minute(number, table, otherwise=999) == price


@given(numbers)
def test_every_prefix_of_a_number_is_asked_for(number: str) -> None:
    asked = prices_for(number)

    assert len(asked) <= MOST_PRICES
    assert {"speech", "model", number, number[:2]} <= set(asked)


@pytest.mark.parametrize(
    ("of", "amount"), [("49", "1"), ("+0", "1"), ("everything", "1"), ("+49", "much"), ("+49", "-1")]
)
def test_a_price_that_cannot_be_is_refused(of: str, amount: str) -> None:
    with pytest.raises(InvalidArguments):
        priced("acct_1", of, amount)


@given(moments)
def test_a_day_and_a_month_hold_their_moment_and_begin_anew_at_midnight(now: datetime) -> None:
    day, month = budgets({Level.KEY: Limits(spend_per_day=1, spend_per_month=1)}, now)

    assert day.since == now.date()
    assert day.until == now.date() + timedelta(days=1)
    assert month.since.day == month.until.day == 1
    assert month.since <= now.date() < month.until
    assert 28 <= (month.until - month.since).days <= 31


@given(st.integers(1, 10**9), st.integers(0, 10**9), st.integers(1, 10**6))
def test_a_call_is_let_through_exactly_when_its_worst_case_fits(most: int, spent: int, price: int) -> None:
    (budget,) = budgets({Level.ACCOUNT: Limits(spend_per_day=most)}, datetime(2026, 3, 31, 23, tzinfo=UTC))
    cost = reserve(currency="USD", per_minute=price, max_seconds=60)

    said = verdict(budget, spent, cost)

    assert said.allowed is (spent + cost.reserved <= most)
    if not said.allowed:
        assert said.code == "over_budget"
        fits_tomorrow = cost.reserved <= most
        assert said.retry_at == (datetime(2026, 4, 1, tzinfo=UTC) if fits_tomorrow else None)
