"""Calls over a Twilio that misbehaves in two ways at once, and over servers that are killed between any two steps.

    python -m tests.acceptance.soak_twilio --seconds 600 --seed 1

Prints a line a call and the promises that were broken; exits 1 if there were any. Not a part of the test suite.
"""

import argparse
import contextlib
import itertools
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.acceptance.mcp_client import Failed, Mcp, is_final
from tests.acceptance.server import Server
from tests.acceptance.twilio import Twilio, free_port, on_twilio, twilio

SETTLED_WITHIN_SECONDS = 40
KILLS_SPEED = 8
RINGS_BEFORE_KILLS = 40  # so that a server can be back before somebody answers
CONTEXT = "Ask whether Friday at seven is fine."
PAIRS_AT_ONCE = 4

TALK = [
    {"do": "listen"},
    {"do": "say", "text": "Hello, who is this?"},
    {"do": "listen"},
    {"do": "say", "text": "Yes, that is fine with me."},
    {"do": "listen"},
    {"do": "say", "text": "No, that is all. Goodbye."},
    {"do": "listen"},
    {"do": "stay"},
]
CALLEES: dict[str, dict[str, Any]] = {
    "talks": {"rings": 1, "amd": "human", "steps": TALK},
    "interrupts": {"rings": 1, "amd": "human", "steps": [{"do": "listen", "words": 4}, *TALK[1:]]},
    "leaves": {"rings": 1, "amd": "human", "steps": [*TALK[:3], {"do": "hang-up"}]},
    "voicemail": {"rings": 1, "amd": "machine", "steps": [{"do": "say", "text": "Please leave a message."}]},
    "busy": {"rings": 1, "outcome": "busy"},
    "no-answer": {"rings": 1, "outcome": "no-answer"},
}
SWITCHES: list[dict[str, Any]] = [
    *({"switch": switch} for switch in ("rate-limited", "close", "error-500", "error-503", "html-502")),
    *({"switch": switch} for switch in ("error-500-processed", "html-502-processed", "reset-processed")),
    *({"switch": switch} for switch in ("hang-processed", "callback-first", "reorder", "no-ringing", "silent")),
    *({"switch": switch} for switch in ("amd-after-hangup", "action-unreachable", "relay-refused")),
    {"switch": "slow", "seconds": 2},
    {"switch": "refuse", "code": 21217},
    {"switch": "relay-cut", "words": 3},
    *({"switch": switch, "event": "*"} for switch in ("duplicate", "drop", "forge", "bad-signature")),
    *(
        {"switch": switch, "event": event}
        for switch in ("drop", "delay", "duplicate", "bad-signature")
        for event in ("initiated", "ringing", "answered", "completed", "amd", "action")
    ),
    *({"switch": "error-500", "on": on, "times": 2} for on in ("fetch", "list", "update")),
    *({"switch": "html-502", "on": on, "times": 5} for on in ("fetch", "list", "update")),
]

Entry = dict[str, Any]


def _callback(event: str) -> Callable[[Entry], bool]:
    return lambda entry: entry["kind"] == "callback" and entry["event"] == event


def _is(kind: str, words: str = "", **facts: str) -> Callable[[Entry], bool]:
    return lambda entry: (
        entry["kind"] == kind
        and words in str(entry.get("frame", ""))
        and all(entry.get(name) == value for name, value in facts.items())
    )


# What the emulator sees of a step, and what must be arranged for it to be seen.
STEPS: dict[str, tuple[Callable[[Entry], bool], list[dict[str, Any]]]] = {
    "intent stored": (_is("request", on="create"), [{"switch": "hang"}]),
    "placed": (_is("placed"), [{"switch": "slow", "seconds": 3}]),
    "201": (_is("answer", on="create"), []),
    "initiated": (_callback("initiated"), []),
    "ringing": (_callback("ringing"), []),
    "answered": (_is("status", status="in-progress"), []),
    "relay connected": (_is("relay-connect"), []),
    "first words": (_is("frame-in", '"text"'), []),
    "first turn": (_is("frame-out", "prompt"), []),
    "mid-turn": (_is("frame-in", '"last":false'), []),
    "mid-talk": (_is("frame-in", "Is there anything else"), []),
    "end sent": (_is("frame-in", '"end"'), []),
    "relay closed": (_is("relay-closed"), []),
    "action": (_callback("action"), []),
    "over": (_is("status", status="completed"), []),
    "completed": (_callback("completed"), []),
}


