"""The recording of a call over HTTP: fetched from the carrier with the carrier's credentials, given to who may read the
call. Nobody but this server ever sees where the carrier keeps it.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import structlog
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse

from callmcp.calls.model import Call, Recording, RecordingStatus
from callmcp.calls.operations import Calls
from callmcp.calls.ports import Telephony
from callmcp.errors import CarrierError, Forbidden, NotFound, Unauthenticated, Unavailable
from callmcp.identity.model import Principal

log = structlog.get_logger()

Authenticate = Callable[[Sequence[tuple[bytes, bytes]]], Awaitable[Principal]]
RETRY_AFTER_SECONDS = 10
WHY_NONE = {
    None: "This call was not to be recorded; whether a voice agent records is its operator's choice.",
    RecordingStatus.REQUESTED: "The recording has not begun: it does when the call is answered.",
    RecordingStatus.IN_PROGRESS: "The call is still being recorded; fetch it when the recording is completed.",
    RecordingStatus.ABSENT: "There was nothing to record, or this carrier records nothing.",
    RecordingStatus.FAILED: "The carrier could not record this call.",
}


class Recordings:
    """GET /calls/{call_id}/recording, as MP3, with a key that has calls:read. Errors are JSON, their words for whoever
    asked."""

    def __init__(
        self,
        *,
        calls: Calls,
        telephony: Telephony,
        authenticate: Authenticate,
        challenge: Callable[[Unauthenticated | Forbidden], str],
    ) -> None:
        self._calls = calls
        self._telephony = telephony
        self._authenticate = authenticate
        self._challenge = challenge

    async def answer(self, request: Request) -> Response:
        try:
            principal = await self._authenticate(request.scope["headers"])
            call, _ = await self._calls.get(principal, request.path_params["call_id"])
            return await self._media(call)
        except (Unauthenticated, Forbidden) as cause:
            status = 401 if isinstance(cause, Unauthenticated) else 403
            return _error(status, cause.code, cause.message, {"WWW-Authenticate": self._challenge(cause)})
        except NotFound as error:
            return _error(404, error.code, error.message)
        except (CarrierError, Unavailable) as error:
            log.warning("recording_not_fetched", code=error.code)
            words = "The recording cannot be fetched from the carrier now; try again."
            return _error(503, "unavailable", words, {"Retry-After": str(RETRY_AFTER_SECONDS)})

    async def _media(self, call: Call) -> Response:
        carrier_id = fetchable(call.recording)
        media = self._telephony.recording(carrier_id)
        opened = await media.__aenter__()  # before the answer begins: a carrier that has none makes it a 404

        async def chunks() -> AsyncIterator[bytes]:
            try:
                async for chunk in opened.chunks:
                    yield chunk
            finally:
                await media.__aexit__(None, None, None)

        headers = {
            "Content-Disposition": f'attachment; filename="{call.id}.mp3"',
            "Cache-Control": "private, no-store",
            "X-Content-Type-Options": "nosniff",
        }
        if opened.length is not None:
            headers["Content-Length"] = str(opened.length)
        return StreamingResponse(chunks(), headers=headers, media_type=opened.content_type)


def fetchable(recording: Recording | None) -> str:
    """The carrier's name of a recording that is complete. Raises NotFound."""
    if recording is not None and recording.status is RecordingStatus.COMPLETED and recording.carrier_id is not None:
        return recording.carrier_id
    raise NotFound(WHY_NONE[recording.status if recording else None], code="no_recording")


def _error(status: int, code: str, words: str, headers: dict[str, str] | None = None) -> Response:
    return JSONResponse({"error": words, "code": code}, status, headers)
