"""The driver of a talk: Line x Session x Models x observe. The only asyncio in conversation/."""

import asyncio
import contextlib
import logging
from collections.abc import Coroutine, Sequence
from typing import Any

from callmcp.agents.model import Agent
from callmcp.calls import events as facts
from callmcp.calls.events import HungUp, Judged, Leaving
from callmcp.calls.model import Call, EndReason, Outcome, Speaker, Turn
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
from callmcp.conversation.manners import Manners
from callmcp.conversation.outcome import outcome_of, unjudged, unspoken
from callmcp.conversation.phrases import phrases_in
from callmcp.conversation.ports import Line, Models
from callmcp.conversation.prompt import Brief, brief_of, disclosure, opening_of, voicemail_of
from callmcp.conversation.session import Session
from callmcp.errors import Unavailable

logger = logging.getLogger(__name__)
JUDGING_SECONDS = 10
STORE_AGAIN_SECONDS = 1
STORED_WITHIN_SECONDS = 30


async def talk(
    call: Call,
    agent: Agent,
    *,
    line: Line,
    models: Models,
    observe: Observe,
    clock: Clock,
    turns: Sequence[Turn] = (),
    manners: Manners | None = None,
) -> bool:
    """Holds the whole conversation of an answered call, from the pick-up to the end of the line.

    Turns and facts are observed as they happen, in their order; a store that is away is waited for while the talk goes
    on. The outcome is judged when the line has closed and is observed together with the end, so that whoever sees a
    finished call sees its outcome. `turns` are what was said before, when the line broke and is there again. Lasts at
    most what is left of the call's `max_duration_seconds`, and a little for hanging up and judging.

    False: the line broke, and the call is not over by that. Raises Unavailable when the store stays away too long.
    """
    brief = brief_of(call, agent)
    session = Session(
        opening=opening_of(call, agent),
        disclosure=disclosure(agent, call.language),
        voicemail=voicemail_of(call, agent),
        models=len(agent.models),
        turns=turns,
        manners=manners or Manners(phrases=phrases_in(call.language)),
    )
    driver = _Driver(call, agent, session, brief, line=line, models=models, observe=observe, clock=clock)
    try:
        end = await driver.run()
        await driver.stored()
    finally:
        await driver.stop()
    if end is None:
        return False
    # Judging takes seconds, and the carrier may say before it is done that the line is down: why must be known by then.
    await observe(call.id, Leaving(at=end.at, reason=end.reason or EndReason.CALLEE_HUNG_UP, error=end.error))
    outcome = await _outcome(call, agent, brief, session, end, models=models, clock=clock)
    judged = [] if outcome is None else [Judged(at=end.at, outcome=outcome)]
    await observe(call.id, *judged, end)
    return True


