"""What calls ask of a store, of every store."""

import asyncio
import itertools
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from callmcp.agents.questions import AnswerType, Question
from callmcp.calls import state
from callmcp.calls.events import (
    Accepted,
    Answered,
    Canceled,
    Detected,
    DialFailed,
    Dialled,
    EndRequested,
    Event,
    FellSilent,
    FoundBusy,
    GivenUp,
    HungUp,
    Judged,
    NotAnswered,
    OptedOut,
    OwnerLost,
    Recorded,
    Ringing,
    TalkBroke,
    TurnSpoken,
    VoicemailLeft,
)
from callmcp.calls.model import (
    FINAL,
    Answer,
    AnsweredBy,
    Call,
    CallError,
    CallFilter,
    CallStatus,
    EndReason,
    GoalMet,
    Outcome,
    Position,
    Recording,
    RecordingStatus,
    Speaker,
    Turn,
)
from callmcp.errors import Conflict, NotFound
from tests.contracts.conftest import Store
from tests.contracts.values import NOON, a_call

pytestmark = pytest.mark.anyio
_accounts = itertools.count(100)

ALL: frozenset[str] = frozenset()
some_examples = settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], derandomize=True
)


def spoken(number: int) -> TurnSpoken:
    speaker = Speaker.CALLEE if number % 2 else Speaker.AGENT
    return TurnSpoken(at=NOON + timedelta(seconds=number), speaker=speaker, text=f"turn {number}")


async def test_a_call_comes_back_with_every_field_as_it_went_in(store: Store) -> None:
    call = a_call(
        context="Très bien 🍽\n",
        metadata={"order": "17", "ключ": ""},
        idempotency_key="once",
        carrier_id="CA1",
        owner="host:1",
        status=CallStatus.COMPLETED,
        end_requested_at=NOON + timedelta(microseconds=1),
        answered_at=NOON + timedelta(microseconds=2),
        ended_at=NOON + timedelta(microseconds=3),
        answered_by=AnsweredBy.HUMAN,
        end_reason=EndReason.CALLEE_HUNG_UP,
        outcome=Outcome(goal_met=GoalMet.PARTLY, summary="Half a table."),
        opt_out=True,
        turn_count=2,
        error=CallError(code="odd", message="Odd.", carrier_code="13224"),
    )
    assert await store.add(call) == call
    assert await store.call(call.id) == call
    assert await store.call_by_key("acct_1", "once") == call


async def test_a_bare_call_comes_back_as_it_went_in(store: Store) -> None:
    call = a_call(metadata={}, context="")
    assert await store.add(call) == call
    assert await store.call(call.id) == call
    assert await store.record(call.id) == (call, [])


async def test_times_come_back_in_utc_to_the_microsecond_whatever_zone_they_went_in(store: Store) -> None:
    at = datetime(2026, 3, 29, 2, 30, 0, 999999, tzinfo=timezone(timedelta(hours=5, minutes=45)))
    call = a_call(created_at=at)
    await store.add(call)
    stored = await store.call(call.id)
    assert stored == call
    listed = await store.calls("acct_1", CallFilter(since=at), agent_ids=ALL, limit=5)
    assert listed == [call]


async def test_what_comes_out_cannot_be_changed_by_whoever_put_it_in(store: Store) -> None:
    metadata = {"order": "17"}
    call = a_call(metadata=metadata)
    await store.add(call)
    metadata["order"] = "18"
    stored = await store.call(call.id)
    assert stored is not None
    assert stored.metadata == {"order": "17"}
    with pytest.raises(TypeError):
        stored.metadata["order"] = "19"  # type: ignore[index]


async def test_a_call_that_is_not_there_is_none(store: Store) -> None:
    await store.add(a_call(idempotency_key="once"))
    assert await store.call("call_unknown") is None
    assert await store.record("call_unknown") is None
    assert await store.call_by_key("acct_1", "twice") is None
    assert await store.call_by_key("acct_2", "once") is None


async def test_the_same_idempotency_key_returns_the_first_call_and_stores_nothing(store: Store) -> None:
    first = a_call(idempotency_key="once")
    await store.add(first)
    moved = await store.apply(first.id, Accepted(at=NOON, carrier_id="CA1"))
    second = a_call(idempotency_key="once", context="something else")
    assert await store.add(second) == moved
    assert await store.call(second.id) is None
    assert await store.calls("acct_1", CallFilter(), agent_ids=ALL, limit=5) == [moved]


