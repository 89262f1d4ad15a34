"""callmcp doctor: whether this deployment can do its work, and what to mend."""

import asyncio
import contextlib
import os
import secrets
import sys
from collections.abc import Iterable, Sequence
from itertools import zip_longest
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import click

from callmcp.agents.model import SCRIPTED, Agent
from callmcp.cli.command import Command, json_option, log_quietly, must_exist, settings, sqlite_file
from callmcp.cli.printing import say, show_json, show_lines
from callmcp.errors import BadConfiguration, CallMcpError
from callmcp.identity.redirects import LOOPBACK
from callmcp.telephony.finding import Finding, Verdict, failed, passed, unchecked

if TYPE_CHECKING:
    from callmcp.settings import Settings
    from callmcp.store.sql import SqlStore

SETTINGS = "settings"
DIRECTORY = "data directory"
DATABASE = "database"
MODEL = "language model"
LOGIN = "login"
CARRIER = "carrier"
SECONDS = 10.0
MEND_DATABASE = (
    "See that --data or CALLMCP_DATABASE_URL names the right database, that it runs, has room and lets us write."
)
MEND_MODEL = "docs/models.md has the packages and the key it needs."
MEND_ENDPOINT = "See that it runs, that its URL is right, and that CALLMCP_MODEL_API_KEY is its key if it wants one."


@click.command(cls=Command)
@json_option
async def doctor(*, as_json: bool) -> None:
    """Check settings, database and carrier, and say what to mend.

    Run it on the machine and with the settings that serve. It rings nobody, and it changes nothing. Exit status 1 when
    something failed.
    """
    findings = await _examined()
    if as_json:
        show_json({"checks": [_record(finding) for finding in findings]})
    else:
        show_lines(_lines(findings))
    failures = sum(finding.verdict is Verdict.FAILED for finding in findings)
    if failures:
        say(f"{failures} of {len(findings)} checks failed.")
        sys.exit(1)


async def _examined() -> Sequence[Finding]:
    try:
        chosen = settings()
    except BadConfiguration as error:
        return [
            failed(SETTINGS, error.message, "Correct that setting; config/callmcp.toml says what each may be."),
            *(unchecked(check, "the settings cannot be used", "Mend them first.") for check in (DATABASE, CARRIER)),
        ]
    log_quietly(chosen)
    of_database, agents = await _database(chosen)
    numbers = [agent.from_number for agent in agents if agent.from_number is not None]
    return [
        passed(SETTINGS, f"the carrier is {chosen.carrier}"),
        _directory(chosen),
        of_database,
        *await _models(chosen, dict.fromkeys(name for agent in agents for name in agent.models if name != SCRIPTED)),
        await _login(chosen),
        *await _carrier(chosen, numbers),
    ]


def _directory(chosen: "Settings") -> Finding:
    """Where SQLite keeps its file and, while it is used, two more beside it."""
    if (file := sqlite_file(chosen)) is None:
        return passed(DIRECTORY, "not needed with PostgreSQL")
    folder = file.absolute().parent
    if not folder.is_dir():
        return failed(DIRECTORY, f"there is no {folder}", "Name the right one with --data, or run: callmcp init")
    if not os.access(folder, os.W_OK | os.X_OK):
        return failed(DIRECTORY, f"{folder} is not writable", "Let the user that runs callmcp write there.")
    return passed(DIRECTORY, f"{folder} is writable")


async def _database(chosen: "Settings") -> tuple[Finding, Sequence[Agent]]:
    """Whether it can be reached, is up to date and takes writes; and the voice agents of all accounts."""
    from callmcp.store.sql import SqlStore  # noqa: PLC0415 - see command.opened

    try:
        must_exist(chosen)
        async with asyncio.timeout(SECONDS), contextlib.AsyncExitStack() as stack:
            store = SqlStore(chosen.database_url)
            await store.open()
            stack.push_async_callback(store.close)
            await store.ready()
            await _write(store)
            return passed(DATABASE, "up to date, and takes writes"), await _agents(store)
    except TimeoutError:
        seen = f"it does not answer within {SECONDS:g} seconds"
    except BadConfiguration as error:
        seen, _, remedy = error.message.partition(". ")
        return failed(DATABASE, seen, remedy or MEND_DATABASE), ()
    except CallMcpError as error:
        seen = error.message.rstrip(".")
    return failed(DATABASE, seen, MEND_DATABASE), ()


async def _write(store: "SqlStore") -> None:
    """A row that says that this process lives, and is gone again."""
    owner = f"doctor_{secrets.token_hex(8)}"
    await store.beat(owner)
    await store.forget_owner(owner)


async def _agents(store: "SqlStore") -> Sequence[Agent]:
    return [agent for account in await store.accounts() for agent in await store.agents(account.id)]


