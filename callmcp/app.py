"""The composition root: what is made of what, once. Nothing else in callmcp makes its own collaborators."""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from callmcp import __version__
from callmcp.agents.model import SCRIPTED
from callmcp.agents.operations import Agents
from callmcp.approvals import ApprovalPage
from callmcp.auth.credentials import Credentials, Tokens, challenges
from callmcp.calls.decisions import Decisions
from callmcp.calls.operations import Calls
from callmcp.calls.policy.operations import Policy
from callmcp.calls.ports import Telephony
from callmcp.calls.sweep import Patience, Sweep
from callmcp.clock import Clock, SystemClock
from callmcp.deployment import deployment
from callmcp.errors import CallMcpError, Unavailable
from callmcp.identity.audit import Trail
from callmcp.identity.granting import Grants
from callmcp.identity.operations import Keys
from callmcp.llm.models import Models
from callmcp.mcp.endpoint import McpEndpoint
from callmcp.mcp.origins import Hosts, Origins
from callmcp.mcp.server import McpServer
from callmcp.mcp.tools import World
from callmcp.numbering import PhoneNumbersPlan
from callmcp.recordings import Recordings
from callmcp.settings import Carrier, OAuth, Settings
from callmcp.store import Store
from callmcp.store.sql import SqlStore
from callmcp.telephony.simulator.client import Simulator
from callmcp.telephony.simulator.played import Played
from callmcp.telephony.twilio.addresses import Addresses
from callmcp.wire import APPROVAL_PATH, RECORDING_PATH

log = structlog.get_logger()

BEAT_SECONDS = 0.5  # how soon a process obeys what another asked of its calls
SETTLE_SECONDS = 1.0
LEAVE_WITHIN_SECONDS = 1.0
FORGET_SECONDS = 3600.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Services:
    """Everything a process that serves or commands works with."""

    settings: Settings
    clock: Clock
    store: Store
    keys: Keys
    grants: Grants
    agents: Agents
    models: Models
    policy: Policy
    calls: Calls
    decisions: Decisions
    telephony: Telephony
    sweep: Sweep
    owner: str


def assemble(settings: Settings, *, store: Store | None = None) -> Services:
    """Makes the parts and opens nothing. `store`: another than the one that the settings name."""
    clock = SystemClock()
    store = store or SqlStore(settings.database_url)
    models = Models(api_key=settings.model_api_key)
    telephony = _telephony(settings, models, clock)
    trail = Trail(store, clock)
    agents = Agents(store, models, trail, clock)
    owner = f"proc_{secrets.token_hex(8)}"
    policy = Policy(store=store, audit=store, numbers=PhoneNumbersPlan(), clock=clock, deployment=deployment(settings))
    calls = Calls(store=store, agents=agents, telephony=telephony, policy=policy, clock=clock, owner=owner)
    sweep = Sweep(store=store, calls=calls, telephony=telephony, clock=clock, owner=owner, patience=_patience(settings))
    return Services(
        settings=settings,
        clock=clock,
        store=store,
        keys=Keys(store, trail, clock),
        grants=Grants(store, trail, clock),
        agents=agents,
        models=models,
        policy=policy,
        calls=calls,
        decisions=Decisions(store=store, calls=calls, trail=trail, clock=clock),
        telephony=telephony,
        sweep=sweep,
        owner=owner,
    )


@contextlib.asynccontextmanager
async def running(parts: Services) -> AsyncIterator[None]:
    """Opens the store, brings it up to date and runs the loops that settle calls; closes all in turn.

    Raises Unavailable or BadConfiguration when that cannot be done.
    """
    async with contextlib.AsyncExitStack() as stack:
        await parts.store.open()
        stack.push_async_callback(parts.store.close)
        await parts.store.upgrade()
        await parts.store.beat(parts.owner)
        stack.push_async_callback(_leave, parts)
        stack.push_async_callback(parts.models.close)
        stack.push_async_callback(parts.telephony.close)
        stack.push_async_callback(parts.calls.close)
        await stack.enter_async_context(_repeated(parts.sweep.beat, BEAT_SECONDS))
        await stack.enter_async_context(_repeated(parts.sweep.settle, SETTLE_SECONDS))
        await stack.enter_async_context(_repeated(parts.grants.forget_expired, FORGET_SECONDS))
        yield


