"""The endpoints of OAuth over HTTP. What each means is Authlib's (server.py), the page's words are consent.py's."""

import hashlib
import json
import secrets
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any
from urllib.parse import parse_qsl

import structlog
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from callmcp.agents.operations import Agents
from callmcp.auth.oauth import consent
from callmcp.auth.oauth.addresses import (
    AUTHORIZE,
    JWKS,
    REGISTER,
    RESOURCE_METADATA,
    REVOKE,
    SERVER_METADATA,
    USUAL,
    Addresses,
)
from callmcp.auth.oauth.addresses import TOKEN as TOKEN_PATH
from callmcp.auth.oauth.clients import Clients, Refused
from callmcp.auth.oauth.consent import EVERY_AGENT, TICKET_SECONDS, Ticket
from callmcp.auth.oauth.models import Answer
from callmcp.auth.oauth.server import AuthorizationServer, Wanted
from callmcp.clock import Clock
from callmcp.errors import Unauthenticated, Unavailable
from callmcp.identity.granting import Grants
from callmcp.identity.grants import Grant
from callmcp.identity.model import Principal, Scope
from callmcp.identity.operations import Keys

log = structlog.get_logger()

MAX_BODY = 16 * 1024
MAX_QUERY = 16 * 1024
OPEN = {
    "Access-Control-Allow-Origin": "*",
    "Access-Control-Allow-Methods": "GET, POST, OPTIONS",
    "Access-Control-Allow-Headers": "Authorization, Content-Type, MCP-Protocol-Version",
    "Access-Control-Max-Age": "600",
}
NO_STORE = {"Cache-Control": "no-store", "Pragma": "no-cache"}
Handler = Callable[[Request], Awaitable[Response]]


def resource_routes(addresses: Addresses, issuer: str) -> Sequence[Route]:
    """Protected resource metadata, at both places where it is looked for (RFC 9728 section 3.1)."""
    described = _document(addresses.resource_document(issuer))
    return [Route(f"{RESOURCE_METADATA}{path}", described, methods=["GET", "OPTIONS"]) for path in ("", "/mcp")]


