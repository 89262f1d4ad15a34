import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from callmcp.settings import CHECKOUT
from tests.cli.conftest import Callmcp

EXAMPLES = sorted((CHECKOUT / "config" / "agents").glob("*.toml"))


@pytest.fixture(autouse=True)
def initialised(callmcp: Callmcp) -> None:
    assert callmcp("init").returncode == 0


def shown(callmcp: Callmcp, agent_id: str, *args: str) -> dict[str, Any]:
    agent: dict[str, Any] = json.loads(callmcp("agents", "show", agent_id, "--json", *args).stdout)
    return agent


def test_an_agent_is_defined_by_options(callmcp: Callmcp) -> None:
    done = callmcp(
        *("agents", "create", "--id", "agt_abc123", "--name", "Reminder", "--greeting", "Hello!"),
        *("--from-number", "+15550100042", "--max-duration-seconds", "90", "--instructions", "Be brief.", "--json"),
    )

    agent = json.loads(done.stdout)
    assert agent == shown(callmcp, "agt_abc123")
    assert (agent["name"], agent["from_number"], agent["max_duration_seconds"]) == ("Reminder", "+15550100042", 90)
    assert (agent["instructions"], agent["model"], agent["version"]) == ("Be brief.", "scripted", 1)


def test_an_agent_is_defined_by_a_file_whose_fields_options_change(callmcp: Callmcp, tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text('name = "From the file"\ngreeting = "Hello!"\nmax_duration_seconds = 60\n')

    agent = json.loads(callmcp("agents", "create", "--file", str(file), "--name", "Mine", "--json").stdout)

    assert (agent["name"], agent["greeting"], agent["max_duration_seconds"]) == ("Mine", "Hello!", 60)
    assert agent["agent_id"].startswith("agt_")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("naem = 'x'", "naem: is not a field"),
        ("name = 3", "name: must be a text"),
        ("max_duration_seconds = '60'", "max_duration_seconds: must be a number"),
        ("name = ", "cannot be read as TOML"),
        ("recording = 'yes'", "recording: must be true or false"),
        ("temperature = 'hot'", "temperature: must be a number"),
        ("hints = 'Ada'", "hints: must be a list"),
        ("hints = ['Ada', 3]", "hints.1: must be a text"),
        ("questions = ['Which day?']", "questions.0: must be a [[questions]] table"),
        ("[[questions]]\nname = 'day'", "questions.0.question: is needed"),
        ("[[questions]]\nname = 'day'\nquestion = 'Which?'\nkind = 'x'", "questions.0.kind: is not a key"),
        ("[[questions]]\nname = 'day'\nquestion = 'Which?'\ntype = 'date'", "questions.0.type: is one of"),
        ("[[questions]]\nname = 'day'\nquestion = 'Which?'\nchoices = 'a'", "questions.0.choices: must be a list"),
        ("[[questions]]\nname = 'A Day'\nquestion = 'Which?'", "questions.0.name: a lowercase letter"),
        ("model = 'gpt-5'", "model: it must be scripted"),
        ("fallbacks = ['opanai:gpt-5']", "fallbacks.0: there is no provider 'opanai'"),
        ("language = 'English'", "language: a language as BCP 47"),
        ("tts_provider = 'Acme'", "tts_provider: one of"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_with_words(
    callmcp: Callmcp, tmp_path: Path, text: str, words: str
) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(text)

    done = callmcp("agents", "create", "--file", str(file), "--name", "x", "--greeting", "Hello!")

    assert done.returncode == 2
    assert words in done.stderr


def test_fields_that_cannot_be_are_refused_with_words(callmcp: Callmcp) -> None:
    none = callmcp("agents", "create")
    bad = callmcp("agents", "create", "--name", "x", "--greeting", "Hi", "--id", "9f2a1c", "--from-number", "555")
    taken = callmcp("agents", "create", "--name", "x", "--greeting", "Hi", "--id", "agt_9f2a1c")

    assert (none.returncode, none.stderr) == (2, "callmcp: --name: is needed; --greeting: is needed\n")
    assert bad.returncode == 2
    assert "id: agt_" in bad.stderr
    assert "from_number: an E.164 number" in bad.stderr
    assert taken.returncode == 1


def test_an_update_changes_what_is_given_and_counts_the_version(callmcp: Callmcp) -> None:
    before = shown(callmcp, "agt_9f2a1c")

    callmcp("agents", "update", "agt_9f2a1c", "--greeting", "Good day!", "--from-number", "+15550100042")
    assert callmcp("agents", "update", "agt_9f2a1c", "--from-number", "").returncode == 0

    after = shown(callmcp, "agt_9f2a1c")
    assert (after["greeting"], after["version"], after["name"]) == ("Good day!", 3, before["name"])
    assert "from_number" not in after, "left out: the deployment's"
    assert callmcp("agents", "update", "agt_9f2a1c").returncode == 2


EVERYTHING = """
name = "Everything"
greeting = "Hello, an AI here."
description = "All there is."
instructions = "Be brief."
language = "de-DE"
voice = "de-DE-Journey-O"
tts_provider = "Google"
transcription_provider = "Deepgram"
speech_model = "nova-3-general"
hints = ["Lovelace", "Example Clinic"]
model = "openai:gpt-5-mini"
fallbacks = ["http://127.0.0.1:11434/v1#llama3.2", "scripted"]
temperature = 0.3
from_number = "+15550100042"
max_duration_seconds = 120
voicemail_message = "Please call back."
recording = true

[[questions]]
name = "day"
question = "Which day?"
type = "choice"
choices = ["Friday", "Sunday"]
"""


def test_every_field_can_be_set_by_a_file_and_changed_or_cleared_by_an_option(callmcp: Callmcp, tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    file.write_text(EVERYTHING)
    whole = json.loads(callmcp("agents", "create", "--file", str(file), "--json").stdout)
    assert tomllib.loads(EVERYTHING).items() <= whole.items()

    cleared = ["voice", "tts-provider", "transcription-provider", "speech-model", "hint", "fallback", "temperature"]
    options = [
        part for name in (*cleared, "voicemail-message", "question", "from-number") for part in (f"--{name}", "")
    ]
    done = callmcp("agents", "update", whole["agent_id"], *options, "--no-recording", "--json")

    after = json.loads(done.stdout)
    gone = {name.replace("-", "_") for name in (*cleared, "voicemail-message", "from-number")} | {"hints", "fallbacks"}
    assert not gone & after.keys()
    assert (after["recording"], after.get("questions"), after["model"]) == (False, None, "openai:gpt-5-mini")


def test_questions_and_lists_are_options_too(callmcp: Callmcp) -> None:
    done = callmcp(
        *("agents", "create", "--name", "x", "--greeting", "Hi", "--hint", "Ada", "--hint", "Babbage", "--json"),
        *("--question", "day:choice:Friday|Sunday=Which day?", "--question", "who=Who = it?", "--temperature", "0.5"),
    )

    agent = json.loads(done.stdout)
    assert (agent["hints"], agent["temperature"]) == (["Ada", "Babbage"], 0.5)
    assert agent["questions"] == [
        {"name": "day", "question": "Which day?", "type": "choice", "choices": ["Friday", "Sunday"]},
        {"name": "who", "question": "Who = it?", "type": "string"},
    ]
    wrong = callmcp("agents", "create", "--name", "x", "--greeting", "Hi", "--question", "day:date=When?")
    assert (wrong.returncode, "--question" in wrong.stderr) == (2, True)


def test_every_version_can_be_seen(callmcp: Callmcp) -> None:
    callmcp("agents", "update", "agt_9f2a1c", "--greeting", "Good day, an AI here.", "--max-duration-seconds", "60")
    callmcp("agents", "update", "agt_9f2a1c", "--name", "Second")

    history = json.loads(callmcp("agents", "history", "agt_9f2a1c", "--json").stdout)

    assert [(row["version"], row["changed"]) for row in history["versions"]] == [
        (3, "name"),
        (2, "greeting, max_duration_seconds"),
        (1, "created"),
    ]
    assert shown(callmcp, "agt_9f2a1c", "--version", "2")["greeting"] == "Good day, an AI here."
    assert shown(callmcp, "agt_9f2a1c", "--version", "1")["greeting"] != "Good day, an AI here."
    assert callmcp("agents", "show", "agt_9f2a1c", "--version", "9").returncode == 1


def test_another_accounts_agent_is_not_there(callmcp: Callmcp) -> None:
    callmcp("accounts", "create", "acme")

    for verb in (["show"], ["update", "--name", "Stolen"], ["delete"]):
        done = callmcp("agents", verb[0], "agt_9f2a1c", *verb[1:], "--account", "acme")
        assert done.returncode == 1
        assert "no voice agent" in done.stderr
    assert shown(callmcp, "agt_9f2a1c")["name"] == "Demo"


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_every_shipped_example_is_an_agent(callmcp: Callmcp, example: Path) -> None:
    done = callmcp("agents", "create", "--file", str(example), "--json")

    assert done.returncode == 0, done.stderr
    assert tomllib.loads(example.read_text(encoding="utf-8")).items() <= json.loads(done.stdout).items()


def test_examples_are_shipped() -> None:
    assert EXAMPLES