async def _leave(parts: Services) -> None:
    """Strikes this process off the owners, unless calls of its are left to settle. Left on the list it is found silent,
    so a database that is away, or does not answer, keeps no process from ending."""
    with contextlib.suppress(Unavailable, TimeoutError):
        async with asyncio.timeout(LEAVE_WITHIN_SECONDS):
            if not await parts.store.carried_by(parts.owner):
                await parts.store.forget_owner(parts.owner)


@contextlib.asynccontextmanager
async def services(settings: Settings) -> AsyncIterator[Services]:
    """The parts, running."""
    parts = assemble(settings)
    async with running(parts):
        yield parts


def build(settings: Settings, *, store: Store | None = None) -> Starlette:
    """The ASGI application. Its lifespan opens the services, so it must be run by a server that runs lifespans."""
    parts = assemble(settings, store=store)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        async with running(parts):
            yield

    reports = _carrier_reports(parts)
    tokens = _tokens(parts)
    credentials, challenge = Credentials(parts.keys, tokens.verify), challenges(tokens.resource_metadata)
    recordings = Recordings(calls=parts.calls, telephony=parts.telephony, authenticate=credentials, challenge=challenge)
    endpoint = McpEndpoint(
        McpServer(World(agents=parts.agents, policy=parts.policy, calls=parts.calls, base=settings.public_url)),
        authenticate=credentials,
        challenge=challenge,
        origins=Origins(settings.allowed_origins, settings.public_url),
        hosts=Hosts(settings.host, settings.public_url, settings.allowed_hosts),
        body_limit=settings.body_limit,
    )

    async def readyz(_: Request) -> Response:
        """Whether requests can be served: the store is reachable and takes writes, its schema is this version's."""
        try:
            await parts.store.ready()
            if parts.sweep.trouble is not None:  # a full disk can still be read from
                raise parts.sweep.trouble
        except CallMcpError as error:
            return _json(503, {"status": "unavailable", "reason": error.message})
        return _json(200, {"status": "ready"})

    app = Starlette(
        routes=[
            Route("/mcp", endpoint),
            Route("/mcp/", endpoint),
            Route("/healthz", _healthz),
            Route("/readyz", readyz),
            Route("/", _about(settings)),
            Route(RECORDING_PATH, recordings.answer),
            Route(APPROVAL_PATH, ApprovalPage(parts.decisions).answer, methods=["GET", "POST"]),
            *tokens.routes,
            *reports.routes,
        ],
        exception_handlers={HTTPException: _http_error},
        lifespan=lifespan,
    )
    app.state.services = parts
    app.state.hand_over = reports.hand_over
    return app


async def _healthz(_: Request) -> Response:
    return _json(200, {"status": "alive"})


def _about(settings: Settings) -> Callable[[Request], Awaitable[Response]]:
    async def about(_: Request) -> Response:
        return _json(200, {"name": "callmcp", "version": __version__, "mcp": f"{settings.public_url}/mcp"})

    return about


async def _http_error(_: Request, error: Exception) -> Response:
    # JSON for every path, the discovery documents of OAuth above all: clients take anything else for a document.
    status, words = (error.status_code, error.detail) if isinstance(error, HTTPException) else (500, "Internal error")
    headers = dict(error.headers or {}) if isinstance(error, HTTPException) else {}
    return _json(status, {"error": words}, headers)


def _json(status: int, body: dict[str, str], headers: dict[str, str] | None = None) -> Response:
    return JSONResponse(body, status, {"Access-Control-Allow-Origin": "*", **(headers or {})})


