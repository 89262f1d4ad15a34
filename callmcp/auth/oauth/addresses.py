"""Where everything of OAuth is, and the documents that say so. All of it from the configured public URL: an address
made of a Host header would send clients wherever whoever wrote the header likes."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from callmcp.identity.model import Scope

RESOURCE_METADATA = "/.well-known/oauth-protected-resource"
SERVER_METADATA = ("/.well-known/oauth-authorization-server", "/.well-known/openid-configuration")
AUTHORIZE, TOKEN, REGISTER, REVOKE, JWKS = (
    f"/oauth/{name}" for name in ("authorize", "token", "register", "revoke", "jwks")
)
OFFERED: Mapping[Scope, str] = {
    Scope.AGENTS_READ: "See which voice agents there are",
    Scope.CALLS_READ: "Read calls: who was called, what was said, what came of it",
    Scope.CALLS_WRITE: "Place real phone calls, and end them",
    Scope.AGENTS_WRITE: "Define, change and delete voice agents",
}
"""The scopes that a token can have, in words. Never admin."""
USUAL = (Scope.AGENTS_READ, Scope.CALLS_READ, Scope.CALLS_WRITE)
"""What a client that names no scope asks for: what calling takes."""


@dataclass(frozen=True, slots=True)
class Addresses:
    base: str

    @property
    def issuer(self) -> str:
        return self.base

    @property
    def resource(self) -> str:
        """What a token must be for (RFC 8707): the MCP endpoint."""
        return f"{self.base}/mcp"

    @property
    def resource_metadata(self) -> str:
        return f"{self.base}{RESOURCE_METADATA}/mcp"

    def is_resource(self, named: str) -> bool:
        """Clients name the endpoint with and without a slash at its end, or the server alone."""
        return named.rstrip("/") in {self.resource, self.base}

    def resource_document(self, issuer: str) -> dict[str, Any]:
        """Protected resource metadata (RFC 9728 section 2)."""
        return {
            "resource": self.resource,
            "authorization_servers": [issuer],
            "scopes_supported": [scope.value for scope in USUAL],  # some clients ask for all that stands here
            "bearer_methods_supported": ["header"],
            "resource_name": "CallMCP",
            "scope_descriptions": {scope.value: OFFERED[scope] for scope in USUAL},
        }

    def server_document(self, *, client_documents: bool) -> dict[str, Any]:
        """Authorization server metadata (RFC 8414 section 2). `client_documents`: whether a client's id may be the
        address of a document that describes it."""
        return {
            "issuer": self.issuer,
            "authorization_endpoint": self.base + AUTHORIZE,
            "token_endpoint": self.base + TOKEN,
            "registration_endpoint": self.base + REGISTER,
            "revocation_endpoint": self.base + REVOKE,
            "jwks_uri": self.base + JWKS,
            "scopes_supported": [scope.value for scope in OFFERED],
            "response_types_supported": ["code"],
            "response_modes_supported": ["query"],
            "grant_types_supported": ["authorization_code", "refresh_token", "client_credentials"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
            "revocation_endpoint_auth_methods_supported": ["none", "client_secret_basic", "client_secret_post"],
            "code_challenge_methods_supported": ["S256"],
            "authorization_response_iss_parameter_supported": True,
            "client_id_metadata_document_supported": client_documents,
        }
