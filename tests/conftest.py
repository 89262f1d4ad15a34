"""What every test stands on: asyncio alone, and no setting of whoever runs the tests."""

import os

import pytest
from hypothesis import HealthCheck, settings

# A machine that does other things too is slow now and then, and that is no fault of what is tested.
# A machine that other work shares is slow now and then; that is no fault of what is tested.
settings.register_profile("callmcp", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("callmcp")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(autouse=True, scope="session")
def _no_settings_from_outside() -> None:
    for name in [name for name in os.environ if name.startswith("CALLMCP_") and not name.startswith("CALLMCP_TEST_")]:
        del os.environ[name]
