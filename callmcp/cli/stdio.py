"""callmcp stdio: the tools for a host on this machine that starts its servers itself."""

import asyncio
import contextlib
import os
import signal
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from queue import SimpleQueue

import click

from callmcp.cli.command import Command, account_option, opened, operator, settings
from callmcp.cli.init import FIRST_KEY_SCOPES, demo_agent
from callmcp.identity.model import Principal, parse_scopes


@click.command(cls=Command)
@click.option(
    "--scope",
    "scopes",
    multiple=True,
    metavar="SCOPE",
    default=sorted(FIRST_KEY_SCOPES),
    show_default=True,
    help="What the host may do; may be given again.",
)
@click.option("--agent", "agent_ids", multiple=True, metavar="AGENT_ID", help="Only this voice agent.")
@account_option
async def stdio(*, scopes: tuple[str, ...], agent_ids: tuple[str, ...], account: str) -> None:
    """Serve MCP over standard input and output, for a host on this machine.

    Whoever can start this command may read the database anyway, so no key is asked for.
    """
    from callmcp import logs  # noqa: PLC0415 - see command.opened
    from callmcp.mcp.server import McpServer  # noqa: PLC0415
    from callmcp.mcp.stdio import StdioServer  # noqa: PLC0415
    from callmcp.mcp.tools import World  # noqa: PLC0415

    allowed = parse_scopes(scopes)
    chosen = settings()
    logs.configure(chosen)
    async with opened(chosen, new=True) as services:
        await demo_agent(services)
        found = await services.keys.account(account)
        for agent_id in agent_ids:
            await services.agents.get(await operator(services, account), agent_id)
        principal = Principal(account_id=found.id, key_id="stdio", scopes=allowed, agent_ids=frozenset(agent_ids))
        world = World(
            agents=services.agents, policy=services.policy, calls=services.calls, base=services.settings.public_url
        )
        server = McpServer(world)
        session = StdioServer(server, principal, line_limit=chosen.body_limit)
        with _stopped_by_signals():
            await session.serve(_reader(chosen.body_limit), _writer())


def _reader(limit: int) -> Callable[[], Awaitable[bytes]]:
    """The next line of standard input; of one longer than `limit` its beginning, which is longer than that too.

    Read by a thread of its own that nothing waits for: a read cannot be called off, and standard input may be a pipe,
    a terminal or a file, of which asyncio can only take the first two.
    """
    loop = asyncio.get_running_loop()
    lines: asyncio.Queue[bytes] = asyncio.Queue()
    taken = threading.Semaphore(1)

    def read() -> None:
        # Not sys.stdin: the interpreter closes that at its end and would find it locked by this thread.
        with open(sys.stdin.fileno(), "rb", closefd=False) as source:
            line = b"\n"
            while line:
                taken.acquire()
                line = part = source.readline(limit + 2)
                while part and not part.endswith(b"\n"):
                    part = source.readline(limit + 2)
                with contextlib.suppress(RuntimeError):  # the loop is closed: nobody listens any more
                    loop.call_soon_threadsafe(lines.put_nowait, line)

    async def read_line() -> bytes:
        line = await lines.get()
        taken.release()
        return line

    threading.Thread(target=read, name="stdin", daemon=True).start()
    return read_line


def _writer() -> Callable[[bytes], Awaitable[None]]:
    """Writes a message and its line break to standard output, which nothing else can write to from now on.

    A thread of its own, and past Python's buffer: a host that does not read makes the write wait for ever, and neither
    the end of the event loop nor the interpreter's may wait with it.
    """
    loop = asyncio.get_running_loop()
    out = sys.stdout.fileno()
    sys.stdout = sys.stderr
    messages: SimpleQueue[tuple[bytes, asyncio.Future[None]]] = SimpleQueue()

    def work() -> None:
        while True:
            rest, written = messages.get()
            with contextlib.suppress(OSError):  # the host is gone; the end of its input follows
                while rest:
                    rest = rest[os.write(out, rest) :]
            with contextlib.suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_done, written)

    async def write(message: bytes) -> None:
        written = loop.create_future()
        messages.put((message + b"\n", written))
        await written

    threading.Thread(target=work, name="stdout", daemon=True).start()
    return write


def _done(future: "asyncio.Future[None]") -> None:
    if not future.done():  # canceled
        future.set_result(None)


@contextlib.contextmanager
def _stopped_by_signals() -> Iterator[None]:
    """Lets SIGTERM and Ctrl-C end the session as the end of its input does: calls are hung up, and the exit is 0."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    with contextlib.suppress(NotImplementedError):  # Windows: the host there closes our input, or ends us
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, task.cancel if task else loop.stop)
    try:
        yield
    except asyncio.CancelledError:
        if task is not None:
            task.uncancel()
