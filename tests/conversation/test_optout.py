import pytest

from callmcp.conversation.optout import asks_not_to_be_called


@pytest.mark.parametrize(
    "text",
    [
        "Please never call me again.",
        "Don't call here anymore!",
        "I told you not to call me again",
        "do not ever call this number again",
        "Never call us.",
        "STOP CALLING ME",
        "Would you stop phoning, please",
        "Take me off your list.",
        "remove this number from the calling list, please",
        "Stop calling me please",
        "Remove my number from your database",
        "take us off of that list",
        "Put me on your do not call list",
        "Don\u2019t   contact me again",
        "don't call my house ever",
    ],
)
def test_who_does_not_want_to_be_called_is_understood(text: str) -> None:
    assert asks_not_to_be_called(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Please call me again.",
        "Don't call me again before noon.",
        "Do not call me after six.",
        "Never call me on Sundays.",
        "Stop calling so early",
        "Could you call again tomorrow?",
        "I will never forget this call.",
        "Remove my number from the invoice",
        "He said he would never stop calling it a miracle",
    ],
)
def test_who_wants_something_else_is_not_misunderstood(text: str) -> None:
    assert not asks_not_to_be_called(text)