@dataclass
class Row:
    what: str
    callee: str
    record: dict[str, Any]
    call: dict[str, Any] | None
    seconds: float
    broken: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        record, call = self.record, self.call or {}
        told = f"{record.get('status')} {record.get('end_reason')} {record.get('answered_by', '-')}"
        knows = (
            f"{call.get('status', 'never placed')} by {call.get('ended_by') or '-'} {call.get('answered_by') or '-'}"
        )
        turns = f"{len(record.get('transcript', []))}/{len(call.get('transcript', []))}"
        verdict = "; ".join(self.broken) or "ok"
        return f"{self.what:58} {self.callee:10} {told:38} | {knows:34} {turns:5} {self.seconds:5.1f} s  {verdict}"


@dataclass
class Soak:
    chance: random.Random
    steps: Sequence[str]
    rows: list[Row] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(100))

    def number(self) -> str:
        return f"+1415{next(self.numbers):05}99"

    def add(self, row: Row) -> None:
        self.rows.append(row)
        print(row, flush=True)  # noqa: T201


class Client(Mcp):
    """One to which a server that runs never answers with 5xx, or it is noted."""

    def __init__(self, base: str, key: str) -> None:
        super().__init__(base, key)
        self.failed: list[str] = []

    def send(self, method: str, params: dict[str, Any]) -> httpx.Response:
        response = super().send(method, params)
        if response.status_code >= 500:
            self.failed.append(f"HTTP {response.status_code} to {params.get('name')}")
        return response


def placed(mcp: Mcp, to: str) -> str:
    """The call, also when it was refused. The same key each time, as a client that is not sure does it."""
    try:
        return str(mcp.place(to, context=CONTEXT, idempotency_key=to)["call_id"])
    except Failed:
        return next(str(call["call_id"]) for call in mcp.all_calls() if call["to"] == to)


def settled(mcp: Mcp, call_id: str) -> dict[str, Any]:
    """The record, final if it becomes so in time."""
    try:
        return mcp.until(call_id, is_final, seconds=SETTLED_WITHIN_SECONDS)
    except AssertionError:
        return mcp.get(call_id)


def lies(  # noqa: PLR0912
    record: dict[str, Any], call: dict[str, Any] | None, dials: int, events: Sequence[Entry]
) -> Iterator[str]:
    """What the record says that is not so, by what the emulator knows. `call` None: it was never placed."""
    if not is_final(record):
        yield f"not settled in {SETTLED_WITHIN_SECONDS} s"
        return
    if dials > 1:
        yield f"DIALLED {dials} TIMES"
    said = [(turn["speaker"], turn["text"]) for turn in record["transcript"]]
    if call is None:
        if record["status"] != "failed" or record["end_reason"] not in {"carrier-silent", "carrier-refused"} or said:
            yield "was never placed"
        return
    if record["status"] != call["status"]:
        yield f"was {call['status']}"
    heard = [(turn["by"], turn["text"]) for turn in call["transcript"]]
    if not (_is_beginning(said, heard) or _is_cut_off_by_us(said, heard, call)):
        yield f"said {said} heard {heard}"
    answered_by = {"machine_start": "machine"}.get(call["answered_by"] or "", call["answered_by"])
    if record.get("answered_by") not in {None, answered_by}:
        yield f"answered by {answered_by}"
    reason = record["end_reason"]
    ended = any(entry["kind"] == "frame-in" and '"end"' in entry["frame"] for entry in events)
    if reason == "agent-hung-up" and not ended:
        yield "the agent did not end it"
    if reason == "callee-hung-up" and call["ended_by"] != "callee":
        yield "the callee did not hang up"
    if reason == "machine" and answered_by not in {"machine", "fax"}:
        yield "no machine answered"
    if reason == "ended-by-caller":
        yield "nobody asked for its end"
    if record.get("outcome", {}).get("goal_met") == "yes" and ("callee", TALK[3]["text"]) not in heard:
        yield "nobody agreed"
    if "outcome" not in record:
        yield "has no outcome"