def _telephony(settings: Settings, models: Models, clock: Clock) -> Telephony:
    if settings.carrier is Carrier.SIMULATOR:
        clock = SystemClock(speed=settings.simulator_speed)
        played = None
        if settings.simulator_callee_model != SCRIPTED:
            played = Played(models, settings.simulator_callee_model, settings.simulator_callee_instructions)
        return Simulator(clock=clock, models=models, caller_id=settings.caller_id, played=played)
    from callmcp.telephony.twilio.client import TwilioTelephony  # noqa: PLC0415 - half a second that only Twilio needs

    account_sid = settings.twilio_account_sid or ""
    return TwilioTelephony(
        account_sid=account_sid,
        username=settings.twilio_api_key or account_sid,
        password=settings.twilio_api_secret or settings.twilio_auth_token[0],
        caller_id=settings.twilio_from or "",
        addresses=Addresses(settings.public_url),
        clock=clock,
        api_url=settings.twilio_api_url,
    )


def _tokens(parts: Services) -> Tokens:
    settings = parts.settings
    if settings.oauth is OAuth.OFF:
        return Tokens()
    from callmcp.auth.oauth import serving  # noqa: PLC0415 - a third of a second, for its libraries

    if settings.oauth is OAuth.EXTERNAL:
        return serving.external(
            public_url=settings.public_url,
            issuer=settings.oauth_issuer or "",
            audience=settings.oauth_audience,
            account_claim=settings.oauth_account_claim,
            scope_claim=settings.oauth_scope_claim,
            keys=parts.keys,
            clock=parts.clock,
        )
    return serving.embedded(
        public_url=settings.public_url,
        client_documents=settings.oauth_client_documents,
        inside=settings.oauth_inside_hosts,
        store=parts.store,
        grants=parts.grants,
        keys=parts.keys,
        agents=parts.agents,
        clock=parts.clock,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reports:
    """The routes that the carrier reports to, when it is not in this process, and how its talks are left to the process
    that comes after this one."""

    routes: Sequence[BaseRoute]
    hand_over: Callable[[], Awaitable[None]]


async def _nothing_to_hand_over() -> None:
    """Simulated calls end with their process."""


def _carrier_reports(parts: Services) -> _Reports:
    settings = parts.settings
    if settings.carrier is not Carrier.TWILIO:
        return _Reports(routes=(), hand_over=_nothing_to_hand_over)
    from callmcp.telephony.twilio.echo import Echo  # noqa: PLC0415 - as above
    from callmcp.telephony.twilio.inbox import Inbox  # noqa: PLC0415
    from callmcp.telephony.twilio.routes import TwilioRoutes  # noqa: PLC0415

    addresses = Addresses(settings.public_url)
    inbox = Inbox(
        store=parts.store,
        calls=parts.calls,
        clock=parts.clock,
        addresses=addresses,
        account_sid=settings.twilio_account_sid or "",
        tokens=settings.twilio_auth_token,
    )
    routes = TwilioRoutes(
        inbox=inbox,
        calls=parts.calls,
        agents=parts.agents,
        models=parts.models,
        clock=parts.clock,
        addresses=addresses,
        restart_seconds=settings.restart_seconds,
    )
    echo = Echo(public_url=settings.public_url, tokens=settings.twilio_auth_token)
    return _Reports(routes=[*routes.routes(), *echo.routes()], hand_over=routes.hand_over)


def _patience(settings: Settings) -> Patience:
    # The simulated world runs faster than ours; how long its carrier may be silent is told in its own time.
    speed = settings.simulator_speed if settings.carrier is Carrier.SIMULATOR else 1
    return Patience(
        silence=settings.silence_seconds / speed,
        give_up=settings.give_up_seconds / speed,
        quiet=settings.quiet_seconds,
        queue=settings.queue_seconds,
        look=settings.look_seconds / speed,
        overtime=settings.overtime_seconds,
        owner=settings.owner_silence_seconds,
    )


@contextlib.asynccontextmanager
async def _repeated(work: Callable[[], Awaitable[None]], seconds: float) -> AsyncIterator[None]:
    """Does `work` again and again while the block runs. A fault is logged and the next round tried."""

    async def loop() -> None:
        while True:
            try:
                await work()
            except Unavailable as error:
                log.warning("round skipped", work=work.__qualname__, error=str(error))
            except Exception:
                log.exception("round failed", work=work.__qualname__)
            await asyncio.sleep(seconds)

    task = asyncio.create_task(loop(), name=work.__qualname__)
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
