"""An ASGI application on a real socket of this machine, in the test's own loop."""

import asyncio
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Literal

import uvicorn


@asynccontextmanager
async def served(
    make: Callable[[str], Any], *, ws: Literal["websockets-sansio", "none"] = "websockets-sansio"
) -> AsyncIterator[str]:
    """`make` is given the base URL that the application then has. `ws="none"`: an upgrade is not understood."""
    listening = socket.create_server(("127.0.0.1", 0))
    base = f"http://127.0.0.1:{listening.getsockname()[1]}"
    server = uvicorn.Server(
        uvicorn.Config(make(base), ws=ws, log_level="critical", loop="asyncio", lifespan="off", access_log=False)
    )
    serving = asyncio.create_task(server.serve([listening]))
    try:
        yield base
    finally:
        server.should_exit = True
        await serving
        listening.close()
