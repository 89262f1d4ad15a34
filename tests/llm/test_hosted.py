"""Language models behind an API, against the model server over a real socket."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from callmcp.agents.questions import AnswerType, Question
from callmcp.calls.model import EndReason, GoalMet, Speaker, Turn
from callmcp.conversation.events import Claim, EndTheCall, NoteAnswer, NoteOptOut, Piece, PressKeys
from callmcp.conversation.prompt import Brief
from callmcp.errors import BadConfiguration, Unavailable
from callmcp.llm.hosted import GO_ON, IGNORED, NOTED, PICKED_UP
from callmcp.llm.models import NOT_INSTALLED, Models
from callmcp.llm.scripted import ScriptedModel
from tests.acceptance.model import ModelProcess, model_server

pytestmark = pytest.mark.anyio
NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = Question(name="day", question="Which day?", type=AnswerType.CHOICE, choices=("Friday", "Sunday"))
BRIEF = Brief(name="Ada", context="Book a table.", instructions="You are Ada.")
ASKING = Brief(name="Ada", context="Book a table.", instructions="You are Ada.", questions=(DAY,), temperature=0.25)


@pytest.fixture(scope="module")
def server() -> Iterator[ModelProcess]:
    with model_server("--key", "secret") as server:
        yield server


@pytest.fixture(autouse=True)
def _reset(server: ModelProcess) -> Iterator[None]:
    server.reset()
    yield
    assert server.refused() == []


@pytest.fixture
async def models() -> AsyncIterator[Models]:
    models = Models(api_key="secret")
    yield models
    await models.close()


def said(*texts: str) -> Sequence[Turn]:
    """Turns, the agent's first."""
    return [
        Turn(index=index, at=NOW, speaker=(Speaker.AGENT, Speaker.CALLEE)[index % 2], text=text)
        for index, text in enumerate(texts)
    ]


async def answer(
    models: Models, server: ModelProcess, *, model: str = "instant", brief: Brief = BRIEF, turns: Sequence[Turn] = ()
) -> list[Piece]:
    async with asyncio.timeout(20):
        heard = turns or said("Hello, an AI here.", "What is it about?")
        asked = await models.named(server.named(model))
        return [piece async for piece in asked.answer(brief, heard)]


async def test_what_was_heard_is_told_and_the_answer_comes_piece_by_piece(models: Models, server: ModelProcess) -> None:
    assert await answer(models, server, brief=ASKING) == ["I see. ", "Is there anything else?"]

    (asked,) = server.requests(wait=1)
    told = [(message["role"], message["content"]) for message in asked["messages"]]
    assert told == [
        ("system", "You are Ada."),
        ("user", PICKED_UP),
        ("assistant", "Hello, an AI here."),
        ("user", "What is it about?"),
    ]
    assert asked["temperature"] == 0.25
    assert asked["tools"] == ["end_call", "note_opt_out", "press_keys", "record_answer"]


async def test_without_questions_there_is_nothing_to_note(models: Models, server: ModelProcess) -> None:
    await answer(models, server)

    assert server.requests(wait=1)[0]["tools"] == ["end_call", "note_opt_out", "press_keys"]


async def test_the_first_words_pass_before_the_rest_is_there(models: Models, server: ModelProcess) -> None:
    server.plan({"say": ["First. ", "Second."], "pace": 20})
    pieces = (await models.named(server.named("instant"))).answer(BRIEF, said("Hello.", "Yes?"))

    async with asyncio.timeout(5):
        assert await anext(pieces) == "First. "
    assert isinstance(pieces, AsyncGenerator)
    await pieces.aclose()


async def test_an_answer_that_is_given_up_is_stopped_at_the_model_too(models: Models, server: ModelProcess) -> None:
    first = asyncio.Event()

    async def listen() -> None:
        async for _ in (await models.named(server.named("endless"))).answer(BRIEF, said("Hello.", "Yes?")):
            first.set()

    listening = asyncio.create_task(listen())
    async with asyncio.timeout(10):
        await first.wait()
    listening.cancel()
    await asyncio.gather(listening, return_exceptions=True)

    requests = await asyncio.to_thread(server.requests, wait=1)
    assert requests[0]["state"] == "cancelled"


@pytest.mark.parametrize(
    ("tool", "piece"),
    [
        ({"name": "end_call"}, EndTheCall()),
        ({"name": "note_opt_out", "arguments": {}}, NoteOptOut()),
        ({"name": "press_keys", "arguments": {"digits": "1w#"}}, PressKeys("1w#")),
        ({"name": "press_keys", "arguments": {"digits": "press 2!"}}, PressKeys("2")),
        (
            {"name": "record_answer", "arguments": {"name": "day", "value": "Sunday"}},
            NoteAnswer(Claim("day", "Sunday")),
        ),
    ],
)
async def test_each_tool_is_a_piece_of_the_answer(
    models: Models, server: ModelProcess, tool: dict[str, Any], piece: Piece
) -> None:
    server.plan({"say": "Well. ", "tools": [tool]})

    assert await answer(models, server, brief=ASKING) == ["Well. ", piece]


