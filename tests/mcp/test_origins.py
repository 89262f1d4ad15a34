import pytest
from hypothesis import given
from hypothesis import strategies as st

from callmcp.mcp.origins import Hosts, Origins

ORIGINS = Origins(["https://app.example.com"], "https://calls.example.org/base")


@pytest.mark.parametrize(
    "origin",
    [
        "https://app.example.com",
        "HTTPS://APP.example.com",
        "https://calls.example.org",
        "http://localhost:6274",
        "http://127.0.0.1:8765",
        "http://[::1]:3000",
    ],
)
def test_listed_public_and_loopback_origins_are_allowed(origin: str) -> None:
    assert ORIGINS.allows(origin)


@pytest.mark.parametrize(
    "origin",
    [
        "null",
        "",
        "https://evil.example.com",
        "https://app.example.com.evil.example",
        "http://app.example.com",
        "https://app.example.com:8443",
        "https://app.example.com/",
        "http://localhost.evil.example",
        "http://user@localhost",
        "http://localhost:99999",
        "http://[::1",
        "localhost",
    ],
)
def test_any_other_origin_is_not(origin: str) -> None:
    assert not ORIGINS.allows(origin)


@given(st.text(max_size=60))
def test_no_text_makes_the_check_fail(text: str) -> None:
    assert ORIGINS.allows(text) in (True, False)
    assert Hosts("127.0.0.1", "http://127.0.0.1:8765", ()).allows(text) in (True, False)


@pytest.mark.parametrize(
    ("host", "allowed"),
    [
        ("localhost:8765", True),
        ("127.0.0.1", True),
        ("[::1]:80", True),
        ("calls.example.org", True),
        ("inside.example:81", True),
        ("evil.example", False),
        ("", False),
        ("localhost.evil.example", False),
    ],
)
def test_a_server_bound_to_loopback_answers_only_to_its_own_names(host: str, *, allowed: bool) -> None:
    assert Hosts("127.0.0.1", "https://calls.example.org", ["Inside.example:9000"]).allows(host) is allowed


def test_a_server_bound_elsewhere_leaves_names_to_the_proxy_before_it() -> None:
    assert Hosts("0.0.0.0", "https://calls.example.org", ()).allows("anything.internal")  # noqa: S104


def test_names_that_are_listed_are_checked_wherever_the_server_is_bound() -> None:
    hosts = Hosts("0.0.0.0", "https://calls.example.org", ["inside.example"])  # noqa: S104
    assert hosts.allows("inside.example:8765")
    assert hosts.allows("calls.example.org")
    assert not hosts.allows("anything.internal")
