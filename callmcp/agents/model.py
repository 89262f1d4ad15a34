"""The voice agents that operators define: who speaks on a call, and how."""

import re
from dataclasses import dataclass
from datetime import datetime
from urllib.parse import urlsplit

from callmcp.agents.questions import Question, question_problems
from callmcp.errors import InvalidArguments, Problem

AGENT_ID = re.compile(r"agt_[0-9a-f]{6,}")
MAX_DURATION_SECONDS = 4 * 60 * 60  # what carriers allow by default (Twilio: TimeLimit 14400)
MIN_DURATION_SECONDS = 5
DEFAULT_DURATION_SECONDS = 600
MAX_VOICEMAIL = 500  # characters; about 35 s, and few machines record much longer
MAX_TEMPERATURE = 2
MAX_FALLBACKS = 3
MAX_HINTS = 100
MAX_HINT = 100
SCRIPTED = "scripted"
DEFAULT_LANGUAGE = "en-US"
LIMITS = {
    "name": (1, 100),
    "description": (0, 1000),
    "instructions": (0, 20000),
    "greeting": (1, 1000),
    "on_behalf_of": (0, 100),
}
E164 = re.compile(r"\+[1-9][0-9]{6,14}")
"""A telephone number (ITU-T E.164 section 6): +, a country code that does not begin with 0, 7 to 15 digits in all."""
MODEL_FORMS = (
    f"it must be {SCRIPTED}, PROVIDER:MODEL such as openai:gpt-5-mini, or the URL of an OpenAI-compatible endpoint and "
    "the model behind a #, such as http://127.0.0.1:11434/v1#llama3.2"
)
LANGUAGE = re.compile(r"[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?")
"""A language, with script and region or without (BCP 47): en-US, de, zh-Hant-TW."""

