"""The tools, as a table: what each is called, says of itself, needs and does.

A tool's scope stands here once; its description names it and `call` enforces it. Every result is a view: its dump is
the `structuredContent`, the same dump as text is the content, since some clients show a model only one or the other.
"""

import base64
import binascii
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from callmcp.agents.model import LANGUAGE, MAX_DURATION_SECONDS, MAX_VOICEMAIL, MIN_DURATION_SECONDS
from callmcp.agents.operations import Agents
from callmcp.agents.questions import (
    MAX_CHOICE,
    MAX_CHOICES,
    MAX_QUESTION,
    MAX_QUESTIONS,
    QUESTION_NAME,
    AnswerType,
    Question,
)
from callmcp.calls.model import (
    MAX_CONSENT,
    MAX_CONTEXT,
    MAX_IDEMPOTENCY_KEY,
    MAX_METADATA,
    MAX_METADATA_KEY,
    MAX_METADATA_VALUE,
    MAX_TIMEZONE,
    CallFilter,
    CallRequest,
    CallStatus,
    Consent,
    EndReason,
    PhoneNumber,
    Position,
)
from callmcp.calls.operations import Calls
from callmcp.calls.optouts import OptOutSource
from callmcp.calls.policy.operations import Policy
from callmcp.errors import InvalidArguments, Problem
from callmcp.identity.model import Principal, Scope
from callmcp.wire import (
    AgentsView,
    CallsView,
    CallView,
    CheckView,
    OptOutView,
    View,
    agent_view,
    call_summary_view,
    call_view,
    check_view,
    opt_out_view,
)

MAX_WAIT_SECONDS = 50  # clients and hosts cut a tool call at 60 s
DEFAULT_PAGE = 20
MAX_PAGE = 100


def _storable(text: str) -> str:
    if "\x00" in text:
        raise ValueError("the character U+0000 cannot be kept; leave it out")
    return text


Text = Annotated[str, AfterValidator(_storable)]
CallId = Annotated[Text, Field(max_length=100, description="The call_id that make_call returned.")]


class Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ListAgents(Arguments):
    pass


class AskedQuestion(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    name: Text = Field(
        pattern=f"^{QUESTION_NAME.pattern}$", description="What to call its answer, such as delivery_day."
    )
    question: Text = Field(min_length=1, max_length=MAX_QUESTION, description="What to find out, as one would ask it.")
    type: AnswerType = Field(default=AnswerType.STRING, description="What kind of answer it has.")
    choices: list[Annotated[Text, Field(min_length=1, max_length=MAX_CHOICE)]] = Field(
        default=[], max_length=MAX_CHOICES, description="The answers there are, for the type choice and no other."
    )


class GivenConsent(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    basis: Text = Field(min_length=1, max_length=MAX_CONSENT, description="On what ground, such as: asked for a call.")
    obtained_at: AwareDatetime = Field(description="When it was given; RFC 3339 with a time zone.")
    reference: Text = Field(min_length=1, max_length=MAX_CONSENT, description="Where the proof is kept.")


class MakeCall(Arguments):
    agent_id: Text = Field(max_length=100, description="Which voice agent speaks, such as agt_9f2a1c; see list_agents.")
    to: Text = Field(
        max_length=100,
        description="The number to call, in E.164 format: + and the country code, then digits only, such as "
        "+14155550123.",
    )
    context: Text = Field(
        default="",
        max_length=MAX_CONTEXT,
        description="What the voice agent needs to know: who you call for, what the call is to achieve, the facts it "
        "may use and its limits. It knows nothing else of your conversation.",
    )
    idempotency_key: Text | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_IDEMPOTENCY_KEY,
        description="Any text of your own that names this one call. Repeating the request with it returns the first "
        "call and dials nothing, so a request that timed out can be repeated safely.",
    )
    max_duration_seconds: int | None = Field(
        default=None,
        ge=MIN_DURATION_SECONDS,
        le=MAX_DURATION_SECONDS,
        description="Hang up after this many seconds of talk; the voice agent's own limit holds if it is lower.",
    )
    metadata: dict[
        Annotated[Text, Field(min_length=1, max_length=MAX_METADATA_KEY)],
        Annotated[Text, Field(max_length=MAX_METADATA_VALUE)],
    ] = Field(
        default={},
        max_length=MAX_METADATA,
        description=f"Up to {MAX_METADATA} short texts of your own, given back in the record.",
    )
    questions: list[AskedQuestion] = Field(
        default=[],
        max_length=MAX_QUESTIONS,
        description="What the call is to find out. The record has an answer or an error for each, with the turn that "
        "says so.",
    )
    voicemail_message: Text | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_VOICEMAIL,
        description="Leave this message if a machine answers. Without it, and unless the voice agent has one, the call "
        "hangs up on a machine.",
    )
    recipient_timezone: Text | None = Field(
        default=None,
        max_length=MAX_TIMEZONE,
        description="Where the callee is, such as Europe/Berlin, if you know it: calling hours are by the clock there.",
    )
    consent: GivenConsent | None = Field(
        default=None, description="That the callee agreed to be called, where this server asks for it."
    )
    language: Text | None = Field(
        default=None,
        pattern=f"^{LANGUAGE.pattern}$",
        description="What the voice agent is to speak, such as en-US or de-DE; its own language otherwise.",
    )


