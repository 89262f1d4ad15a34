import hashlib

import httpx
import pytest
from starlette.applications import Starlette
from websockets.asyncio.client import connect
from websockets.exceptions import InvalidStatus

from callmcp import __version__
from callmcp.telephony.twilio.echo import BODY_LIMIT, Echo, address, socket_address
from callmcp.telephony.twilio.signature import sign
from tests.telephony.twilio.serving import served

pytestmark = pytest.mark.anyio

TOKEN = "12345"
NONCE = "0123456789abcdef" * 2


def app(base: str) -> Starlette:
    return Starlette(routes=Echo(public_url=base, tokens=("old", TOKEN)).routes())


async def posted(url: str, signature: str | None, body: bytes = b"a=1") -> httpx.Response:
    headers = [] if signature is None else [(b"X-Twilio-Signature", signature.encode())]
    async with httpx.AsyncClient(trust_env=False) as http:
        return await http.post(url, content=body, headers=headers)


async def test_a_signed_request_hears_what_of_it_arrived() -> None:
    async with served(app) as base:
        url = address(base, NONCE)
        answer = await posted(url, sign(TOKEN, url))

        assert (await posted(url, sign("old", url))).status_code == 200, "any of the tokens will do"

    assert answer.json() == {
        "nonce": NONCE,
        "version": __version__,
        "path": f"/twilio/echo/{NONCE}",
        "body_sha256": hashlib.sha256(b"a=1").hexdigest(),
    }


async def test_without_the_signature_of_this_very_url_nobody_hears_anything() -> None:
    async with served(app) as base:
        url = address(base, NONCE)
        forged = [None, "", "é", sign("another token", url), sign(TOKEN, address(base, NONCE[::-1]))]
        forged.append(sign(TOKEN, socket_address(base, NONCE)))

        for signature in forged:
            answer = await posted(url, signature)
            assert (answer.status_code, NONCE in answer.text) == (403, False), signature


@pytest.mark.parametrize("nonce", ["x", NONCE.upper(), NONCE + "0", "..", "%00" * 8])
async def test_only_a_nonce_of_ours_is_echoed_however_well_signed(nonce: str) -> None:
    async with served(app) as base:
        url = address(base, nonce)

        answer = await posted(url, sign(TOKEN, url))

    assert answer.status_code in {403, 404}
    assert "version" not in answer.text


async def test_a_body_that_is_too_long_is_refused() -> None:
    async with served(app) as base:
        url = address(base, NONCE)

        assert (await posted(url, sign(TOKEN, url), b"a" * (BODY_LIMIT + 1))).status_code == 413
        assert (await posted(url, sign(TOKEN, url), b"a" * BODY_LIMIT)).status_code == 200


async def test_an_upgrade_is_accepted_only_when_signed_as_a_websocket() -> None:
    async with served(app) as base:
        url = socket_address(base, NONCE)
        for signature in ("", sign("another token", url), sign(TOKEN, address(base, NONCE))):
            with pytest.raises(InvalidStatus) as refused:
                await connect(url, additional_headers={"X-Twilio-Signature": signature}, proxy=None)
            assert refused.value.response.status_code == 403

        async with connect(url, additional_headers={"X-Twilio-Signature": sign(TOKEN, url)}, proxy=None) as upgraded:
            assert NONCE in str(await upgraded.recv())
