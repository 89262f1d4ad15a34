import json
import signal
import socket
import subprocess
import time
from typing import Any

import httpx
import pytest

from tests.cli.conftest import PATIENCE, Callmcp, Start

CALL = {
    "name": "make_call",
    "arguments": {"agent_id": "agt_9f2a1c", "to": "+12025550100", "context": "Confirm Tuesday."},
}


def ready(process: subprocess.Popen[str]) -> str:
    """The endpoint, once it serves."""
    assert process.stderr is not None
    event = json.loads(process.stderr.readline())
    assert event["event"] == "serving"
    endpoint: str = event["endpoint"]
    return endpoint


def welcome(process: subprocess.Popen[str], endpoint: str) -> list[str]:
    assert process.stdout is not None
    lines = []
    while "Ctrl-C" not in (line := process.stdout.readline()):
        assert line, f"ended without a welcome to {endpoint}"
        lines.append(line.strip())
    return lines


def posted(endpoint: str, method: str, params: dict[str, Any], **headers: str) -> httpx.Response:
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    accept = {"Accept": "application/json, text/event-stream"}
    return httpx.post(endpoint, json=body, headers={**accept, **headers}, timeout=PATIENCE)


def test_a_first_start_prints_a_key_that_works_and_a_second_one_prints_none(start: Start) -> None:
    process = start("serve", "--init", "--port", "0")
    endpoint = ready(process)
    lines = welcome(process, endpoint)
    (key,) = {word for line in lines for word in line.replace('"', " ").split() if word.startswith("cmcp_")}

    answer = posted(endpoint, "tools/call", CALL, Authorization=f"Bearer {key}").json()

    assert answer["result"]["structuredContent"]["agent_id"] == "agt_9f2a1c"
    (command,) = [line for line in lines if line.startswith("claude mcp add --transport http callmcp ")]
    assert command.endswith(f'{endpoint} --header "Authorization: Bearer {key}"')
    (entry,) = [json.loads(line) for line in lines if line.startswith('{"mcpServers"')]
    assert entry["mcpServers"]["callmcp"]["headers"] == {"Authorization": f"Bearer {key}"}
    process.terminate()
    _, err = process.communicate(timeout=PATIENCE)
    assert key not in err
    assert "+12025550100" not in err
    assert "Confirm Tuesday" not in err

    again = start("serve", "--init", "--port", "0")
    lines = welcome(again, ready(again))
    assert "cmcp_" not in "\n".join(lines)
    assert any("keys create NAME" in line for line in lines)


def test_the_curl_lines_that_are_printed_work(start: Start) -> None:
    process = start("serve", "--init", "--port", "0")
    lines = welcome(process, ready(process))

    listed, placed = (
        json.loads(subprocess.run(line, shell=True, capture_output=True, timeout=PATIENCE, check=True).stdout)  # noqa: S602
        for line in lines
        if line.startswith("curl")
    )

    assert len(listed["result"]["tools"]) == 7
    assert placed["result"]["structuredContent"]["call_id"].startswith("call_")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_it_stops_with_0_in_10_seconds_though_a_client_waits_and_a_call_is_live(
    start: Start, callmcp: Callmcp, number: signal.Signals
) -> None:
    key = callmcp("init").stdout.strip()
    process = start("serve", "--port", "0", CALLMCP_SIMULATOR_SPEED="0.1")
    endpoint = ready(process)
    placed = posted(endpoint, "tools/call", CALL, Authorization=f"Bearer {key}").json()
    call_id = placed["result"]["structuredContent"]["call_id"]
    wait = {"name": "get_call", "arguments": {"call_id": call_id, "wait_seconds": 50}}
    body = json.dumps({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": wait})
    url = httpx.URL(endpoint)
    with socket.create_connection((url.host, url.port or 80), timeout=PATIENCE) as waiting:
        waiting.sendall(
            f"POST /mcp HTTP/1.1\r\nHost: {url.netloc.decode()}\r\nAuthorization: Bearer {key}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        began = time.monotonic()
        process.send_signal(number)
        assert process.wait(timeout=PATIENCE) == 0
        assert time.monotonic() - began < 10

    record = json.loads(callmcp("calls", "show", call_id, "--json").stdout)
    assert record["status"] in {"failed", "canceled"}, "the call that it carried has a truthful end"


def test_a_taken_port_is_told_in_one_line(start: Start, callmcp: Callmcp) -> None:
    endpoint = ready(start("serve", "--port", "0"))
    port = httpx.URL(endpoint).port

    done = callmcp("serve", "--port", str(port))

    assert done.returncode == 1
    assert done.stderr.startswith(f"callmcp: port {port} of 127.0.0.1 is taken")


def test_a_host_that_is_not_this_machine_is_told_in_one_line(callmcp: Callmcp) -> None:
    for host in ("192.0.2.1", "no-such-host.invalid"):
        done = callmcp("serve", "--port", "0", "--host", host)

        assert done.returncode == 1
        assert done.stderr.startswith("callmcp: ")
        assert done.stderr.count("\n") == 1


def test_the_public_url_is_what_clients_are_told(start: Start) -> None:
    process = start("serve", "--port", "0", CALLMCP_PUBLIC_URL="https://calls.example.org/")

    assert ready(process) == "https://calls.example.org/mcp"


def test_answers_do_not_say_what_serves_them(start: Start) -> None:
    answer = posted(ready(start("serve", "--port", "0")), "tools/list", {})

    assert answer.status_code == 200
    assert "server" not in answer.headers