class CheckCall(MakeCall):
    """The same as make_call takes."""


class AddOptOut(Arguments):
    number: Text = Field(max_length=100, description="The number that is not to be called again, in E.164 format.")
    reason: Text = Field(default="", max_length=500, description="Why, in a few words: what was said, and where.")


class GetCall(Arguments):
    call_id: CallId
    wait_seconds: int = Field(
        default=0,
        ge=0,
        le=MAX_WAIT_SECONDS,
        description="Wait up to this many seconds for the call to end; returns early when it ends or becomes unknown.",
    )
    transcript_after: int = Field(
        default=-1, ge=-1, description="Return only the turns with a higher index than this, the new ones."
    )


class ListCalls(Arguments):
    status: CallStatus | None = Field(default=None, description="Only calls in this state.")
    agent_id: Text | None = Field(default=None, max_length=100, description="Only calls of this voice agent.")
    to: Text | None = Field(default=None, max_length=100, description="Only calls to this number, E.164.")
    since: AwareDatetime | None = Field(
        default=None, description="Only calls created at this time or later; RFC 3339 with a time zone."
    )
    until: AwareDatetime | None = Field(
        default=None, description="Only calls created before this time; RFC 3339 with a time zone."
    )
    limit: int = Field(default=DEFAULT_PAGE, ge=1, le=MAX_PAGE, description="How many calls to return at the most.")
    cursor: Text | None = Field(default=None, max_length=200, description="next_cursor of the page before.")


class EndCall(Arguments):
    call_id: CallId


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What a tool returned. `error_code`: the call that it returns failed, for this reason."""

    view: View
    error_code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What the tools act on. `base`: the public URL of this server."""

    agents: Agents
    policy: Policy
    calls: Calls
    base: str = ""


async def _list_agents(world: World, principal: Principal, _: ListAgents) -> Result:
    return Result(view=AgentsView(agents=[agent_view(agent) for agent in await world.agents.list(principal)]))


def _request(arguments: MakeCall, to: PhoneNumber) -> CallRequest:
    consent = arguments.consent
    return CallRequest(
        agent_id=arguments.agent_id,
        to=to,
        context=arguments.context,
        idempotency_key=arguments.idempotency_key,
        max_duration_seconds=arguments.max_duration_seconds,
        metadata=arguments.metadata,
        questions=tuple(
            Question(name=asked.name, question=asked.question, type=asked.type, choices=tuple(asked.choices))
            for asked in arguments.questions
        ),
        voicemail_message=arguments.voicemail_message,
        language=arguments.language,
        recipient_timezone=arguments.recipient_timezone,
        consent=None
        if consent is None
        else Consent(basis=consent.basis, obtained_at=consent.obtained_at, reference=consent.reference),
    )


async def _make_call(world: World, principal: Principal, arguments: MakeCall) -> Result:
    to = await world.policy.number(principal, arguments.agent_id, arguments.to)
    placed = await world.calls.place(principal, _request(arguments, to))
    call, turns = await world.calls.read(placed.call)
    refusal = call.error if call.end_reason is EndReason.CARRIER_REFUSED else None
    return Result(
        view=call_view(call, turns, replayed=placed.replayed, base=world.base),
        error_code=None if refusal is None else refusal.code,
    )


async def _check_call(world: World, principal: Principal, arguments: CheckCall) -> Result:
    return Result(
        view=check_view(await world.calls.check(principal, _request(arguments, PhoneNumber.parse(arguments.to))))
    )


async def _add_opt_out(world: World, principal: Principal, arguments: AddOptOut) -> Result:
    number = PhoneNumber.parse(arguments.number)
    opt_out = await world.policy.add_opt_out(principal, number, source=OptOutSource.CLIENT, reason=arguments.reason)
    return Result(view=opt_out_view(opt_out))