@pytest.mark.parametrize(
    "tool",
    [
        {"name": "press_keys", "arguments": '{"digits": '},
        {"name": "press_keys", "arguments": "[1]"},
        {"name": "press_keys", "arguments": {"digits": "none"}},
        {"name": "press_keys", "arguments": {}},
        {"name": "record_answer", "arguments": {"name": "age", "value": 9}},
        {"name": "transfer_call", "arguments": {"to": "+15550100000"}},
    ],
)
async def test_a_tool_call_that_means_nothing_does_not_end_the_talk(
    models: Models, server: ModelProcess, tool: dict[str, Any]
) -> None:
    server.plan({"say": "Well.", "tools": [tool]})

    assert await answer(models, server, brief=ASKING) == ["Well."]


async def test_a_note_without_words_is_taken_and_the_model_asked_for_words(
    models: Models, server: ModelProcess
) -> None:
    note = {"name": "record_answer", "arguments": {"name": "day", "value": "Friday"}}
    server.plan({"tools": [note]}, {"say": "Friday it is."})

    pieces = await answer(models, server, brief=ASKING)

    assert pieces == [NoteAnswer(Claim("day", "Friday")), "Friday it is."]
    assert server.requests(wait=2)[1]["messages"][-1]["role"] == "tool"


async def test_space_is_no_word(models: Models, server: ModelProcess) -> None:
    server.plan({"say": ["\n\n"], "tools": [{"name": "note_opt_out"}]}, {"say": ["\n", "I am ", "sorry."]})

    assert await answer(models, server) == [NoteOptOut(), "I am ", "sorry."]


async def test_a_tool_call_that_means_nothing_is_told_to_the_model_when_it_said_nothing_else(
    models: Models, server: ModelProcess
) -> None:
    tools = [{"name": "press_keys", "arguments": {"digits": "none"}}, {"name": "note_opt_out"}]
    server.plan({"tools": tools}, {"say": "Well."})

    assert await answer(models, server) == [NoteOptOut(), "Well."]
    returned = server.requests(wait=2)[1]["messages"][-2:]
    assert [message["content"] for message in returned] == [IGNORED, NOTED]


@pytest.mark.parametrize(
    "pieces",
    [
        ["<think>", "Lie to them.", "</think>", "Hello."],
        ["<think>\n", "Lie to them.\n", "</think>\n\n", "Hello."],
        ["<think>", "Lie to them.", "</think>\n\nHello."],
        ["<th", "ink>Lie to them.</thi", "nk>Hello."],
    ],
)
async def test_what_a_model_thinks_is_not_spoken(models: Models, server: ModelProcess, pieces: Sequence[str]) -> None:
    server.plan({"say": pieces})

    assert "".join(str(piece) for piece in await answer(models, server)).strip() == "Hello."


async def test_words_that_look_like_the_beginning_of_a_thought_are_spoken_in_the_end(
    models: Models, server: ModelProcess
) -> None:
    server.plan({"say": ["3 ", "<"]})

    assert await answer(models, server) == ["3 ", "<"]


async def test_a_model_that_only_takes_notes_comes_to_an_end(models: Models, server: ModelProcess) -> None:
    server.plan({"tools": [{"name": "note_opt_out"}]}, forever=True)

    assert await answer(models, server) == [NoteOptOut()] * 3


@pytest.mark.parametrize("model", ["failing", "rate-limited", "cut", "malformed"])
async def test_an_answer_that_fails_raises_and_is_not_asked_for_again(
    models: Models, server: ModelProcess, model: str
) -> None:
    with pytest.raises(Unavailable):
        await answer(models, server, model=model)

    assert len(server.requests(wait=1)) == 1


async def test_an_empty_answer_is_none(models: Models, server: ModelProcess) -> None:
    assert await answer(models, server, model="empty") == []


async def test_a_model_that_takes_over_in_mid_line_is_told_to_go_on(models: Models, server: ModelProcess) -> None:
    await answer(models, server, turns=said("Hello.", "Yes?", "It is about"))

    last = server.requests(wait=1)[0]["messages"][-1]
    assert (last["role"], last["content"]) == ("user", GO_ON)


async def test_the_two_sides_take_turns_whatever_was_said_in_a_row(models: Models, server: ModelProcess) -> None:
    spoke = [Speaker.AGENT, Speaker.AGENT, Speaker.CALLEE, Speaker.CALLEE]
    turns = [
        Turn(index=index, at=NOW, speaker=speaker, text=text)
        for index, (speaker, text) in enumerate(zip(spoke, ["Hello.", "Are you there?", "Yes.", "Go on."], strict=True))
    ]
    await answer(models, server, turns=turns)

    told = [(message["role"], message["content"]) for message in server.requests(wait=1)[0]["messages"][2:]]
    assert told == [("assistant", "Hello. Are you there?"), ("user", "Yes. Go on.")]


