"""The checks of a deployment that calls over Twilio, all at once and each bounded in time.

Twilio's REST is asked through the library's client over our transport, with the account's SID and auth token: an API
key of the standard kind may not read the account (twilio.com/docs/iam/api-keys), and the token has to be right anyway,
since signatures are made with it.
"""

import asyncio
import json
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import Any

from twilio.base.exceptions import TwilioException
from twilio.http.response import Response
from twilio.rest import Client

from callmcp.clock import Clock
from callmcp.telephony.finding import Finding, failed, passed, unchecked
from callmcp.telephony.twilio import reach
from callmcp.telephony.twilio.transport import NoAnswer, NotSent, Transport

SECONDS = 10.0
MAX_SKEW_SECONDS = 30

CREDENTIALS = "credentials"
API_KEY = "api key"
ACCOUNT = "account"
CALLER_ID = "caller id"
CLOCK = "clock"
COUNTRIES = "countries"
RELAY = "conversation relay"
CHECKS = (CREDENTIALS, ACCOUNT, CLOCK, CALLER_ID, reach.PUBLIC_URL, reach.WEBSOCKET, COUNTRIES, RELAY)

_OK, _TOO_MANY, _FIRST_SERVER_ERROR = 200, 429, 500
_TEST_CREDENTIALS = 20008
_COPY = (
    "Copy the Account SID and the Auth Token from the first page of the Twilio console, and see there that the account "
    "is not suspended."
)
_AGAIN = "Let this machine make HTTPS connections to Twilio's API, then run this again."
_FIRST = "Mend the line about credentials first."


@dataclass(frozen=True, slots=True, kw_only=True)
class Deployment:
    """What there is to check. `numbers`: what calls come from, the deployment's and voice agents' own."""

    account_sid: str
    tokens: Sequence[str]
    api_key: tuple[str, str] | None
    numbers: Sequence[str]
    public_url: str
    api_url: str


async def examine(deployment: Deployment, *, clock: Clock, seconds: float = SECONDS) -> Sequence[Finding]:
    """Everything that can be told; takes little more than `seconds` whatever does not answer."""
    transport = Transport()
    try:
        twilio = _Twilio(deployment, transport, clock)
        found = await asyncio.gather(
            _bounded(twilio.account(), (CREDENTIALS, ACCOUNT, CLOCK), seconds),
            _bounded(twilio.api_key(), (API_KEY,), seconds),
            _bounded(twilio.caller_ids(), (CALLER_ID,), seconds),
            _public(deployment, seconds),
        )
    finally:
        await transport.close()
    return [*(finding for findings in found for finding in findings), *_UNCHECKABLE]


async def _public(deployment: Deployment, seconds: float) -> Sequence[Finding]:
    cannot = reach.unreachable_from_outside(deployment.public_url, deployment.api_url)
    if cannot is not None:
        return [cannot, unchecked(reach.WEBSOCKET, "the public URL cannot work", "Mend the line above first.")]
    url, token = deployment.public_url, deployment.tokens[0]
    return await asyncio.gather(
        reach.by_http(url, token, seconds=seconds), reach.by_websocket(url, token, seconds=seconds)
    )


async def _bounded(
    check: Coroutine[Any, Any, Sequence[Finding]], names: Sequence[str], seconds: float
) -> Sequence[Finding]:
    try:
        async with asyncio.timeout(seconds):
            return await check
    except (NotSent, NoAnswer, TimeoutError) as error:
        seen = "Twilio's API cannot be reached" if isinstance(error, NotSent) else "Twilio's API did not answer"
    except (TwilioException, ValueError, KeyError, AttributeError) as error:
        seen = f"Twilio's answer could not be read ({type(error).__name__})"
    # One cause is one failure, whatever else could not be looked at for it.
    return [(failed if name == CREDENTIALS else unchecked)(name, seen, _AGAIN) for name in names]


