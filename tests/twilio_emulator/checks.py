"""What Twilio checks of the form of POST Calls, in its order, and with its codes."""

import re
from collections.abc import Callable, Mapping, Sequence
from urllib.parse import urlsplit

from tests.twilio_emulator.journal import Journal
from tests.twilio_emulator.model import Order, Webhook
from tests.twilio_emulator.refusals import Refused
from tests.twilio_emulator.world import Settings

E164 = re.compile(r"\+[1-9]\d{6,14}")
CALL_EVENTS = frozenset({"initiated", "ringing", "answered", "completed"})
RECORDING_EVENTS = frozenset({"in-progress", "completed", "absent"})
# Numbers that mean a refusal (twilio.com/docs/iam/test-credentials). They do so with live credentials too.
MAGIC_FROM = {"+15005550001": 21212}
MAGIC_TO = {"+15005550001": 21217, "+15005550002": 21214, "+15005550003": 21215, "+15005550004": 21216}
TWIML_CHARACTERS = 4000
URL_CHARACTERS = 4000

Form = Mapping[str, Sequence[str]]
PARAMETERS = frozenset(
    {
        "To",
        "From",
        "Url",
        "Twiml",
        "ApplicationSid",
        "Method",
        "FallbackUrl",
        "FallbackMethod",
        "StatusCallback",
        "StatusCallbackEvent",
        "StatusCallbackMethod",
        "SendDigits",
        "Timeout",
        "TimeLimit",
        "Record",
        "RecordingChannels",
        "RecordingTrack",
        "RecordingStatusCallback",
        "RecordingStatusCallbackMethod",
        "RecordingStatusCallbackEvent",
        "RecordingConfigurationId",
        "Trim",
        "CallerId",
        "CallReason",
        "CallToken",
        "MachineDetection",
        "MachineDetectionTimeout",
        "MachineDetectionSpeechThreshold",
        "MachineDetectionSpeechEndThreshold",
        "MachineDetectionSilenceTimeout",
        "AsyncAmd",
        "AsyncAmdStatusCallback",
        "AsyncAmdStatusCallbackMethod",
        "Byoc",
        "SipAuthUsername",
        "SipAuthPassword",
        "ClientNotificationUrl",
        "Passports",
    }
)
REPEATED = frozenset({"StatusCallbackEvent", "RecordingStatusCallbackEvent"})
AMD_TUNING = {
    "MachineDetectionTimeout": (3, 59),
    "MachineDetectionSpeechThreshold": (1000, 6000),
    "MachineDetectionSpeechEndThreshold": (500, 5000),
    "MachineDetectionSilenceTimeout": (2000, 10_000),
}
CHOICES = {
    "Record": ("true", "false"),
    "RecordingChannels": ("mono", "dual"),
    "RecordingTrack": ("inbound", "outbound", "both"),
    "Trim": ("trim-silence", "do-not-trim"),
    "MachineDetection": ("Enable", "DetectMessageEnd"),
    "AsyncAmd": ("true", "false"),
}


