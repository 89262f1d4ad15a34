"""Where the server's time goes while it is loaded: samples of all its threads, taken from outside by py-spy."""

import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path

from load import AGENT, PYTHON, SILENT, Load, Rates, measure, request, tool
from table import finished_call

from tests.acceptance.server import running


def profile(what: str, seconds: int, connections: int) -> bool:
    """Loads tools/list, get_call or make_call and prints the functions that held the GIL most, alone and with callees.

    cProfile would see one thread, start-up included, and call time that a function waits for the GIL its own.
    """
    spy = shutil.which("py-spy")
    if spy is None:
        sys.exit("py-spy is not on the PATH: pip install py-spy")
    with tempfile.TemporaryDirectory() as folder:
        data, found = Path(folder), Path(folder) / "samples"
        with running(data, interpreter=PYTHON, simulator_speed=20 if what == "get_call" else 1) as server:
            key, pid = server.key("calls:write", "agents:read"), server.process.pid
            if what == "get_call":
                message = tool("get_call", call_id=finished_call(server, key)["call_id"])
            elif what == "make_call":
                message = tool("make_call", agent_id=AGENT, to=SILENT)
            else:
                message = request(what)
            command = [spy, "record", "--gil", "--threads", "--rate", "500", "--duration", f"{seconds}"]
            command += ["--format", "raw", "--output", str(found), "--pid", str(pid)]
            watching = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            measure(Load(server.endpoint, message, pid, key), seconds, connections, Rates())
            if watching.wait(60) != 0:
                sys.exit(watching.stderr.read().decode() if watching.stderr else "py-spy failed")
        stacks = [line.rpartition(" ") for line in found.read_text().splitlines()]
    alone: Counter[str] = Counter()
    with_callees: Counter[str] = Counter()
    for stack, _, count in stacks:
        functions = [frame.rpartition(":")[0] or frame for frame in stack.split(";")]
        alone[functions[-1]] += int(count)
        with_callees.update(dict.fromkeys(functions, int(count)))
    for title, counted in ("alone", alone), ("with callees", with_callees):
        print(f"\nheld the GIL, {title}:")
        for function, held in counted.most_common(40):
            print(f"{held / alone.total():6.1%}  {function}")
    return True
