"""callmcp calls: list, show, end and place calls."""

import asyncio
import contextlib
import signal
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from callmcp.calls.model import Call, CallFilter, CallRequest, CallStatus, PhoneNumber, Turn
from callmcp.cli.agent_fields import QUESTION_FORM, question_of
from callmcp.cli.command import Group, account_option, json_option, opened, operator
from callmcp.cli.printing import say, show, show_all
from callmcp.cli.times import Moment
from callmcp.errors import InvalidArguments
from callmcp.identity.model import Principal

if TYPE_CHECKING:
    from callmcp.app import Services

COLUMNS = ("call_id", "created_at", "status", "answered_by", "goal_met", "end_reason", "agent_id", "to")
PAGE = 100
LOOK_SECONDS = 0.1


@click.group(cls=Group)
def calls() -> None:
    """List, show, end and place calls."""


@calls.command("list")
@click.option(
    "--status", type=click.Choice([status.value for status in CallStatus]), help="Only calls in this state of the line."
)
@click.option("--agent", "agent_id", metavar="AGENT_ID", help="Only this voice agent's.")
@click.option("--to", metavar="NUMBER", help="Only calls to this number (E.164).")
@click.option("--since", type=Moment(ago=True), help="Placed at or after: 12h (ago), 2026-12-31 or RFC 3339.")
@click.option("--until", type=Moment(ago=True), help="Placed before.")
@click.option("--limit", type=click.IntRange(1, 100_000), default=20, show_default=True, help="At most so many.")
@account_option
@json_option
async def list_(*, status: str | None, limit: int, account: str, as_json: bool, **others: Any) -> None:
    """List calls, the newest first."""
    from callmcp.wire import call_summary_view  # noqa: PLC0415 - pydantic, after the arguments are known to be good

    wanted = CallFilter(status=CallStatus(status) if status else None, **others)
    found: list[Call] = []
    async with opened() as services:
        principal = await operator(services, account)
        position = None
        while len(found) < limit:
            page = await services.calls.list(principal, wanted, limit=min(PAGE, limit - len(found)), after=position)
            found += page.calls
            position = page.next
            if position is None:
                break
    records = [call_summary_view(call).dumped() for call in found]
    if not as_json:
        records = [{**record, "goal_met": record.get("outcome", {}).get("goal_met")} for record in records]
    show_all("calls", records, COLUMNS, as_json=as_json)


@calls.command("show")
@click.argument("call_id")
@account_option
@json_option
async def show_(call_id: str, *, account: str, as_json: bool) -> None:
    """Show the record of a call, with what was said."""
    async with opened() as services:
        _show(*await services.calls.get(await operator(services, account), call_id), as_json=as_json)


@calls.command(short_help="Cancel a call that rings, hang up one that was answered.")
@click.argument("call_id")
@account_option
@json_option
async def end(call_id: str, *, account: str, as_json: bool) -> None:
    """Cancel a call that rings, hang up one that was answered, wherever it is carried."""
    async with opened() as services:
        principal = await operator(services, account)
        await services.calls.end(principal, call_id)
        _show(*await services.calls.get(principal, call_id), as_json=as_json)


@calls.command()
@click.argument("call_id")
@click.option("--output", "-o", type=click.Path(path_type=Path, dir_okay=False), help="A file (default: CALL_ID.mp3).")
@account_option
async def recording(call_id: str, *, output: Path | None, account: str) -> None:
    """Fetch the recording of a call from the carrier."""
    from callmcp.recordings import fetchable  # noqa: PLC0415 - starlette, after the arguments are known to be good

    async with opened() as services:
        call, _ = await services.calls.get(await operator(services, account), call_id)
        path = output or Path(f"{call.id}.mp3")
        async with services.telephony.recording(fetchable(call.recording)) as media:
            with path.open("wb") as file:
                async for chunk in media.chunks:
                    file.write(chunk)
    say(f"Wrote {path}.")


