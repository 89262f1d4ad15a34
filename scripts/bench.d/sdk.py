"""The peer: a server written with the official Python SDK's low-level API. sdk.py PORT TOOLS.JSON

The same list of tools, and a tools/call that does nothing; stateless and answering in JSON, its fastest mode.
"""

import json
import sys
from pathlib import Path

import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server

LIST = types.ListToolsResult.model_validate(json.loads(Path(sys.argv[2]).read_bytes()))
DONE = types.CallToolResult(content=[types.TextContent(type="text", text="done")])


async def list_tools(_context: object, _params: types.PaginatedRequestParams | None) -> types.ListToolsResult:
    return LIST


async def call_tool(_context: object, _params: types.CallToolRequestParams) -> types.CallToolResult:
    return DONE


server = Server("peer", on_list_tools=list_tools, on_call_tool=call_tool)
app = server.streamable_http_app(json_response=True, stateless_http=True)
uvicorn.run(app, port=int(sys.argv[1]), log_level="warning", access_log=False, loop="uvloop", http="httptools")
