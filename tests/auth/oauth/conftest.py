"""A server with OAuth in this process, and people with keys."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from callmcp.app import Services, build
from callmcp.identity.model import Account, ApiKey, Principal, Scope
from callmcp.settings import Settings
from callmcp.store.memory import MemoryStore
from tests.auth.oauth.browser import App

BASE = "https://calls.example.org"


@dataclass(frozen=True, kw_only=True)
class Server:
    services: Services
    http: httpx.AsyncClient
    account: Account
    other: Account
    agent_id: str
    app: Starlette

    async def key(self, *scopes: Scope, account: Account | None = None, **more: Any) -> tuple[ApiKey, str]:
        wanted = scopes or (Scope.CALLS_WRITE, Scope.AGENTS_READ)
        return await self.services.keys.create("key", account=account or self.account, scopes=wanted, **more)

    def a_client(self, **fields: Any) -> App:
        return App(http=self.http, base=BASE, **fields)

    async def registered(self, **fields: Any) -> App:
        app = self.a_client()
        assert (await app.register(**fields)).status_code == 201
        return app

    async def call(self, token: str, tool: str = "list_agents", **arguments: Any) -> httpx.Response:
        """A tools/call with this credential."""
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": tool, "arguments": arguments}}
        headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
        return await self.http.post("/mcp", json=body, headers=headers)


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    app = build(Settings(public_url=BASE, simulator_speed=100), store=MemoryStore())
    async with app.router.lifespan_context(app):
        services: Services = app.state.services
        account = await services.keys.default_account()
        other = await services.keys.create_account("other")
        admin = Principal(account_id=account.id, key_id="key_x", scopes=frozenset({Scope.ADMIN}))
        agent = await services.agents.create(admin, name="Ada", greeting="Hello.")
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=BASE, trust_env=False) as http:
            yield Server(services=services, http=http, account=account, other=other, agent_id=agent.id, app=app)
