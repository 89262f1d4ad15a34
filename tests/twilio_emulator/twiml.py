"""TwiML, read into verbs, with the alerts Twilio would raise (twilio.com/docs/voice/twiml)."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import urlsplit

BYTES = 64 * 1024
SWITCHABLE = r"none|dtmf|speech|any|true|false"
BOOLEAN = r"true|false"
ANYTHING = r".*"
# The attributes of <ConversationRelay> and what they may hold. Newer names stand beside the older ones.
RELAY = {
    "url": ANYTHING,
    "welcomeGreeting": ANYTHING,
    "welcomeGreetingInterruptible": SWITCHABLE,
    "language": ANYTHING,
    "ttsLanguage": ANYTHING,
    "transcriptionLanguage": ANYTHING,
    "ttsProvider": r"Google|Amazon|ElevenLabs",
    "voice": ANYTHING,
    "transcriptionProvider": r"Google|Deepgram",
    "speechModel": ANYTHING,
    "eotThreshold": r"0\.[5-9]\d*",
    "eagerEotThreshold": r"0\.[3-9]\d*",
    "speechTimeout": r"auto|[6-9]\d\d|[1-4]\d{3}|5000",
    "partialPrompts": BOOLEAN,
    "profanityFilter": BOOLEAN,
    "backgroundNoiseReduction": BOOLEAN,
    "partialPromptOnHangup": BOOLEAN,
    "turnDetection": BOOLEAN,
    "echoPromptFiltering": BOOLEAN,
    "deepgramSmartFormat": BOOLEAN,
    "asrSmartFormat": BOOLEAN,
    "interruptible": SWITCHABLE,
    "interruptSensitivity": r"low|medium|high",
    "ignoreBackchannel": BOOLEAN,
    "dtmfDetection": BOOLEAN,
    "reportInputDuringAgentSpeech": SWITCHABLE,
    "preemptible": BOOLEAN,
    "hints": ANYTHING,
    "events": r"(speaker-events|tokens-played)( (speaker-events|tokens-played))*",
    "debug": r"(debugging|speaker-events|tokens-played)( (debugging|speaker-events|tokens-played))*",
    "elevenlabsTextNormalization": r"on|auto|off",
    "ttsTextNormalization": r"on|auto|off",
    "ttsLanguageTextNormalization": r"on|auto|off",
    "intelligenceService": ANYTHING,
    "conversationConfiguration": ANYTHING,
    "conversationId": ANYTHING,
    "customerName": ANYTHING,
    "includeInPrompt": ANYTHING,
    "applicationReconnect": BOOLEAN,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Pause:
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Play:
    source: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Hangup:
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Reject:
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Redirect:
    url: str
    method: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StartRecording:
    callback: str
    events: tuple[str, ...]
    channels: str
    track: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Relay:
    attributes: Mapping[str, str]
    parameters: Mapping[str, str]
    languages: tuple[str, ...]
    wrong: str = ""  # why Twilio would end the session at once, with 64101

    def on(self, name: str) -> bool:
        return self.attributes.get(name) == "true"

    def lets(self, name: str, default: str, by: str) -> bool:
        """Whether `by` (speech or dtmf) is among what an attribute such as `interruptible` names."""
        value = self.attributes.get(name, default)
        return value in ("any", "true", by)

    @property
    def events(self) -> frozenset[str]:
        return frozenset(f"{self.attributes.get('events', '')} {self.attributes.get('debug', '')}".split())


@dataclass(frozen=True, slots=True, kw_only=True)
class Connect:
    relay: Relay
    action: str | None
    method: str


Verb = Say | Pause | Play | Hangup | Reject | Redirect | StartRecording | Connect


@dataclass(slots=True)
class Document:
    """What to do, relative to where it was fetched from; `alerts` are (code, text), `odd` is what we object to."""

    url: str
    verbs: list[Verb] = field(default_factory=list)
    alerts: list[tuple[int, str]] = field(default_factory=list)
    odd: list[str] = field(default_factory=list)
    broken: bool = False  # the callee hears "an application error has occurred"


def read(text: str, url: str = "", *, loopback_ws: bool = False) -> Document:
    """Never raises: what is wrong with the document is in it."""
    document = Document(url)
    if len(text.encode()) > BYTES:
        document.alerts.append((11750, "TwiML response body too large"))
        document.broken = True
        return document
    try:
        root = ET.fromstring(text)  # noqa: S314 -- the program under test is not an attacker
    except ET.ParseError as error:
        document.alerts.append((12100, f"Document parse failure: {error}"))
        document.broken = True
        return document
    if root.tag != "Response":
        document.alerts.append((12100, f"Expected <Response>, found <{root.tag}>"))
        document.broken = True
        return document
    for element in root:
        _verb(element, document, loopback_ws=loopback_ws)
    return document


def _verb(element: ET.Element, document: Document, *, loopback_ws: bool) -> None:
    text = (element.text or "").strip()
    match element.tag:
        case "Say":
            document.verbs.append(Say(text="".join(element.itertext()).strip()))
        case "Play":
            document.verbs.append(Play(source=text))
        case "Pause":
            document.verbs.append(Pause(seconds=float(element.get("length", "1"))))
        case "Hangup":
            document.verbs.append(Hangup())
        case "Reject":
            document.verbs.append(Reject(reason=element.get("reason", "rejected")))
        case "Redirect":
            document.verbs.append(Redirect(url=text, method=element.get("method", "POST")))
        case "Start" if (recording := element.find("Recording")) is not None:
            document.verbs.append(_recording(recording))
        case "Connect" if (relay := element.find("ConversationRelay")) is not None:
            action, method = element.get("action"), element.get("method", "POST")
            verb = Connect(relay=_relay(relay, document, loopback_ws=loopback_ws), action=action, method=method)
            document.verbs.append(verb)
            if action is None:
                document.odd.append("<Connect> without action: nothing to recover with when the socket drops")
        case tag:
            document.alerts.append((12200, f"Schema validation warning: <{tag}> is not supported here"))
            document.odd.append(f"an unknown verb <{tag}>")


def _recording(element: ET.Element) -> StartRecording:
    return StartRecording(
        callback=element.get("recordingStatusCallback", ""),
        events=tuple(element.get("recordingStatusCallbackEvent", "completed").split()),
        channels=element.get("channels", "dual"),
        track=element.get("track", "both"),
    )


def _relay(element: ET.Element, document: Document, *, loopback_ws: bool) -> Relay:
    wrong = ""
    for name, value in element.attrib.items():
        if name not in RELAY:
            document.alerts.append((12200, f"Schema validation warning: attribute {name} is not allowed"))
            document.odd.append(f"<ConversationRelay> has no attribute {name}")
        elif not re.fullmatch(RELAY[name], value, re.DOTALL):
            wrong = f"Invalid parameter {name}={value}"
    parameters: dict[str, str] = {}
    languages: list[str] = []
    for child in element:
        if child.tag == "Parameter" and "name" in child.attrib and "value" in child.attrib:
            parameters[child.attrib["name"]] = child.attrib["value"]
        elif child.tag == "Language" and "code" in child.attrib:
            languages.append(child.attrib["code"])
        else:
            document.alerts.append((12200, f"Schema validation warning: <{child.tag}> in <ConversationRelay>"))
            document.odd.append(f"<{child.tag}> in <ConversationRelay>, or one of its attributes missing")
    url = urlsplit(element.get("url", ""))
    loopback = url.scheme == "ws" and url.hostname in ("127.0.0.1", "localhost", "::1") and loopback_ws
    if not url.hostname or (url.scheme != "wss" and not loopback):
        wrong = f"Invalid parameter url={element.get('url')}: it must be a wss:// URL"
    if url.query:
        document.odd.append("the relay URL has a query string, which Twilio does not support")
    if wrong:
        document.alerts.append((64101, wrong))
        document.odd.append(wrong)
    return Relay(attributes=dict(element.attrib), parameters=parameters, languages=tuple(languages), wrong=wrong)