async def _get_call(world: World, principal: Principal, arguments: GetCall) -> Result:
    if arguments.wait_seconds:
        await world.calls.wait(principal, arguments.call_id, seconds=arguments.wait_seconds)
    call, turns = await world.calls.get(principal, arguments.call_id, after=arguments.transcript_after)
    return Result(view=call_view(call, turns, base=world.base))


async def _list_calls(world: World, principal: Principal, arguments: ListCalls) -> Result:
    wanted = CallFilter(
        status=arguments.status,
        agent_id=arguments.agent_id,
        to=arguments.to,
        since=arguments.since,
        until=arguments.until,
    )
    after = None if arguments.cursor is None else _position(arguments.cursor)
    page = await world.calls.list(principal, wanted, limit=arguments.limit, after=after)
    cursor = None if page.next is None else _cursor(page.next)
    return Result(
        view=CallsView(calls=[call_summary_view(call, base=world.base) for call in page.calls], next_cursor=cursor)
    )


async def _end_call(world: World, principal: Principal, arguments: EndCall) -> Result:
    ended = await world.calls.end(principal, arguments.call_id)
    call, turns = await world.calls.read(ended)
    return Result(view=call_view(call, turns, base=world.base))


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """One tool. The last four say what it does to the world: its annotations, honestly."""

    name: str
    title: str
    description: str
    scope: Scope
    arguments: type[Arguments]
    result: type[View]
    run: Callable[[World, Principal, Any], Awaitable[Result]]
    read_only: bool
    destructive: bool = False
    idempotent: bool = True
    open_world: bool = False


TOOLS: tuple[Tool, ...] = (
    Tool(
        name="list_agents",
        title="List the voice agents that can make calls",
        description="List the voice agents that this key may use: what make_call accepts as agent_id, with each one's "
        "name, purpose, greeting and longest call. Use it before make_call when you do not know an agent_id; agents "
        "change rarely, so once a conversation is enough. To see calls rather than agents use list_calls. Reads only; "
        f"nothing is dialled. Needs the scope {Scope.AGENTS_READ.value}.",
        scope=Scope.AGENTS_READ,
        arguments=ListAgents,
        result=AgentsView,
        run=_list_agents,
        read_only=True,
    ),
    Tool(
        name="make_call",
        title="Place an outbound phone call",
        description="Initiate a real outbound phone call via an AI agent: the voice agent you name rings the number, "
        "talks with whoever answers, and works towards what context says. Use it only when the person you work for "
        "wants this call: it rings a real phone, may cost money and cannot be undone, though end_call can cut it "
        "short. It returns once the carrier has accepted the call, long before the talk is over: take the call_id and "
        "follow the call with get_call until its status is final. It never dials twice for one request: give an "
        "idempotency_key, and repeat the same request with the same key after a time-out; the first call comes back "
        "with replayed true. The same key with other arguments is an error. A status of unknown means that the "
        "carrier may have dialled: wait with get_call, do not place the call again. Malformed numbers, emergency "
        "numbers and unknown agents are refused, and nothing is dialled. With an approval in state requested the call "
        "waits for a person's yes before it is dialled. completed does not mean success: answered_by "
        f"and outcome say who picked up and whether the goal was met. Needs the scope {Scope.CALLS_WRITE.value}.",
        scope=Scope.CALLS_WRITE,
        arguments=MakeCall,
        result=CallView,
        run=_make_call,
        read_only=False,
        destructive=True,
        idempotent=False,
        open_world=True,
    ),
    Tool(
        name="check_call",
        title="Check whether a call may be placed, without placing it",
        description="Check whether make_call with the same arguments would be allowed now, and why not: the verdict of "
        "every rule at once (number, suppression list, consent, calling hours, rates, money), the local time at the "
        "callee, the next time a call is allowed, what it may cost at the most and whether a person must approve it. "
        "Use it before you promise a call, or to plan when to place one; the "
        "same rules are asked again by make_call. Dials nothing, reserves nothing, uses up no idempotency_key. Reads "
        f"only. Needs the scope {Scope.CALLS_READ.value}.",
        scope=Scope.CALLS_READ,
        arguments=CheckCall,
        result=CheckView,
        run=_check_call,
        read_only=True,
    ),
    Tool(
        name="get_call",
        title="Get the record of a call, waiting for its end if you like",
        description="Get the record of one call: the status of the line, who answered, what was said so far, why it "
        "ended, whether the goal was met, and next_step, which says what to do now. Use it after make_call: "
        "wait_seconds 50 waits for the end and returns early when the call ends or becomes unknown, so a few calls "
        "follow a whole conversation; transcript_after returns only the turns you have not seen. To find a call whose "
        f"id you lost use list_calls; to stop one use end_call. Reads only. Needs the scope {Scope.CALLS_READ.value}.",
        scope=Scope.CALLS_READ,
        arguments=GetCall,
        result=CallView,
        run=_get_call,
        read_only=True,
    ),
    Tool(
        name="list_calls",
        title="List calls, newest first",
        description="List the calls that this key may see, newest first, a page at a time, without their transcripts. "
        "Filter by status, agent_id, to, and the time they were created (since inclusive, until exclusive); pass "
        "next_cursor as cursor for the next page. Use it to find a call whose id you lost, for instance after "
        "make_call timed out, or to see what was done before; for one call and what was said in it use get_call. "
        f"Reads only. Needs the scope {Scope.CALLS_READ.value}.",
        scope=Scope.CALLS_READ,
        arguments=ListCalls,
        result=CallsView,
        run=_list_calls,
        read_only=True,
    ),
    Tool(
        name="end_call",
        title="End a call: cancel it before the answer, hang up after it",
        description="End a call that is under way: before anybody answered it is canceled, after that the voice agent "
        "is cut off and the line hung up, in mid-sentence if need be. Use it when the call is no longer wanted; a "
        "voice agent ends its calls itself when it is done, and get_call with wait_seconds waits for that. Ending a "
        "call that is over already is no error: its record comes back unchanged, so repeating is safe. The record "
        f"stays. Needs the scope {Scope.CALLS_WRITE.value}.",
        scope=Scope.CALLS_WRITE,
        arguments=EndCall,
        result=CallView,
        run=_end_call,
        read_only=False,
        destructive=True,
        open_world=True,
    ),
    Tool(
        name="add_opt_out",
        title="Never call a number again",
        description="Put a number on this account's suppression list: from then on make_call refuses it, whatever the "
        "agent or the key. Use it when somebody asks, by whatever means, not to be called; what a callee says in a "
        "call is noted by the voice agent itself. Only the operator can take a number off again, so be sure that it is "
        f"the right one. One that is on the list already stays as it is. Needs the scope {Scope.CALLS_WRITE.value}.",
        scope=Scope.CALLS_WRITE,
        arguments=AddOptOut,
        result=OptOutView,
        run=_add_opt_out,
        read_only=False,
        destructive=True,
    ),
)
BY_NAME: Mapping[str, Tool] = {tool.name: tool for tool in TOOLS}


