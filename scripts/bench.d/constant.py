"""The ceiling: a bare Starlette route that reads the body and answers with constant bytes. constant.py PORT FILE"""

import sys
from pathlib import Path

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

BODY = Path(sys.argv[2]).read_bytes()


async def answer(request: Request) -> Response:
    await request.body()
    return Response(BODY, media_type="application/json")


app = Starlette(routes=[Route("/mcp", answer, methods=["POST"])])
uvicorn.run(app, port=int(sys.argv[1]), log_level="warning", access_log=False, loop="uvloop", http="httptools")
