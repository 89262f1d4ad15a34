"""The authorization server: Authlib's grants and endpoints over our store.

Authlib is synchronous: what it asks of the store it waits for, in a worker thread, while the loop answers.
"""

import asyncio
import contextvars
import functools
import logging
import secrets
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar
from urllib.parse import urlencode, urlsplit

from authlib.oauth2.rfc6749 import AuthorizationServer as AuthlibServer
from authlib.oauth2.rfc6749 import InvalidClientError, InvalidGrantError, InvalidRequestError, OAuth2Error
from authlib.oauth2.rfc6749.grants import AuthorizationCodeGrant, ClientCredentialsGrant, RefreshTokenGrant
from authlib.oauth2.rfc7009 import RevocationEndpoint
from authlib.oauth2.rfc7636 import CodeChallenge
from authlib.oauth2.rfc9068 import JWTBearerTokenGenerator
from authlib.oauth2.rfc9207.parameter import IssuerParameter

from callmcp.auth.oauth.addresses import AUTHORIZE, OFFERED, REVOKE, TOKEN, Addresses
from callmcp.auth.oauth.clients import Clients, Refused
from callmcp.auth.oauth.models import Answer, Asked, Client, Credential, Person
from callmcp.auth.oauth.tokens import ALGORITHM, LIVES, AccessTokens, SigningKeys
from callmcp.clock import Clock
from callmcp.errors import Unauthenticated, Unavailable
from callmcp.identity.grants import ClientKind, Code, Grant, OAuthClient, RefreshToken
from callmcp.identity.operations import digest
from callmcp.identity.ports import GrantStore

T = TypeVar("T")
logging.getLogger("authlib").setLevel(logging.WARNING)  # at debug level it writes down the tokens that it issues

CODE_LIVES = timedelta(minutes=5)
REFRESH_LIVES = timedelta(days=30)
WAIT_SECONDS = 15
THREADS = 4  # of its own: the store and the models use those that every program has
_DESCRIBED: ContextVar[OAuthClient | Refused | None] = ContextVar("_DESCRIBED", default=None)
"""The client that the request names, when a document describes it, or why that cannot be had."""
METHODS = ["S256"]
EVERY_METHOD = ["none", "client_secret_basic", "client_secret_post"]