class OAuthRoutes:
    def __init__(
        self,
        *,
        server: AuthorizationServer,
        clients: Clients,
        grants: Grants,
        keys: Keys,
        agents: Agents,
        clock: Clock,
    ) -> None:
        self._server = server
        self._clients = clients
        self._grants = grants
        self._keys = keys
        self._agents = agents
        self._clock = clock

    def routes(self) -> Sequence[Route]:
        described = _document(self._server.addresses.server_document(client_documents=self._clients.documents))
        both = ["GET", "OPTIONS"]
        post = ["POST", "OPTIONS"]
        return [
            *(Route(f"{where}{path}", described, methods=both) for where in SERVER_METADATA for path in ("", "/mcp")),
            Route(JWKS, _open(self._jwks), methods=both),
            Route(AUTHORIZE, _careful(self._authorize), methods=["GET", "POST"]),
            Route(TOKEN_PATH, _open(self._token), methods=post),
            Route(REVOKE, _open(self._revoke), methods=post),
            Route(REGISTER, _open(self._register), methods=post),
        ]

    async def _jwks(self, _: Request) -> Response:
        return JSONResponse(await self._server.keys.public())

    async def _token(self, request: Request) -> Response:
        return _said(await self._server.token(await _form(request), request.headers))

    async def _revoke(self, request: Request) -> Response:
        return _said(await self._server.revoke(await _form(request), request.headers))

    async def _register(self, request: Request) -> Response:
        try:
            given = json.loads(await _body(request))
        except (ValueError, RecursionError):
            raise _Bad(400, "invalid_client_metadata", "The body is not JSON, or too deep.") from None
        try:
            made = await self._clients.register(given)
        except Refused as refused:
            raise _Bad(refused.status, refused.code, str(refused)) from None
        client, described = made.client, made.description
        answer: dict[str, Any] = {
            "client_id": client.id,
            "client_id_issued_at": int(client.created_at.timestamp()),
            "client_name": client.name,
            "redirect_uris": list(client.redirect_uris),
            "grant_types": ["authorization_code", "refresh_token"],
            "response_types": ["code"],
            "token_endpoint_auth_method": described.authentication,
            "scope": " ".join(scope.value for scope in USUAL),
        }
        if made.secret is not None:
            answer |= {"client_secret": made.secret, "client_secret_expires_at": 0}
        log.info("oauth_client_registered", client_id=client.id)
        return JSONResponse(answer, 201, NO_STORE)

    async def _authorize(self, request: Request) -> Response:
        query = request.url.query
        if len(query) > MAX_QUERY:
            return _html(400, consent.gone("The address is too long."))
        wanted = await self._server.authorization(parse_qsl(query, keep_blank_values=True))
        if isinstance(wanted, Answer):
            if wanted.location is None:
                return _html(400, consent.gone(_words(wanted)))
            if wanted.trusted:
                return RedirectResponse(wanted.location, 302, NO_STORE)
            # Anybody may register any address: sent on at once, our name would lead people there (RFC 9700, 4.11.2).
            return _html(400, consent.back(wanted.location))
        if request.method == "GET":
            return self._ask(wanted)
        form: dict[str, list[str]] = {}
        for name, value in await _form(request):
            form.setdefault(name, []).append(value)
        decision = form.get("decision", [""])[0]
        if decision == "deny":
            return _sent(await self._server.granted(wanted, None))
        if decision == "allow":
            return await self._allow(wanted, form, query)
        return await self._sign_in(wanted, form, query)

    def _ask(self, wanted: Wanted, problem: str = "", status: int = 200) -> Response:
        return _html(status, consent.sign_in(wanted.client, wanted.redirect_uri, problem), wanted.redirect_uri)

    async def _sign_in(self, wanted: Wanted, form: Mapping[str, list[str]], query: str) -> Response:
        try:
            who = await self._keys.verify(form.get("key", [""])[0].strip())
        except Unauthenticated as error:
            return self._ask(wanted, f"{error.message} Try another one.", 401)
        until = int(self._clock.now().timestamp()) + TICKET_SECONDS
        ticket = Ticket(key_id=who.key_id, request=_digest(query), until=until)
        return await self._choose(wanted, who, ticket.signed(await self._secret()))

    async def _choose(
        self, wanted: Wanted, who: Principal, ticket: str, problem: str = "", status: int = 200
    ) -> Response:
        agents = await self._usable(who)
        page = consent.decide(
            wanted.client,
            wanted.redirect_uri,
            wanted=wanted.scopes,
            who=who,
            agents=agents,
            ticket=ticket,
            problem=problem,
        )
        return _html(status, page, wanted.redirect_uri)

    async def _usable(self, who: Principal) -> Sequence[Any]:
        return await self._agents.list(who) if who.may(Scope.AGENTS_READ) else []

    async def _allow(self, wanted: Wanted, form: Mapping[str, list[str]], query: str) -> Response:
        text = form.get("ticket", [""])[0]
        ticket = Ticket.read(text, await self._secret())
        now = self._clock.now()
        if ticket is None or ticket.request != _digest(query) or ticket.until <= now.timestamp():
            return self._ask(wanted, "That took too long, or was for another request. Paste the key once more.", 400)
        try:
            who = await self._keys.principal(ticket.key_id)
        except Unauthenticated as error:
            return self._ask(wanted, error.message, 401)
        scopes = frozenset(scope for scope in wanted.scopes if scope.value in form.get("scope", []) and who.may(scope))
        chosen = set(form.get("agent", []))
        if not scopes or not chosen:
            return await self._choose(wanted, who, text, "Choose at least one of each, or deny.", 400)
        named = chosen & {agent.id for agent in await self._usable(who)}
        agents = frozenset(named) or who.agent_ids  # fewer, when it was not made clear
        if EVERY_AGENT not in chosen and not named:
            return await self._choose(wanted, who, text, "Choose at least one voice agent, or deny.", 400)
        grant = Grant(
            id=f"grant_{secrets.token_hex(12)}",
            account_id=who.account_id,
            key_id=who.key_id,
            client_id=wanted.client.id,
            client_name=wanted.client.name,
            scopes=scopes,
            agent_ids=agents,
            resource=self._server.addresses.resource,
            created_at=now,
        )
        log.info("oauth_granted", client_id=wanted.client.id, grant_id=grant.id, scopes=sorted(scopes))
        answer = await self._server.granted(wanted, grant)
        await self._grants.noted(grant)
        return _sent(answer)

    async def _secret(self) -> bytes:
        """What tickets are signed with, in every process the same."""
        keys = await self._server.keys.signing()
        return hashlib.sha256(b"consent " + json.dumps(keys.as_dict(private=True)).encode()).digest()


