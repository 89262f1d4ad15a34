"""An access token as a person's client gets one: registered, allowed with a key, exchanged."""

import base64
import hashlib
import secrets
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx

from tests.acceptance.person import by_hand
from tests.acceptance.server import Server


def token(server: Server, key: str) -> str:
    back = f"{server.base}/healthz"  # an address that answers, and nobody reads what is sent there
    verifier = secrets.token_urlsafe(48)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).decode().rstrip("=")
    with httpx.Client(base_url=server.base, trust_env=False) as http:
        client = {"client_name": "bench", "redirect_uris": [back], "token_endpoint_auth_method": "none"}
        client_id = http.post("/oauth/register", json=client).raise_for_status().json()["client_id"]
        asked = {"response_type": "code", "client_id": client_id, "redirect_uri": back, "code_challenge": challenge}
        asked["code_challenge_method"] = "S256"
        location = by_hand(f"{server.base}/oauth/authorize?{urlencode(asked)}", key, ())
        form = {"grant_type": "authorization_code", "code": parse_qs(urlsplit(location).query)["code"][0]}
        form |= {"redirect_uri": back, "client_id": client_id, "code_verifier": verifier}
        access: str = http.post("/oauth/token", data=form).raise_for_status().json()["access_token"]
    return access