class _Driver:
    def __init__(
        self,
        call: Call,
        agent: Agent,
        session: Session,
        brief: Brief,
        *,
        line: Line,
        models: Models,
        observe: Observe,
        clock: Clock,
    ) -> None:
        self._call = call
        self._agent = agent
        self._session = session
        self._brief = brief
        self._line = line
        self._models = models
        self._observe = observe
        self._clock = clock
        self._inbox: asyncio.Queue[Event] = asyncio.Queue()
        self._facts: asyncio.Queue[facts.Event] = asyncio.Queue()
        self._tasks: dict[str, asyncio.Task[None]] = {}

    async def run(self) -> HungUp | None:
        self._start("listening", self._listen())
        self._start("storing", self._store())
        self._start("limit", self._later(self._seconds_left(), TimeUp()))
        self._start("opening", self._open())
        while True:
            event = await self._inbox.get()
            for action in self._session.receive(event, self._clock.now()):
                if isinstance(action, Finish):
                    return action.end
                await self._act(action)

    async def stored(self) -> None:
        """Returns when all that was to be observed has been. Raises Unavailable when that takes too long."""
        storing = self._tasks["storing"]
        emptied = asyncio.create_task(self._facts.join())
        try:
            async with asyncio.timeout(STORED_WITHIN_SECONDS):
                await asyncio.wait({storing, emptied}, return_when=asyncio.FIRST_COMPLETED)
        except TimeoutError:
            raise Unavailable("The talk could not be stored.") from None
        finally:
            emptied.cancel()
        if storing.done():
            storing.result()

    async def stop(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    def _seconds_left(self) -> float:
        answered_at = self._call.answered_at or self._clock.now()
        return max(0.0, self._call.max_duration_seconds - (self._clock.now() - answered_at).total_seconds())

    async def _act(self, action: Action) -> None:
        match action:
            case Say(text, last, interruptible):
                await self._line.say(text, last=last, interruptible=interruptible)
            case SendDigits(digits):
                await self._line.send_digits(digits)
            case EndCall(reason):
                await self._line.end(reason)
            case AskModel(answer, model):
                self._start("answer", self._ask(answer, self._agent.models[model], self._session.transcript))
            case StopModel():
                self._cancel("answer")
            case Wait(wait, seconds):
                self._start("wait", self._later(seconds, WaitOver(wait)))
            case Report(fact):
                self._facts.put_nowait(fact)
            case Finish():
                pass  # `run` does

    def _start(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        """There is one task of each name; a new one replaces the old."""
        self._cancel(name)
        self._tasks[name] = asyncio.create_task(work)

    def _cancel(self, name: str) -> None:
        if name in self._tasks:
            self._tasks[name].cancel()

    async def _open(self) -> None:
        """Has the models ready by the time they are asked; why one is not is told then."""
        for model in self._agent.models:
            with contextlib.suppress(Exception):
                await self._models.named(model)

    async def _listen(self) -> None:
        try:
            async for event in self._line.events():
                self._inbox.put_nowait(event)
        except Exception:  # whatever a line's adapter dies of, the talk ends with a record
            logger.exception("line_failed", extra={"call_id": self._call.id})
        self._inbox.put_nowait(LineLost())  # of no consequence after LineClosed

    async def _store(self) -> None:
        """Observes the facts in their order, those that have gathered together. The callee never waits for it."""
        try:
            while True:
                gathered = [await self._facts.get()]
                while not self._facts.empty():
                    gathered.append(self._facts.get_nowait())
                await self._observe_in_the_end(gathered)
                for _ in gathered:
                    self._facts.task_done()
        finally:
            self._inbox.put_nowait(LineLost())  # a talk that cannot be recorded is not held

    async def _observe_in_the_end(self, gathered: Sequence[facts.Event]) -> None:
        while True:
            try:
                await self._observe(self._call.id, *gathered)
            except Unavailable:
                logger.warning("observe_retried", extra={"call_id": self._call.id})
                await self._clock.sleep(STORE_AGAIN_SECONDS)
            else:
                return

    async def _later(self, seconds: float, event: Event) -> None:
        await self._clock.sleep(seconds)
        self._inbox.put_nowait(event)

    async def _ask(self, answer: int, model: str, turns: Sequence[Turn]) -> None:
        try:
            speaking = await self._models.named(model)
            async for piece in speaking.answer(self._brief, turns):
                self._inbox.put_nowait(Answering(answer, piece))
        except Exception:  # whatever a model's adapter dies of, the next one answers or the callee hears a goodbye
            logger.exception("model_failed", extra={"call_id": self._call.id, "model": model})
            self._inbox.put_nowait(AnswerFailed(answer))
        else:
            self._inbox.put_nowait(AnswerOver(answer))


async def _outcome(
    call: Call, agent: Agent, brief: Brief, session: Session, end: HungUp, *, models: Models, clock: Clock
) -> Outcome | None:
    """None: the record says by itself what came of a call that a machine answered."""
    if end.reason is EndReason.MACHINE:
        return None
    turns = session.transcript
    if not any(turn.speaker is Speaker.CALLEE for turn in turns):
        by_us = end.reason is EndReason.ENDED_BY_CALLER
        summary = "The call was ended before anybody said a word." if by_us else "Whoever answered did not say a word."
        return unspoken(call.questions, summary)
    for model in agent.models[session.model :]:
        try:
            judge = await models.named(model)
            judgement = await within(JUDGING_SECONDS, judge.judge(brief, turns, end.reason), clock=clock)
        except Exception:  # the end of the call is recorded whatever a model dies of, a TimeoutError included
            logger.exception("judging_failed", extra={"call_id": call.id, "model": model})
        else:
            return outcome_of(judgement, questions=call.questions, turns=turns, noted=session.noted)
    return unjudged(call.questions, turns, session.noted)
