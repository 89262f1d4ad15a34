"""The REST API, 2010-04-01: calls, recordings, and what a check of the account asks."""

import base64
import hmac
import json
from collections.abc import Awaitable, Callable, Collection
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.twilio_emulator.answers import answered
from tests.twilio_emulator.chaos import Chaos
from tests.twilio_emulator.checks import Form, address, order, recording_events
from tests.twilio_emulator.listing import calls_page
from tests.twilio_emulator.model import VERSION, Call, Recording, Status, Webhook
from tests.twilio_emulator.recordings import mp3, start, stop, wav
from tests.twilio_emulator.refusals import Refused
from tests.twilio_emulator.timeline import live
from tests.twilio_emulator.twiml import Document, Redirect, read
from tests.twilio_emulator.world import World

Handler = Callable[[World, Request, Form], Awaitable[Response]]
UPDATES = {"Status", "Url", "Method", "Twiml", "FallbackUrl", "FallbackMethod", "TimeLimit"} | {
    "StatusCallback",
    "StatusCallbackMethod",
}


def routes(world: World) -> list[Route]:
    account = f"/{VERSION}/Accounts/{{account}}"

    def at(path: str, method: str, handler: Handler, on: str = "") -> Route:
        async def endpoint(request: Request) -> Response:
            return await _serve(world, request, handler, on)

        return Route(account + path, endpoint, methods=[method])

    return [
        at(".json", "GET", fetch_account, "account"),
        at("/IncomingPhoneNumbers.json", "GET", list_numbers, "numbers"),
        at("/OutgoingCallerIds.json", "GET", list_caller_ids, "numbers"),
        at("/Calls.json", "POST", create, "create"),
        at("/Calls.json", "GET", list_calls, "list"),
        at("/Calls/{sid}/Recordings.json", "POST", create_recording, "recording"),
        at("/Calls/{sid}/Recordings.json", "GET", list_recordings, "recording"),
        at("/Calls/{sid}/Recordings/{recording}.json", "GET", fetch_recording, "recording"),
        at("/Calls/{sid}/Recordings/{recording}.json", "POST", update_recording, "recording"),
        at("/Calls/{sid}/Recordings/{recording}.json", "DELETE", delete_recording, "recording"),
        at("/Calls/{sid}.json", "GET", fetch, "fetch"),
        at("/Calls/{sid}.json", "POST", update, "update"),
        at("/Calls/{sid}.json", "DELETE", delete, "delete"),
        at("/Recordings/{recording}.json", "GET", fetch_recording, "recording"),
        at("/Recordings/{recording}.wav", "GET", media, "media"),
        at("/Recordings/{recording}.mp3", "GET", media, "media"),
        at("/Recordings/{recording}", "GET", media, "media"),
    ]


async def _serve(world: World, request: Request, handler: Handler, on: str) -> Response:
    body = await request.body()
    form = parse_qs(body.decode(errors="replace"), keep_blank_values=True)
    world.journal.note("request", request.path_params.get("sid", ""), on=on, method=request.method, form=form)
    try:
        _admit(world, request, on)
        chaos = _chaos(world, request, form, on)
        return await answered(world, request, on, chaos, lambda: handler(world, request, form))
    except Refused as refused:
        world.journal.note("answer", on=on, status=refused.status, code=refused.code)
        return JSONResponse(refused.body(), refused.status)


def _admit(world: World, request: Request, on: str) -> None:
    """HTTP Basic with the account's token or an API key. Raises Refused."""
    settings = world.settings
    scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
    try:
        user, _, secret = base64.b64decode(encoded, validate=True).decode().partition(":")
    except ValueError:
        user, secret = "", ""
    secrets = {settings.account_sid: settings.auth_token, settings.api_key: settings.api_secret}
    known = user in secrets and hmac.compare_digest(secrets[user].encode(), secret.encode())
    if scheme.lower() != "basic" or not known:
        raise Refused(20003)
    if request.path_params["account"] != settings.account_sid:
        raise Refused(20404, request.url.path)
    if settings.test_credentials and on != "create":
        raise Refused(20008)


def _chaos(world: World, request: Request, form: Form, on: str) -> list[Chaos]:
    """What was thrown for the call that this is about, or for the number."""
    if "sid" in request.path_params:
        call = world.calls.get(request.path_params["sid"])
        return [] if call is None else call.chaos
    to = request.query_params.get("To", "") if on == "list" else form.get("To", [""])[0]
    plan = world.plan_for(to)
    if on == "list" and plan is None:
        calls = [call for call in world.calls.values() if call.order.to == to]
        return calls[-1].chaos if calls else []
    return [] if plan is None else plan.chaos


def _call(world: World, request: Request) -> Call:
    call = world.calls.get(request.path_params["sid"])
    if call is None:
        raise Refused(20404, request.url.path)
    return call


def _recording(world: World, request: Request) -> Recording:
    recording = world.recordings.get(request.path_params["recording"])
    if recording is None:
        raise Refused(20404, request.url.path)
    return recording


async def create(world: World, request: Request, form: Form) -> Response:
    if "application/x-www-form-urlencoded" not in request.headers.get("content-type", ""):
        world.journal.violation("POST Calls is not a form")
    placed = world.place(order(form, world.settings, world.journal))
    resource = placed.resource(fresh=True)
    if world.settings.test_credentials:
        placed.settled = True  # no call is made, and nobody told of one
    else:
        world.spawn(live(world, placed))
    response = JSONResponse(resource, 201)
    response.headers["Twilio-Concurrent-Requests"] = "1"
    request.state.placed = placed.sid
    return response


