"""A client and a person with a browser, by hand: each step of OAuth one method, so that tests can do each wrongly."""

import base64
import hashlib
import re
import secrets
from dataclasses import dataclass, field
from html import unescape
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlencode, urlsplit

import httpx

CALLBACK = "https://app.example.com/callback"
_HIDDEN = re.compile(r'name="ticket" value="([^"]*)"')
_OFFERED = re.compile(r'name="(scope|agent)" value="([^"]*)" checked')


@dataclass(kw_only=True)
class App:
    """A public client that registered itself."""

    http: httpx.AsyncClient
    base: str
    client_id: str = ""
    secret: str | None = None
    callback: str = CALLBACK
    verifier: str = field(default_factory=lambda: secrets.token_urlsafe(48))

    @property
    def challenge(self) -> str:
        return base64.urlsafe_b64encode(hashlib.sha256(self.verifier.encode()).digest()).decode().rstrip("=")

    async def register(self, **fields: Any) -> httpx.Response:
        some = {"client_name": "An app", "redirect_uris": [self.callback], "token_endpoint_auth_method": "none"}
        response = await self.http.post("/oauth/register", json=some | fields)
        if response.status_code == 201:
            self.client_id, self.secret = response.json()["client_id"], response.json().get("client_secret")
        return response

    def request(self, **fields: str | None) -> str:
        """The address that the person's browser is sent to. None leaves a parameter out."""
        some: dict[str, str | None] = {
            "response_type": "code",
            "client_id": self.client_id,
            "redirect_uri": self.callback,
            "code_challenge": self.challenge,
            "code_challenge_method": "S256",
            "scope": "calls:read calls:write agents:read",
            "state": "st ate",
            "resource": f"{self.base}/mcp",
        }
        given = {name: value for name, value in (some | fields).items() if value is not None}
        return f"/oauth/authorize?{urlencode(given)}"

    async def sign_in(self, request: str, key: str) -> httpx.Response:
        return await self.http.post(request, data={"decision": "sign-in", "key": key})

    async def allow(self, request: str, page: str, **fields: Any) -> httpx.Response:
        """Presses Allow on the second page, with everything that is ticked unless `fields` says otherwise."""
        hidden = _HIDDEN.search(page)
        ticked: dict[str, Any] = {"scope": [], "agent": []}
        for name, value in _OFFERED.findall(page):
            ticked[name].append(unescape(value))
        form = {"decision": "allow", "ticket": unescape(hidden[1]) if hidden else "", **ticked} | fields
        return await self.http.post(request, data=form)

    async def code(self, key: str, **fields: str | None) -> dict[str, str]:
        """What comes back to the app when the person says yes to everything."""
        request = self.request(**fields)
        page = await self.sign_in(request, key)
        assert page.status_code == 200, page.text
        return came_back(await self.allow(request, page.text))

    async def exchange(self, code: str, **fields: str | None) -> httpx.Response:
        some: dict[str, str | None] = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self.callback,
            "client_id": self.client_id,
            "code_verifier": self.verifier,
            "resource": f"{self.base}/mcp",
        }
        return await self.post("/oauth/token", **(some | fields))

    async def refresh(self, token: str, **fields: str | None) -> httpx.Response:
        some: dict[str, str | None] = {
            "grant_type": "refresh_token",
            "refresh_token": token,
            "client_id": self.client_id,
        }
        return await self.post("/oauth/token", **(some | fields))

    async def post(self, path: str, **fields: str | None) -> httpx.Response:
        given = {name: value for name, value in fields.items() if value is not None}
        return await self.http.post(path, data=given)

    async def tokens(self, key: str, **fields: str | None) -> dict[str, Any]:
        response = await self.exchange((await self.code(key, **fields))["code"])
        assert response.status_code == 200, response.text
        told: dict[str, Any] = response.json()
        return told


def came_back(response: httpx.Response) -> dict[str, str]:
    """The parameters that the browser brings back to the app."""
    assert response.status_code in {302, 303}, response.text
    location = urlsplit(response.headers["location"])
    assert not location.fragment
    return dict(parse_qsl(location.query, keep_blank_values=True))


def at(response: httpx.Response) -> str:
    """Where the browser is sent, without what it brings."""
    return str(response.headers["location"]).partition("?")[0]


def listed(url: str) -> dict[str, list[str]]:
    return parse_qs(urlsplit(url).query)
