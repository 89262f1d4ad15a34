import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.person import by_hand
from tests.acceptance.server import callmcp, running
from tests.acceptance.test_clients import node
from tests.acceptance.test_oauth import ADDRESS
from tests.acceptance.twilio import free_port
from tests.conformance.suite import RUNS, SUITE, Run, conforms, keyed


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with (
        running(tmp_path_factory.mktemp("data"), simulator_speed=20) as server,
        keyed(server.endpoint, server.key("calls:write", "agents:read")) as endpoint,
    ):
        yield endpoint


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.name)
def test_the_official_suite_passes_but_for_what_the_baseline_names_with_a_reason(run: Run, endpoint: str) -> None:
    node()
    report = conforms(run, endpoint)
    assert report.passed, report.summary


def test_the_suites_scenarios_for_an_authorization_server_pass(tmp_path: Path) -> None:
    port = free_port()
    redirect = f"http://127.0.0.1:{port}/callback"
    with running(tmp_path) as server:
        key = server.key("calls:write", "agents:read")
        added = callmcp("clients", "add", "suite", "--public", "--redirect-uri", redirect, "--json", data=tmp_path)
        command = [str(node()), str(SUITE), "authorization", "--url", server.base, "--resource", server.endpoint]
        command += ["--client-id", json.loads(added)["client_id"], "--port", str(port)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as suite:
            assert suite.stdout is not None
            lines = []
            for line in suite.stdout:
                lines.append(line)
                if address := ADDRESS.search(line):
                    by_hand(address[0], key, ())

    assert suite.returncode == 0, "".join(lines)
    assert "Total: 3 passed, 0 failed" in lines[-1]
