"""Whole talks with a language model over Twilio, through an official MCP client: the record has what was heard."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client

from tests.acceptance.mcp_client import FINAL
from tests.acceptance.model import ModelProcess, model_server
from tests.acceptance.server import Server, callmcp
from tests.acceptance.test_twilio import a_number, heard
from tests.acceptance.twilio import Twilio, on_twilio, twilio

GREETING = "Hello, this is the AI assistant of Example Clinic."


@pytest.fixture(scope="module")
def carrier() -> Iterator[Twilio]:
    with twilio() as carrier:
        yield carrier


@pytest.fixture(scope="module")
def model() -> Iterator[ModelProcess]:
    with model_server() as model:
        yield model


@pytest.fixture(autouse=True)
def _nothing_that_twilio_or_openai_would_object_to(carrier: Twilio, model: ModelProcess) -> Iterator[None]:
    model.reset()
    yield
    state = carrier.state()
    assert state["violations"] == []
    assert state["faults"] == []
    assert model.refused() == []


def agent(server: Server, *options: str) -> str:
    """A voice agent of its own, defined by the operator while the server runs."""
    shown = callmcp("agents", "create", "--name", "Ada", "--greeting", GREETING, "--json", *options, data=server.data)
    return str(json.loads(shown)["agent_id"])


def called(server: Server, **arguments: Any) -> dict[str, Any]:
    """Places a call with the official client and follows it to its end, as an agent would."""

    async def follow() -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {server.first_key}"}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            streamable_http_client(server.endpoint, http_client=http) as streams,
            ClientSession(streams[0], streams[1]) as session,
            asyncio.timeout(60),
        ):
            await session.initialize()
            placed = await session.call_tool("make_call", arguments)
            record: dict[str, Any] = placed.structured_content or {}
            assert record, placed
            while record["status"] not in FINAL:
                waiting = {"call_id": record["call_id"], "wait_seconds": 20}
                record = (await session.call_tool("get_call", waiting)).structured_content or {}
            return record

    return asyncio.run(follow())


def said(record: dict[str, Any]) -> list[tuple[str, str]]:
    return [(turn["speaker"], turn["text"]) for turn in record["transcript"]]


PICKS_UP = [{"do": "listen"}, {"do": "say", "text": "Yes, what is it about?"}]
STOP = {"do": "say", "text": "Stop, who are you?"}
RATHER_NOT = {"do": "say", "text": "We would rather not be called about this."}
LEAVES = [{"do": "say", "text": "Goodbye."}, {"do": "listen"}, {"do": "stay"}]


@pytest.fixture(scope="module")
def server(carrier: Twilio, model: ModelProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One that has spoken through a model already: the first time takes seconds, and these callees live in a hurry."""
    with on_twilio(tmp_path_factory.mktemp("data"), carrier) as server:
        to = a_number()
        carrier.plan(to=to, callee={"rings": 1, "amd": "human", "steps": [*PICKS_UP, {"do": "listen"}, *LEAVES]})
        called(server, agent_id=agent(server, "--model", model.named("instant")), to=to)
        yield server


def test_an_interruption_in_a_streamed_answer_stops_the_model_and_it_is_told_what_was_heard(
    carrier: Twilio, server: Server, model: ModelProcess
) -> None:
    to = a_number()
    steps = [
        *PICKS_UP,
        {"do": "listen", "words": 6},
        {"do": "say", "text": "Stop, who are you?"},
        {"do": "listen"},
        *LEAVES,
    ]
    carrier.plan(to=to, callee={"rings": 1, "amd": "human", "steps": steps})
    words = [f"word{number} " for number in range(200)]
    model.plan({"say": words, "pace": 0.02}, {"say": "I am Ada."}, {"say": "Bye.", "tools": [{"name": "end_call"}]})

    record = called(server, agent_id=agent(server, "--model", model.named("instant")), to=to)

    assert said(record) == heard(carrier.call_to(to))
    told = said(record)
    assert told[2][0] == "agent"
    assert told[2][1].startswith("word0 word1")
    assert len(told[2][1].split()) < 20
    first, second, *_ = model.requests(wait=3)
    assert first["state"] == "cancelled"
    assert first["pieces"] < 200
    assert [message["content"] for message in second["messages"][-2:]] == [told[2][1], "Stop, who are you?"]


@pytest.mark.parametrize("message", [None, "Please call Example Clinic back, I am an AI."])
def test_a_voicemail_gets_the_message_if_there_is_one(
    carrier: Twilio, server: Server, model: ModelProcess, message: str | None
) -> None:
    to = a_number()
    carrier.plan(to=to, callee="voicemail")
    more = {} if message is None else {"voicemail_message": message}

    record = called(server, agent_id=agent(server, "--model", model.named("instant")), to=to, **more)

    assert (record["answered_by"], record["end_reason"], record["outcome"]["goal_met"]) == ("machine", "machine", "no")
    assert record.get("voicemail_left") == (None if message is None else True)
    if message is not None:  # without one the line is cut off in mid-word, and how much of it was heard nobody says
        assert said(record)[-1] == ("agent", f"This is an AI assistant calling for Ada. {message}")
        assert said(record) == heard(carrier.call_to(to))


def test_a_wish_not_to_be_called_that_only_the_model_hears_is_kept(
    carrier: Twilio, server: Server, model: ModelProcess
) -> None:
    to = a_number()
    steps = [
        {"do": "listen"},
        {"do": "say", "text": "We would rather not be called about this."},
        {"do": "listen"},
        {"do": "stay"},
    ]
    carrier.plan(to=to, callee={"rings": 1, "amd": "human", "steps": steps})

    record = called(server, agent_id=agent(server, "--model", model.named("tools")), to=to)

    assert record["opt_out"] is True
    assert "do not call this number again" in record["next_step"]
    assert record["end_reason"] == "agent-hung-up"
    assert said(record) == heard(carrier.call_to(to))