# What Twilio's ConversationRelay offers; a voice or model that does not go with its provider is Twilio's to refuse.
TTS_PROVIDERS = ("ElevenLabs", "Google", "Amazon")
TRANSCRIPTION_PROVIDERS = ("Deepgram", "Google")
_SPEECH_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]{0,99}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# Hints are an attribute of XML, divided by commas.
_HINT = re.compile(rf"[^\x00-\x1f\x7f\ud800-\udfff\ufffe\uffff,]{{1,{MAX_HINT}}}")
_LABEL = r"[A-Za-z0-9_]([A-Za-z0-9_\-]{0,61}[A-Za-z0-9_])?"
_HOST = re.compile(rf"{_LABEL}(\.{_LABEL})*\.?|[0-9a-fA-F:.]*:[0-9a-fA-F:.]*")  # a name, or IPv6 without its brackets
_URL_MODEL = re.compile(r"[!-~]{1,500}")
_PROVIDER_MODEL = re.compile(r"[a-z][a-z0-9\-]{0,49}:(?!//)[!-~]{1,200}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """A voice agent of one account. Each change is a new `version`, and a call keeps the one it was placed with.

    `greeting` is the first thing it says, after the `disclosure`: that it is an AI, and that it calls for
    `on_behalf_of` ("": its name). `instructions` is what a language model is told. `language` (BCP 47) is what
    it speaks and understands. `voice`, `tts_provider`, `transcription_provider`, `speech_model` and `hints` (words that
    are easily misheard) are for the carrier that turns text into speech and back; None is the carrier's own choice.

    `model` names the language model, and `fallbacks` those that take over, in order, when it fails or is too slow:
    `scripted` (no key, no network), `PROVIDER:MODEL` as pydantic-ai spells it, or the URL of an OpenAI-compatible
    endpoint with the model behind a #: `http://127.0.0.1:11434/v1#llama3.2`.

    `from_number` is the caller id it rings from (None: the deployment's). `voicemail_message` is what it leaves on a
    machine (None: it hangs up on one). `recording`: the carrier records the call. `questions` are put on every call.
    """

    id: str
    account_id: str
    name: str
    description: str = ""
    instructions: str = ""
    greeting: str
    on_behalf_of: str = ""
    disclosure: bool = True
    language: str = DEFAULT_LANGUAGE
    voice: str | None = None
    tts_provider: str | None = None
    transcription_provider: str | None = None
    speech_model: str | None = None
    hints: tuple[str, ...] = ()
    model: str = SCRIPTED
    fallbacks: tuple[str, ...] = ()
    temperature: float | None = None
    from_number: str | None = None
    max_duration_seconds: int = DEFAULT_DURATION_SECONDS
    voicemail_message: str | None = None
    recording: bool = False
    questions: tuple[Question, ...] = ()
    version: int = 1
    created_at: datetime
    updated_at: datetime
    deleted_at: datetime | None = None

    @property
    def models(self) -> tuple[str, ...]:
        """The language models it may speak with, in the order they are tried."""
        return (self.model, *self.fallbacks)


def validated(agent: Agent) -> Agent:
    """The same agent. Raises InvalidArguments with a problem for each field that is not as it must be."""
    problems = _text_problems(agent)
    if not AGENT_ID.fullmatch(agent.id):
        problems.append(Problem(field="id", message="agt_ and six or more lowercase hex digits"))
    if agent.from_number is not None and not E164.fullmatch(agent.from_number):
        problems.append(Problem(field="from_number", message="an E.164 number such as +15550100000"))
    if not MIN_DURATION_SECONDS <= agent.max_duration_seconds <= MAX_DURATION_SECONDS:
        problems.append(
            Problem(field="max_duration_seconds", message=f"{MIN_DURATION_SECONDS} to {MAX_DURATION_SECONDS}")
        )
    problems += [*_model_problems(agent), *_speech_problems(agent)]
    problems += voicemail_problems(agent.voicemail_message)
    problems += question_problems(agent.questions)
    if problems:
        raise InvalidArguments(problems)
    return agent


def _text_problems(agent: Agent) -> list[Problem]:
    problems = []
    for field, (least, most) in LIMITS.items():
        text: str = getattr(agent, field)
        if not least <= len(text) <= most:
            problems.append(Problem(field=field, message=f"{least} to {most} characters, not {len(text)}"))
        elif least and not text.strip():
            problems.append(Problem(field=field, message="it is needed, and this is only white space"))
    if agent.name.strip() and _CONTROL.search(agent.name):
        problems.append(Problem(field="name", message="one line, without control characters"))
    return problems


def language_problems(language: str | None) -> list[Problem]:
    if language is None or LANGUAGE.fullmatch(language):
        return []
    return [Problem(field="language", message="a language as BCP 47 has it, such as en-US, de-DE or es")]


def voicemail_problems(message: str | None) -> list[Problem]:
    if message is None or (message.strip() and len(message) <= MAX_VOICEMAIL):
        return []
    return [Problem(field="voicemail_message", message=f"1 to {MAX_VOICEMAIL} characters, not {len(message)}")]


def _model_problems(agent: Agent) -> list[Problem]:
    problems = []
    named = [("model", agent.model), *((f"fallbacks.{i}", name) for i, name in enumerate(agent.fallbacks))]
    for field, reference in named:
        if not names_a_model(reference):
            problems.append(Problem(field=field, message=MODEL_FORMS))
    if len(agent.fallbacks) > MAX_FALLBACKS:
        problems.append(Problem(field="fallbacks", message=f"at most {MAX_FALLBACKS}, not {len(agent.fallbacks)}"))
    if agent.temperature is not None and not 0 <= agent.temperature <= MAX_TEMPERATURE:
        problems.append(Problem(field="temperature", message=f"0 to {MAX_TEMPERATURE}"))
    return problems


def names_a_model(reference: str) -> bool:
    """Whether this has the form of a language model's name (Agent.model)."""
    if reference == SCRIPTED:
        return True
    if not reference.startswith(("http://", "https://")):
        return _PROVIDER_MODEL.fullmatch(reference) is not None
    try:
        parts = urlsplit(reference)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return False
    # A password would be shown wherever the agent is; keys are settings.
    plain = parts.username is None and "?" not in reference and _URL_MODEL.fullmatch(reference) is not None
    return bool(plain and port != 0 and parts.fragment and _HOST.fullmatch(host))


def _speech_problems(agent: Agent) -> list[Problem]:
    problems = language_problems(agent.language)
    for field, offered in (("tts_provider", TTS_PROVIDERS), ("transcription_provider", TRANSCRIPTION_PROVIDERS)):
        if getattr(agent, field) not in {None, *offered}:
            problems.append(Problem(field=field, message=f"one of: {', '.join(offered)}"))
    problems += [
        Problem(field=field, message="1 to 100 letters, digits, dots, _ and -, as the provider names it")
        for field in ("voice", "speech_model")
        if getattr(agent, field) is not None and not _SPEECH_NAME.fullmatch(getattr(agent, field))
    ]
    if len(agent.hints) > MAX_HINTS:
        problems.append(Problem(field="hints", message=f"at most {MAX_HINTS}, not {len(agent.hints)}"))
    message = f"a word or name of up to {MAX_HINT} characters, without commas and line breaks"
    problems += [
        Problem(field=f"hints.{i}", message=message)
        for i, hint in enumerate(agent.hints)
        if not (hint.strip() and _HINT.fullmatch(hint))
    ]
    return problems
