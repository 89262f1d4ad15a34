"""Where the server's time goes while it is loaded."""

import pstats
import tempfile
from pathlib import Path

from load import AGENT, PYTHON, SILENT, Load, Rates, measure, request, tool
from table import finished_call

from tests.acceptance.server import running


def profile(what: str, seconds: float, connections: int) -> bool:
    """Loads tools/list, get_call or make_call under cProfile and prints the functions with most time of their own."""
    with tempfile.TemporaryDirectory() as folder:
        data, found = Path(folder), Path(folder) / "found.prof"
        profiler = [*PYTHON, "-m", "cProfile", "-o", str(found)]
        with running(data, interpreter=profiler, simulator_speed=20 if what == "get_call" else 1) as server:
            key = server.key("calls:write", "agents:read")
            if what == "get_call":
                message = tool("get_call", call_id=finished_call(server, key)["call_id"])
            elif what == "make_call":
                message = tool("make_call", agent_id=AGENT, to=SILENT)
            else:
                message = request(what)
            rates = Rates()
            measure(Load(server.endpoint, message, key), seconds, connections, rates)
        print(f"{rates.median:,.0f} requests/s under the profiler")
        pstats.Stats(str(found)).sort_stats("tottime").print_stats(45)
    return True