class _Twilio:
    def __init__(self, deployment: Deployment, transport: Transport, clock: Clock) -> None:
        self._is = deployment
        self._clock = clock
        # A mapping that is not empty keeps the library from reading TWILIO_* behind the operator's back.
        self._client = Client(
            deployment.account_sid,
            deployment.tokens[0],
            http_client=transport,
            environment={"callmcp": "callmcp"},
        )
        self._client.api.base_url = deployment.api_url

    async def account(self) -> Sequence[Finding]:
        """Credentials, the account's state and the clock, of which one answer tells."""
        answers = await asyncio.gather(
            *(self._get(".json", auth=(self._is.account_sid, token)) for token in self._is.tokens)
        )
        clock = _clock(answers[0], self._clock)
        if answers[0].status_code == _OK:
            stale = len([answer for answer in answers if answer.status_code != _OK])
            note = f"; {stale} further token(s) are not valid and can go" if stale else ""
            return [passed(CREDENTIALS, f"Twilio takes the auth token{note}"), _account(answers[0]), clock]
        good = next((n for n, answer in enumerate(answers, 1) if answer.status_code == _OK), None)
        remedy = _COPY if good is None else f"Put token {good} of CALLMCP_TWILIO_AUTH_TOKEN first."
        if _code(answers[0]) == _TEST_CREDENTIALS:
            remedy = "Use the account's live credentials: test credentials ring nobody and report nothing."
        credentials = failed(CREDENTIALS, f"Twilio does not take the auth token ({_words(answers[0])})", remedy)
        return [credentials, unchecked(ACCOUNT, "Twilio does not let us look", _FIRST), clock]

    async def api_key(self) -> Sequence[Finding]:
        if self._is.api_key is None:
            return []
        answer = await self._get("/Calls.json", auth=self._is.api_key, params={"PageSize": 1})
        if answer.status_code == _OK:
            return [passed(API_KEY, "Twilio takes the API key and its secret")]
        remedy = "Make an API key of the standard kind in the Twilio console, and set its SID and secret."
        return [failed(API_KEY, f"Twilio does not take the API key ({_words(answer)})", remedy)]

    async def caller_ids(self) -> Sequence[Finding]:
        """Whether the account may call from each number: its own with voice, or one it verified."""
        kinds = await asyncio.gather(*(self._kind(number) for number in self._is.numbers))
        found = dict(zip(self._is.numbers, kinds, strict=True))
        if None in kinds:
            return [unchecked(CALLER_ID, "Twilio does not let us look", _FIRST)]
        if wrong := [number for number, kind in found.items() if kind in {_NOBODYS, _MUTE}]:
            seen = "; ".join(f"{number} is {found[number]}" for number in wrong)
            return [failed(CALLER_ID, seen, _GET_NUMBER)]
        return [passed(CALLER_ID, "; ".join(f"{number} is {kind}" for number, kind in found.items()))]

    async def _kind(self, number: str) -> str | None:
        """None when we may not look."""
        own, verified = await asyncio.gather(
            self._get("/IncomingPhoneNumbers.json", params={"PhoneNumber": number}),
            self._get("/OutgoingCallerIds.json", params={"PhoneNumber": number}),
        )
        if own.status_code != _OK or verified.status_code != _OK:
            return None
        numbers = json.loads(own.text)["incoming_phone_numbers"]
        if numbers:
            return "a number of the account" if numbers[0]["capabilities"].get("voice") else _MUTE
        return "a verified caller id" if json.loads(verified.text)["outgoing_caller_ids"] else _NOBODYS

    async def _get(
        self, path: str, *, auth: tuple[str, str] | None = None, params: dict[str, object] | None = None
    ) -> Response:
        url = f"{self._is.api_url}/2010-04-01/Accounts/{self._is.account_sid}{path}"
        answer = await self._client.request_async("GET", url, params=params, auth=auth)
        if answer.status_code >= _FIRST_SERVER_ERROR or answer.status_code == _TOO_MANY:
            raise NoAnswer(f"HTTP {answer.status_code}")  # it says nothing of the credentials
        return answer


_NOBODYS = "neither a number of the account nor a verified caller id"
_MUTE = "a number of the account that cannot make voice calls"
_GET_NUMBER = (
    "Buy a number with voice in the Twilio console (Phone Numbers), or verify one that is yours (Verified Caller IDs), "
    "and set CALLMCP_TWILIO_FROM, or the voice agent's from number, to it."
)


def _account(answer: Response) -> Finding:
    account = json.loads(answer.text)
    status = str(account["status"])
    if status != "active":
        return failed(ACCOUNT, f"it is {status:.40}", "Open the Twilio console and settle what it says of the account.")
    if account.get("type") == "Trial":
        return passed(ACCOUNT, "active; a trial: it calls only numbers verified beforehand, and at most five at once")
    return passed(ACCOUNT, "active")


def _clock(answer: Response, clock: Clock) -> Finding:
    headers = answer.headers or {}
    if "date" not in headers:
        return unchecked(CLOCK, "Twilio's answer has no date", "Compare this machine's clock with another's.")
    ahead = round((clock.now() - parsedate_to_datetime(headers["date"])).total_seconds())
    if abs(ahead) <= MAX_SKEW_SECONDS:
        return passed(CLOCK, f"within {MAX_SKEW_SECONDS} seconds of Twilio's")
    seen = f"{abs(ahead)} seconds {'ahead of' if ahead > 0 else 'behind'} Twilio's"
    return failed(CLOCK, seen, "Let this machine set its clock by NTP (chrony or systemd-timesyncd).")


def _code(answer: Response) -> int | None:
    try:
        return int(json.loads(answer.text)["code"])
    except (ValueError, KeyError, TypeError):
        return None


def _words(answer: Response) -> str:
    code = _code(answer)
    return f"HTTP {answer.status_code}" if code is None else f"HTTP {answer.status_code}, code {code}"


_UNCHECKABLE = (
    unchecked(
        COUNTRIES,
        "which countries the account may call is not asked",
        "Tick the countries you call in the Twilio console: Voice, Settings, Geo permissions.",
    ),
    unchecked(
        RELAY,
        "no request tells whether the account may use ConversationRelay",
        "Accept the AI features addendum in the Twilio console's Voice settings; without it calls end with error "
        "64110 in its Monitor.",
    ),
)
