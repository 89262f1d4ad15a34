"""callmcp serve: the HTTP server."""

import asyncio
import errno
import signal
import socket
import sys
from typing import TYPE_CHECKING

import click

from callmcp.cli.command import Command, opened, settings
from callmcp.cli.init import first_key
from callmcp.errors import BadConfiguration, Unavailable

if TYPE_CHECKING:
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

    SIGTERM and Ctrl-C let requests under way end, hang up the calls this process carries, and exit with 0.
    """
    chosen = settings(host=host, port=port)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: sys.exit(0))  # until, and after, uvicorn has its own
    with _listening(chosen) as listener:
        if chosen.port == 0:
            chosen = settings(host=host, port=listener.getsockname()[1])
        _run(chosen, listener, with_init=with_init)


def _run(chosen: "Settings", listener: socket.socket, *, with_init: bool) -> None:
    import structlog  # noqa: PLC0415 - see command.opened
    import uvicorn  # noqa: PLC0415

    from callmcp import logs  # noqa: PLC0415
    from callmcp.app import build  # noqa: PLC0415
    from callmcp.cli.welcome import welcome  # noqa: PLC0415

    class Server(uvicorn.Server):
        """uvicorn's, which tells when it is ready."""

        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if not self.should_exit:
                ready()

        async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
            app.state.services.calls.stop_waiting()
            await super().shutdown(sockets)

    def ready() -> None:
        endpoint = f"{chosen.public_url}/mcp"
        structlog.get_logger().info("serving", endpoint=endpoint)
        if with_init:
            click.echo(welcome(endpoint=endpoint, data=chosen.data.absolute(), key=secret))
        else:
            click.echo(f"CallMCP serves MCP at {endpoint}")

    logs.configure(chosen)
    # Opened once before it serves, so that a fault of the store or the settings is one line and not uvicorn's trace.
    secret = asyncio.run(_prepared(chosen, with_init=with_init))
    app = build(chosen)
    server = Server(
        uvicorn.Config(
            app,
            http=_http(),
            lifespan="on",
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=IDLE_SECONDS,
            timeout_graceful_shutdown=STOP_WITHIN_SECONDS,
            backlog=BACKLOG,
        )
    )
    server.run(sockets=[listener])
    if not server.started:
        raise Unavailable("The server could not start; the lines above say why.")


def _http() -> "type[asyncio.Protocol] | str":
    try:
        from callmcp.cli.http import Http  # noqa: PLC0415 - see command.opened
    except ImportError:  # no httptools, as on Windows: uvicorn then has one protocol to choose
        return "auto"
    return Http


async def _prepared(chosen: "Settings", *, with_init: bool) -> str | None:
    async with opened(chosen, new=True) as services:
        if with_init:
            return await first_key(services)
        await services.keys.default_account()
        return None


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
