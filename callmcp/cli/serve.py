"""callmcp serve: the HTTP server."""

import asyncio
import errno
import gc
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import TYPE_CHECKING

import click

from callmcp.cli.command import Command, settings
from callmcp.cli.init import first_key
from callmcp.cli.welcome import welcome
from callmcp.errors import BadConfiguration, Unavailable

if TYPE_CHECKING:
    from uvicorn import Config, Server

    from callmcp.settings import Settings

BACKLOG = 2048
STOP_WITHIN_SECONDS = 6  # for requests under way; calls then get 2 more, which keeps SIGTERM under its promised 10
IDLE_SECONDS = 75  # longer than proxies and clients keep a connection, so that it is never ours that closes first


@click.command(cls=Command)
@click.option("--host", help="The address to listen on (default: 127.0.0.1).")
@click.option("--port", type=int, help="The port (default: 8765); 0 lets the system choose.")
@click.option("--init", "with_init", is_flag=True, hidden=True, help="First do what `callmcp init` does: scripts/run.")
def serve(*, host: str | None, port: int | None, with_init: bool) -> None:
    """Serve MCP over HTTP until told to stop.

    SIGTERM and Ctrl-C let requests under way end, hang up simulated calls, leave real ones to the process that comes
    next, and exit with 0.
    """
    chosen = settings(host=host, port=port)
    _on_signals(lambda *_: sys.exit(0))
    with _listening(chosen) as listener:
        if chosen.port == 0:
            chosen = settings(host=host, port=listener.getsockname()[1])
        _run(chosen, listener, with_init=with_init)


def _run(chosen: "Settings", listener: socket.socket, *, with_init: bool) -> None:
    # Collecting garbage while everything is imported finds none and costs a tenth of the start; what is there
    # afterwards stays, and need not be looked at again.
    gc.disable()
    import uvicorn  # noqa: PLC0415 - see command.opened

    from callmcp import logs  # noqa: PLC0415
    from callmcp.app import build  # noqa: PLC0415

    logs.configure(chosen)
    app = build(chosen)
    gc.freeze()
    gc.enable()
    config = uvicorn.Config(
        app,
        http=_http(),
        lifespan="off",  # entered below: a fault of the store is then an exception like any other
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=STOP_WITHIN_SECONDS,
        backlog=BACKLOG,
    )

    async def run() -> None:
        async with app.router.lifespan_context(app):
            key = await first_key(app.state.services) if with_init else None
            server = _server(
                config,
                ready=lambda: _tell(chosen, key=key, with_init=with_init),
                stopping=app.state.services.calls.stop_waiting,
                hand_over=app.state.hand_over,
            )
            # uvicorn puts its own handlers in place of these while it serves, and raises the signal again after it.
            _on_signals(lambda *_: setattr(server, "should_exit", True))
            await server.serve(sockets=[listener])

    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(run())


def _server(
    config: "Config",
    *,
    ready: Callable[[], None],
    stopping: Callable[[], None],
    hand_over: Callable[[], Awaitable[None]],
) -> "Server":
    import uvicorn  # noqa: PLC0415 - see command.opened

    class TellingServer(uvicorn.Server):
        """uvicorn's, which tells when it is ready and when it stops, and hands talks over before it does."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            ready()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            stopping()
            await hand_over()  # while the carrier can still ask what becomes of its calls
            await super().shutdown(sockets)

    return TellingServer(config)


def _tell(chosen: "Settings", *, key: str | None, with_init: bool) -> None:
    import structlog  # noqa: PLC0415 - see command.opened

    endpoint = f"{chosen.public_url}/mcp"
    structlog.get_logger().info("serving", endpoint=endpoint)
    if with_init:
        click.echo(welcome(endpoint=endpoint, data=chosen.data.absolute(), key=key))
    else:
        click.echo(f"CallMCP serves MCP at {endpoint}")


def _on_signals(handler: Callable[[int, FrameType | None], None]) -> None:
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, handler)


def _http() -> "type[asyncio.Protocol] | str":
    try:
        from callmcp.cli.http import Http  # noqa: PLC0415 - see command.opened
    except ImportError:  # no httptools, as on Windows: uvicorn then has one protocol to choose
        return "auto"
    return Http


def _listening(chosen: "Settings") -> socket.socket:
    """The socket, bound. Raises BadConfiguration or Unavailable saying why it cannot be."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            chosen.host, chosen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, UnicodeError) as error:
        raise BadConfiguration(f"{chosen.host!r} is not an address of this machine: {error}") from error
    listener = socket.socket(family, kind, protocol)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(address)
        # Listening already keeps a second server from binding the same port and finding out only later.
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise _cannot_listen(chosen, error) from error
    return listener


def _cannot_listen(chosen: "Settings", error: OSError) -> BadConfiguration | Unavailable:
    where = f"port {chosen.port} of {chosen.host}"
    if error.errno == errno.EADDRINUSE:
        return Unavailable(f"{where} is taken, perhaps by another callmcp; choose another with --port, or --port 0")
    if error.errno == errno.EACCES:
        return BadConfiguration(f"{where} needs rights this user lacks; choose one above 1023 with --port")
    return BadConfiguration(f"cannot listen on {where}: {error.strerror}")