async def _models(chosen: "Settings", names: Iterable[str]) -> Sequence[Finding]:
    """Whether each language model that a voice agent names could be asked: its packages and its key are there, and an
    endpoint answers. None is asked for a word, since that may cost money."""
    from callmcp.llm.models import Models  # noqa: PLC0415 - see command.opened

    models = Models(api_key=chosen.model_api_key)
    findings = []
    for name in names:
        check = f"{MODEL} {name}"
        try:
            await models.named(name)
        except BadConfiguration as error:
            why = error.message.removeprefix(f"{name}: ").partition("\n")[0]
            findings.append(failed(check, why, MEND_MODEL))
        else:
            findings.append(await _model(check, name, chosen.model_api_key))
    await models.close()
    return findings


async def _model(check: str, name: str, api_key: str | None) -> Finding:
    from callmcp.llm.endpoint import Readiness, look  # noqa: PLC0415 - see command.opened

    if not name.startswith(("http://", "https://")):
        return passed(check, "its packages and its key are there; it was not asked")
    looked = await look(name, api_key=api_key)
    match looked.readiness:
        case Readiness.READY:
            return passed(check, looked.seen)
        case Readiness.NOT_READY:
            return failed(check, looked.seen, MEND_ENDPOINT)
        case Readiness.UNTOLD:
            return unchecked(check, looked.seen, "See that the part after the # is a name it has.")


async def _login(chosen: "Settings") -> Finding:
    """Whether clients can log in by OAuth."""
    from callmcp.settings import OAuth  # noqa: PLC0415 - see command.opened

    if chosen.oauth is OAuth.OFF:
        return passed(LOGIN, "off: keys are all there is")
    if chosen.oauth is OAuth.EXTERNAL:
        return await _provider(chosen.oauth_issuer or "")
    address = urlsplit(chosen.public_url)
    shown = f"{address.scheme}://{address.netloc.rpartition('@')[2]}"  # somebody writes a password into every URL
    if address.scheme != "https" and address.hostname not in LOOPBACK:
        remedy = "Set CALLMCP_PUBLIC_URL to the https:// address that clients use, or CALLMCP_OAUTH=off."
        return failed(LOGIN, f"public_url is {shown}, and nobody logs in over http", remedy)
    return passed(LOGIN, f"clients log in at {shown}")


async def _provider(issuer: str) -> Finding:
    from callmcp.auth.oauth.external import ProviderKeys, Unreachable  # noqa: PLC0415 - see command.opened
    from callmcp.clock import SystemClock  # noqa: PLC0415

    try:
        await ProviderKeys(issuer, SystemClock()).with_id(None)
    except Unreachable as error:
        why = f"{type(error.__cause__).__name__}: {' '.join(str(error.__cause__).split())}"
        return failed(
            LOGIN, f"{issuer}: {why}", "See that CALLMCP_OAUTH_ISSUER is the provider's issuer, and reachable."
        )
    return passed(LOGIN, f"{issuer} says what its keys are")


async def _carrier(chosen: "Settings", numbers: Sequence[str]) -> Sequence[Finding]:
    # The library takes a moment to load, and what is checked of the carrier is said also where it is simulated.
    from callmcp.clock import SystemClock  # noqa: PLC0415
    from callmcp.settings import Carrier  # noqa: PLC0415
    from callmcp.telephony.twilio import doctor as twilio  # noqa: PLC0415

    if chosen.carrier is not Carrier.TWILIO:
        remedy = "Set CALLMCP_CARRIER=twilio to call real phones; docs/twilio.md says how."
        return [unchecked(check, "calls are simulated", remedy) for check in twilio.CHECKS]
    key, secret = chosen.twilio_api_key, chosen.twilio_api_secret
    deployment = twilio.Deployment(
        account_sid=chosen.twilio_account_sid or "",
        tokens=chosen.twilio_auth_token,
        api_key=(key, secret) if key and secret else None,
        numbers=tuple(dict.fromkeys([chosen.twilio_from or "", *numbers])),
        public_url=chosen.public_url,
        api_url=chosen.twilio_api_url,
    )
    return await twilio.examine(deployment, clock=SystemClock())


def _record(finding: Finding) -> dict[str, str]:
    remedy = {"remedy": finding.remedy} if finding.remedy else {}
    return {"check": finding.check, "verdict": finding.verdict.value, "seen": finding.seen, **remedy}


def _lines(findings: Sequence[Finding]) -> Sequence[str]:
    """A line a check, and its remedy on the next; one remedy of several checks in a row below the last of them."""
    wide = max(len(verdict) for verdict in Verdict) + 2
    lines = []
    for finding, following in zip_longest(findings, findings[1:]):
        lines.append(f"{finding.verdict.value:<{wide}}{finding.check}: {finding.seen}")
        if finding.remedy is not None and (following is None or following.remedy != finding.remedy):
            lines.append(f"{'':<{wide}}{finding.remedy}")
    return lines
