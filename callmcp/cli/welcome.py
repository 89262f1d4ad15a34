"""What a server says when it is ready: where it is, and lines to copy."""

import json
import shlex
import sys
from pathlib import Path

from callmcp.cli.init import DEMO_AGENT

PLACEHOLDER = "YOUR_KEY"
CALL = {
    "agent_id": DEMO_AGENT,
    "to": "+12025550100",
    "context": "Confirm the appointment on Tuesday at ten.",
}


def welcome(*, endpoint: str, data: Path, key: str | None) -> str:
    """`key` is the one that has just been made: this is the only time it is shown."""
    shown = key or PLACEHOLDER
    authorization = f"Authorization: Bearer {shown}"
    entry = {"type": "http", "url": endpoint, "headers": {"Authorization": f"Bearer {shown}"}}
    another = f"{command()} keys create NAME --scope calls:write --scope agents:read --data {shlex.quote(str(data))}"
    lines = [
        "",
        f"CallMCP serves MCP at  {endpoint}",
        f"Data is kept in        {data}",
        f"API key                {key}   (shown only this once)" if key else "API key                as made before",
        f"Another key            {another}",
        "",
        "Claude Code:",
        f"  claude mcp add --transport http callmcp {endpoint} --header {_quoted(authorization)}",
        "",
        "Any client with an mcpServers file:",
        f"  {json.dumps({'mcpServers': {'callmcp': entry}})}",
        "",
        "See the tools (no key needed):",
        f"  {_curl(endpoint, 'tools/list', {})}",
        "",
        "Place a call (the simulator answers; nobody's phone rings):",
        f"  {_curl(endpoint, 'tools/call', {'name': 'make_call', 'arguments': CALL}, authorization)}",
        "",
        "Ctrl-C stops the server.",
        "",
    ]
    return "\n".join(lines)


def command() -> str:
    """How this command line was started, so that what is printed can be pasted."""
    started = Path(sys.argv[0])
    if started.name == "__main__.py":
        return f"{shlex.quote(sys.executable)} -m callmcp"
    with_path = started.resolve() if started.parent != Path() else started
    return shlex.quote(str(with_path.relative_to(Path.cwd()) if with_path.is_relative_to(Path.cwd()) else with_path))


def _curl(endpoint: str, method: str, params: dict[str, object], *headers: str) -> str:
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    given = ("Content-Type: application/json", "Accept: application/json, text/event-stream", *headers)
    return " ".join(["curl", "-s", endpoint, *(f"-H {_quoted(header)}" for header in given), "-d", shlex.quote(body)])


def _quoted(text: str) -> str:
    return f'"{text}"'
