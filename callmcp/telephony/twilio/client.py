"""Twilio as a carrier: places, looks at and ends calls through its REST API.

There is no idempotency key on POST /Calls: a request that is repeated rings a person twice. Only what was certainly
not done is repeated (429, no connection); whatever may have been done makes the call `unknown`, to be found by its
callbacks or by `look` (TWILIO.md sections 0 and 9).
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any, TypeVar

import structlog
from twilio.base.exceptions import TwilioRestException, TwilioServiceException

from callmcp.agents.model import Agent
from callmcp.calls.events import Asked, Event, HungUp, Leaving
from callmcp.calls.model import Call, CallError, EndReason
from callmcp.calls.ports import Media, Observe
from callmcp.clock import Clock
from callmcp.errors import CarrierError, CarrierRefused, CarrierUncertain, NotFound
from callmcp.telephony.twilio import errors
from callmcp.telephony.twilio.addresses import RETRIES, Addresses, Report
from callmcp.telephony.twilio.callbacks import status_events
from callmcp.telephony.twilio.transport import ANSWER_SECONDS, UNREADABLE, NoAnswer, NotSent, Transport, client_of
from callmcp.telephony.twilio.twiml import converse

log = structlog.get_logger()
T = TypeVar("T")

EVENTS = ("initiated", "ringing", "answered", "completed")
RING_SECONDS = 45
TRIES = 3
FIRST_PAUSE = 0.5
NOT_FOUND = "20404"
ALREADY_OVER = frozenset({NOT_FOUND, "21220"})
SEARCHED = 50
# Twilio dates to the second and by its own clock.
BEFORE = timedelta(seconds=5)
AFTER = timedelta(seconds=90)
_FIRST_SERVER_ERROR = 500
_OK = 200
_NOT_FOUND_HTTP = 404
NO_TALK = CallError(
    code="no_talk",
    message="Somebody or something answered, but this server was not there to talk: it was down, or the carrier could "
    "not reach it. Whoever runs the server should check its public URL: callmcp doctor.",
)


class TwilioTelephony:
    """Implements Telephony. `account_sid` with its auth token, or with an API key and its secret."""

    name = "twilio"
    carries = False

    def __init__(
        self,
        *,
        account_sid: str,
        username: str,
        password: str,
        caller_id: str,
        addresses: Addresses,
        clock: Clock,
        api_url: str | None = None,
        answer_within: float = ANSWER_SECONDS,
    ) -> None:
        self._account_sid = account_sid
        self._credentials = (username, password)
        self._caller_id = caller_id
        self._addresses = addresses
        self._clock = clock
        self._transport = Transport(answer_within)
        self._client = client_of(
            self._transport, account_sid=account_sid, username=username, password=password, api_url=api_url
        )

    async def close(self) -> None:
        await self._transport.close()

    def caller_id(self, agent: Agent) -> str:
        return agent.from_number or self._caller_id

    async def place(self, call: Call, agent: Agent, _: Observe) -> str:
        status_at = self._addresses.of(call, Report.STATUS) + RETRIES
        amd_at = self._addresses.of(call, Report.AMD) + RETRIES

        async def create() -> str:
            made = await self._client.calls.create_async(
                to=call.to,
                from_=call.from_number,
                twiml=converse(call, agent, self._addresses),
                status_callback=status_at,
                status_callback_method="POST",
                status_callback_event=list(EVENTS),
                timeout=RING_SECONDS,
                time_limit=call.max_duration_seconds,
                # A message is left when the greeting is over; without one a machine need not be heard out.
                machine_detection="DetectMessageEnd" if call.voicemail_message else "Enable",
                async_amd="true",
                async_amd_status_callback=amd_at,
                async_amd_status_callback_method="POST",
            )
            if not isinstance(made.sid, str) or not made.sid:
                raise CarrierUncertain("The carrier took the call and gave it no name.")
            return made.sid

        return await self._asked(create, again_if_unanswered=False)

    async def end(self, call: Call) -> None:
        """A call that Twilio has not named yet cannot be ended; it is as soon as it is named (Calls.observe)."""
        if call.carrier_id is None:
            return
        sid = call.carrier_id

        async def complete() -> None:
            # `completed` ends a call in any state; `canceled` leaves one alone that has just been answered.
            await self._client.calls(sid).update_async(status="completed")

        try:
            await self._asked(complete, again_if_unanswered=True)
        except CarrierRefused as error:
            if error.carrier_code not in ALREADY_OVER:
                raise

    async def look(self, call: Call, *, is_another: Callable[[str], Awaitable[bool]]) -> Sequence[Event]:
        if call.carrier_id is None:
            found = await self._search(call, is_another)
        else:
            found = await self._fetch(call.carrier_id)
        if found is None:
            return ()
        now = self._clock.now()
        told = status_events(_as_callback(found, now), now)
        if isinstance(told[-1], HungUp) and _nobody_of_ours_was_there(call):
            # Somebody was on the line, and neither a talk nor Twilio's report of its end has reached us.
            told = [*told[:-1], Leaving(at=now, reason=EndReason.SERVER_LOST, error=NO_TALK), told[-1]]
        return told if found.status not in {"queued", "initiated", "ringing", "in-progress"} else [*told, Asked(at=now)]

    @asynccontextmanager
    async def recording(self, carrier_id: str) -> AsyncIterator[Media]:
        """As MP3. For a moment after `completed`, Twilio may not have it yet (TWILIO.md section 10)."""
        url = f"{self._client.api.base_url}/2010-04-01/Accounts/{self._account_sid}/Recordings/{carrier_id}.mp3"
        for pause in (*(FIRST_PAUSE * 2**n for n in range(TRIES - 1)), None):
            try:
                async with self._transport.media(url, self._credentials) as answer:
                    if answer.status_code == _OK:
                        yield Media(
                            content_type=answer.headers.get("content-type", "audio/mpeg"),
                            length=_length(answer.headers.get("content-length", "")),
                            chunks=answer.aiter_raw(),
                        )
                        return
                    status = answer.status_code
            except (NotSent, NoAnswer) as error:
                raise CarrierUncertain(f"The carrier did not answer: {error}") from error
            if status != _NOT_FOUND_HTTP:
                raise CarrierUncertain(f"The carrier answered with HTTP {status}.", carrier_code=str(status))
            if pause is not None:
                await self._clock.sleep(pause)
        raise NotFound(
            "The carrier does not have this recording; it may have been deleted.", code="recording_not_found"
        )

    async def _fetch(self, sid: str) -> Any:  # noqa: ANN401 - the library's instance
        async def fetch() -> Any:  # noqa: ANN401
            found = await self._client.calls(sid).fetch_async()
            if found.sid != sid:
                raise CarrierUncertain("The carrier was asked about one call and spoke of another.")
            return found

        try:
            return await self._asked(fetch, again_if_unanswered=True)
        except CarrierRefused as error:
            if error.carrier_code == NOT_FOUND:
                return None
            raise

    async def _search(self, call: Call, is_another: Callable[[str], Awaitable[bool]]) -> Any:  # noqa: ANN401
        """The one call that ours must be: same numbers, made at that time, and no other call of ours."""

        async def search() -> Any:  # noqa: ANN401
            return await self._client.calls.list_async(to=call.to, from_=call.from_number, limit=SEARCHED)

        fitting = [
            found
            for found in await self._asked(search, again_if_unanswered=True)
            if found.date_created is None
            or call.created_at - BEFORE <= found.date_created.astimezone(UTC) <= call.created_at + AFTER
        ]
        ours = [found for found in fitting if found.sid and not await is_another(found.sid)]
        return ours[0] if len(ours) == 1 else None

    async def _asked(self, ask: Callable[[], Awaitable[T]], *, again_if_unanswered: bool) -> T:
        """What Twilio answers. Asks again what it certainly did not do, and with `again_if_unanswered` also what it
        may have done. Raises CarrierRefused or CarrierUncertain."""
        failed: CarrierError = CarrierUncertain("The carrier was not asked.")
        for pause in (*(FIRST_PAUSE * 2**n for n in range(TRIES - 1)), None):
            try:
                return await ask()
            except NotSent as error:
                failed = CarrierRefused(errors.NOT_REACHED.words, code=errors.NOT_REACHED.code, passing=True)
                log.warning("carrier_not_reached", why=str(error))
            except NoAnswer as error:
                failed = CarrierUncertain(f"The carrier did not answer: {error}")
            except (TwilioRestException, TwilioServiceException) as error:
                failed = _failure(error)
            except CarrierUncertain as uncertain:
                failed = uncertain
            except UNREADABLE as error:
                failed = CarrierUncertain(f"The carrier's answer could not be read: {type(error).__name__}")
            log.warning("carrier_failed", code=failed.code, carrier_code=failed.carrier_code)
            not_done = failed.code in {errors.BUSY.code, errors.NOT_REACHED.code}
            again = not_done or (again_if_unanswered and isinstance(failed, CarrierUncertain))
            if pause is None or not again:
                break
            await self._clock.sleep(pause)
        raise failed


def _length(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None


def _failure(error: TwilioRestException | TwilioServiceException) -> CarrierError:
    status = int(error.status or 0)
    code = error.code if isinstance(error.code, int) and error.code else status
    words = str(getattr(error, "msg", None) or getattr(error, "detail", None) or error)
    if status >= _FIRST_SERVER_ERROR:
        return CarrierUncertain(f"The carrier answered with HTTP {status}.", carrier_code=str(code))
    return errors.refusal(errors.BUSY_HTTP.get(status, code), words)


def _nobody_of_ours_was_there(call: Call) -> bool:
    return call.end_reason is None and call.end_requested_at is None and call.turn_count == 0


def _as_callback(found: Any, now: datetime) -> dict[str, str]:  # noqa: ANN401
    """A call as the REST API shows it, under the names that callbacks have."""
    ended: datetime | None = found.end_time
    return {
        "CallSid": str(found.sid),
        "CallStatus": str(found.status),
        "Timestamp": format_datetime(ended or now),
        "CallDuration": str(found.duration or ""),
    }
