"""What events make of a stored call."""

from collections.abc import Sequence

from callmcp.calls import state
from callmcp.calls.events import Event, OptedOut, TurnSpoken
from callmcp.calls.model import Call, Turn
from callmcp.calls.optouts import OptOut, OptOutSource


def fold(call: Call, events: Sequence[Event]) -> tuple[Call, Sequence[Turn]]:
    """The call after `events`, and the turns that they add to it."""
    turns = []
    for event in events:
        after = state.apply(call, event)
        if isinstance(event, TurnSpoken) and after.turn_count > call.turn_count:
            turns.append(Turn(index=call.turn_count, at=event.at, speaker=event.speaker, text=event.text))
        call = after
    return call, turns


def opt_out_in(call: Call, events: Sequence[Event]) -> OptOut:
    """What goes on the suppression list when the callee of this call has asked for it."""
    at = next((event.at for event in events if isinstance(event, OptedOut)), call.created_at)
    return OptOut(
        account_id=call.account_id, number=call.to, source=OptOutSource.CALLEE, call_id=call.id, created_at=at
    )
