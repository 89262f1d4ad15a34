"""callmcp clients and oauth."""

import asyncio
import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from callmcp.app import services
from callmcp.identity.grants import Grant
from callmcp.identity.model import Scope
from callmcp.settings import load
from tests.cli.conftest import Callmcp


@pytest.fixture(autouse=True)
def initialised(callmcp: Callmcp) -> None:
    assert callmcp("init").returncode == 0


def test_a_client_is_made_listed_and_removed_and_its_secret_is_shown_once(callmcp: Callmcp) -> None:
    made = callmcp("clients", "add", "robot", "--scope", "calls:write", "--json")
    client = json.loads(made.stdout)
    public = callmcp("clients", "add", "app", "--public", "--redirect-uri", "http://127.0.0.1/cb")
    assert (public.returncode, public.stdout) == (0, "")

    listed = callmcp("clients", "list", "--json").stdout
    robot, app = json.loads(listed)["clients"]
    assert client["client_secret"] not in listed
    assert (robot["client_id"], robot["scopes"], robot["public"]) == (client["client_id"], ["calls:write"], False)
    assert (app["redirect_uris"], app["public"]) == (["http://127.0.0.1/cb"], True)
    assert callmcp("clients", "remove", robot["client_id"]).returncode == 0
    assert callmcp("clients", "remove", robot["client_id"]).returncode == 1
    assert "app" in callmcp("clients", "list").stdout
    actions = [entry["action"] for entry in json.loads(callmcp("audit", "list", "--json").stdout)["entries"]]
    assert actions[:3] == ["clients.remove", "clients.add", "clients.add"]


def test_a_secret_is_alone_on_stdout(callmcp: Callmcp) -> None:
    made = callmcp("clients", "add", "robot", "--scope", "calls:read")

    assert len(made.stdout.strip()) == 43
    assert "client_" in made.stderr


@pytest.mark.parametrize(
    "options", [[], ["--scope", "admin"], ["--scope", "fly"], ["--redirect-uri", "http://example.com"]]
)
def test_a_client_that_cannot_be_is_refused_with_why(callmcp: Callmcp, options: list[str]) -> None:
    done = callmcp("clients", "add", "robot", *options)

    assert done.returncode == 2
    assert done.stderr.startswith("callmcp: ")


def test_what_was_granted_is_listed_and_revoked(callmcp: Callmcp, data: Path) -> None:
    asyncio.run(granted(data))

    (grant,) = json.loads(callmcp("oauth", "grants", "--json").stdout)["grants"]
    assert (grant["client"], grant["scopes"], grant["agent_ids"]) == ("An app", ["calls:read"], ["all"])
    assert callmcp("oauth", "revoke", grant["grant_id"]).returncode == 0
    assert json.loads(callmcp("oauth", "grants", "--json").stdout)["grants"] == []
    assert callmcp("oauth", "revoke", "grant_none").returncode == 1


async def granted(data: Path) -> None:
    async with services(load(data=data)) as server:
        account = await server.keys.default_account()
        await server.store.add_grant(
            Grant(
                id="grant_1",
                account_id=account.id,
                key_id="key_x",
                client_id="client_x",
                client_name="An app",
                scopes=frozenset({Scope.CALLS_READ}),
                agent_ids=frozenset(),
                resource="http://127.0.0.1:8765/mcp",
                created_at=datetime.now(UTC),
            )
        )


def test_rotating_makes_another_key_sign_and_keeps_the_old_one_for_what_it_signed(callmcp: Callmcp, data: Path) -> None:
    async def keys() -> list[str]:
        async with services(load(data=data)) as server:
            return [key.id for key in await server.store.signing_keys()]

    assert callmcp("oauth", "rotate").returncode == 0
    (first,) = asyncio.run(keys())
    done = callmcp("oauth", "rotate")
    (newest, oldest) = asyncio.run(keys())

    assert newest in done.stderr
    assert oldest == first
