"""The MCP Inspector's command line as a client: inspector.py ENDPOINT KEY MODE NODE.

MODE is `legacy` or `modern`, the Inspector's word for the two eras. Prints what test_clients.py reads: one JSON
document of all that a user at this command line got to see.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

COOPERATES = "+12025550100"
RINGS_FOR_30_SECONDS = "+12025550110"
INSPECTOR = Path(__file__).with_name("node_modules") / "@modelcontextprotocol/inspector/clients/launcher/build/index.js"
ENDPOINT, KEY, MODE, NODE = sys.argv[1:5]


def inspector(*options: str, key: str | None = KEY) -> subprocess.CompletedProcess[str]:
    # Without --stored-auth-only it answers a 401 with a login of its own and drops the server's words.
    command = [NODE, str(INSPECTOR), "--cli", ENDPOINT, "--transport", "http", "--stored-auth-only"]
    command += ["--protocol-era", MODE, "--format", "json"]
    if key is not None:
        command += ["--header", f"Authorization: Bearer {key}"]
    with tempfile.TemporaryDirectory() as home:  # its stored logins and catalog are nobody's business
        return subprocess.run(
            [*command, *options],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "HOME": home},
        )


def listed() -> list[str]:
    done = inspector("--method", "tools/list", key=None)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return [tool["name"] for tool in json.loads(done.stdout)["result"]["tools"]]


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    done = inspector("--method", "tools/call", "--tool-name", tool, "--tool-args-json", json.dumps(arguments))
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    result = json.loads(done.stdout)["result"]
    text = "\n".join(block["text"] for block in result["content"])
    return {"error": result.get("isError", False), "text": text, "structured": result["structuredContent"]}


seen: dict[str, Any] = {"tools": listed()}
refused = inspector("--method", "tools/call", "--tool-name", "list_agents", key=None)
seen["refusal"] = refused.stderr if refused.returncode else f"not refused: {refused.stdout}"
seen["agents"] = call("list_agents")
agent = seen["agents"]["structured"]["agents"][0]["agent_id"]
seen["placed"] = call("make_call", agent_id=agent, to=COOPERATES, context="Ask for a table for two.")
placed = seen["placed"]["structured"]["call_id"]
for _ in range(6):
    seen["record"] = call("get_call", call_id=placed, wait_seconds=20)
    if "ended_at" in seen["record"]["structured"]:
        break
ringing = call("make_call", agent_id=agent, to=RINGS_FOR_30_SECONDS)
seen["ended"] = call("end_call", call_id=ringing["structured"]["call_id"])
seen["ended_again"] = call("end_call", call_id=placed)
json.dump(seen, sys.stdout)
