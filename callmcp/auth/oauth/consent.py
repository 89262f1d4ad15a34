"""The one page of OAuth: who asks, for what, in words, and a person's yes.

The person signs in by pasting an API key of the account. Nothing is remembered: no cookie, no session, no consent for
the next time. So there is nothing for another site to ride on (CSRF): a form that is sent here does nothing without the
key, or the ticket that stands for it for a few minutes and for this one request. The page has no scripts and may not be
framed.
"""

import base64
import hashlib
import hmac
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from urllib.parse import parse_qsl, urlsplit

from callmcp.agents.model import Agent
from callmcp.auth.oauth.addresses import OFFERED
from callmcp.identity.grants import ClientKind, OAuthClient
from callmcp.identity.model import Principal, Scope

TICKET_SECONDS = 600
EVERY_AGENT = "*"
_STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:36rem;margin:3rem auto;padding:0 1rem;color:#222}"
    "input[type=password]{font:inherit;width:100%;padding:.5rem;box-sizing:border-box}"
    "label{display:block;margin:.4rem 0}.no{color:#888}.problem{color:#a00}code{overflow-wrap:anywhere}"
    "button{font:inherit;padding:.6rem 1.4rem;margin:1.5rem .8rem 0 0;border-radius:.4rem;border:1px solid #888;"
    "background:#fff;cursor:pointer}.yes{background:#0a6b3b;border-color:#0a6b3b;color:#fff}"
)


def headers(redirect_uri: str | None = None) -> Mapping[str, str]:
    """With the page. A browser follows a form's redirect only to where `form-action` lets it."""
    target = ""
    if redirect_uri is not None:
        parts = urlsplit(redirect_uri)
        target = f" {parts.scheme}://{parts.netloc}" if parts.scheme in {"http", "https"} else f" {parts.scheme}:"
    return {
        "Content-Security-Policy": f"default-src 'none'; style-src 'unsafe-inline'; form-action 'self'{target}; "
        "frame-ancestors 'none'; base-uri 'none'",
        "X-Frame-Options": "DENY",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
        "Cache-Control": "no-store",
    }


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """That somebody signed in with this key to decide about this request, until then (Unix time)."""

    key_id: str
    request: str
    until: int

    def signed(self, secret: bytes) -> str:
        body = json.dumps([self.key_id, self.request, self.until]).encode()
        return f"{_text(body)}.{_text(hmac.new(secret, body, hashlib.sha256).digest())}"

    @classmethod
    def read(cls, text: str, secret: bytes) -> "Ticket | None":
        """None for one that was not signed with this secret."""
        body, _, signature = text.partition(".")
        try:
            raw, given = _bytes(body), _bytes(signature)
            if not hmac.compare_digest(hmac.new(secret, raw, hashlib.sha256).digest(), given):
                return None
            key_id, request, until = json.loads(raw)
            return cls(key_id=key_id, request=request, until=until)
        except (ValueError, TypeError):
            return None


def sign_in(client: OAuthClient, redirect_uri: str, problem: str = "") -> str:
    wrong = f'<p class="problem">{escape(problem)}</p>' if problem else ""
    return _page(
        f"{_who(client, redirect_uri)}{wrong}"
        '<form method="post"><label>An API key of your account, from whoever runs this server:'
        '<input type="password" name="key" autocomplete="off" autofocus required></label>'
        '<button class="yes" name="decision" value="sign-in">Continue</button>'
        '<button name="decision" value="deny" formnovalidate>Deny</button></form>'
    )


def decide(
    client: OAuthClient,
    redirect_uri: str,
    *,
    wanted: Sequence[Scope],
    who: Principal,
    agents: Sequence[Agent],
    ticket: str,
    problem: str = "",
) -> str:
    wrong = f'<p class="problem">{escape(problem)}</p>' if problem else ""
    scopes = "".join(_scope(scope, held=who.may(scope)) for scope in wanted)
    every = "Every voice agent that your key may use, also later ones, unless some are ticked below"
    rows = [(EVERY_AGENT, every), *((agent.id, f"{agent.name} ({agent.id})") for agent in agents)]
    listed = "".join(_agent(value, words) for value, words in rows)
    return _page(
        f"{_who(client, redirect_uri)}{wrong}"
        f'<form method="post"><input type="hidden" name="ticket" value="{escape(ticket)}">'
        f"<h2>It may</h2>{scopes}<h2>With</h2>{listed}"
        '<button class="yes" name="decision" value="allow">Allow</button>'
        '<button name="decision" value="deny">Deny</button></form>'
        "<p>The limits of your key hold for it too, and revoking the key ends this.</p>"
    )


def back(location: str) -> str:
    """The request cannot be granted; the app hears why when the person goes back to it."""
    said = dict(parse_qsl(urlsplit(location).query))
    words = said.get("error_description") or said.get("error") or "The request cannot be granted."
    link = f'<a href="{escape(location)}" rel="noreferrer">Go back to the app at {escape(_place(location))}</a>'
    return _page(f"<p>{escape(words)}</p><p>{link}</p>")


def gone(words: str) -> str:
    """There is nothing to decide."""
    return _page(f"<p>{escape(words)}</p><p>Go back to the app and begin again.</p>")


def _agent(value: str, words: str) -> str:
    checked = " checked" if value == EVERY_AGENT else ""
    return f'<label><input type="checkbox" name="agent" value="{escape(value)}"{checked}> {escape(words)}</label>'


def _scope(scope: Scope, *, held: bool) -> str:
    words = f"{escape(OFFERED[scope])} <code>{scope.value}</code>"
    if not held:
        return f'<label class="no"><input type="checkbox" disabled> {words}: your key may not</label>'
    return f'<label><input type="checkbox" name="scope" value="{scope.value}" checked> {words}</label>'


def _who(client: OAuthClient, redirect_uri: str) -> str:
    described = {
        ClientKind.METADATA: f"It is described by <code>{escape(client.id)}</code>.",
        ClientKind.DYNAMIC: "It named itself; nobody has checked that name.",
        ClientKind.REGISTERED: "Whoever runs this server made it known here.",
    }
    return (
        f"<p><strong>{escape(client.name)}</strong> wants to use this server for you. {described[client.kind]}</p>"
        f"<p>What you allow is sent to <code>{escape(_place(redirect_uri))}</code>.</p>"
    )


def _place(uri: str) -> str:
    parts = urlsplit(uri)
    return parts.netloc if parts.scheme in {"http", "https"} else f"an app on this device ({parts.scheme}:)"


def _page(body: str) -> str:
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>CallMCP: allow an app</title><style>{_STYLE}</style><body><h1>Allow an app</h1>{body}</body></html>"
    )


def _text(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _bytes(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
