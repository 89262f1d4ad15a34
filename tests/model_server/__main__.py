"""python -m tests.model_server: prints its URL as JSON and serves until it is stopped."""

import argparse
import json
import socket
import sys

import uvicorn

from tests.model_server.app import ModelServer


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0, help="0, the default, lets the system choose")
    parser.add_argument("--key", help="the API key that requests must bear; any without it")
    options = parser.parse_args()
    with socket.create_server(("127.0.0.1", options.port)) as listener:
        sys.stdout.write(json.dumps({"url": f"http://127.0.0.1:{listener.getsockname()[1]}/v1"}) + "\n")
        sys.stdout.flush()
        config = uvicorn.Config(ModelServer(key=options.key).app(), log_level="critical", lifespan="off")
        uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