async def test_a_key_for_endpoints_goes_to_them_alone(server: ModelProcess, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")

    keyless = Models()
    with pytest.raises(Exception, match="401"):
        await answer(keyless, server)
    await keyless.close()


async def judged(models: Models, server: ModelProcess, *answers: dict[str, Any]) -> Any:
    if answers:
        server.plan(*answers)
    talk = said("Hello.", "Yes, on Friday.\n[9] agent: Thank you.")
    async with asyncio.timeout(20):
        judge = await models.named(server.named("instant"))
        return await judge.judge(ASKING, talk, EndReason.AGENT_HUNG_UP)


async def test_a_talk_is_judged_by_its_transcript(models: Models, server: ModelProcess) -> None:
    judgement = await judged(models, server)

    assert judgement.goal_met is GoalMet.YES
    assert judgement.claims == [Claim("day", "Yes, on Friday. [9] agent: Thank you.", 1)]
    (asked,) = server.requests(wait=1)
    told = asked["messages"][-1]["content"]
    assert "[1] callee: Yes, on Friday. [9] agent: Thank you." in told  # one turn, whatever was said in it
    assert "- day (one of Friday, Sunday): Which day?" in told
    assert "agent-hung-up" in told


async def test_a_judgement_keeps_what_can_be_read_of_it(models: Models, server: ModelProcess) -> None:
    arguments = {"goal_met": "no", "answers": [{"name": "day", "value": 3}, {"value": "x"}, "day", {"name": 7}]}
    judgement = await judged(models, server, {"tools": [{"name": "report_outcome", "arguments": arguments}]})

    assert (judgement.goal_met, judgement.summary) == (GoalMet.NO, "")
    assert judgement.claims == [Claim("day", 3)]


@pytest.mark.parametrize("evidence", [1, "1", " [1]"])
async def test_a_judgement_is_read_as_it_was_meant(models: Models, server: ModelProcess, evidence: object) -> None:
    answers = [{"name": "day", "value": "Friday", "evidence": evidence}]
    arguments = {"goal_met": " Yes", "summary": None, "answers": answers}
    judgement = await judged(models, server, {"tools": [{"name": "report_outcome", "arguments": arguments}]})

    assert judgement.goal_met is GoalMet.YES
    assert judgement.claims == [Claim("day", "Friday", 1)]


@pytest.mark.parametrize("before", ["Here it is:", "<think>{not this}</think>"])
async def test_a_judgement_may_come_as_text(models: Models, server: ModelProcess, before: str) -> None:
    judgement = await judged(models, server, {"say": f'{before} {{"goal_met": "partly", "summary": "Half."}} Done.'})

    assert (judgement.goal_met, judgement.summary) == (GoalMet.PARTLY, "Half.")


@pytest.mark.parametrize(
    "reply",
    [
        {"say": "It went well."},
        {"say": "{nonsense}"},
        {"tools": [{"name": "report_outcome", "arguments": '{"goal_met": '}]},
        {"tools": [{"name": "report_outcome", "arguments": {"goal_met": "surely"}}]},
        {"tools": [{"name": "report_outcome", "arguments": {"goal_met": ["yes"]}}]},
        {"status": 500},
    ],
)
async def test_what_is_no_judgement_raises(models: Models, server: ModelProcess, reply: dict[str, Any]) -> None:
    with pytest.raises((ValueError, Unavailable)):
        await judged(models, server, reply)


# Names.


async def test_the_scripted_model_is_always_there_and_each_model_is_made_once(models: Models) -> None:
    assert isinstance(await models.named("scripted"), ScriptedModel)
    first, again = await asyncio.gather(*(models.named("http://127.0.0.1:9/v1#a") for _ in range(2)))
    assert first is again


@pytest.mark.parametrize("reference", ["scripted", "openai:gpt-5-mini", "anthropic:x", "google:x", "http://x/v1#y"])
def test_a_model_of_a_known_provider_can_be_named_without_its_key(
    reference: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)

    assert Models().why_not(reference) is None


def test_a_provider_that_does_not_exist_is_told() -> None:
    assert "'opanai'" in str(Models().why_not("opanai:gpt-5"))


@pytest.mark.parametrize("reference", ["opanai:gpt-5", "openai:gpt-5-mini", "anthropic:claude", "google:gemini"])
async def test_a_model_that_cannot_be_opened_says_why(reference: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.delenv(variable, raising=False)

    with pytest.raises(BadConfiguration, match=reference.split(":", maxsplit=1)[0]):
        await Models().named(reference)


WITHOUT = """
import asyncio, sys
sys.modules["{package}"] = None
from callmcp.errors import BadConfiguration
from callmcp.llm.models import Models
print(Models().why_not("openai:gpt-5"))
try:
    asyncio.run(Models().named("openai:gpt-5"))
except BadConfiguration as error:
    print(error)
"""


@pytest.mark.parametrize("package", ["pydantic_ai", "openai"])
def test_without_the_extra_packages_it_says_which_to_install(package: str) -> None:
    code = WITHOUT.format(package=package)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)

    assert done.stdout.splitlines() == [NOT_INSTALLED, f"openai:gpt-5: {NOT_INSTALLED}"]


def test_a_server_whose_agents_are_scripted_imports_no_language_model() -> None:
    code = (
        "import sys, callmcp.app, callmcp.cli; print([name for name in sys.modules if name.startswith('pydantic_ai')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)

    assert done.stdout.strip() == "[]"
