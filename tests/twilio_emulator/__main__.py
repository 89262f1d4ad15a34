"""`python -m tests.twilio_emulator`: prints one line of JSON with its address, and serves until it is stopped."""

import argparse
import asyncio
import json
import sys

from tests.twilio_emulator.app import listen, serve
from tests.twilio_emulator.world import Settings


def main() -> None:
    defaults = Settings()
    parser = argparse.ArgumentParser(prog="python -m tests.twilio_emulator", description="A Twilio to test against.")
    parser.add_argument("--port", type=int, default=0, help="0 takes a free one")
    parser.add_argument("--speed", type=float, default=1.0, help="how many seconds pass in one")
    parser.add_argument("--cps", type=float, default=1.0, help="calls a second that leave the queue")
    parser.add_argument("--account-sid", default=defaults.account_sid)
    parser.add_argument("--auth-token", default=defaults.auth_token)
    parser.add_argument("--api-key", default=defaults.api_key)
    parser.add_argument("--api-secret", default=defaults.api_secret)
    parser.add_argument("--number", action="append", help="a number the account may call from, E.164; repeatable")
    parser.add_argument(
        "--route", action="append", default=[], metavar="PUBLIC=REAL", help="phone.example.net=127.0.0.1:80"
    )
    parser.add_argument("--loopback-ws", action="store_true", help="takes ws:// to this machine for wss://")
    given = parser.parse_args()
    settings = Settings(
        account_sid=given.account_sid,
        auth_token=given.auth_token,
        api_key=given.api_key,
        api_secret=given.api_secret,
        speed=given.speed,
        cps=given.cps,
        numbers=given.number or defaults.numbers,
        loopback_ws=given.loopback_ws,
        routes=dict(route.split("=", 1) for route in given.route),
    )
    listening = listen(given.port)
    port = listening.getsockname()[1]
    sys.stdout.write(json.dumps({"url": f"http://127.0.0.1:{port}", "account_sid": settings.account_sid}) + "\n")
    sys.stdout.flush()
    asyncio.run(serve(settings, listening))


if __name__ == "__main__":
    main()