class _CodeGrant(AuthorizationCodeGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = EVERY_METHOD
    server: "AuthorizationServer"

    def generate_authorization_code(self) -> str:
        return secrets.token_urlsafe(32)

    def save_authorization_code(self, code: str, request: Asked) -> None:
        server, grant = self.server, request.user.grant
        stored = Code(
            digest=digest(code),
            grant_id=grant.id,
            client_id=grant.client_id,
            redirect_uri=request.payload.redirect_uri,
            challenge=request.payload.data["code_challenge"],
            expires_at=server.clock.now() + CODE_LIVES,
        )
        server.wait(server.store.add_grant(grant, stored))

    def query_authorization_code(self, code: str, client: Client) -> Credential | None:
        """Uses the code up, whatever comes after: who tries twice has it from somewhere (RFC 6749 section 10.5)."""
        server, now = self.server, self.server.clock.now()
        used = server.wait(server.store.use_code(digest(code), now))
        if used is None or used.client_id != client.known.id or used.expires_at <= now:
            return None
        return server.credential(used)

    def delete_authorization_code(self, authorization_code: Credential) -> None:
        """It stays, used, so that a second use is known for what it is."""

    def authenticate_user(self, authorization_code: Credential) -> Person:
        return Person(authorization_code.grant)


class _RefreshGrant(RefreshTokenGrant):
    TOKEN_ENDPOINT_AUTH_METHODS = EVERY_METHOD
    INCLUDE_NEW_REFRESH_TOKEN = True
    server: "AuthorizationServer"

    def authenticate_refresh_token(self, refresh_token: str) -> Credential | None:
        server, now = self.server, self.server.clock.now()
        stored = server.wait(server.store.refresh_token(digest(refresh_token)))
        if stored is None or stored.expires_at <= now:
            return None
        if stored.used_at is not None:
            server.wait(server.store.use_refresh_token(stored.digest, now))  # which revokes what it belongs to
            return None
        return server.credential(stored)

    def create_token_response(self) -> Any:  # noqa: ANN401 - Authlib's
        server, stored = self.server, self.request.refresh_token.stored
        if server.wait(server.store.use_refresh_token(stored.digest, server.clock.now())) is None:
            raise InvalidGrantError
        return super().create_token_response()

    def authenticate_user(self, refresh_token: Credential) -> Person:
        return Person(refresh_token.grant)

    def revoke_old_credential(self, refresh_token: Credential) -> None:
        """It was used up before anything was issued for it."""


class _ClientGrant(ClientCredentialsGrant):
    """The machine-to-machine extension of MCP: no person is asked, an operator was once."""

    TOKEN_ENDPOINT_AUTH_METHODS = EVERY_METHOD[1:]
    server: "AuthorizationServer"

    def generate_token(self, scope: str | None = None, **_: object) -> Any:  # noqa: ANN401 - Authlib's
        server, known = self.server, self.request.client.known
        allowed = set((self.request.client.get_allowed_scope(scope) or "").split())
        grant = Grant(
            id=f"grant_{secrets.token_hex(12)}",
            account_id=known.account_id,
            key_id=known.id,
            client_id=known.id,
            client_name=known.name,
            scopes=frozenset(one for one in OFFERED if one.value in allowed),
            agent_ids=frozenset(),
            resource=server.addresses.resource,
            created_at=server.clock.now(),
        )
        server.wait(server.store.add_grant(grant))
        return super().generate_token(user=Person(grant), scope=scope, include_refresh_token=False)


class _S256(CodeChallenge):
    """PKCE with S256, from every client (OAuth 2.1 section 4.1.1)."""

    SUPPORTED_CODE_CHALLENGE_METHOD = METHODS

    def validate_code_challenge(self, grant: Any, redirect_uri: str) -> None:  # noqa: ANN401 - Authlib's
        given = grant.request.payload.data
        if not given.get("code_challenge") or given.get("code_challenge_method") != "S256":
            raise InvalidRequestError("PKCE is required: code_challenge, with code_challenge_method S256.")
        super().validate_code_challenge(grant, redirect_uri)


class _Issuer(IssuerParameter):
    def __init__(self, issuer: str) -> None:
        self._issuer = issuer

    def get_issuer(self) -> str:
        return self._issuer


class _Revocation(RevocationEndpoint):
    """Whichever of its tokens is given, the grant is revoked: a client that lets go of one lets go of all."""

    CLIENT_AUTH_METHODS = EVERY_METHOD
    server: "AuthorizationServer"

    def query_token(self, token_string: str, token_type_hint: str | None) -> Credential | None:  # noqa: ARG002
        server = self.server
        stored = server.wait(server.store.refresh_token(digest(token_string)))
        if stored is not None:  # also while its key is not good: it may become good again
            known = server.wait(server.store.grant(stored.grant_id))
            return None if known is None else Credential(stored, known[0])
        try:
            claims = server.wait(server.tokens.claims(token_string))
        except Unauthenticated:
            return None
        found = server.wait(server.store.grant(claims.grant_id))
        if found is None:
            return None
        named = RefreshToken(
            digest="", grant_id=claims.grant_id, client_id=claims.client_id, expires_at=server.clock.now()
        )
        return Credential(named, found[0])

    def revoke_token(self, token: Credential, request: Asked) -> None:  # noqa: ARG002 - Authlib's signature
        self.server.wait(self.server.store.revoke_grant(token.grant.id, self.server.clock.now()))


class _Tokens(JWTBearerTokenGenerator):
    def __init__(self, server: "AuthorizationServer") -> None:
        super().__init__(
            server.addresses.issuer,
            alg=ALGORITHM,
            refresh_token_generator=lambda **_: secrets.token_urlsafe(32),
            expires_generator=int(LIVES.total_seconds()),
        )
        self._server = server

    def get_jwks(self) -> object:
        return self._server.wait(self._server.keys.signing())

    def get_audiences(self, client: Client, user: Person, scope: str) -> str:  # noqa: ARG002 - Authlib's signature
        return self._server.addresses.resource

    def get_extra_claims(self, client: Client, grant_type: str, user: Person, scope: str) -> dict[str, str]:  # noqa: ARG002
        return {"grant": user.grant.id}


class AuthorizationServer(AuthlibServer):
    """Answers for the endpoints of OAuth. The public methods are for the loop; the rest is Authlib's to call."""

    def __init__(
        self,
        *,
        store: GrantStore,
        clients: Clients,
        keys: SigningKeys,
        tokens: AccessTokens,
        addresses: Addresses,
        clock: Clock,
    ) -> None:
        super().__init__()
        self.store, self.clients, self.keys, self.tokens = store, clients, keys, tokens
        self.addresses, self.clock = addresses, clock
        self._loop: asyncio.AbstractEventLoop | None = None
        self._threads = ThreadPoolExecutor(THREADS, thread_name_prefix="oauth")
        self.register_grant(_CodeGrant, [_S256(required=True)])
        self.register_grant(_RefreshGrant)
        self.register_grant(_ClientGrant)
        self.register_endpoint(_Revocation)
        self.register_token_generator("default", _Tokens(self).__call__)
        _Issuer(addresses.issuer)(self)

    async def authorization(self, given: Sequence[tuple[str, str]]) -> "Wanted | Answer":
        """What an authorization request wants, or the answer to one that cannot be granted (RFC 6749 section 4.1.1)."""
        return await self._in_thread(given, self._authorization, given)

    async def granted(self, wanted: "Wanted", grant: Grant | None) -> Answer:
        """Where the browser goes with the code, or with a no (None)."""
        person = None if grant is None else Person(grant)
        return await self._in_thread((), self._granted, wanted, person)

    async def token(self, given: Sequence[tuple[str, str]], headers: Mapping[str, str]) -> Answer:
        return await self._in_thread(given, self._checked, TOKEN, given, headers, self.create_token_response)

    async def revoke(self, given: Sequence[tuple[str, str]], headers: Mapping[str, str]) -> Answer:
        revoked = functools.partial(self.create_endpoint_response, "revocation")
        return await self._in_thread(given, self._checked, REVOKE, given, headers, revoked)

    async def _in_thread(self, given: Sequence[tuple[str, str]], work: Callable[..., T], *args: object) -> T:
        """`given` names the client. Its document, if it has one, is fetched before a thread is taken: they are few."""
        self._loop = asyncio.get_running_loop()
        client_id = next((value for name, value in given if name == "client_id"), "")
        context = contextvars.copy_context()
        if self.clients.is_described(client_id):
            try:
                context.run(_DESCRIBED.set, await self.clients.find(client_id))
            except Refused as refused:
                context.run(_DESCRIBED.set, refused)
        return await self._loop.run_in_executor(self._threads, functools.partial(context.run, work, *args))

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """What the loop makes of it, for a worker thread that waits."""
        if self._loop is None:
            raise RuntimeError("Authlib runs in a worker thread only")
        waited = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            return waited.result(WAIT_SECONDS)
        except TimeoutError:
            waited.cancel()
            raise Unavailable("The database does not answer.") from None

    def _authorization(self, given: Sequence[tuple[str, str]]) -> "Wanted | Answer":
        asked = None
        try:
            asked = self._asked("GET", AUTHORIZE, given)
            grant = self.get_consent_grant(asked)
            if not self.addresses.is_resource(asked.payload.data.get("resource", self.addresses.resource)):
                words = f"This server issues tokens for {self.addresses.resource} only."
                raise OAuth2Error(words, redirect_uri=grant.redirect_uri, error="invalid_target")
        except OAuth2Error as error:
            state = asked.payload.state if asked is not None else None
            error.state = state if _sayable(state) else None
            answer = self._with_issuer(self._refused(error))
            answer.trusted = asked is not None and self._is_registered(asked.payload.client_id or "")
            return answer
        except ValueError:  # Authlib does not put what was sent into an error's description
            return self._refused(InvalidRequestError("A parameter has characters that it cannot have."))
        scopes = set((grant.request.client.get_allowed_scope(asked.payload.scope) or "").split())
        return Wanted(
            client=grant.request.client.known,
            redirect_uri=grant.redirect_uri,
            scopes=[scope for scope in OFFERED if scope.value in scopes],
            asked=asked,
            grant=grant,
        )

    def _is_registered(self, client_id: str) -> bool:
        known = self.wait(self.store.client(client_id))
        return known is not None and known.kind is ClientKind.REGISTERED

    def _granted(self, wanted: "Wanted", person: Person | None) -> Answer:
        answer: Answer = self.create_authorization_response(wanted.asked, grant_user=person, grant=wanted.grant)
        return answer

    def _checked(
        self,
        path: str,
        given: Sequence[tuple[str, str]],
        headers: Mapping[str, str],
        respond: Callable[[Asked], Answer],
    ) -> Answer:
        try:
            asked = self._asked("POST", path, given, headers)
            if not self.addresses.is_resource(asked.payload.data.get("resource", self.addresses.resource)):
                raise OAuth2Error(f"The resource here is {self.addresses.resource}.", error="invalid_target")
            return respond(asked)
        except OAuth2Error as error:
            return self._refused(error)
        except ValueError:
            return self._refused(InvalidRequestError("A parameter has characters that it cannot have."))

    def _asked(
        self, method: str, path: str, given: Sequence[tuple[str, str]], headers: Mapping[str, str] | None = None
    ) -> Asked:
        """Raises OAuth2Error when a parameter is there twice, or this server is not reached by https."""
        asked = Asked(method, self.addresses.base + path, given, headers)
        if (name := asked.payload.repeated) is not None:
            raise InvalidRequestError(f"The parameter {name} was given more than once." if _sayable(name) else None)
        return asked

    def _refused(self, error: OAuth2Error) -> Answer:
        return self.handle_response(*error())

    def _with_issuer(self, answer: Answer) -> Answer:
        """RFC 9207 section 2: errors that a browser is sent back with say who sends them too."""
        if answer.location:
            separator = "&" if urlsplit(answer.location).query else "?"
            answer.location += separator + urlencode({"iss": self.addresses.issuer})
        return answer

    def credential(self, stored: Code | RefreshToken) -> Credential | None:
        """None when its grant does not hold any more, or the key that it was allowed with."""
        found = self.wait(self.store.grant(stored.grant_id))
        if found is None or found[0].revoked_at is not None:
            return None
        grant, key = found
        if key is not None and not key.is_good(self.clock.now()):
            return None
        return Credential(stored, grant)

    # Authlib asks.

    def query_client(self, client_id: str) -> Client | None:
        if self.clients.is_described(client_id):
            found = _DESCRIBED.get()
            if isinstance(found, Refused):
                raise InvalidClientError(str(found))
            return Client(found) if found is not None and found.id == client_id else None
        stored = self.wait(self.store.client(client_id))
        return None if stored is None else Client(stored)

    def save_token(self, token: dict[str, Any], request: Asked) -> None:
        self.wait(self.store.use_client(request.client.known.id, self.clock.now()))  # one in use is never forgotten
        if text := token.get("refresh_token"):
            stored = RefreshToken(
                digest=digest(text),
                grant_id=request.user.grant.id,
                client_id=request.client.known.id,
                expires_at=self.clock.now() + REFRESH_LIVES,
            )
            self.wait(self.store.add_refresh_token(stored))

    def send_signal(self, name: str, *args: object, **kwargs: object) -> None:
        """Nobody listens."""

    def create_oauth2_request(self, request: Asked) -> Asked:
        return request

    def handle_response(self, status: int, body: object, headers: Sequence[tuple[str, str]]) -> Answer:
        return Answer(status=status, body=body, headers=dict(headers))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """An authorization request that a person may grant."""

    client: OAuthClient
    redirect_uri: str
    scopes: Sequence[Any]
    asked: Asked
    grant: Any


def _sayable(text: str | None) -> bool:
    """Whether it may stand in an error (RFC 6749 section 4.1.2.1)."""
    return bool(text) and all(" " <= letter <= "~" and letter not in '"\\' for letter in text or "")
