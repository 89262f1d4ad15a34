"""What a relay costs without us: a WebSocket server that answers each prompt with the same words, and that is all.

python talker.py PORT WORDS
"""

import json
import sys

import uvloop
from websockets.asyncio.server import ServerConnection, serve


async def talk(socket: ServerConnection) -> None:
    words = sys.argv[2]
    async for raw in socket:
        if json.loads(raw)["type"] in {"setup", "prompt"}:
            await socket.send(json.dumps({"type": "text", "token": words, "last": False}))
            await socket.send(json.dumps({"type": "text", "token": "", "last": True}))


async def main() -> None:
    async with serve(talk, "127.0.0.1", int(sys.argv[1])) as server:
        await server.serve_forever()


uvloop.run(main())
