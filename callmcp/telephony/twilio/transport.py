"""How the twilio library reaches Twilio: its own seam for an HTTP client, over httpx.

The library's asynchronous client ignores its timeout and repeats a POST three times on a 500 (executed with 9.13,
twilio-python#925): three phones ring. This one has timeouts, never repeats anything, and says what is known of a
request that failed.
"""

import logging
from collections.abc import Mapping
from typing import Any

import httpx
from twilio.http import HttpClient
from twilio.http.response import Response

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 10.0


class NotSent(Exception):
    """The request certainly did not reach Twilio."""


class NoAnswer(Exception):
    """The request may have been done; nobody knows."""


class Transport(HttpClient):  # type: ignore[misc]  # the library has no types
    """One pool of connections; `close` it."""

    def __init__(self) -> None:
        super().__init__(logging.getLogger("twilio"), is_async=True)
        limits = httpx.Limits(max_connections=50, max_keepalive_connections=20, keepalive_expiry=20)
        timeout = httpx.Timeout(ANSWER_SECONDS, connect=CONNECT_SECONDS)
        self._http = httpx.AsyncClient(timeout=timeout, limits=limits, follow_redirects=False, trust_env=False)

    async def close(self) -> None:
        await self._http.aclose()

    async def request(  # noqa: PLR0917 - the library's signature, which it awaits when `is_async`
        self,
        method: str,
        uri: str,
        params: Mapping[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        auth: tuple[str, str] | None = None,
        timeout: float | None = None,  # noqa: ARG002, ASYNC109
        allow_redirects: bool = False,  # noqa: ARG002, FBT001, FBT002
    ) -> Response:
        """Raises NotSent or NoAnswer. A list in `data` becomes a field repeated, as Twilio wants its events."""
        try:
            answer = await self._http.request(
                method, uri, params=_given(params), data=_given(data), headers=dict(headers or {}), auth=auth
            )
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.InvalidURL) as error:
            raise NotSent(f"{type(error).__name__}: {error}") from error
        except httpx.HTTPError as error:
            raise NoAnswer(f"{type(error).__name__}: {error}") from error
        return Response(answer.status_code, answer.text, answer.headers)


def _given(fields: Mapping[str, Any] | None) -> dict[str, Any] | None:
    # None is no value, and booleans are sent as Twilio writes them.
    if fields is None:
        return None
    return {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in fields.items()
        if value is not None
    }
