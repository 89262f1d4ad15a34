"""The programs that ask for tokens: found by their id, wherever they were described, or registering themselves."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated, Any
from urllib.parse import urlsplit

import structlog
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from callmcp.auth.oauth.documents import Documents, NoDocument
from callmcp.clock import Clock
from callmcp.identity.grants import ClientKind, OAuthClient
from callmcp.identity.operations import digest
from callmcp.identity.ports import GrantStore
from callmcp.identity.redirects import redirect_uri

log = structlog.get_logger()

MAX_REDIRECT_URIS = 20
REGISTRATIONS_A_MINUTE = 30


class Refused(Exception):
    """A description of a client that is not taken: RFC 7591's error code, and words."""

    def __init__(self, code: str, words: str, *, status: int = 400) -> None:
        super().__init__(words)
        self.code = code
        self.status = status


class Description(BaseModel):
    """What is read of client metadata (RFC 7591 section 2), from a registration or a document; the rest is let be."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    redirect_uris: Annotated[
        tuple[Annotated[str, Field(max_length=2000), AfterValidator(redirect_uri)], ...],
        Field(min_length=1, max_length=MAX_REDIRECT_URIS),
    ]
    client_name: Annotated[str, Field(max_length=200)] = ""
    authentication: Annotated[str, Field(alias="token_endpoint_auth_method")] = "client_secret_basic"
    grant_types: tuple[str, ...] = ("authorization_code",)
    response_types: tuple[str, ...] = ("code",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    client: OAuthClient
    description: Description
    secret: str | None


class Clients:
    """`documents`: whether a client's id may be the address of a document that describes it. `inside`: hosts whose
    documents may be at addresses that only this network reaches."""

    def __init__(self, *, store: GrantStore, clock: Clock, documents: bool = True, inside: Sequence[str] = ()) -> None:
        self.documents = documents
        self._store = store
        self._clock = clock
        self._documents = Documents(clock, inside)

    async def find(self, client_id: str) -> OAuthClient | None:
        """By its id: a stored one's, or the address of a document that describes it, which is fetched. None: no such.

        Raises Refused when its document cannot be had or does not describe it. Why is for the log alone: told to
        strangers it would tell them what answers inside this network.
        """
        if not self.is_described(client_id):
            return await self._store.client(client_id)
        try:
            return self._described(client_id, await self._documents.get(client_id))
        except (NoDocument, Refused) as error:
            log.warning("oauth_client_document", client_id=client_id, error=str(error))
            words = "The document at the address that this client is known by cannot be had, or does not describe it."
            raise Refused("invalid_client", f"{words} Whoever runs this server finds why in its log.") from error

    def is_described(self, client_id: str) -> bool:
        """Whether its id is the address of its document."""
        return self.documents and self._documents.is_address(client_id)

    def _described(self, client_id: str, document: dict[str, Any]) -> OAuthClient:
        if document.get("client_id") != client_id:
            raise Refused("invalid_client_metadata", "the document is of another client")
        described = _read({"token_endpoint_auth_method": "none", **document})
        if described.authentication != "none" or "client_secret" in document:
            raise Refused("invalid_client_metadata", "a client with a public document has no secret")
        return OAuthClient(
            id=client_id,
            kind=ClientKind.METADATA,
            name=described.client_name or urlsplit(client_id).netloc,
            redirect_uris=described.redirect_uris,
            created_at=self._clock.now(),
        )

    async def register(self, given: object) -> Registered:
        """A client by its own word (RFC 7591): trusted with nothing, since each person is asked. Raises Refused."""
        description = _read(given)
        now = self._clock.now()
        secret = None if description.authentication == "none" else secrets.token_urlsafe(32)
        client = OAuthClient(
            id=f"client_{secrets.token_hex(12)}",
            kind=ClientKind.DYNAMIC,
            name=description.client_name or "An app without a name",
            redirect_uris=description.redirect_uris,
            created_at=now,
            secret_digest=None if secret is None else digest(secret),
        )
        since = now - timedelta(minutes=1)
        if not await self._store.register_client(client, most=REGISTRATIONS_A_MINUTE, since=since):
            words = "Too many clients register at this moment; try again in a minute."
            raise Refused("temporarily_unavailable", words, status=429)
        return Registered(client=client, description=description, secret=secret)


def _read(given: object) -> Description:
    try:
        description = Description.model_validate(given)
    except ValidationError as error:
        fault = error.errors(include_url=False)[0]
        field = ".".join(str(part) for part in fault["loc"]) or "the body"
        code = "invalid_redirect_uri" if field.startswith("redirect_uris") else "invalid_client_metadata"
        raise Refused(code, f"{field}: {fault['msg'].removeprefix('Value error, ')}") from None
    if description.authentication not in {"none", "client_secret_basic", "client_secret_post"}:
        words = "token_endpoint_auth_method: none, client_secret_basic and client_secret_post are supported"
        raise Refused("invalid_client_metadata", words)
    if "authorization_code" not in description.grant_types or "code" not in description.response_types:
        raise Refused("invalid_client_metadata", "grant_types: only authorization_code with refresh_token is supported")
    return description
