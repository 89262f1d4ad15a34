"""What an OAuth client may do for an account, and how it proves it: values as they are stored, never a secret, only its
SHA-256 (RFC 6749)."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from callmcp.identity.model import Scope


class ClientKind(StrEnum):
    """How a client came to be known: an operator made it, it registered itself (RFC 7591), or its id is the address of
    a document that describes it (draft-ietf-oauth-client-id-metadata-document)."""

    REGISTERED = "registered"
    DYNAMIC = "dynamic"
    METADATA = "metadata"


@dataclass(frozen=True, slots=True, kw_only=True)
class OAuthClient:
    """A program that asks for tokens. One with a secret may act for its account by itself (`scopes`, client
    credentials); one without asks a person each time."""

    id: str
    kind: ClientKind
    name: str
    redirect_uris: tuple[str, ...]
    created_at: datetime
    secret_digest: str | None = None
    account_id: str | None = None
    scopes: frozenset[Scope] = frozenset()
    last_used_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Grant:
    """That a client may act: what a person allowed with a key, or an operator once for all. Every token names its
    grant, so revoking it ends all of them at once. `key_id` is the key that was signed in with, whose limits and
    revocation hold for the grant too; for a client by itself, the client's id."""

    id: str
    account_id: str
    key_id: str
    client_id: str
    client_name: str
    scopes: frozenset[Scope]
    agent_ids: frozenset[str]
    resource: str
    created_at: datetime
    revoked_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Code:
    """An authorization code: good once, for its client, redirect URI and PKCE challenge (RFC 7636)."""

    digest: str
    grant_id: str
    client_id: str
    redirect_uri: str
    challenge: str
    expires_at: datetime
    used_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshToken:
    """Good once: the next one comes with the tokens that it is exchanged for (RFC 9700 section 4.14)."""

    digest: str
    grant_id: str
    client_id: str
    expires_at: datetime
    used_at: datetime | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SigningKey:
    """A private key as JWK text (RFC 7517). The newest signs; older ones verify until what they signed has expired."""

    id: str
    jwk: str
    created_at: datetime
