"""The fields of a voice agent as an operator writes them: options of a command, or a TOML file."""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import click

from callmcp.agents.operations import AgentFields
from callmcp.agents.questions import AnswerType, Question
from callmcp.errors import InvalidArguments, Problem

QUESTION_KEYS = ("name", "question", "type", "choices")
QUESTION_FORM = "NAME[:TYPE[:CHOICE|CHOICE]]=QUESTION"


@dataclass(frozen=True, slots=True)
class Field:
    """`kind` is the type it has in a file; `option` is how its option differs in name, when it may be repeated."""

    help: str
    kind: type[Any] = str
    option: str | None = None
    optional: bool = False


FIELDS: Mapping[str, Field] = {
    "name": Field("What operators call it."),
    "greeting": Field("The first thing it says."),
    "description": Field("What it is for; clients see it."),
    "instructions": Field("What the language model is told."),
    "on_behalf_of": Field("For whom it says that it calls; empty means its name."),
    "disclosure": Field("Whether it says first that it is an AI and for whom it calls.", bool),
    "language": Field("What it speaks and understands, such as en-US or de-DE."),
    "voice": Field("The voice, as its provider names it; empty means the carrier's choice.", optional=True),
    "tts_provider": Field("Who makes speech of text: ElevenLabs, Google, Amazon; empty as above.", optional=True),
    "transcription_provider": Field("Who makes text of speech: Deepgram, Google; empty as above.", optional=True),
    "speech_model": Field("The transcription provider's model; empty as above.", optional=True),
    "hints": Field("A word or name that is easily misheard; repeat for more, empty for none.", list, "hint"),
    "model": Field("The language model; scripted needs no key and no network."),
    "fallbacks": Field("A model that takes over when one fails; repeat for more, empty for none.", list, "fallback"),
    "temperature": Field("How freely the model chooses its words, 0 to 2; empty means its own.", float, optional=True),
    "from_number": Field("The number it rings from; empty means the deployment's.", optional=True),
    "max_duration_seconds": Field("The longest call, in seconds.", int),
    "voicemail_message": Field("What it leaves on a machine; empty means it hangs up.", optional=True),
    "recording": Field("Whether the carrier records its calls.", bool),
    "questions": Field(f"What it asks on every call, as {QUESTION_FORM}; repeat for more.", list, "question"),
}


def fields_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """An option for each field, and `--file`, whose fields they change."""
    for name, field in reversed(list(FIELDS.items())):
        option = f"--{(field.option or name).replace('_', '-')}"
        if field.kind is bool:
            decorate = click.option(f"{option}/--no-{option[2:]}", name, default=None, help=field.help)
        else:
            kind = int if field.kind is int else str
            decorate = click.option(option, name, type=kind, multiple=field.kind is list, help=field.help)
        command = decorate(command)
    path = click.Path(path_type=Path, dir_okay=False)
    return click.option("--file", "path", type=path, help="A TOML file of these fields; options win.")(command)


def fields_of(path: Path | None, options: Mapping[str, Any]) -> AgentFields:
    """What was given. Raises InvalidArguments, naming the option, or the file and the place in it."""
    fields = _read(path) if path is not None else {}
    for name, value in options.items():
        if value is not None and value != ():
            fields[name] = _from_option(name, value)
    return cast("AgentFields", fields)  # each field's name and type has been checked, here or by click


def question_of(text: str) -> Question:
    """From NAME[:TYPE[:CHOICE|CHOICE]]=QUESTION. Raises InvalidArguments."""
    head, found, question = text.partition("=")
    name, _, rest = head.partition(":")
    kind, _, choices = rest.partition(":")
    if not found or (kind and kind not in set(AnswerType)):
        types = ", ".join(AnswerType)
        raise InvalidArguments.of("--question", f"{text!r} is not {QUESTION_FORM}; a type is one of {types}")
    return Question(
        name=name.strip(),
        question=question.strip(),
        type=AnswerType(kind or AnswerType.STRING),
        choices=tuple(choice.strip() for choice in choices.split("|")) if choices else (),
    )


def _from_option(name: str, value: Any) -> Any:  # noqa: ANN401 - whatever the field holds
    field = FIELDS[name]
    if field.optional and value == "":
        return None
    if field.kind is list:
        given = [text for text in cast("Sequence[str]", value) if text]
        return tuple(question_of(text) for text in given) if name == "questions" else tuple(given)
    if field.kind is float:
        try:
            return float(value)
        except ValueError:
            raise InvalidArguments.of(f"--{name}", f"{value!r} is not a number") from None
    return value


def _read(path: Path) -> dict[str, Any]:
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidArguments.of("--file", f"{path} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidArguments.of("--file", f"{path} cannot be read as TOML: {error}") from error
    problems: list[Problem] = []
    fields = {name: _from_file(name, value, f"{path}: {name}", problems) for name, value in table.items()}
    if problems:
        raise InvalidArguments(problems)
    return fields


_WORDS = {str: "a text", int: "a number", float: "a number", bool: "true or false", list: "a list"}


def _from_file(name: str, value: Any, place: str, problems: list[Problem]) -> Any:  # noqa: ANN401
    field = FIELDS.get(name)
    if field is None:
        problems.append(Problem(field=place, message=f"is not a field; the fields are {', '.join(FIELDS)}"))
        return None
    given: type[Any] = type(value)
    if given is not field.kind and (field.kind, given) != (float, int):
        problems.append(Problem(field=place, message=f"must be {_WORDS[field.kind]}"))
        return None
    if name == "questions":
        return tuple(_question(entry, f"{place}.{index}", problems) for index, entry in enumerate(value))
    if field.kind is list:
        problems += [
            Problem(field=f"{place}.{index}", message="must be a text")
            for index, entry in enumerate(value)
            if not isinstance(entry, str)
        ]
        return tuple(value)
    return None if field.optional and value == "" else value


def _question(entry: Any, place: str, problems: list[Problem]) -> Question:  # noqa: ANN401
    given = entry if isinstance(entry, dict) else {}
    if not isinstance(entry, dict):
        problems.append(Problem(field=place, message="must be a [[questions]] table"))
    problems += [
        Problem(field=f"{place}.{key}", message=f"is not a key of a question; they are {', '.join(QUESTION_KEYS)}")
        for key in given
        if key not in QUESTION_KEYS
    ]
    for key in ("name", "question"):
        if not isinstance(given.get(key), str):
            problems.append(Problem(field=f"{place}.{key}", message="is needed, as a text"))
    if given.get("type", "string") not in set(AnswerType):
        problems.append(Problem(field=f"{place}.type", message=f"is one of {', '.join(AnswerType)}"))
    choices = given.get("choices", [])
    if not isinstance(choices, list) or not all(isinstance(choice, str) for choice in choices):
        problems.append(Problem(field=f"{place}.choices", message="must be a list of texts"))
    if problems:
        return Question(name="", question="")
    return Question(
        name=given["name"],
        question=given["question"],
        type=AnswerType(given.get("type", "string")),
        choices=tuple(choices),
    )
