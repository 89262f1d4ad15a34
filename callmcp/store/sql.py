"""SQLite or PostgreSQL, whichever the URL names, behind one face."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from callmcp.agents.model import Agent
from callmcp.calls.events import Event
from callmcp.calls.model import Call, CallFilter, CallStatus, Position, Turn
from callmcp.calls.optouts import OptOut
from callmcp.calls.policy.facts import LaidDown, Verdict
from callmcp.calls.policy.limits import Level, Limits
from callmcp.calls.policy.money import Budget
from callmcp.calls.policy.prices import Price
from callmcp.calls.policy.rates import Quota
from callmcp.calls.refusals import Refusal
from callmcp.errors import Unavailable
from callmcp.identity.audit import Entry
from callmcp.identity.grants import Code, Grant, OAuthClient, RefreshToken, SigningKey
from callmcp.identity.model import Account, ApiKey
from callmcp.store import agents, audit, backup, calls, grants, keys, lane, policy, schema
from callmcp.store.connection import Connection, engine_for
from callmcp.store.lane import Lane
from callmcp.store.text import storable

P = ParamSpec("P")
T = TypeVar("T")


class SqlStore:
    """A KeyStore, an AgentStore and a CallStore. Between `open` and `close`, for one event loop.

    `url` is sqlite:///file or postgresql://…; raises BadConfiguration for another. Every method raises Unavailable
    when the database cannot do its part.
    """

    def __init__(self, url: str) -> None:
        self._engine = engine_for(url)
        self._here: Connection | None = None
        self._readers: Lane | None = None
        self._writers: Lane | None = None

    async def open(self) -> None:
        """Starts the threads. Each connects when it has something to do, so that an unreachable server is no error
        yet."""
        if self._engine.dialect.name == "sqlite":
            self._readers = Lane(self._engine, lane.read, threads=2, most=32)
            self._writers = Lane(self._engine, lane.write, threads=1, most=256)
        else:
            self._readers = Lane(self._engine, lane.read, threads=4, most=1)
            self._writers = Lane(self._engine, lane.write, threads=4, most=1)

    async def close(self) -> None:
        """Lets what was asked end, and lets go of every connection."""
        for one in (self._writers, self._readers):
            if one is not None:
                await one.close()
        if self._here is not None:
            self._here.close()
            self._here = None

    async def ready(self) -> None:
        """Raises Unavailable when the database cannot be reached or its migrations are not current."""
        await asyncio.to_thread(schema.ready, self._engine)

    async def upgrade(self) -> None:
        """Brings the schema up to date. Raises BadConfiguration when the database is of a later version."""
        await asyncio.to_thread(schema.upgrade, self._engine)

    async def revision(self) -> str | None:
        """The revision of the database's schema, None when it has none."""
        return await asyncio.to_thread(schema.revision, self._engine)

    async def backup(self, path: Path) -> None:
        """A consistent copy in a new file, while serving. Raises BadConfiguration when that cannot be."""
        await asyncio.to_thread(backup.backup, self._engine, path)

    async def _read(self, job: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await _run(self._readers, job, *args, **kwargs)

    async def _look_up(self, job: Callable[..., T], *args: str | int) -> T:
        """A read of one row or a few by their key.

        SQLite is asked from the loop itself: a reader of a write-ahead log waits for nobody, it answers in about 30
        microseconds, and a thread costs several times that, most of it in handing the interpreter's lock to and fro.
        What it cannot answer at once goes to a thread like any other read.
        """
        if self._readers is not None and self._engine.dialect.name == "sqlite":
            try:
                if self._here is None:
                    self._here = Connection(self._engine, waits=False)
                return job(self._here, *map(storable, args))
            except self._engine.dialect.loaded_dbapi.Error:
                pass
        return await self._read(job, *args)

    async def _write(self, job: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await _run(self._writers, job, *args, **kwargs)

    async def add_account(self, account: Account) -> None:
        await self._write(keys.add_account, account)

    async def account_named(self, name: str) -> Account | None:
        return await self._read(keys.account_named, name)

    async def accounts(self) -> Sequence[Account]:
        return await self._read(keys.accounts)

    async def add_key(self, key: ApiKey) -> None:
        await self._write(keys.add_key, key)

    async def key_by_digest(self, digest: str) -> ApiKey | None:
        return await self._look_up(keys.key_by_digest, digest)

    async def key(self, key_id: str) -> ApiKey | None:
        return await self._read(keys.key, key_id)

    async def keys(self, account_id: str | None = None) -> Sequence[ApiKey]:
        return await self._read(keys.keys, account_id)

    async def save_key(self, key: ApiKey) -> None:
        await self._write(keys.save_key, key)

    async def touch_key(self, key_id: str, at: datetime) -> None:
        await self._write(keys.touch_key, key_id, at)

    async def add_client(self, client: OAuthClient) -> None:
        await self._write(grants.add_client, client)

    async def client(self, client_id: str) -> OAuthClient | None:
        return await self._look_up(grants.client, client_id)

    async def clients(self, account_id: str) -> Sequence[OAuthClient]:
        return await self._read(grants.clients, account_id)

    async def remove_client(self, client_id: str, at: datetime) -> None:
        await self._write(grants.remove_client, client_id, at)

    async def use_client(self, client_id: str, at: datetime) -> None:
        await self._write(grants.use_client, client_id, at)

    async def register_client(self, client: OAuthClient, *, most: int, since: datetime) -> bool:
        return await self._write(grants.register_client, client, most=most, since=since)

    async def forget_clients(self, *, unused_since: datetime, idle_since: datetime) -> None:
        await self._write(grants.forget_clients, unused_since=unused_since, idle_since=idle_since)

    async def add_grant(self, grant: Grant, code: Code | None = None) -> None:
        await self._write(grants.add_grant, grant, code)

    async def grant(self, grant_id: str) -> tuple[Grant, ApiKey | None] | None:
        return await self._look_up(grants.grant, grant_id)

    async def grants(self, account_id: str) -> Sequence[Grant]:
        return await self._read(grants.grants, account_id)

    async def forget_grants(self, *, expired: datetime, made_before: datetime) -> None:
        await self._write(grants.forget_grants, expired=expired, made_before=made_before)

    async def revoke_grant(self, grant_id: str, at: datetime) -> None:
        await self._write(grants.revoke_grant, grant_id, at)

    async def use_code(self, digest: str, at: datetime) -> Code | None:
        return await self._write(grants.use_code, digest, at)

    async def add_refresh_token(self, token: RefreshToken) -> None:
        await self._write(grants.add_refresh_token, token)

    async def refresh_token(self, digest: str) -> RefreshToken | None:
        return await self._read(grants.refresh_token, digest)

    async def use_refresh_token(self, digest: str, at: datetime) -> RefreshToken | None:
        return await self._write(grants.use_refresh_token, digest, at)

    async def signing_keys(self) -> Sequence[SigningKey]:
        return await self._read(grants.signing_keys)

    async def add_signing_key(self, key: SigningKey, *, first: bool = False) -> None:
        await self._write(grants.add_signing_key, key, first=first)

    async def forget_signing_keys(self, *, succeeded_before: datetime) -> None:
        await self._write(grants.forget_signing_keys, succeeded_before=succeeded_before)

    async def add_agent(self, agent: Agent) -> None:
        await self._write(agents.add_agent, agent)

    async def agent(self, agent_id: str) -> Agent | None:
        return await self._look_up(agents.agent, agent_id)

    async def agents(self, account_id: str) -> Sequence[Agent]:
        return await self._read(agents.agents, account_id)

    async def agent_version(self, agent_id: str, version: int) -> Agent | None:
        return await self._look_up(agents.agent_version, agent_id, version)

    async def agent_versions(self, agent_id: str) -> Sequence[Agent]:
        return await self._read(agents.agent_versions, agent_id)

    async def save_agent(self, agent: Agent) -> None:
        await self._write(agents.save_agent, agent)

    async def add(self, call: Call, quotas: Sequence[Quota] = (), budgets: Sequence[Budget] = ()) -> Call:
        return await self._write(calls.add, call, quotas, budgets)

    async def opt_out(self, account_id: str, number: str) -> OptOut | None:
        return await self._look_up(policy.opt_out, account_id, number)

    async def opt_outs(self, account_id: str, *, after: str = "", limit: int = 1000) -> Sequence[OptOut]:
        return await self._read(policy.opt_outs, account_id, after=after, limit=limit)

    async def add_opt_outs(self, opt_outs: Sequence[OptOut]) -> int:
        return await self._write(policy.add_opt_outs, opt_outs)

    async def remove_opt_out(self, account_id: str, number: str) -> OptOut | None:
        return await self._write(policy.remove_opt_out, account_id, number)

    async def laid_down(self, account_id: str, *, agent_id: str, key_id: str, number: str) -> LaidDown:
        return await self._look_up(policy.laid_down, account_id, agent_id, key_id, number)

    async def prices(self, account_id: str) -> Sequence[Price]:
        return await self._read(policy.prices, account_id)

    async def set_price(self, price: Price) -> None:
        await self._write(policy.set_price, price)

    async def remove_price(self, account_id: str, of: str) -> Price | None:
        return await self._write(policy.remove_price, account_id, of)

    async def all_limits(self, account_id: str) -> Sequence[tuple[Level, str, Limits]]:
        return await self._read(policy.all_limits, account_id)

    async def set_limits(self, account_id: str, level: Level, subject_id: str, limits: Limits | None) -> None:
        await self._write(policy.set_limits, account_id, level, subject_id, limits)

    async def counted(self, call: Call, quotas: Sequence[Quota], budgets: Sequence[Budget]) -> Sequence[Verdict]:
        return await self._read(policy.counted, call, quotas, budgets)

    async def add_refusal(self, refusal: Refusal) -> None:
        await self._write(policy.add_refusal, refusal)

    async def refusals(self, account_id: str, *, limit: int = 100) -> Sequence[Refusal]:
        return await self._read(policy.refusals, account_id, limit=limit)

    async def add_entry(self, entry: Entry) -> None:
        await self._write(audit.add_entry, entry)

    async def entries(self, account_id: str, *, limit: int = 100) -> Sequence[Entry]:
        return await self._read(audit.entries, account_id, limit=limit)

    async def call(self, call_id: str) -> Call | None:
        return await self._look_up(calls.call, call_id)

    async def call_by_key(self, account_id: str, idempotency_key: str) -> Call | None:
        return await self._look_up(calls.call_by_key, account_id, idempotency_key)

    async def call_by_carrier_id(self, carrier: str, carrier_id: str) -> Call | None:
        return await self._look_up(calls.call_by_carrier_id, carrier, carrier_id)

    async def record(self, call_id: str, *, after: int = -1) -> tuple[Call, Sequence[Turn]] | None:
        return await self._look_up(calls.record, call_id, after)

    async def apply(self, call_id: str, *events: Event) -> Call:
        return await self._write(calls.apply, call_id, *events)

    async def calls(
        self,
        account_id: str,
        wanted: CallFilter,
        *,
        agent_ids: frozenset[str],
        limit: int,
        after: Position | None = None,
    ) -> Sequence[Call]:
        return await self._read(calls.calls, account_id, wanted, agent_ids=agent_ids, limit=limit, after=after)

    async def carried_by(self, owner: str) -> Sequence[Call]:
        return await self._read(calls.carried_by, owner)

    async def to_end(self, owner: str) -> Sequence[Call]:
        return await self._read(calls.to_end, owner)

    async def quiet(self, status: CallStatus, *, since: datetime, limit: int = 500) -> Sequence[Call]:
        return await self._read(calls.quiet, status, since, limit)

    async def waiting(self, account_id: str | None = None) -> Sequence[Call]:
        return await self._read(calls.waiting, account_id)

    async def beat(self, owner: str) -> None:
        await self._write(calls.beat, owner)

    async def beats(self) -> Mapping[str, int]:
        return await self._read(calls.beats)

    async def forget_owner(self, owner: str) -> None:
        await self._write(calls.forget_owner, owner)


async def _run(
    where: Lane | None, job: Callable[Concatenate[Connection, P], T], *args: P.args, **kwargs: P.kwargs
) -> T:
    if where is None:
        raise Unavailable("The store is not open.")

    def made_storable(connection: Connection) -> T:
        given: Any = [storable(value) for value in args]
        named: Any = {name: storable(value) for name, value in kwargs.items()}
        return job(connection, *given, **named)

    return await where.run(made_storable)