def _is_beginning(said: list[tuple[str, str]], heard: list[tuple[str, str]]) -> bool:
    """Of the last thing a part may be missing: it was cut off, or was not told before the end."""
    if not said:
        return True
    *whole, (speaker, text) = said
    rest = heard[len(whole) :]
    return heard[: len(whole)] == whole and bool(rest) and rest[0][0] == speaker and rest[0][1].startswith(text)


def _is_cut_off_by_us(said: list[tuple[str, str]], heard: list[tuple[str, str]], call: dict[str, Any]) -> bool:
    """We hung up on a machine: what it plays over the agent is not reported, and Twilio reports as played what was on
    its way when the line went dead."""
    ours, theirs = ([text for by, text in turns if by == "agent"] for turns in (said, heard))
    whole = len(ours) - 1
    return (
        call["answered_by"] == "machine_start"
        and ours[:whole] == theirs[:whole]
        and bool(ours)
        and (theirs[whole:] == [] or ours[whole].startswith(theirs[whole]) or theirs[whole].startswith(ours[whole]))
    )


def told(carrier: Twilio, to: str) -> tuple[dict[str, Any] | None, int, list[Entry]]:
    """What the emulator knows: the call, how often the number was dialled, and the journal of the call."""
    dials = carrier.dials(to)
    if not dials:
        return None, 0, []
    sids = [call["sid"] for call in _json(carrier, "/_control/calls", to=to)]
    call = _json(carrier, f"/_control/calls/{sids[0]}", wait=20)
    return call, max(dials, len(sids)), _entries(carrier, call=sids[0])


def _json(carrier: Twilio, path: str, **query: Any) -> Any:
    answer = carrier.http.get(path, params=query)
    assert answer.status_code == 200, answer.text
    return answer.json()


def _entries(carrier: Twilio, **query: Any) -> list[Entry]:
    found = _json(carrier, "/_control/events", **query)
    entries: list[Entry] = found if isinstance(found, list) else found["events"]
    return entries


# Two things go wrong at once.


def pairs(soak: Soak, data: Path, until: float) -> None:
    with twilio() as carrier, on_twilio(data, carrier) as server:
        with ThreadPoolExecutor(PAIRS_AT_ONCE) as clients:
            tasks = []
            drawn = [
                (soak.chance.sample(SWITCHES, 2), soak.chance.choice([*CALLEES, *["talks"] * 5]), soak.number())
                for _ in range(5000)
            ]
            waiting = iter(drawn)
            turn = threading.Lock()

            def work() -> None:
                with Client(server.base, server.first_key) as mcp:
                    while time.monotonic() < until:
                        with turn:
                            chaos, callee, to = next(waiting)
                        soak.add(_pair(carrier, mcp, chaos, callee, to))

            tasks = [clients.submit(work) for _ in range(PAIRS_AT_ONCE)]
            for task in tasks:
                task.result()
        _leaves_no_trace(soak, "pairs", carrier, [server.log])


def _pair(carrier: Twilio, mcp: Client, chaos: list[dict[str, Any]], callee: str, to: str) -> Row:
    carrier.plan(to=to, callee=CALLEES[callee], chaos=chaos)
    began = time.monotonic()
    call_id = placed(mcp, to)
    again = placed(mcp, to)
    record = settled(mcp, call_id)
    seconds = time.monotonic() - began
    call, dials, events = told(carrier, to)
    row = Row(" + ".join(_named(one) for one in chaos), callee, record, call, seconds)
    row.broken += lies(record, call, dials, events)
    row.broken += mcp.failed
    mcp.failed.clear()
    if again != call_id:
        row.broken.append("the key gave another call")
    later = mcp.get(call_id)
    changed = {name for name in later if later[name] != record.get(name)}
    if "answered_by" not in record:  # detection may come after the end
        changed.discard("answered_by")
    row.broken += [f"{name} changed after the end" for name in changed]
    return row


def _named(chaos: dict[str, Any]) -> str:
    return ":".join(str(chaos[name]) for name in ("switch", "event", "on") if name in chaos)


