from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from callmcp.app import Services, build
from callmcp.identity.model import Account, Principal, Scope
from callmcp.settings import Settings
from callmcp.store.memory import MemoryStore
from tests.mcp.rpc import Rpc, World

READ_WRITE = (Scope.CALLS_WRITE, Scope.AGENTS_READ)


def admin(account: Account) -> Principal:
    return Principal(account_id=account.id, key_id="key_test", scopes=frozenset({Scope.ADMIN}))


async def key_for(services: Services, account: Account, name: str, **fields: Any) -> str:
    _, secret = await services.keys.create(name, account=account, **{"scopes": READ_WRITE, **fields})
    return secret


@pytest.fixture
async def world() -> AsyncIterator[World]:
    """A server over the memory store whose simulated calls run a hundred times as fast."""
    settings = Settings(simulator_speed=100, allowed_origins=("https://app.example.com",))
    app = build(settings, store=MemoryStore())
    async with app.router.lifespan_context(app):
        services: Services = app.state.services
        account = await services.keys.default_account()
        other = await services.keys.create_account("other")
        agent = await services.agents.create(admin(account), name="Reception", greeting="Hello, this is Reception.")
        theirs = await services.agents.create(admin(other), name="Other", greeting="Hello, this is Other.")
        transport = httpx.ASGITransport(app, raise_app_exceptions=True)
        async with httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1:8765") as http:
            yield World(
                services=services,
                http=http,
                agent_id=agent.id,
                strangers_agent_id=theirs.id,
                alice=Rpc(http, await key_for(services, account, "alice")),
                bob=Rpc(http, await key_for(services, account, "bob")),
                carol=Rpc(http, await key_for(services, other, "carol")),
                nobody=Rpc(http),
            )
