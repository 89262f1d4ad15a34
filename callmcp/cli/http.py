"""HTTP/1.1 as uvicorn speaks it, with what it leaves to a proxy that many deployments of this server do not have.

Against clients that never finish: a request has to arrive whole within a time, its head within a size. For clients that
are only unusual: one that offers HTTP/2 by `Upgrade: h2c`, as Java's does to every server, keeps its body (the parser
drops it, and the client would be told that its JSON is empty); one that closes its sending side after the request, as
`nc` does, still gets its answer.
"""

import asyncio
from typing import Any

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

HEAD_LIMIT = 64 * 1024


class Http(HttpToolsProtocol):
    """One connection."""

    arrives_within_seconds: float = 30

    _deadline: asyncio.TimerHandle | None = None
    _in_head = True
    _head_size = 0
    _declined = False  # an upgrade that the request offers; HTTP lets a server go on as if it had not (RFC 9110 7.8)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._expect()

    def connection_lost(self, exc: Exception | None) -> None:
        self._expect_nothing()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self._refuse("Invalid HTTP request received.")
        except httptools.HttpParserUpgrade as stopped:
            if self._declined:
                self.data_received(self._head_without_upgrade() + data[stopped.args[0] :])
            else:
                self._expect_nothing()
                self.handle_websocket_upgrade()
        else:
            self._head_size = self._head_size + len(data) if self._in_head else 0
            if self._head_size > HEAD_LIMIT:
                self._refuse(f"The head of a request may have at most {HEAD_LIMIT} bytes.")

    def eof_received(self) -> Any:  # noqa: ANN401 - uvicorn says None; True makes asyncio keep our side open
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is None or cycle.response_complete or cycle.more_body:
            return None
        cycle.keep_alive = False
        return True

    def shutdown(self) -> None:
        """A request that has not arrived whole was not begun, and a stop does not wait for the rest of it."""
        super().shutdown()
        cycle: RequestResponseCycle | None = self.cycle
        if cycle is not None and cycle.more_body:
            self.transport.close()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._in_head = True
        if self._deadline is None:
            self._expect()

    def on_headers_complete(self) -> None:
        self._in_head = False
        self._declined = (
            self.parser.should_upgrade() and self.parser.get_method() != b"CONNECT" and not self._should_upgrade()
        )
        if not self._declined:
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        if not self._declined:
            self._expect_nothing()
            super().on_message_complete()

    def _head_without_upgrade(self) -> bytes:
        fields = [b"%b: %b\r\n" % field for field in self.headers if field[0] != b"upgrade"]
        return b"%b %b HTTP/1.1\r\n%b\r\n" % (self.parser.get_method(), self.url, b"".join(fields))

    def _refuse(self, words: str) -> None:
        self.logger.info(words)
        self.send_400_response(words)

    def _expect(self) -> None:
        self._deadline = self.loop.call_later(self.arrives_within_seconds, self.transport.close)

    def _expect_nothing(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