# The server is killed between two steps.


def kills(soak: Soak, data: Path, until: float) -> None:
    port = free_port()
    logs: list[Path] = []
    with twilio("--speed", str(KILLS_SPEED)) as carrier:
        with on_twilio(data, carrier, port=port) as server:
            key = server.first_key
        for round_ in itertools.count():
            for step in soak.steps:
                if time.monotonic() > until and round_ > 0:
                    _leaves_no_trace(soak, "kills", carrier, logs)
                    return
                soak.add(_kill(soak, carrier, data, port, step, logs, key))


def _kill(  # noqa: PLR0917
    soak: Soak, carrier: Twilio, data: Path, port: int, step: str, logs: list[Path], key: str
) -> Row:
    sees, chaos = STEPS[step]
    to = soak.number()
    carrier.plan(to=to, callee=CALLEES["talks"] | {"rings": RINGS_BEFORE_KILLS}, chaos=chaos)
    after = len(_entries(carrier))
    began = time.monotonic()
    with on_twilio(data, carrier, port=port, key=key) as server, Client(server.base, server.first_key) as mcp:
        placing = threading.Thread(target=_place_until_killed, args=(mcp, to))
        placing.start()
        reached = _reached(carrier, sees, after)
        server.kill()
        placing.join()
        logs.append(_kept(server, len(logs)))
        broken = list(mcp.failed)
    if not reached:
        broken.append("the step was not reached")
    time.sleep(soak.chance.choice([0, 0, 0.3, 1, 2]))
    with on_twilio(data, carrier, port=port, key=key) as server, Client(server.base, key) as mcp:
        record = settled(mcp, placed(mcp, to))
        seconds = time.monotonic() - began
        call, dials, events = told(carrier, to)
        row = Row(f"killed at: {step}", "talks", record, call, seconds, broken)
        row.broken += lies(record, call, dials, events)
        row.broken += mcp.failed
        logs.append(_kept(server, len(logs)))
    return row


def _place_until_killed(mcp: Mcp, to: str) -> None:
    with contextlib.suppress(httpx.HTTPError):  # it was killed
        mcp.place(to, context=CONTEXT, idempotency_key=to)


def _reached(carrier: Twilio, sees: Callable[[Entry], bool], after: int) -> bool:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        for entry in _entries(carrier, after=after, wait=1):
            after = entry["n"]
            if sees(entry):
                return True
    return False


def _kept(server: Server, number: int) -> Path:
    return server.log.rename(server.log.with_name(f"serve-{number}.log"))


def _leaves_no_trace(soak: Soak, what: str, carrier: Twilio, logs: Sequence[Path]) -> None:
    """Neither a traceback of ours nor anything Twilio would object to."""
    row = Row(f"{what}: logs and violations", "", {}, None, 0)
    for log in logs:
        text = log.read_text()
        if "Traceback" in text:
            row.broken.append(f"traceback: {text[text.index('Traceback') :][:1500]}")
    state = carrier.state()
    row.broken += [f"violation: {entry}" for entry in (*state["violations"], *state["faults"])]
    soak.add(row)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600, help="how long in all, about (default 600)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=["pairs", "kills"])
    parser.add_argument("--step", action="append", choices=list(STEPS), help="kill at this one alone; may be repeated")
    options = parser.parse_args()
    print(f"seed {options.seed}, {options.seconds:g} s", flush=True)  # noqa: T201
    chance = random.Random(options.seed)  # noqa: S311 - to be repeated, not to be secret
    soak = Soak(chance, options.step or list(STEPS))
    parts = [part for part in (pairs, kills) if options.only in {None, part.__name__}]
    for part in parts:
        with tempfile.TemporaryDirectory() as data:
            part(soak, Path(data), time.monotonic() + options.seconds / len(parts))
    ends = Counter(f"{row.record.get('status')} {row.record.get('end_reason')}" for row in soak.rows if row.record)
    broken = [row for row in soak.rows if row.broken]
    print(f"\n{len(soak.rows)} rows, {len(broken)} broken; ends: {dict(ends.most_common())}")  # noqa: T201
    print(*broken, sep="\n")  # noqa: T201
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