async def fetch(world: World, request: Request, form: Form) -> Response:  # noqa: ARG001
    return JSONResponse(_call(world, request).resource())


async def list_calls(world: World, request: Request, form: Form) -> Response:  # noqa: ARG001
    return JSONResponse(calls_page(world, request))


async def update(world: World, request: Request, form: Form) -> Response:
    call = _call(world, request)
    for name in form.keys() - UPDATES:
        world.journal.violation(f"{name} is no parameter of a call's update", call.sid)
    one = {name: values[-1] for name, values in form.items()}
    status = one.get("Status", "")
    if status not in ("", "completed", "canceled"):
        raise Refused(20001, f"Status={status}")
    if status and call.status.final:
        raise Refused(20404, request.url.path)  # seen in the wild for a hang-up after the end
    if status == "completed" or (status == "canceled" and call.status in (Status.QUEUED, Status.RINGING)):
        call.hang_up("api")
    if "Url" in one or "Twiml" in one:
        _redirect(world, call, one)
    if "StatusCallback" in one and "Url" not in one:
        world.journal.violation("StatusCallback without Url is ignored in an update", call.sid)
    resource = call.resource()
    if status == "completed":
        resource["status"] = "completed" if call.answered_at is not None else "canceled"
    return JSONResponse(resource)


def _redirect(world: World, call: Call, one: dict[str, str]) -> None:
    if call.status is not Status.IN_PROGRESS:
        raise Refused(21220)
    if "Url" in one and "Twiml" in one:
        raise Refused(20001, "Url and Twiml exclude each other")
    if "Url" in one:
        verb = Redirect(url=address(one["Url"], 21205), method=one.get("Method", "POST"))
        call.redirect(Document("", [verb]))
        return
    document = read(one["Twiml"], loopback_ws=world.settings.loopback_ws)
    for code, words in document.alerts:
        world.journal.alert(code, words, call.sid)
    call.redirect(document)


async def delete(world: World, request: Request, form: Form) -> Response:  # noqa: ARG001
    call = _call(world, request)
    if not call.status.final:
        raise Refused(20009, call.sid)
    world.calls.pop(call.sid)
    return Response(status_code=204)


async def create_recording(world: World, request: Request, form: Form) -> Response:
    call = _call(world, request)
    if call.status is not Status.IN_PROGRESS:
        raise Refused(21220)
    one = {name: values[-1] for name, values in form.items()}
    callback = one.get("RecordingStatusCallback")
    recording = start(
        world,
        call,
        "StartCallRecordingAPI",
        Webhook(url=address(callback, 21609)) if callback else None,
        recording_events(form, world.journal),
        channels=one.get("RecordingChannels", "mono"),
        track=one.get("RecordingTrack", "both"),
    )
    return JSONResponse(recording.resource(), 201)


async def list_recordings(world: World, request: Request, form: Form) -> Response:  # noqa: ARG001
    call = _call(world, request)
    shown = [recording.resource() for recording in call.recordings]
    return JSONResponse({"recordings": shown, "page": 0, "page_size": 50, "uri": request.url.path})


async def fetch_recording(world: World, request: Request, form: Form) -> Response:  # noqa: ARG001
    return JSONResponse(_recording(world, request).resource())


async def update_recording(world: World, request: Request, form: Form) -> Response:
    call, recording = _call(world, request), _recording(world, request)
    status = form.get("Status", [""])[-1]
    if status not in ("paused", "in-progress", "stopped"):
        raise Refused(20001, f"Status={status}")
    if status == "stopped":
        stop(world, call, recording)
    elif recording.status in ("paused", "in-progress"):
        recording.status = status
    return JSONResponse(recording.resource())


async def delete_recording(world: World, request: Request, form: Form) -> Response:  # noqa: ARG001
    recording = _recording(world, request)
    world.recordings.pop(recording.sid)
    _call(world, request).recordings.remove(recording)
    return Response(status_code=204)


async def media(world: World, request: Request, form: Form) -> Response:  # noqa: ARG001
    recording = _recording(world, request)
    if recording.status != "completed":
        raise Refused(20404, request.url.path)
    if request.url.path.endswith(".mp3"):
        return Response(mp3(recording), media_type="audio/mpeg")
    return Response(wav(recording), media_type="audio/x-wav")


async def fetch_account(world: World, request: Request, form: Form) -> Response:  # noqa: ARG001
    settings = world.settings
    return JSONResponse(
        {
            "sid": settings.account_sid,
            "owner_account_sid": settings.account_sid,
            "friendly_name": "Emulated account",
            "status": settings.account_status,
            "type": "Trial" if settings.trial else "Full",
            "uri": request.url.path,
        }
    )


def _numbers(key: str, numbers: list[str], request: Request, *, voiceless: Collection[str] = ()) -> Response:
    wanted = request.query_params.get("PhoneNumber", "")
    shown = [
        {
            "sid": "PN" + f"{n:032x}",
            "phone_number": number,
            "friendly_name": number,
            "capabilities": {"voice": number not in voiceless},
        }
        for n, number in enumerate(numbers)
        if wanted in ("", number)
    ]
    page = {"page": 0, "page_size": 50, "start": 0, "end": max(0, len(shown) - 1), "uri": request.url.path}
    return Response(json.dumps({key: shown, "next_page_uri": None, **page}), media_type="application/json")


async def list_numbers(world: World, request: Request, form: Form) -> Response:  # noqa: ARG001
    settings = world.settings
    return _numbers("incoming_phone_numbers", settings.numbers, request, voiceless=settings.voiceless)


async def list_caller_ids(world: World, request: Request, form: Form) -> Response:  # noqa: ARG001
    return _numbers("outgoing_caller_ids", world.settings.verified, request)
