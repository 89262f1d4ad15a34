import json
import re
import socket
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from anyio.from_thread import start_blocking_portal
from joserfc.jwk import ECKey
from starlette.applications import Starlette

from callmcp.telephony.twilio.doctor import CHECKS
from callmcp.telephony.twilio.echo import Echo
from tests.acceptance.model import model_server
from tests.acceptance.server import Server
from tests.acceptance.twilio import ACCOUNT, FROM, TOKEN, Twilio, on_twilio, twilio
from tests.auth.oauth.web import serving
from tests.cli.conftest import Callmcp, Done
from tests.documents import ROOT, fences
from tests.telephony.twilio.serving import served

GUIDE = ROOT / "docs" / "twilio.md"
SHOWN_BASE = "http://127.0.0.1:8765"
NOBODYS = "+12025550102"


@pytest.fixture(scope="module")
def carrier() -> Iterator[Twilio]:
    with twilio() as carrier:
        yield carrier


@pytest.fixture(scope="module")
def server(carrier: Twilio, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with on_twilio(tmp_path_factory.mktemp("data"), carrier) as server:
        yield server


@pytest.fixture
def without_upgrades() -> Iterator[str]:
    """A public URL that requests come through to the echo address, and no upgrade."""

    def ours(base: str) -> Starlette:
        return Starlette(routes=Echo(public_url=base, tokens=(TOKEN,)).routes())

    with start_blocking_portal() as portal, portal.wrap_async_context_manager(served(ours, ws="none")) as base:
        yield base


def variables(carrier: Twilio, server: Server, **changed: str) -> Mapping[str, str]:
    """The settings of a deployment in order, as whoever runs the command has them."""
    whole = {
        "CALLMCP_CARRIER": "twilio",
        "CALLMCP_TWILIO_ACCOUNT_SID": ACCOUNT,
        "CALLMCP_TWILIO_AUTH_TOKEN": TOKEN,
        "CALLMCP_TWILIO_FROM": FROM,
        "CALLMCP_TWILIO_API_URL": carrier.url,
        "CALLMCP_PUBLIC_URL": server.base,
    }
    return whole | changed


def doctor(callmcp: Callmcp, carrier: Twilio, server: Server, *options: str, **changed: str) -> Done:
    return callmcp("doctor", "--data", str(server.data), *options, **variables(carrier, server, **changed))


def lines(done: Done, server: Server) -> Sequence[str]:
    """What was printed, as it would be with the port that the guides show."""
    text = done.stdout.replace(server.base, SHOWN_BASE).replace(str(server.data), "/var/lib/callmcp")
    return text.splitlines()


def test_a_deployment_in_order_passes_and_the_guide_shows_what_is_printed(
    callmcp: Callmcp, carrier: Twilio, server: Server
) -> None:
    done = doctor(callmcp, carrier, server)

    assert (done.returncode, done.stderr) == (0, "")
    (healthy, *_) = fences(GUIDE, "text")
    assert lines(done, server) == healthy.text.splitlines()


def test_what_the_guide_shows_of_each_missing_step_is_what_is_printed(
    callmcp: Callmcp, carrier: Twilio, server: Server, without_upgrades: str
) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as closed:
        nobody = f"http://127.0.0.1:{closed.getsockname()[1]}"
    faults = [
        {"CALLMCP_TWILIO_AUTH_TOKEN": ""},
        {"CALLMCP_TWILIO_AUTH_TOKEN": "wrong"},
        {"CALLMCP_TWILIO_FROM": NOBODYS},
        {"CALLMCP_PUBLIC_URL": nobody},
        {"CALLMCP_PUBLIC_URL": f"{server.base}/calls"},
        {"CALLMCP_PUBLIC_URL": without_upgrades},
        {"CALLMCP_TWILIO_API_URL": "https://0.0.0.0:1"},  # not loopback by name, and nobody there
    ]
    printed: set[str] = set()
    for fault in faults:
        done = doctor(callmcp, carrier, server, **fault)
        assert done.returncode == 1
        printed |= {line.replace(nobody, SHOWN_BASE) for line in lines(done, server)}
    carrier.http.post("/_control/settings", json={"trial": True}).raise_for_status()
    printed |= set(lines(doctor(callmcp, carrier, server), server))
    carrier.http.post("/_control/settings", json={"trial": False}).raise_for_status()

    (_, *missing) = fences(GUIDE, "text")
    shown = [line for fence in missing for line in fence.text.splitlines()]

    assert shown
    assert [line for line in shown if line not in printed] == []


def test_json_has_every_check_with_its_verdict_and_remedy(callmcp: Callmcp, carrier: Twilio, server: Server) -> None:
    done = doctor(callmcp, carrier, server, "--json", CALLMCP_TWILIO_FROM=NOBODYS)

    assert done.returncode == 1
    checks = json.loads(done.stdout)["checks"]
    assert [check["check"] for check in checks] == ["settings", "data directory", "database", "login", *CHECKS]
    for check in checks:
        assert check["verdict"] in {"pass", "fail", "not checked"}
        assert ("remedy" in check) is (check["verdict"] != "pass")
    (failed,) = [check for check in checks if check["verdict"] == "fail"]
    assert (failed["check"], failed["seen"]) == (
        "caller id",
        f"{NOBODYS} is neither a number of the account nor a verified caller id",
    )


def test_the_numbers_of_voice_agents_are_checked_too(callmcp: Callmcp, carrier: Twilio, server: Server) -> None:
    callmcp("init")
    made = callmcp("agents", "create", "--name", "Own", "--greeting", "Hello.", "--from-number", NOBODYS)
    assert made.returncode == 0, made.stderr

    done = callmcp("doctor", **variables(carrier, server))

    assert f"fail         caller id: {NOBODYS} is neither" in done.stdout


def test_no_secret_is_printed_whatever_fails(callmcp: Callmcp, carrier: Twilio, server: Server) -> None:
    secrets = {
        "CALLMCP_TWILIO_AUTH_TOKEN": "t0ken-one,t0ken-two",
        "CALLMCP_TWILIO_API_KEY": "SK00000000000000000000000000000001",
        "CALLMCP_TWILIO_API_SECRET": "t0ken-three",
        "CALLMCP_DATABASE_URL": "postgresql://me:t0ken-four@127.0.0.1:1/nothing",
        "CALLMCP_PUBLIC_URL": "http://me:t0ken-five@127.0.0.1:1",
    }

    for options in ([], ["--json"]):
        done = doctor(callmcp, carrier, server, *options, **secrets)

        assert done.returncode == 1
        assert "t0ken" not in done.stdout + done.stderr


def test_settings_that_cannot_be_used_are_a_finding_like_any_other(callmcp: Callmcp) -> None:
    done = callmcp("doctor", CALLMCP_CARRIER="twilio", CALLMCP_TWILIO_FROM=FROM)

    assert done.returncode == 1
    first, *_ = done.stdout.splitlines()
    assert first.startswith("fail         settings: CALLMCP_CARRIER: twilio needs CALLMCP_TWILIO_ACCOUNT_SID")
    assert re.search(r"not checked +carrier: ", done.stdout)


def test_with_the_simulator_the_carrier_is_not_checked_and_nothing_fails(callmcp: Callmcp) -> None:
    callmcp("init")

    done = callmcp("doctor")

    assert (done.returncode, done.stderr) == (0, "")
    assert "pass         database: up to date, and takes writes" in done.stdout
    for check in CHECKS:
        assert f"not checked  {check}: calls are simulated" in done.stdout
    assert done.stdout.count("CALLMCP_CARRIER=twilio") == 1


def test_a_database_that_is_missing_old_or_read_only_fails_with_what_to_do(callmcp: Callmcp, data: Path) -> None:
    missing = callmcp("doctor")
    assert missing.returncode == 1
    assert "fail         database: There is no database at" in missing.stdout
    assert "callmcp init" in missing.stdout
    assert not data.exists(), "looking changes nothing"

    data.mkdir()
    (data / "callmcp.db").touch()
    old = callmcp("doctor")
    assert old.returncode == 1
    assert "callmcp db upgrade" in old.stdout


def test_looking_leaves_no_trace_in_the_database(callmcp: Callmcp, data: Path) -> None:
    def rows() -> Mapping[str, Any]:
        with closing(sqlite3.connect(data / "callmcp.db")) as connection:
            tables = [name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
            return {name: connection.execute(f"SELECT * FROM {name}").fetchall() for name in tables}  # noqa: S608

    callmcp("init")
    before = rows()

    assert callmcp("doctor").returncode == 0

    assert rows() == before


def test_each_language_model_that_an_agent_names_is_looked_at(callmcp: Callmcp) -> None:
    callmcp("init")
    nobody = "http://127.0.0.1:9/v1#x"
    models = ("--model", "openai:gpt-5-mini", "--fallback", nobody, "--fallback", "scripted")
    callmcp("agents", "create", "--name", "x", "--greeting", "Hi", *models)

    without = callmcp("doctor", "--json")
    with_key = callmcp("doctor", "--json", OPENAI_API_KEY="sk-secret")

    assert of_models(without) == {"openai:gpt-5-mini": "fail", nobody: "fail"}
    assert "OPENAI_API_KEY" in without.stdout
    assert of_models(with_key) == {"openai:gpt-5-mini": "pass", nobody: "fail"}
    assert "sk-secret" not in with_key.stdout + with_key.stderr


def test_an_endpoint_is_asked_for_its_models_with_its_key_and_for_no_word(callmcp: Callmcp) -> None:
    callmcp("init")
    with model_server("--key", "of-the-endpoint") as model:
        ready, absent = model.named("instant"), model.named("gpt-9")
        callmcp("agents", "create", "--name", "x", "--greeting", "Hi", "--model", ready, "--fallback", absent)

        without = callmcp("doctor", "--json")
        with_key = callmcp("doctor", "--json", CALLMCP_MODEL_API_KEY="of-the-endpoint")

        assert of_models(without) == {ready: "fail", absent: "fail"}
        assert of_models(with_key) == {ready: "pass", absent: "not checked"}
        assert "of-the-endpoint" not in with_key.stdout + with_key.stderr
        assert model.requests() == []


def of_models(done: Done) -> dict[str, str]:
    """The verdict on each language model."""
    checks = json.loads(done.stdout)["checks"]
    begin = "language model "
    return {
        check["check"].removeprefix(begin): check["verdict"] for check in checks if check["check"].startswith(begin)
    }


@pytest.mark.parametrize(
    ("settings", "verdict", "words"),
    [
        ({}, "pass", "clients log in at http://127.0.0.1:8765"),
        ({"CALLMCP_PUBLIC_URL": "https://calls.example.org"}, "pass", "clients log in at https://calls.example.org"),
        ({"CALLMCP_PUBLIC_URL": "http://calls.example.org"}, "fail", "nobody logs in over http"),
        ({"CALLMCP_PUBLIC_URL": "http://calls.example.org", "CALLMCP_OAUTH": "off"}, "pass", "keys are all there is"),
        ({"CALLMCP_OAUTH": "external", "CALLMCP_OAUTH_ISSUER": "http://127.0.0.1:9/"}, "fail", "ConnectError"),
    ],
)
def test_whether_clients_can_log_in_is_told(
    callmcp: Callmcp, settings: dict[str, str], verdict: str, words: str
) -> None:
    assert callmcp("init").returncode == 0

    (login,) = logins(callmcp("doctor", "--json", **settings))

    assert login["verdict"] == verdict
    assert words in login["seen"]
    assert ("remedy" in login) is (verdict == "fail")


def test_a_provider_that_says_what_its_keys_are_passes(callmcp: Callmcp) -> None:
    assert callmcp("init").returncode == 0
    with serving() as web:
        web.says("/keys", {"keys": [ECKey.generate_key("P-256").as_dict(private=False)]})
        web.says("/.well-known/openid-configuration", {"issuer": web.base, "jwks_uri": f"{web.base}/keys"})

        (login,) = logins(callmcp("doctor", "--json", CALLMCP_OAUTH="external", CALLMCP_OAUTH_ISSUER=web.base))

    assert (login["verdict"], login["seen"]) == ("pass", f"{web.base} says what its keys are")


def logins(done: Done) -> Sequence[dict[str, str]]:
    return [check for check in json.loads(done.stdout)["checks"] if check["check"] == "login"]