class _Bad(Exception):
    def __init__(self, status: int, code: str, words: str) -> None:
        super().__init__(words)
        self.status, self.code, self.words = status, code, words


def _open(handler: Handler) -> Handler:
    """For clients in browsers too, and JSON whatever happens."""

    async def answer(request: Request) -> Response:
        if request.method == "OPTIONS":
            return Response(status_code=204, headers=OPEN)
        try:
            response = await handler(request)
        except _Bad as bad:
            response = JSONResponse({"error": bad.code, "error_description": bad.words}, bad.status, NO_STORE)
        except Unavailable as error:
            log.warning("oauth_unavailable", code=error.code)
            words = {"error": "temporarily_unavailable", "error_description": "Try again in a moment."}
            response = JSONResponse(words, 503, NO_STORE)
        if response.status_code in {429, 503}:
            response.headers["Retry-After"] = "60"
        response.headers.update(OPEN)
        return response

    return answer


def _careful(handler: Handler) -> Handler:
    """For the page."""

    async def answer(request: Request) -> Response:
        try:
            return await handler(request)
        except _Bad as bad:
            return _html(bad.status, consent.gone(bad.words))
        except Unavailable:
            return _html(503, consent.gone("The server cannot decide this just now; try again in a moment."))

    return answer


def _document(content: Mapping[str, Any]) -> Handler:
    async def answer(_: Request) -> Response:
        return JSONResponse(dict(content), headers={"Cache-Control": "public, max-age=300"})

    return _open(answer)


async def _body(request: Request) -> bytes:
    body = b""
    async for chunk in request.stream():
        body += chunk
        if len(body) > MAX_BODY:
            raise _Bad(413, "invalid_request", f"The body may have at most {MAX_BODY} bytes.")
    return body


async def _form(request: Request) -> list[tuple[str, str]]:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/x-www-form-urlencoded":
        raise _Bad(400, "invalid_request", "The body must be application/x-www-form-urlencoded.")
    try:
        return parse_qsl((await _body(request)).decode(), keep_blank_values=True, max_num_fields=100)
    except ValueError:
        raise _Bad(400, "invalid_request", "The body is not a form.") from None


def _said(answer: Answer) -> Response:
    headers = {name: value for name, value in answer.headers.items() if name.lower() != "content-type"}
    return JSONResponse(_plain(answer.body), answer.status, {**headers, **NO_STORE})


def _plain(body: object) -> object:
    return dict(body) if isinstance(body, Mapping | list) else body


def _sent(answer: Answer) -> Response:
    if answer.location is None:
        return _html(400, consent.gone(_words(answer)))
    return RedirectResponse(answer.location, 303, NO_STORE)


def _words(answer: Answer) -> str:
    body = _plain(answer.body)
    said = body if isinstance(body, dict) else {}
    return str(said.get("error_description") or said.get("error") or "The request cannot be granted.")


def _html(status: int, page: str, redirect_uri: str | None = None) -> Response:
    return HTMLResponse(page, status, dict(consent.headers(redirect_uri)))


def _digest(query: str) -> str:
    return hashlib.sha256(query.encode()).hexdigest()
