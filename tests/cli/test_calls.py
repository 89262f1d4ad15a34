import json
import signal
from typing import Any

import pytest

from tests.cli.conftest import PATIENCE, Callmcp, Start

PERSON = "+12025550100"
BUSY = "+12025550101"
SILENT = "+12025550111"
PLACE = ("calls", "place", "--agent", "agt_9f2a1c")


@pytest.fixture(autouse=True)
def initialised(callmcp: Callmcp) -> None:
    assert callmcp("init").returncode == 0


def listed(callmcp: Callmcp, *args: str) -> list[dict[str, Any]]:
    calls: list[dict[str, Any]] = json.loads(callmcp("calls", "list", "--json", *args).stdout)["calls"]
    return calls


def test_a_call_is_placed_told_as_it_happens_and_recorded(callmcp: Callmcp) -> None:
    done = callmcp(*PLACE, "--to", PERSON, "--context", "Confirm Tuesday.", "--metadata", "order=7=8", "--json")

    assert done.returncode == 0, done.stderr
    call = json.loads(done.stdout)
    assert (call["status"], call["answered_by"], call["metadata"]) == ("completed", "human", {"order": "7=8"})
    for turn in call["transcript"]:
        assert f"{turn['speaker']}: {turn['text']}\n" in done.stderr
    assert "in-progress" in done.stderr
    assert json.loads(callmcp("calls", "show", call["call_id"], "--json").stdout) == call
    assert "Confirm Tuesday." in callmcp("calls", "show", call["call_id"]).stdout


def test_the_same_idempotency_key_places_one_call(callmcp: Callmcp) -> None:
    first = callmcp(*PLACE, "--to", BUSY, "--idempotency-key", "once", "--json")
    again = callmcp(*PLACE, "--to", BUSY, "--idempotency-key", "once", "--json")

    assert json.loads(again.stdout)["call_id"] == json.loads(first.stdout)["call_id"]
    assert (json.loads(first.stdout)["replayed"], json.loads(again.stdout)["replayed"]) == (False, True)
    assert "nothing was dialled" in again.stderr
    other = callmcp(*PLACE, "--to", PERSON, "--idempotency-key", "once")
    assert other.returncode == 1
    assert len(listed(callmcp)) == 1


@pytest.mark.parametrize(
    ("args", "status", "words"),
    [
        (["--to", "555-1234"], 2, "E.164"),
        (["--to", "911"], 1, "emergency"),
        (["--to", PERSON, "--metadata", "order"], 2, "NAME=VALUE"),
        (["--to", PERSON, "--context", "x" * 8001], 2, "at most 8000"),
        (["--to", PERSON, "--account", "acme"], 1, "no account"),
        (["--to", PERSON, "--agent", "agt_000000"], 1, "no voice agent"),
    ],
)
def test_a_call_that_cannot_be_placed_is_refused_with_words(
    callmcp: Callmcp, args: list[str], status: int, words: str
) -> None:
    done = callmcp(*PLACE, *args)

    assert done.returncode == status
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert listed(callmcp) == []


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 130)])
def test_ctrl_c_hangs_up(callmcp: Callmcp, start: Start, number: signal.Signals, status: int) -> None:
    process = start(*PLACE, "--to", SILENT, "--json", CALLMCP_SIMULATOR_SPEED="0.01")
    assert process.stderr is not None
    assert " queued" in process.stderr.readline()

    process.send_signal(number)
    out, _ = process.communicate(timeout=PATIENCE)

    assert process.returncode == status
    assert json.loads(out)["status"] == "canceled"
    assert listed(callmcp)[0]["end_reason"] == "ended-by-caller"


def test_a_call_that_another_process_carries_is_ended_from_here(callmcp: Callmcp, start: Start) -> None:
    process = start(*PLACE, "--to", SILENT, "--json", CALLMCP_SIMULATOR_SPEED="0.01")
    assert process.stderr is not None
    assert " queued" in process.stderr.readline()
    (call,) = listed(callmcp)

    done = callmcp("calls", "end", call["call_id"], "--json")

    assert done.returncode == 0
    out, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0
    assert json.loads(out)["status"] == "canceled"
    assert callmcp("calls", "end", call["call_id"]).returncode == 0, "ending an ended call is success"


def test_the_list_is_narrowed_by_what_is_asked(callmcp: Callmcp) -> None:
    for _ in range(2):
        callmcp(*PLACE, "--to", BUSY)
    callmcp(*PLACE, "--to", PERSON)

    assert [call["to"] for call in listed(callmcp)] == [PERSON, BUSY, BUSY], "newest first"
    assert len(listed(callmcp, "--limit", "1")) == 1
    assert len(listed(callmcp, "--status", "busy")) == 2
    assert len(listed(callmcp, "--to", PERSON, "--agent", "agt_9f2a1c", "--since", "1h")) == 1
    assert listed(callmcp, "--until", "1h") == []
    assert callmcp("calls", "list", "--status", "dancing").returncode == 2
    lines = callmcp("calls", "list").stdout.splitlines()
    assert len(lines) == 4
    assert lines[0].split()[:3] == ["CALL_ID", "CREATED_AT", "STATUS"]


def test_another_accounts_call_is_not_there(callmcp: Callmcp) -> None:
    call = json.loads(callmcp(*PLACE, "--to", BUSY, "--json").stdout)
    callmcp("accounts", "create", "acme")

    for verb in ("show", "end"):
        done = callmcp("calls", verb, call["call_id"], "--account", "acme")
        assert done.returncode == 1
        assert "no call" in done.stderr
    assert listed(callmcp, "--account", "acme") == []