def order(form: Form, settings: Settings, journal: Journal) -> Order:
    """The call that is asked for. Raises Refused. What Twilio accepts without doing what was meant is a violation."""
    _names(form, journal)
    one = {name: values[-1] for name, values in form.items()}
    to, from_ = one.get("To", ""), one.get("From", "")
    _numbers(to, from_, settings)
    for name, choices in CHOICES.items():
        if one.get(name, choices[0]) not in choices:
            raise Refused(20001, f"{name}={one[name]}")
    for name, (low, high) in AMD_TUNING.items():
        _number(one, name, low, (low, high), 21234)
    if not re.fullmatch(r"[0-9A-D#*wW]{0,32}", one.get("SendDigits", "")):
        raise Refused(21206, one["SendDigits"])
    url = _webhook(one, "Url", "Method", 21205)
    twiml = one.get("Twiml")
    if twiml is not None and len(twiml) > TWIML_CHARACTERS:
        raise Refused(32018)
    if "ApplicationSid" in one:
        raise Refused(21218, one["ApplicationSid"])  # there are no applications here
    if url is None and not twiml:
        raise Refused(21205, "none was given")
    if url is not None and twiml:
        journal.alert(32019, "Twiml and Url were both given: Url is used")
    status = _webhook(one, "StatusCallback", "StatusCallbackMethod", 21609)
    events = _events(form, "StatusCallbackEvent", CALL_EVENTS, journal)
    if status is not None and events is None:
        status = None
    return Order(
        to=to,
        from_=from_,
        twiml=None if url else twiml,
        url=url,
        fallback=_webhook(one, "FallbackUrl", "FallbackMethod", 21205),
        status=status,
        events=events or frozenset(),
        ring_seconds=_number(one, "Timeout", 60, (1, 600), 21208),
        max_seconds=_number(one, "TimeLimit", 14_400, (1, 86_400), 20001),
        record=one.get("Record") == "true",
        recording=_webhook(one, "RecordingStatusCallback", "RecordingStatusCallbackMethod", 21609),
        recording_events=recording_events(form, journal),
        recording_channels=one.get("RecordingChannels", "mono"),
        recording_track=one.get("RecordingTrack", "both"),
        amd="" if "SendDigits" in one else one.get("MachineDetection", ""),
        amd_async=one.get("AsyncAmd") == "true",
        amd_callback=_webhook(one, "AsyncAmdStatusCallback", "AsyncAmdStatusCallbackMethod", 21609),
    )


def _names(form: Form, journal: Journal) -> None:
    for name, values in form.items():
        if name not in PARAMETERS:
            journal.violation(f"{name} is no parameter of Calls: Twilio ignores it")
        elif len(values) > 1 and name not in REPEATED:
            journal.violation(f"{name} was given {len(values)} times")


def _numbers(to: str, from_: str, settings: Settings) -> None:
    checks: list[tuple[Callable[[], bool], int, str]] = [
        (lambda: not to, 21201, ""),
        (lambda: not from_, 21213, ""),
        (lambda: from_ in MAGIC_FROM or not E164.fullmatch(from_), 21212, from_),
        (lambda: from_ not in settings.numbers, 21210, from_),
        (lambda: to in MAGIC_TO, MAGIC_TO.get(to, 0), to),
        (lambda: not E164.fullmatch(to), 21211, to),
        (lambda: to.startswith(tuple(settings.forbidden_prefixes)), 21215, to),
        (lambda: settings.trial and to not in settings.verified, 21219, to),
    ]
    for fails, code, what in checks:
        if fails():
            raise Refused(code, what)


def _number(one: Mapping[str, str], name: str, default: int, within: tuple[int, int], code: int) -> int:
    low, high = within
    value = one.get(name, str(default))
    if not re.fullmatch(r"\d{1,9}", value) or not low <= int(value) <= high:
        raise Refused(code, f"{name}={value}")
    return int(value)


def _webhook(one: Mapping[str, str], name: str, method: str, code: int) -> Webhook | None:
    if not one.get(name):
        return None
    verb = one.get(method, "POST")
    if verb not in ("GET", "POST"):
        raise Refused(21209, verb)
    return Webhook(url=address(one[name], code), method=verb)


def address(url: str, code: int) -> str:
    """A URL that Twilio would ask. Raises Refused with this code."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise Refused(code, url) from None
    if parts.scheme not in ("http", "https") or not host or "_" in host or len(url) > URL_CHARACTERS or " " in url:
        raise Refused(code, url)
    return url


def _events(form: Form, name: str, known: frozenset[str], journal: Journal) -> frozenset[str] | None:
    """None when one is unknown, as "initiated ringing" in one field is: the call is placed and no callback comes."""
    given = form.get(name, ["completed"])
    if wrong := [event for event in given if event not in known]:
        journal.alert(21626, f"Invalid {name}: {wrong[0]}")
        journal.violation(f"{name} must be repeated, one event in each: {wrong[0]!r}")
        return None
    return frozenset(given)


def recording_events(form: Form, journal: Journal) -> frozenset[str]:
    """Here Twilio's documentation allows the space."""
    given = frozenset(" ".join(form.get("RecordingStatusCallbackEvent", ["completed"])).split())
    if given - RECORDING_EVENTS:
        journal.violation(f"RecordingStatusCallbackEvent {', '.join(sorted(given - RECORDING_EVENTS))} is unknown")
    return given & RECORDING_EVENTS
