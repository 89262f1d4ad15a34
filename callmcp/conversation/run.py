"""The driver of a talk: Line x Session x LanguageModel x observe. The only asyncio in conversation/."""

import asyncio
import logging
from collections.abc import Coroutine, Sequence
from typing import Any

from callmcp.agents.model import Agent
from callmcp.calls.events import DialFailed, HungUp, Judged, Leaving
from callmcp.calls.model import Call, EndReason, GoalMet, Outcome, Speaker, Turn
from callmcp.calls.ports import Observe
from callmcp.clock import Clock, within
from callmcp.conversation.events import (
    Action,
    AnswerFailed,
    Answering,
    AnswerOver,
    AskModel,
    EndCall,
    Event,
    Finish,
    LineLost,
    Report,
    Say,
    SendDigits,
    StopModel,
    TimeUp,
    Wait,
    WaitOver,
)
from callmcp.conversation.ports import LanguageModel, Line
from callmcp.conversation.prompt import Brief, opening
from callmcp.conversation.session import Manners, Session

logger = logging.getLogger(__name__)
JUDGING_SECONDS = 10


async def talk(
    call: Call,
    agent: Agent,
    *,
    line: Line,
    model: LanguageModel,
    observe: Observe,
    clock: Clock,
    manners: Manners | None = None,
) -> None:
    """Holds the whole conversation of an answered call, from the pick-up to the end of the line.

    Turns and facts are observed as they happen. The outcome is judged when the line has closed and is observed
    together with the end, so that whoever sees a finished call sees its outcome. Lasts at most the call's
    `max_duration_seconds`, and a little for hanging up and judging.
    """
    brief = Brief(agent=agent, context=call.context)
    session = Session(opening=opening(agent), manners=manners)
    driver = _Driver(call, session, brief, line=line, model=model, observe=observe, clock=clock)
    try:
        end = await driver.run()
    finally:
        await driver.stop()
    # Judging takes seconds, and the carrier may say before it is done that the line is down: why must be known by then.
    await observe(call.id, Leaving(at=end.at, reason=end.reason or EndReason.CALLEE_HUNG_UP, error=end.error))
    outcome = await _outcome(brief, session.transcript, end, model=model, clock=clock)
    judged = [] if outcome is None else [Judged(at=end.at, outcome=outcome)]
    await observe(call.id, *judged, end)


class _Driver:
    def __init__(
        self,
        call: Call,
        session: Session,
        brief: Brief,
        *,
        line: Line,
        model: LanguageModel,
        observe: Observe,
        clock: Clock,
    ) -> None:
        self._call = call
        self._session = session
        self._brief = brief
        self._line = line
        self._model = model
        self._observe = observe
        self._clock = clock
        self._inbox: asyncio.Queue[Event] = asyncio.Queue()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> HungUp | DialFailed:
        self._start("listening", self._listen())
        self._start("limit", self._later(self._call.max_duration_seconds, TimeUp()))
        while True:
            event = await self._inbox.get()
            actions = self._session.receive(event, self._clock.now())
            # The line first: a store that takes its time must not make the callee wait for the agent's words.
            for action in actions:
                await self._act(action)
            facts = [action.fact for action in actions if isinstance(action, Report)]
            if facts:
                await self._observe(self._call.id, *facts)
            if actions and isinstance(actions[-1], Finish):
                return actions[-1].end

    async def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _act(self, action: Action) -> None:
        match action:
            case Say(text, last):
                await self._line.say(text, last=last)
            case SendDigits(digits):
                await self._line.send_digits(digits)
            case EndCall():
                await self._line.end()
            case AskModel(answer):
                self._start("answer", self._ask(answer, self._session.transcript))
            case StopModel():
                self._cancel("answer")
            case Wait(wait, seconds):
                self._start("wait", self._later(seconds, WaitOver(wait)))
            case _:
                pass  # Report and Finish, which `run` does

    def _start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """There is one task of each name; a new one replaces the old."""
        self._cancel(name)
        self._tasks[name] = asyncio.create_task(work)

    def _cancel(self, name: str) -> None:
        if name in self._tasks:
            self._tasks[name].cancel()

    async def _listen(self) -> None:
        try:
            async for event in self._line.events():
                self._inbox.put_nowait(event)
        except Exception:  # whatever a line's adapter dies of, the talk ends with a record
            logger.exception("line_failed", extra={"call_id": self._call.id})
        self._inbox.put_nowait(LineLost())  # of no consequence after LineClosed

    async def _later(self, seconds: float, event: Event) -> None:
        await self._clock.sleep(seconds)
        self._inbox.put_nowait(event)

    async def _ask(self, answer: int, turns: Sequence[Turn]) -> None:
        try:
            async for piece in self._model.answer(self._brief, turns):
                self._inbox.put_nowait(Answering(answer, piece))
        except Exception:  # whatever a model's adapter dies of, the callee hears a goodbye
            logger.exception("model_failed", extra={"call_id": self._call.id})
            self._inbox.put_nowait(AnswerFailed(answer))
        else:
            self._inbox.put_nowait(AnswerOver(answer))


async def _outcome(
    brief: Brief, turns: Sequence[Turn], end: HungUp | DialFailed, *, model: LanguageModel, clock: Clock
) -> Outcome | None:
    """None: the record says by itself what came of a call that a machine answered."""
    if end.reason is EndReason.MACHINE:
        return None
    if not any(turn.speaker is Speaker.CALLEE for turn in turns):
        by_us = end.reason is EndReason.ENDED_BY_CALLER
        summary = "The call was ended before anybody said a word." if by_us else "Whoever answered did not say a word."
        return Outcome(goal_met=GoalMet.NO, summary=summary)
    try:
        return await within(JUDGING_SECONDS, model.judge(brief, turns, end.reason), clock=clock)
    except Exception:  # the end of the call is recorded whatever the model dies of, a TimeoutError included
        logger.exception("judging_failed")
    return Outcome(goal_met=GoalMet.UNKNOWN, summary="There was a conversation, but its outcome could not be judged.")