async def test_an_idempotency_key_belongs_to_its_account(store: Store) -> None:
    mine, theirs = a_call(idempotency_key="once"), a_call(idempotency_key="once", account_id="acct_2")
    assert await store.add(mine) == mine
    assert await store.add(theirs) == theirs


async def test_calls_without_an_idempotency_key_are_never_the_same(store: Store) -> None:
    calls = [a_call(), a_call()]
    assert [await store.add(call) for call in calls] == calls


async def test_a_taken_id_is_a_conflict_and_the_first_call_stays(store: Store) -> None:
    call = a_call(idempotency_key="once")
    await store.add(call)
    with pytest.raises(Conflict):
        await store.add(replace(call, idempotency_key="twice", context="other"))
    assert await store.call(call.id) == call
    assert await store.call_by_key("acct_1", "twice") is None


async def test_of_many_adds_at_once_with_one_key_exactly_one_is_stored(store: Store) -> None:
    calls = [a_call(idempotency_key="once") for _ in range(24)]
    returned = await asyncio.gather(*map(store.add, calls))
    assert len({call.id for call in returned}) == 1
    assert await store.calls("acct_1", CallFilter(), agent_ids=ALL, limit=50) == [returned[0]]


async def test_events_for_a_call_that_is_not_there_are_not_found(store: Store) -> None:
    with pytest.raises(NotFound) as caught:
        await store.apply("call_unknown", Ringing(at=NOON))
    assert caught.value.code == "call_not_found"


async def test_an_event_with_nothing_new_to_say_leaves_the_call_as_it_is(store: Store) -> None:
    call = await store.add(a_call())
    ended = await store.apply(call.id, HungUp(at=NOON + timedelta(hours=1)))
    assert await store.apply(call.id, Ringing(at=NOON + timedelta(hours=2))) == ended
    assert await store.apply(call.id) == ended
    assert await store.call(call.id) == ended


async def test_each_spoken_turn_gets_the_next_index_and_can_be_read_from_any(store: Store) -> None:
    call = await store.add(a_call())
    await store.apply(call.id, Answered(at=NOON), spoken(0), spoken(1))
    after = await store.apply(call.id, spoken(2))
    turns = [
        Turn(index=number, at=spoken(number).at, speaker=spoken(number).speaker, text=f"turn {number}")
        for number in range(3)
    ]
    assert after.turn_count == 3
    assert await store.record(call.id) == (after, turns)
    assert await store.record(call.id, after=0) == (after, turns[1:])
    assert await store.record(call.id, after=2) == (after, [])


@pytest.mark.parametrize("after", [-(10**30), -2, 3, 2**31, 10**30])
async def test_any_number_may_be_asked_for_as_the_turn_to_read_on_from(store: Store, after: int) -> None:
    call = await store.add(a_call())
    await store.apply(call.id, spoken(0), spoken(1))
    found = await store.record(call.id, after=after)
    assert found is not None
    assert [turn.index for turn in found[1]] == ([0, 1] if after < 0 else [])


async def test_events_at_once_are_all_kept_each_turn_with_an_index_of_its_own(store: Store) -> None:
    call = await store.add(a_call())
    await asyncio.gather(*(store.apply(call.id, spoken(number)) for number in range(40)))
    found = await store.record(call.id)
    assert found is not None
    stored, turns = found
    assert stored.turn_count == 40
    assert [turn.index for turn in turns] == list(range(40))
    assert {turn.text for turn in turns} == {f"turn {number}" for number in range(40)}


async def test_a_record_is_of_one_moment_while_turns_arrive(store: Store) -> None:
    call = await store.add(a_call())

    async def speak() -> None:
        for number in range(40):
            await store.apply(call.id, spoken(number))

    speaking = asyncio.create_task(speak())
    while not speaking.done():
        found = await store.record(call.id)
        assert found is not None
        assert [turn.index for turn in found[1]] == list(range(found[0].turn_count))
        await asyncio.sleep(0)
    await speaking


