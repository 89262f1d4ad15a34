"""What events make of a stored call."""

from collections.abc import Sequence

from callmcp.calls import state
from callmcp.calls.events import Event, TurnSpoken
from callmcp.calls.model import Call, Turn


def fold(call: Call, events: Sequence[Event]) -> tuple[Call, Sequence[Turn]]:
    """The call after `events`, and the turns that they add to it."""
    turns = []
    for event in events:
        after = state.apply(call, event)
        if isinstance(event, TurnSpoken) and after.turn_count > call.turn_count:
            turns.append(Turn(index=call.turn_count, at=event.at, speaker=event.speaker, text=event.text))
        call = after
    return call, turns
