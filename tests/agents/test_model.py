"""What a voice agent may be, and what is said of one that may not."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from callmcp.agents.model import MAX_FALLBACKS, MAX_HINTS, MAX_VOICEMAIL, names_a_model, validated
from callmcp.agents.questions import Question
from callmcp.errors import InvalidArguments
from tests.contracts.values import an_agent


def problems(**fields: Any) -> list[str]:
    """The fields that are wrong with an agent that has these."""
    try:
        validated(an_agent(**fields))
    except InvalidArguments as refused:
        assert all(problem.message for problem in refused.problems)
        return [problem.field for problem in refused.problems]
    return []


def test_an_agent_at_its_limits_is_taken() -> None:
    agent = an_agent(
        name="n" * 100,
        description="d" * 1000,
        instructions="i\n" * 10000,
        greeting="g" * 1000,
        language="zh-Hant-TW",
        voice="v" * 100,
        tts_provider="ElevenLabs",
        transcription_provider="Deepgram",
        speech_model="nova-3-general",
        hints=("h" * 100,) * MAX_HINTS,
        model="openai:gpt-5-mini",
        fallbacks=("scripted",) * MAX_FALLBACKS,
        temperature=2.0,
        from_number="+123456789012345",
        max_duration_seconds=14400,
        voicemail_message="m" * MAX_VOICEMAIL,
        questions=tuple(Question(name=f"q{n}", question="?") for n in range(10)),
    )
    assert validated(agent) is agent


@pytest.mark.parametrize(
    ("field", "value", "place"),
    [
        ("id", "9f2a1c", "id"),
        ("id", "agt_9f2a1c\n", "id"),
        ("name", "", "name"),
        ("name", "n" * 101, "name"),
        ("name", " \t", "name"),
        ("name", "Ada\nstatus: completed", "name"),
        ("name", "Ada\x1b[2J", "name"),
        ("description", "d" * 1001, "description"),
        ("instructions", "i" * 20001, "instructions"),
        ("greeting", "", "greeting"),
        ("greeting", " \n", "greeting"),
        ("language", "English", "language"),
        ("language", "en_US", "language"),
        ("language", "en-US ", "language"),
        ("voice", "", "voice"),
        ("voice", 'a"b', "voice"),
        ("speech_model", "nova 3", "speech_model"),
        ("tts_provider", "Acme", "tts_provider"),
        ("transcription_provider", "google", "transcription_provider"),
        ("hints", ("Ada", "Lovelace, Ada"), "hints.1"),
        ("hints", ("",), "hints.0"),
        ("hints", ("h" * 101,), "hints.0"),
        ("hints", ("a\x01b",), "hints.0"),
        ("hints", ("a\nb",), "hints.0"),
        ("hints", ("a\ufffe",), "hints.0"),
        ("hints", ("Ada",) * (MAX_HINTS + 1), "hints"),
        ("model", "gpt-5", "model"),
        ("fallbacks", ("scripted", ""), "fallbacks.1"),
        ("fallbacks", ("scripted",) * (MAX_FALLBACKS + 1), "fallbacks"),
        ("temperature", -0.1, "temperature"),
        ("temperature", 2.1, "temperature"),
        ("temperature", float("nan"), "temperature"),
        ("temperature", float("inf"), "temperature"),
        ("from_number", "555", "from_number"),
        ("max_duration_seconds", 4, "max_duration_seconds"),
        ("max_duration_seconds", 14401, "max_duration_seconds"),
        ("voicemail_message", "", "voicemail_message"),
        ("voicemail_message", " ", "voicemail_message"),
        ("voicemail_message", "m" * (MAX_VOICEMAIL + 1), "voicemail_message"),
        ("questions", (Question(name="Day", question="Which?"),), "questions.0.name"),
    ],
)
def test_what_an_agent_cannot_have_is_told_with_its_place(field: str, value: object, place: str) -> None:
    assert problems(**{field: value}) == [place]


def test_all_that_is_wrong_is_told_at_once() -> None:
    assert problems(name="", model="?", hints=(",",), temperature=3.0) == ["name", "model", "temperature", "hints.0"]


@pytest.mark.parametrize(
    "reference",
    [
        "scripted",
        "openai:gpt-5-mini",
        "google-gla:gemini-3-flash",
        "bedrock:us.anthropic.claude-sonnet-4-5-20250929-v1:0",
        "openrouter:meta-llama/llama-3.3-70b-instruct:free",
        "http://127.0.0.1:11434/v1#llama3.2",
        "http://[::1]:11434/v1#llama3.2",
        "http://[fe80::1]/v1#llama3.2:latest",
        "https://models.example.org/v1#meta-llama/Llama-3.3-70B-Instruct",
        "https://models.example.org#m",
        "http://ollama_server:11434/v1#m",
        "http://localhost./v1#m",
    ],
)
def test_a_models_name_is_scripted_a_providers_or_an_endpoints(reference: str) -> None:
    assert names_a_model(reference)


@pytest.mark.parametrize(
    "reference",
    [
        "",
        "Scripted",
        "scripted ",
        "gpt-5",
        ":gpt-5",
        "openai:",
        "openai:gpt 5",
        "openai:gpt-5\n",
        "openai:gpt\x005",
        "openai:gpt\x1b[2J",
        "openai:gpt\u202e5",
        f"openai:{'g' * 201}",
        f"{'o' * 51}:gpt",
        "http://127.0.0.1:11434/v1",
        "http://127.0.0.1:11434/v1#",
        "http://#llama",
        "http:///v1#llama",
        "http://:8000/v1#llama",
        "https://me:secret@example.org/v1#m",
        "https://me@example.org/v1#m",
        "https://@example.org/v1#m",
        "https://good.example.org\\@evil.example.org/v1#m",
        "https://example.org/v1?key=secret#m",
        "https://example.org/v1?#m",
        "https://example.org:0/v1#m",
        "https://example.org:65536/v1#m",
        "https://example.org:http/v1#m",
        "https://example..org/v1#m",
        "https://exa mple.org/v1#m",
        "https://ex<am>ple.org/v1#m",
        "https://exämple.org/v1#m",
        "https://-example.org/v1#m",
        "http://[::1/v1#m",
        "http://[nonsense]/v1#m",
        "http://127.0.0.1/v1#two words",
        "http://127.0.0.1/v1\n#m",
        "ftp://example.org/v1#m",
        "file:///etc/passwd#m",
        f"http://127.0.0.1/v1#{'m' * 500}",
    ],
)
def test_what_names_no_model_is_refused(reference: str) -> None:
    assert not names_a_model(reference)


pieces = st.sampled_from(
    ["http://", "https://", "openai:", "scripted", "[::1]", "a.example", "@", ":", ":11434", "/v1", "#", "m", "?", "\\"]
)


@given(st.lists(pieces | st.text(max_size=4), max_size=8).map("".join))
def test_a_models_name_is_printable_and_has_no_password(reference: str) -> None:
    if names_a_model(reference):
        assert reference.isascii()
        assert reference.isprintable()
        assert " " not in reference
        if "//" in reference.partition("#")[0]:
            assert "@" not in reference.partition("#")[0].split("/")[2]
            assert reference.partition("#")[2]


def test_the_models_are_tried_in_their_order() -> None:
    agent = replace(an_agent(model="openai:a"), fallbacks=("openai:b", "scripted"))

    assert agent.models == ("openai:a", "openai:b", "scripted")
