"""What every test stands on: asyncio alone, and no setting of whoever runs the tests."""

import os

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True, scope="session")
def _no_settings_from_outside() -> None:
    for name in [name for name in os.environ if name.startswith("CALLMCP_") and not name.startswith("CALLMCP_TEST_")]:
        del os.environ[name]
