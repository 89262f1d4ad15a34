"""Requests, responses, clients and credentials as Authlib, which knows no framework and no store, asks about them."""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from authlib.oauth2.rfc6749 import ClientMixin, OAuth2Payload, OAuth2Request

from callmcp.auth.oauth.addresses import OFFERED, USUAL
from callmcp.identity.grants import Code, Grant, OAuthClient, RefreshToken
from callmcp.identity.operations import digest
from callmcp.identity.redirects import matches


class Parameters(OAuth2Payload):
    """What came in the query or the form. Each may come once (RFC 6749 section 3.1)."""

    def __init__(self, given: Sequence[tuple[str, str]]) -> None:
        self._lists: dict[str, list[str]] = {}
        for name, value in given:
            self._lists.setdefault(name, []).append(value)

    @property
    def data(self) -> dict[str, str]:
        return {name: values[0] for name, values in self._lists.items() if values[0]}

    @property
    def datalist(self) -> dict[str, list[str]]:
        return self._lists

    @property
    def repeated(self) -> str | None:
        return next((name for name, values in self._lists.items() if len(values) > 1), None)


class Asked(OAuth2Request):
    def __init__(
        self, method: str, uri: str, given: Sequence[tuple[str, str]], headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(method, uri, headers=headers)  # as they are: their names have no case
        self.payload = Parameters(given)

    @property
    def form(self) -> dict[str, str]:
        return self.payload.data

    @property
    def args(self) -> dict[str, str]:
        return self.payload.data


@dataclass(slots=True, kw_only=True)
class Answer:
    """`location` is settable, since that is how Authlib's extensions change where a browser is sent. `trusted`: whoever
    runs this server made the client known, so that a browser may be sent there without a person's click."""

    status: int
    body: object = None
    headers: dict[str, str] = field(default_factory=dict)
    trusted: bool = False

    @property
    def location(self) -> str | None:
        return self.headers.get("Location")

    @location.setter
    def location(self, value: str) -> None:
        self.headers["Location"] = value


class Client(ClientMixin):
    """A client as Authlib asks about it."""

    def __init__(self, known: OAuthClient) -> None:
        self.known = known

    def get_client_id(self) -> str:
        return self.known.id

    def get_default_redirect_uri(self) -> None:
        """Which of several is meant is not guessed: requests name it (OAuth 2.1 section 4.1.1)."""

    def get_allowed_scope(self, scope: str | None) -> str | None:
        """What of it there is; words that we do not know are let be, since clients ask for `openid` by habit. None when
        nothing is left."""
        own = self.known.scopes
        usual = own or frozenset(USUAL)
        allowed = {scope.value for scope in OFFERED if not own or any(held.implies(scope) for held in own)}
        words = scope.split() if scope else sorted(usual)
        return " ".join(dict.fromkeys(word for word in words if word in allowed)) or None

    def check_redirect_uri(self, redirect_uri: str) -> bool:
        return any(matches(registered, redirect_uri) for registered in self.known.redirect_uris)

    def check_client_secret(self, client_secret: str) -> bool:
        return hmac.compare_digest(self.known.secret_digest or "", digest(client_secret))

    def check_endpoint_auth_method(self, method: str, endpoint: str) -> bool:  # noqa: ARG002 - Authlib's signature
        return (method == "none") is (self.known.secret_digest is None)

    def check_response_type(self, response_type: str) -> bool:
        return response_type == "code"

    def check_grant_type(self, grant_type: str) -> bool:
        if grant_type == "client_credentials":
            return bool(self.known.account_id and self.known.secret_digest and self.known.scopes)
        return bool(self.known.redirect_uris) and grant_type in {"authorization_code", "refresh_token"}


class Person:
    """Whom a token is about, as Authlib asks: the grant, and the account it is of."""

    def __init__(self, grant: Grant) -> None:
        self.grant = grant

    def get_user_id(self) -> str:
        return self.grant.account_id


class Credential:
    """A code or a refresh token as Authlib asks about it."""

    def __init__(self, stored: Code | RefreshToken, grant: Grant) -> None:
        self.stored = stored
        self.grant = grant
        self.code_challenge = stored.challenge if isinstance(stored, Code) else None
        self.code_challenge_method = "S256"

    def get_redirect_uri(self) -> str:
        return self.stored.redirect_uri if isinstance(self.stored, Code) else ""

    def get_scope(self) -> str:
        return " ".join(sorted(self.grant.scopes))

    def check_client(self, client: Client) -> bool:
        return client.known.id == self.stored.client_id