@calls.command()
@click.option("--to", required=True, metavar="NUMBER", help="Whom to call (E.164), such as +12025550100.")
@click.option("--agent", "--agent-id", "agent_id", required=True, metavar="AGENT_ID", help="Who speaks.")
@click.option("--context", default="", help="What the call is for.")
@click.option("--idempotency-key", help="The same key never dials twice.")
@click.option("--max-duration", "max_duration_seconds", type=click.IntRange(min=1), metavar="SECONDS")
@click.option("--question", "questions", multiple=True, metavar=QUESTION_FORM, help="What to find out; repeatable.")
@click.option("--voicemail-message", help="Left on a machine; without it the call hangs up on one.")
@click.option("--language", help="What is spoken, such as de-DE (default: the voice agent's).")
@click.option("--metadata", "pairs", multiple=True, metavar="NAME=VALUE", help="Kept with the call; may be repeated.")
@account_option
@json_option
async def place(
    *, to: str, questions: tuple[str, ...], pairs: tuple[str, ...], account: str, as_json: bool, **wanted: Any
) -> None:
    """Place a call and follow it to its end; Ctrl-C hangs up.

    The talk is shown on stderr as it happens, the record is printed on stdout.
    """
    request = CallRequest(
        to=PhoneNumber.parse(to),
        questions=tuple(map(question_of, questions)),
        metadata=dict(map(_pair, pairs)),
        **wanted,
    )
    async with opened() as services:
        principal = await operator(services, account)
        with _interruptible() as interrupted:
            placed = await services.calls.place(principal, request)
            if placed.replayed:
                say(f"This idempotency key had placed {placed.call.id} before; nothing was dialled.")
            await _follow(services, principal, placed.call.id, interrupted)
        call, turns = await services.calls.get(principal, placed.call.id)
        _show(call, turns, as_json=as_json, replayed=placed.replayed)
    if interrupted.is_set():
        sys.exit(128 + signal.SIGINT)


async def _follow(services: "Services", principal: Principal, call_id: str, interrupted: asyncio.Event) -> None:
    """Says what happens until the call is over; ends it when told to."""
    status, heard, ending = None, -1, False
    while status is None or not status.is_final:
        call, turns = await services.calls.get(principal, call_id, after=heard)
        for turn in turns:
            say(f"{turn.speaker:>6}: {turn.text}")
            heard = turn.index
        if call.status is not status:
            status = call.status
            say(f"{call_id} {status}" + (" until a person approves it: callmcp approvals" if call.waits else ""))
        if interrupted.is_set() and not ending:
            ending = True
            await services.calls.end(principal, call_id)
        elif not status.is_final:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(interrupted.wait() if not ending else asyncio.Event().wait(), LOOK_SECONDS)


@contextlib.contextmanager
def _interruptible() -> Iterator[asyncio.Event]:
    """An event that Ctrl-C and SIGTERM set, instead of leaving a call to be found lost. A second one kills."""
    interrupted = asyncio.Event()
    loop = asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)

    def interrupt() -> None:
        say("Hanging up.")
        interrupted.set()
        for number in signals:
            loop.remove_signal_handler(number)

    with contextlib.suppress(NotImplementedError):  # Windows: the call is then found lost, and recorded as that
        for number in signals:
            loop.add_signal_handler(number, interrupt)
    try:
        yield interrupted
    finally:
        with contextlib.suppress(NotImplementedError):
            for number in signals:
                loop.remove_signal_handler(number)


def _pair(text: str) -> tuple[str, str]:
    name, found, value = text.partition("=")
    if not found:
        raise InvalidArguments.of("--metadata", f"{text!r} is not NAME=VALUE")
    return name, value


def _show(call: Call, turns: Sequence[Turn], *, as_json: bool, replayed: bool = False) -> None:
    from callmcp.wire import call_view  # noqa: PLC0415 - pydantic, after the arguments are known to be good

    show(call_view(call, turns, replayed=replayed).dumped(), as_json=as_json)
