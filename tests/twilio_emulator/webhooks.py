"""Requests that Twilio makes: signed, repeated by the rules in the URL's fragment, and bent by chaos.

The rules are those of twilio.com/docs/usage/webhooks/webhooks-connection-overrides.
"""

import asyncio
import secrets
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit, urlunsplit

import httpx

from tests.twilio_emulator.chaos import Switch, strike
from tests.twilio_emulator.model import Call, Webhook
from tests.twilio_emulator.signature import signature
from tests.twilio_emulator.world import World

Form = Sequence[tuple[str, str]]
REDIRECTS = 10
IN_TURN = 1.0  # real seconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """Seconds are real ones: it is a real network."""

    connect: float = 5.0
    read: float = 15.0
    retries: int = 1
    retried: frozenset[str] = frozenset({"ct"})

    @classmethod
    def of(cls, url: str) -> "Rules":
        given = dict(parse_qsl(urlsplit(url).fragment))
        return cls(
            connect=min(max(int(given.get("ct", 5000)), 100), 10_000) / 1000,
            read=min(max(int(given.get("rt", 15_000)), 100), 15_000) / 1000,
            retries=min(max(int(given.get("rc", 1)), 0), 5),
            retried=frozenset(given.get("rp", "ct").split(",")),
        )

    def again(self, kind: str) -> bool:
        return bool(self.retried & {kind, "all"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """`url` is where the answer came from in the end: what is relative in it is relative to that."""

    status: int
    text: str
    url: str


async def ask(world: World, call: Call, webhook: Webhook, form: Form, *, event: str) -> Answer | None:
    """Makes the request, and again as the rules have it. None: no answer, or not a 2xx; the Monitor says why.

    `event` names it in the journal and to chaos: initiated, ringing, answered, completed, amd, recording, action or
    twiml.
    """
    chaos = call.chaos
    if event in ("action", "twiml") and (late := strike(chaos, Switch.DELAY, event=event)) is not None:
        await world.pace.sleep(late.seconds)
    if strike(chaos, Switch.DROP, event=event):
        world.journal.note("dropped", call.sid, event=event, form=dict(form))
        return None
    if event == "action" and strike(chaos, Switch.ACTION_UNREACHABLE):
        world.journal.alert(11205, f"HTTP connection failure: {webhook.url}", call.sid)
        return None
    token = str(uuid.uuid4())
    if strike(chaos, Switch.FORGE, event=event):
        forged = [(name, "completed" if name == "CallStatus" else value) for name, value in form]
        await _send(world, call, webhook, forged, event=event, token=str(uuid.uuid4()), signed=False)
    signed = strike(chaos, Switch.BAD_SIGNATURE, event=event) is None
    answer = await _send(world, call, webhook, form, event=event, token=token, signed=signed)
    if strike(chaos, Switch.DUPLICATE, event=event):
        await _send(world, call, webhook, form, event=event, token=token, signed=signed)
    return answer


async def _send(
    world: World, call: Call, webhook: Webhook, form: Form, *, event: str, token: str, signed: bool
) -> Answer | None:
    rules = Rules.of(webhook.url)
    method, url = webhook.method, webhook.url.partition("#")[0]
    if method == "GET":
        url += ("&" if urlsplit(url).query else "?") + urlencode(form)
    left, followed = rules.retries, 0
    while True:
        sent = form if method == "POST" else ()
        kind, status, text, location = await _once(world, url, method, sent, rules, token=token, signed=signed)
        world.journal.note(
            "callback",
            call.sid,
            event=event,
            method=method,
            url=url,
            form=dict(form),
            token=token,
            signed=signed,
            answer=status or kind,
            text=text[:4000],
        )
        if status in (301, 302, 303, 307, 308) and location and followed < REDIRECTS:
            world.journal.violation(f"a {event} request was redirected, which loses its form", call.sid)
            method, url, followed = "GET", urljoin(url, location), followed + 1
            continue
        if 200 <= status < 300:
            return Answer(status=status, text=text, url=url)
        if left and rules.again(kind):
            left -= 1
            continue
        break
    # A failed TwiML or action request is 11200 or 11205; a failed status callback is 15003.
    code = (11205 if kind == "ct" else 11200) if event in ("action", "twiml") else 15003
    world.journal.alert(code, f"{event} request to {url} was answered {status or kind}", call.sid)
    return None


async def _once(
    world: World, url: str, method: str, form: Form, rules: Rules, *, token: str, signed: bool
) -> tuple[str, int, str, str]:
    """One attempt: what went wrong ("", ct, rt, 4xx, 5xx), the status or 0, the body, and where it points to."""
    to, host = route(world, url)
    key = world.settings.auth_token if signed else secrets.token_hex(16)
    headers = {
        "Host": host,
        "User-Agent": "TwilioProxy/1.1",
        "Accept": "*/*",
        "X-Twilio-Signature": signature(key, url, form),
        "I-Twilio-Idempotency-Token": token,
        "X-Home-Region": "us1",
    }
    content = None
    if method == "POST":
        headers["Content-Type"] = "application/x-www-form-urlencoded; charset=UTF-8"
        content = urlencode(form)
    limits = httpx.Timeout(rules.read, connect=rules.connect)
    try:
        answer = await world.http.request(method, to, headers=headers, content=content, timeout=limits)
    except (httpx.ConnectError, httpx.ConnectTimeout):
        return "ct", 0, "", ""
    except (httpx.HTTPError, httpx.InvalidURL):
        return "rt", 0, "", ""
    failed = f"{answer.status_code // 100}xx"
    return (
        failed if failed in ("4xx", "5xx") else "",
        answer.status_code,
        answer.text,
        answer.headers.get("location", ""),
    )


def route(world: World, url: str) -> tuple[str, str]:
    """Where a request for this URL really goes, and the Host it is for. A routed host is reached without TLS."""
    parts = urlsplit(url)
    there = world.settings.routes.get(parts.netloc)
    if there is None:
        return url, parts.netloc
    plain = {"https": "http", "wss": "ws"}.get(parts.scheme, parts.scheme)
    return urlunsplit((plain, there, parts.path, parts.query, "")), parts.netloc


async def in_turn(before: asyncio.Task[None] | None) -> None:
    """Callbacks of a call leave in order, but none waits long for another that hangs."""
    if before is not None:
        await asyncio.wait({before}, timeout=IN_TURN)
