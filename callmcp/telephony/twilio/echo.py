"""An address below the public URL that answers whoever can sign for it, so that `callmcp doctor` can tell that the URL
leads to this server, there and back, by HTTP and by WebSocket.

The signature covers the URL alone, not the body: the answer says what body came, which a refusal could not. Nothing is
stored and nothing is told but the nonce, the version and what of the request arrived, so a replay learns nothing.
"""

import hashlib
import json
import re
from collections.abc import Sequence

import structlog
from starlette.requests import HTTPConnection, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from callmcp import __version__
from callmcp.telephony.twilio import signature
from callmcp.telephony.twilio.addresses import PREFIX

log = structlog.get_logger()

PATH = f"{PREFIX}/echo"
BODY_LIMIT = 4096  # bytes
NONCE = re.compile(r"[0-9a-f]{32}")
NOT_SIGNED = "not signed for this server"


def address(public_url: str, nonce: str) -> str:
    return f"{public_url}{PATH}/{nonce}"


def socket_address(public_url: str, nonce: str) -> str:
    """The same as a WebSocket's, which is signed with ws or wss as its scheme."""
    return f"ws{address(public_url, nonce).removeprefix('http')}"


class Echo:
    """`tokens`: the account's auth tokens, several while one is rotated."""

    def __init__(self, *, public_url: str, tokens: Sequence[str]) -> None:
        self._public_url = public_url
        self._tokens = tuple(tokens)

    def routes(self) -> list[BaseRoute]:
        path = f"{PATH}/{{nonce}}"
        return [Route(path, self._answer, methods=["POST"]), WebSocketRoute(path, self._upgrade)]

    async def _answer(self, request: Request) -> Response:
        nonce = request.path_params["nonce"]
        if not self._is_signed(request, address(self._public_url, nonce)):
            return JSONResponse({"error": NOT_SIGNED}, 403)
        if not NONCE.fullmatch(nonce):
            return JSONResponse({"error": "not a nonce"}, 404)
        body = b""
        async for chunk in request.stream():
            body += chunk
            if len(body) > BODY_LIMIT:
                return JSONResponse({"error": "too large"}, 413)
        query = f"?{request.url.query}" if request.url.query else ""
        arrived = {"path": request.url.path + query, "body_sha256": hashlib.sha256(body).hexdigest()}
        return JSONResponse({"nonce": nonce, "version": __version__, **arrived})

    async def _upgrade(self, websocket: WebSocket) -> None:
        nonce = websocket.path_params["nonce"]
        if not self._is_signed(websocket, socket_address(self._public_url, nonce)) or not NONCE.fullmatch(nonce):
            await websocket.close()  # before it was accepted: HTTP 403
            return
        await websocket.accept()
        try:
            await websocket.send_text(json.dumps({"nonce": nonce, "version": __version__}))
            await websocket.close()
        except (WebSocketDisconnect, RuntimeError):
            log.debug("echo_closed_while_sending")

    def _is_signed(self, connection: HTTPConnection, url: str) -> bool:
        given = connection.headers.get("x-twilio-signature")
        signed = signature.is_signed(given, tokens=self._tokens, url=url)
        if not signed:
            log.warning("echo_refused")
        return signed
