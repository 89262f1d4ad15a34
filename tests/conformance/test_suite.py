from collections.abc import Iterator

import pytest

from tests.acceptance.server import running
from tests.acceptance.test_clients import node
from tests.conformance.suite import RUNS, Run, conforms, keyed


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