texts = st.text(st.characters(codec=None), max_size=30)
moments = st.integers(-(10**9), 10**9).map(lambda micros: NOON + timedelta(microseconds=micros))
outcomes = st.builds(Outcome, goal_met=st.sampled_from(GoalMet), summary=texts)
errors = st.builds(CallError, code=texts, message=texts, carrier_code=st.none() | texts)
BARE = (Dialled, Ringing, Answered, OptedOut, EndRequested, FoundBusy, NotAnswered, FellSilent, GivenUp, OwnerLost)
events: st.SearchStrategy[Event] = st.one_of(
    *(st.builds(kind, at=moments) for kind in BARE),
    st.builds(Accepted, at=moments, carrier_id=texts),
    st.builds(Detected, at=moments, answered_by=st.sampled_from(AnsweredBy)),
    st.builds(TurnSpoken, at=moments, speaker=st.sampled_from(Speaker), text=texts),
    st.builds(HungUp, at=moments, reason=st.none() | st.sampled_from(EndReason)),
    st.builds(Canceled, at=moments),
    st.builds(DialFailed, at=moments, reason=st.sampled_from(EndReason), error=errors),
    st.builds(Judged, at=moments, outcome=outcomes),
)


def storable(text: str) -> str:
    return "".join("\ufffd" if char == "\0" or "\ud800" <= char <= "\udfff" else char for char in text)


def expected(call: Call, happened: Sequence[Event]) -> tuple[Call, list[Turn]]:
    """What the domain makes of these events, with text as it can be stored."""
    turns: list[Turn] = []
    for event in happened:
        after = state.apply(call, event)
        if isinstance(event, TurnSpoken) and after is not call:
            turns.append(Turn(index=len(turns), at=event.at, speaker=event.speaker, text=storable(event.text)))
        call = after
    outcome, error = call.outcome, call.error
    return replace(
        call,
        carrier_id=None if call.carrier_id is None else storable(call.carrier_id),
        outcome=None if outcome is None else replace(outcome, summary=storable(outcome.summary)),
        error=None
        if error is None
        else CallError(
            code=storable(error.code),
            message=storable(error.message),
            carrier_code=None if error.carrier_code is None else storable(error.carrier_code),
        ),
    ), turns


@some_examples
@given(happened=st.lists(events, max_size=12), cut=st.integers(0, 12))
async def test_any_events_make_of_a_stored_call_what_the_domain_makes_of_it(
    store: Store, happened: list[Event], cut: int
) -> None:
    call = await store.add(a_call(account_id=f"acct_{next(_accounts)}"))  # nobody else's callee has opted out there
    await store.apply(call.id, *happened[:cut])
    returned = await store.apply(call.id, *happened[cut:])
    wanted = expected(call, happened)
    assert returned == wanted[0]
    assert await store.record(call.id) == wanted


async def test_a_list_has_one_accounts_calls_newest_first_and_the_id_decides_between_twins(store: Store) -> None:
    late, early = a_call(created_at=NOON + timedelta(microseconds=1)), a_call(created_at=NOON)
    twin = a_call(created_at=NOON)
    for call in (early, late, twin, a_call(account_id="acct_2")):
        await store.add(call)
    assert await store.calls("acct_1", CallFilter(), agent_ids=ALL, limit=10) == [late, twin, early]
    assert await store.calls("acct_1", CallFilter(), agent_ids=ALL, limit=2) == [late, twin]
    assert await store.calls("acct_3", CallFilter(), agent_ids=ALL, limit=10) == []


async def test_since_is_inclusive_and_until_exclusive(store: Store) -> None:
    calls = [a_call(created_at=NOON + timedelta(microseconds=age)) for age in range(4)]
    for call in calls:
        await store.add(call)
    wanted = CallFilter(since=calls[1].created_at, until=calls[3].created_at)
    assert await store.calls("acct_1", wanted, agent_ids=ALL, limit=10) == [calls[2], calls[1]]


AGENTS = ("agt_000001", "agt_000002", "agt_000003")
NUMBERS = ("+15550100000", "+15550100001")
AGES = st.integers(-1, 7).map(lambda age: NOON + timedelta(seconds=age))


