"""How the twilio library reaches Twilio: its own seam for an HTTP client, over httpx.

The library's asynchronous client ignores its timeout and repeats a POST three times on a 500 (executed with 9.13,
twilio-python#925): three phones ring. This one has timeouts, never repeats anything, and says what is known of a
request that failed.
"""

import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

import httpx
from twilio.base.exceptions import TwilioException
from twilio.http import HttpClient
from twilio.http.response import Response
from twilio.rest import Client

CONNECT_SECONDS = 5.0
ANSWER_SECONDS = 10.0
MAX_REDIRECTS = 3
UNREADABLE = (TwilioException, ValueError, LookupError, TypeError, AttributeError)
"""What the library raises for an answer that is not what it expects, JSON of another shape included."""


class NotSent(Exception):
    """The request certainly did not reach Twilio."""


class NoAnswer(Exception):
    """The request may have been done; nobody knows."""


class Transport(HttpClient):  # type: ignore[misc]  # the library has no types
    """One pool of connections; `close` it."""

    def __init__(self, answer_within: float = ANSWER_SECONDS) -> None:
        super().__init__(logging.getLogger("twilio"), is_async=True)
        limits = httpx.Limits(max_connections=50, max_keepalive_connections=20, keepalive_expiry=20)
        timeout = httpx.Timeout(answer_within, connect=CONNECT_SECONDS)
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

    @contextlib.asynccontextmanager
    async def media(self, url: str, auth: tuple[str, str]) -> AsyncIterator[httpx.Response]:
        """What is at a URL of Twilio's, as a stream. Where Twilio sends us on to, credentials do not go along.

        Raises NotSent or NoAnswer, also for a place that nothing may be fetched from.
        """
        given: tuple[str, str] | None = auth
        for _ in range(MAX_REDIRECTS + 1):
            try:
                async with self._http.stream("GET", url, auth=given) as answer:
                    if not answer.has_redirect_location:
                        yield answer
                        return
                    onwards = httpx.URL(url).join(answer.headers["location"])
            except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.InvalidURL) as error:
                raise NotSent(f"{type(error).__name__}: {error}") from error
            except httpx.HTTPError as error:
                raise NoAnswer(f"{type(error).__name__}: {error}") from error
            if onwards.scheme != "https" and onwards.host != httpx.URL(url).host:
                raise NoAnswer("it sends us on to a place without TLS")
            url, given = str(onwards), None
        raise NoAnswer("it sends us on and on")


def client_of(transport: Transport, *, account_sid: str, username: str, password: str, api_url: str | None) -> Client:
    """The library's client over our transport; `api_url` None: Twilio's own."""
    # A mapping that is not empty keeps the library from reading TWILIO_* behind the operator's back.
    client = Client(username, password, account_sid, http_client=transport, environment={"callmcp": "callmcp"})
    if api_url is not None:
        client.api.base_url = api_url
    return client


def _given(fields: Mapping[str, Any] | None) -> dict[str, Any] | None:
    # None is no value, and booleans are sent as Twilio writes them.
    if fields is None:
        return None
    return {
        name: str(value).lower() if isinstance(value, bool) else value
        for name, value in fields.items()
        if value is not None
    }
