"""What a server with OAuth serves and asks: embedded, or with an identity provider outside."""

from collections.abc import Sequence

from callmcp.agents.operations import Agents
from callmcp.auth.credentials import Tokens
from callmcp.auth.oauth.addresses import Addresses
from callmcp.auth.oauth.clients import Clients
from callmcp.auth.oauth.external import ExternalTokens
from callmcp.auth.oauth.routes import OAuthRoutes, resource_routes
from callmcp.auth.oauth.server import AuthorizationServer
from callmcp.auth.oauth.tokens import AccessTokens, SigningKeys
from callmcp.clock import Clock
from callmcp.identity.granting import Grants
from callmcp.identity.operations import Keys
from callmcp.identity.ports import GrantStore


def embedded(
    *,
    public_url: str,
    client_documents: bool,
    inside: Sequence[str],
    store: GrantStore,
    grants: Grants,
    keys: Keys,
    agents: Agents,
    clock: Clock,
) -> Tokens:
    """An authorization server in this process, and tokens of its own."""
    addresses = Addresses(public_url)
    signing = SigningKeys(store, clock)
    tokens = AccessTokens(store=store, keys=signing, addresses=addresses, clock=clock)
    clients = Clients(store=store, clock=clock, documents=client_documents, inside=inside)
    server = AuthorizationServer(
        store=store, clients=clients, keys=signing, tokens=tokens, addresses=addresses, clock=clock
    )
    routes = OAuthRoutes(server=server, clients=clients, grants=grants, keys=keys, agents=agents, clock=clock)
    return Tokens(
        routes=[*resource_routes(addresses, addresses.issuer), *routes.routes()],
        verify=tokens.verify,
        resource_metadata=addresses.resource_metadata,
    )


def external(
    *,
    public_url: str,
    issuer: str,
    audience: str | None,
    account_claim: str | None,
    scope_claim: str,
    keys: Keys,
    clock: Clock,
) -> Tokens:
    """An authorization server elsewhere; here only the document that leads to it."""
    addresses = Addresses(public_url)
    tokens = ExternalTokens(
        issuer=issuer,
        audience=audience or addresses.resource,
        account_claim=account_claim,
        scope_claim=scope_claim,
        accounts=keys,
        clock=clock,
    )
    return Tokens(
        routes=resource_routes(addresses, issuer),
        verify=tokens.verify,
        resource_metadata=addresses.resource_metadata,
    )