@pytest.fixture
async def assorted(store: Store) -> Sequence[Call]:
    """Sixty calls with every combination that a list can be narrowed to, several to a moment."""
    statuses = (CallStatus.QUEUED, CallStatus.COMPLETED, CallStatus.BUSY)
    calls = [
        a_call(
            agent_id=AGENTS[number % 3],
            to=NUMBERS[number % 2],
            status=statuses[number // 6 % 3],
            created_at=NOON + timedelta(seconds=number % 7),
        )
        for number in range(60)
    ]
    await asyncio.gather(*map(store.add, calls))
    return calls


def fits(call: Call, wanted: CallFilter, agent_ids: frozenset[str]) -> bool:
    return (
        wanted.status in {None, call.status}
        and wanted.agent_id in {None, call.agent_id}
        and wanted.to in {None, call.to}
        and (wanted.since or call.created_at) <= call.created_at
        and call.created_at < (wanted.until or datetime.max.replace(tzinfo=UTC))
        and (not agent_ids or call.agent_id in agent_ids)
    )


@some_examples
@given(
    wanted=st.builds(
        CallFilter,
        status=st.none() | st.sampled_from([CallStatus.QUEUED, CallStatus.COMPLETED, CallStatus.RINGING]),
        agent_id=st.none() | st.sampled_from(AGENTS),
        to=st.none() | st.sampled_from(NUMBERS),
        since=st.none() | AGES,
        until=st.none() | AGES,
    ),
    agent_ids=st.frozensets(st.sampled_from([*AGENTS, "agt_00000f"])),
    limit=st.integers(1, 70),
)
async def test_every_filter_gives_the_calls_that_fit_it_page_by_page(
    store: Store, assorted: Sequence[Call], wanted: CallFilter, agent_ids: frozenset[str], limit: int
) -> None:
    found: list[Call] = []
    after = None
    while page := await store.calls("acct_1", wanted, agent_ids=agent_ids, limit=limit, after=after):
        assert len(page) <= limit
        found += page
        after = Position(created_at=page[-1].created_at, id=page[-1].id)
    fitting = [call for call in assorted if fits(call, wanted, agent_ids)]
    assert found == sorted(fitting, key=lambda call: (call.created_at, call.id), reverse=True)


async def test_paging_visits_each_call_once_while_calls_arrive_and_change(store: Store) -> None:
    calls = [a_call(created_at=NOON + timedelta(seconds=number // 4)) for number in range(30)]
    await asyncio.gather(*map(store.add, calls))
    seen: list[str] = []
    after = None
    while page := await store.calls("acct_1", CallFilter(), agent_ids=ALL, limit=4, after=after):
        seen += [call.id for call in page]
        after = Position(created_at=page[-1].created_at, id=page[-1].id)
        await store.add(a_call(created_at=NOON + timedelta(hours=1)))
        await store.apply(page[0].id, HungUp(at=NOON))
    assert seen == [call.id for call in reversed(calls)]


async def test_an_owner_carries_its_calls_until_they_end(store: Store) -> None:
    calls = [a_call(status=status, owner="host:1", account_id=f"acct_{n % 2}") for n, status in enumerate(CallStatus)]
    for call in (*reversed(calls), a_call(owner="host:2"), a_call()):
        await store.add(call)
    live = [call for call in calls if call.status not in FINAL]
    assert await store.carried_by("host:1") == live
    await store.apply(live[0].id, OwnerLost(at=NOON))
    assert await store.carried_by("host:1") == live[1:]
    assert await store.carried_by("host:3") == []


async def test_a_request_to_end_a_call_is_there_for_its_owner_until_it_has_ended(store: Store) -> None:
    mine, theirs = a_call(owner="host:1"), a_call(owner="host:2")
    for call in (mine, theirs, a_call(owner="host:1")):
        await store.add(call)
    asked = await store.apply(mine.id, EndRequested(at=NOON))
    assert await store.to_end("host:1") == [asked]
    assert await store.to_end("host:2") == []
    await store.apply(mine.id, Canceled(at=NOON))
    assert await store.to_end("host:1") == []


async def test_quiet_calls_are_those_of_a_status_not_heard_from_since(store: Store) -> None:
    def heard(minute: int, **fields: Any) -> Call:
        return a_call(heard_from_at=NOON + timedelta(minutes=minute), **fields)

    quiet = [heard(minute) for minute in range(4)]
    for call in (*quiet[::-1], heard(0, status=CallStatus.RINGING), heard(0, status=CallStatus.FAILED)):
        await store.add(call)
    assert await store.quiet(CallStatus.QUEUED, since=NOON + timedelta(minutes=2)) == quiet[:3]
    assert await store.quiet(CallStatus.QUEUED, since=NOON + timedelta(minutes=2), limit=2) == quiet[:2]
    assert await store.quiet(CallStatus.UNKNOWN, since=NOON + timedelta(minutes=9)) == []


async def test_beats_are_counted_for_each_owner_until_it_is_forgotten(store: Store) -> None:
    assert await store.beats() == {}
    for owner in ("host:1", "host:2", "host:1"):
        await store.beat(owner)
    assert await store.beats() == {"host:1": 2, "host:2": 1}
    await store.forget_owner("host:1")
    await store.forget_owner("host:3")
    assert await store.beats() == {"host:2": 1}


async def test_text_that_no_database_can_hold_is_replaced_and_found_again(store: Store) -> None:
    bad = "a\x00b\ud83dc"
    good = "a\ufffdb\ufffdc"
    call = a_call(context=bad, metadata={bad: bad}, idempotency_key=bad, owner=bad, agent_id=bad, to=bad)
    stored = await store.add(call)
    assert (stored.context, stored.metadata, stored.idempotency_key) == (good, {good: good}, good)
    assert await store.call(call.id) == stored
    assert await store.call_by_key("acct_1", bad) == stored
    assert await store.add(replace(call, id="call_other")) == stored
    assert await store.carried_by(bad) == [stored]
    wanted: list[tuple[CallFilter, frozenset[str]]] = [
        (CallFilter(agent_id=bad), ALL),
        (CallFilter(to=bad), ALL),
        (CallFilter(), frozenset({bad})),
    ]
    for narrowed, agent_ids in wanted:
        assert await store.calls("acct_1", narrowed, agent_ids=agent_ids, limit=5) == [stored]
    assert await store.call(bad) is None
    assert await store.record(bad) is None
    with pytest.raises(NotFound):
        await store.apply(bad, Ringing(at=NOON))
    position = Position(created_at=stored.created_at, id=bad)
    assert await store.calls(bad, CallFilter(), agent_ids=ALL, limit=5, after=position) == []
    await store.beat(bad)
    assert await store.beats() == {good: 1}
    named = await store.apply(call.id, Accepted(at=NOON, carrier_id=bad))
    assert await store.call_by_carrier_id(call.carrier, bad) == named


async def test_what_a_talk_leaves_behind_comes_back(store: Store) -> None:
    day = Question(name="day", question="Which day?", type=AnswerType.CHOICE, choices=("Friday", "Sunday"))
    guests = Question(name="guests", question="How many?", type=AnswerType.NUMBER)
    call = a_call(
        language="de-DE",
        voicemail_message="Please call back. 🍽",
        questions=(day, guests),
        recording=Recording(status=RecordingStatus.REQUESTED),
    )
    await store.add(call)
    assert await store.call(call.id) == call
    at = call.created_at + timedelta(seconds=5)
    answers = (Answer(name="day", value="Friday", evidence=1), Answer(name="guests", value=2.5, error="no evidence"))
    outcome = Outcome(goal_met=GoalMet.PARTLY, summary="So it is.", answers=answers)
    recorded = Recording(status=RecordingStatus.COMPLETED, carrier_id="RE1", duration_seconds=9)
    broke = TalkBroke(at=at, reason=EndReason.SERVER_LOST, error=CallError(code="x", message="y"))
    said = TurnSpoken(at=at, speaker=Speaker.CALLEE, text="Yes.")
    after = await store.apply(
        call.id,
        *(Answered(at=at), said, broke, VoicemailLeft(at=at), Recorded(at=at, recording=recorded)),
        Judged(at=at, outcome=outcome),
    )
    assert (after.breaks, after.voicemail_left, after.recording, after.outcome) == (1, True, recorded, outcome)
    assert await store.call(call.id) == after