async def call(tool: Tool, world: World, principal: Principal, arguments: Mapping[str, Any]) -> Result:
    """Checks the scope, then the arguments, then runs the tool. Raises CallMcpError."""
    principal.require(tool.scope)
    try:
        checked = tool.arguments.model_validate(_without_nulls(arguments))
    except ValidationError as error:
        raise InvalidArguments([_problem(fault) for fault in error.errors(include_url=False)]) from None
    return await tool.run(world, principal, checked)


def _without_nulls(value: Any) -> Any:  # noqa: ANN401 - JSON is any value
    """A null is how many clients write "not given", also within an object."""
    if isinstance(value, Mapping):
        return {name: _without_nulls(inner) for name, inner in value.items() if inner is not None}
    return [_without_nulls(inner) for inner in value] if isinstance(value, list) else value


def _problem(fault: Mapping[str, Any]) -> Problem:
    field = ".".join(str(part) for part in fault["loc"] if part != "[key]") or "arguments"
    if fault["type"] == "extra_forbidden":
        return Problem(field=field[:100], message="there is no such argument")
    if fault["type"] == "missing":
        return Problem(field=field, message="it is required")
    if fault["type"] == "dict_type" and isinstance(fault["input"], str):
        return Problem(field=field, message="it must be a JSON object, not a text that contains one")
    return Problem(field=field[:100], message=fault["msg"].removeprefix("Value error, "))


def _cursor(position: Position) -> str:
    raw = json.dumps([position.created_at.astimezone(UTC).isoformat(), position.id]).encode()
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _position(cursor: str) -> Position:
    try:
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        created_at, call_id = json.loads(raw)
        at = datetime.fromisoformat(created_at).astimezone(UTC)
        return Position(created_at=at, id=str(call_id))
    except (ValueError, TypeError, binascii.Error, OverflowError):
        raise InvalidArguments.of("cursor", "it is not one that list_calls returned; leave it out to start") from None