def test_a_phone_menu_gets_its_key(carrier: Twilio, server: Server, model: ModelProcess) -> None:
    to = a_number()
    menu = [{"do": "say", "text": "For appointments, press 2."}, {"do": "wait", "seconds": 6}]
    desk = [{"do": "say", "text": "Reception, how can I help?"}, {"do": "listen"}, *LEAVES]
    carrier.plan(to=to, callee={"rings": 1, "amd": "unknown", "steps": [{"do": "listen"}, *menu, *desk]})

    record = called(server, agent_id=agent(server, "--model", model.named("tools")), to=to)

    assert ("agent", "[pressed 2]") in said(record)
    assert record["end_reason"] == "agent-hung-up"
    told = carrier.call_to(to)["transcript"]
    assert said(record) == [
        (turn["by"], f"[pressed {turn['digits']}]" if turn["digits"] else turn["text"]) for turn in told
    ]


def test_questions_are_answered_with_evidence_and_a_bad_answer_spoils_no_other(
    carrier: Twilio, server: Server, model: ModelProcess
) -> None:
    to = a_number()
    steps = [
        *PICKS_UP,
        {"do": "listen"},
        {"do": "say", "text": "Sunday would be best."},
        {"do": "listen"},
        {"do": "say", "text": "Oh, quite a few of us."},
        {"do": "listen"},
        *LEAVES,
    ]
    carrier.plan(to=to, callee={"rings": 1, "amd": "human", "steps": steps})
    noted = {"name": "record_answer", "arguments": {"name": "day", "value": "Sunday"}}
    answers = [
        {"name": "guests", "value": "quite a few", "evidence": 5},
        {"name": "vegan", "value": "no", "evidence": 99},
        {"name": "phone", "value": "", "evidence": -1},
    ]
    judged = {"goal_met": "partly", "summary": "A day was found.", "answers": answers}
    model.plan(
        {"say": "Which day?"},
        {"say": "And how many are you?", "tools": [noted]},
        {"say": "Thank you."},
        {"say": "Goodbye.", "tools": [{"name": "end_call"}]},
        {"tools": [{"name": "report_outcome", "arguments": judged}]},
    )
    questions = [
        {"name": "day", "question": "Which day?", "type": "choice", "choices": ["Friday", "Sunday"]},
        {"name": "guests", "question": "How many?", "type": "number"},
        {"name": "vegan", "question": "Is anybody vegan?", "type": "boolean"},
        {"name": "phone", "question": "Which number?"},
    ]

    record = called(server, agent_id=agent(server, "--model", model.named("instant")), to=to, questions=questions)

    day, guests, vegan, phone = record["outcome"]["answers"]
    assert (record["outcome"]["goal_met"], record["outcome"]["summary"]) == ("partly", "A day was found.")
    assert (day["value"], day["evidence"], "error" in day) == ("Sunday", 3, False)
    assert record["transcript"][day["evidence"]]["text"] == "Sunday would be best."
    assert guests == {"name": "guests", "error": "'quite a few' is not a number"}
    assert (vegan["value"], "99" in vegan["error"]) == (False, True)
    assert phone == {"name": "phone", "error": "the talk gave no answer to it"}
    assert said(record) == heard(carrier.call_to(to))


@pytest.mark.parametrize("broken", ["failing", "cut", "stuck"])
def test_another_model_goes_on_when_one_fails(
    carrier: Twilio, server: Server, model: ModelProcess, broken: str
) -> None:
    to = a_number()
    carrier.plan(to=to, callee={"rings": 1, "amd": "human", "steps": [*PICKS_UP, {"do": "listen"}, *LEAVES]})
    models = ["--model", model.named(broken), "--fallback", model.named("tools")]

    record = called(server, agent_id=agent(server, *models), to=to)

    assert (record["end_reason"], record["outcome"]["goal_met"]) == ("agent-hung-up", "yes")
    assert "error" not in record
    assert any("And what else?" in text for _, text in said(record))
    assert said(record) == heard(carrier.call_to(to))


def test_a_talk_whose_models_all_fail_ends_politely_and_says_why(
    carrier: Twilio, server: Server, model: ModelProcess
) -> None:
    to = a_number()
    carrier.plan(to=to, callee={"rings": 1, "amd": "human", "steps": [*PICKS_UP, {"do": "listen"}, {"do": "stay"}]})
    models = ["--model", model.named("failing"), "--fallback", model.named("rate-limited")]

    record = called(server, agent_id=agent(server, *models), to=to)

    assert record["error"]["code"] == "model_failed"
    assert "technical problem" in said(record)[-1][1]
    assert record["outcome"]["goal_met"] == "unknown"


def test_markup_is_not_read_aloud_and_breaks_nothing(carrier: Twilio, server: Server, model: ModelProcess) -> None:
    to = a_number()
    carrier.plan(to=to, callee={"rings": 1, "amd": "human", "steps": [*PICKS_UP, {"do": "listen"}, {"do": "hang-up"}]})

    record = called(server, agent_id=agent(server, "--model", model.named("markup")), to=to)

    told = carrier.call_to(to)["transcript"][2]["text"]
    assert told.split() == ["Fish", "and", "chips,", "today", "for", "10", "pounds."]
    assert not set("<&*`") & set(told)
    assert record["end_reason"] == "callee-hung-up"
