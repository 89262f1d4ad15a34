import os
import tomllib
from pathlib import Path
from typing import Any

import pytest

from callmcp.errors import BadConfiguration
from callmcp.settings import CHECKOUT, Carrier, LogFormat, Settings, load

EXAMPLE = CHECKOUT / "config" / "callmcp.toml"


@pytest.fixture(autouse=True)
def no_settings_from_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in [name for name in os.environ if name.startswith("CALLMCP_")]:
        monkeypatch.delenv(variable)


@pytest.fixture
def config(tmp_path: Path) -> Path:
    path = tmp_path / "my.toml"
    path.touch()
    return path


def refusal(config: Path | None = None, **overrides: object) -> str:
    with pytest.raises(BadConfiguration) as refused:
        load(config, **overrides)
    return refused.value.message


def test_the_defaults_need_nothing(config: Path) -> None:
    settings = load(config)

    assert (settings.carrier, settings.simulator_speed) == (Carrier.SIMULATOR, 1)
    assert settings.public_url == "http://127.0.0.1:8765"
    assert settings.database_url == f"sqlite:///{Path('data/callmcp.db').absolute()}"


def test_an_option_wins_over_the_environment_and_that_over_the_file(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text("port = 1001\nhost = 'a.example'\ncaller_id = '+15550100099'\n")
    monkeypatch.setenv("CALLMCP_PORT", "1002")
    monkeypatch.setenv("CALLMCP_HOST", "b.example")

    settings = load(config, port=1003, host=None)

    assert (settings.port, settings.host, settings.caller_id) == (1003, "b.example", "+15550100099")
    assert settings.public_url == "http://b.example:1003"


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("127.0.0.1", "http://127.0.0.1:80"),
        ("localhost", "http://localhost:80"),
        ("0.0.0.0", "http://127.0.0.1:80"),  # noqa: S104
        ("::", "http://[::1]:80"),
        ("fe80::1", "http://[fe80::1]:80"),
    ],
)
def test_the_default_public_url_is_one_that_a_client_can_connect_to(config: Path, host: str, url: str) -> None:
    assert load(config, host=host, port=80).public_url == url


def test_the_public_url_has_no_slash_at_the_end(config: Path) -> None:
    assert load(config, public_url="https://calls.example.org/x//").public_url == "https://calls.example.org/x"


@pytest.mark.parametrize(
    ("variable", "value", "allowed"),
    [
        ("CALLMCP_CARRIER", "carrier-pigeon", "'simulator'"),
        (
            "CALLMCP_CARRIER",
            "twilio",
            "needs CALLMCP_TWILIO_ACCOUNT_SID, CALLMCP_TWILIO_AUTH_TOKEN, CALLMCP_TWILIO_FROM",
        ),
        ("CALLMCP_CARRIER", "pigeon", "simulator"),
        ("CALLMCP_TWILIO_ACCOUNT_SID", "AC1", "AC and 32 hex digits"),
        ("CALLMCP_PORT", "65536", "less than or equal to 65535"),
        ("CALLMCP_PORT", "http", "valid integer"),
        ("CALLMCP_PORT", "tcp://10.0.0.7:8765", "enableServiceLinks"),
        ("CALLMCP_HOST", "", "at least 1 character"),
        ("CALLMCP_PUBLIC_URL", "calls.example.org", "https://"),
        ("CALLMCP_PUBLIC_URL", "http://[::1", "URL"),
        ("CALLMCP_PUBLIC_URL", "ftp://calls.example.org", "https://"),
        ("CALLMCP_SIMULATOR_SPEED", "0", "greater than 0"),
        ("CALLMCP_SIMULATOR_SPEED", "1001", "less than or equal to 1000"),
        ("CALLMCP_SIMULATOR_SPEED", "nan", "less than or equal to 1000"),
        ("CALLMCP_DATABASE_URL", "mysql://h/x", "postgresql://"),
        ("CALLMCP_DATABASE_URL", "callmcp.db", "sqlite:///PATH"),
        ("CALLMCP_DATABASE_URL", "sqlite://", "sqlite:///PATH"),
        ("CALLMCP_ALLOWED_ORIGINS", "https://a.example/path", "has a path"),
        ("CALLMCP_ALLOWED_ORIGINS", "null", "https://"),
        ("CALLMCP_ALLOWED_HOSTS", "https://a.example", "host name"),
        ("CALLMCP_BODY_LIMIT", "12", "greater than or equal to 1024"),
        ("CALLMCP_CALLER_ID", "5550100", "E.164"),
        ("CALLMCP_DATA", "what?", "? in its name"),
        ("CALLMCP_LOG_LEVEL", "chatty", "'debug'"),
        ("CALLMCP_OWNER_SILENCE_SECONDS", "0.5", "greater than or equal to 2"),
        ("CALLMCP_DATABASE_URL_FILE", "/nowhere/at/all", "cannot be read"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_naming_the_variable_and_what_is_allowed(
    config: Path, monkeypatch: pytest.MonkeyPatch, variable: str, value: str, allowed: str
) -> None:
    monkeypatch.setenv(variable, value)

    words = refusal(config)

    assert words.startswith(f"{variable}: ")
    assert allowed in words
    assert "\n" not in words


def test_everything_that_is_wrong_is_said_at_once(config: Path) -> None:
    words = refusal(config, port=-1, simulator_speed=-1, log_level="x")

    assert [part.split(":")[0] for part in words.split("; ")] == ["--port", "--simulator-speed", "--log-level"]


def test_a_bad_line_of_the_file_is_named(config: Path) -> None:
    config.write_text("# mine\nhost = '127.0.0.1'\n\nport = 70000\n")

    assert refusal(config).startswith(f"{config}, line 4: port: must be less than or equal to 65535")


def test_a_misspelt_variable_is_not_silent(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLMCP_PUBLIC_ULR", "https://calls.example.org")

    assert refusal(config) == "CALLMCP_PUBLIC_ULR is not a setting; did you mean CALLMCP_PUBLIC_URL?"


@pytest.mark.parametrize("line", ["prot = 1", "[prot]\na = 1", "[[prot]]\na = 1", "'prot' = 2", "prot.a = 3"])
def test_a_misspelt_key_of_the_file_is_not_silent(config: Path, line: str) -> None:
    config.write_text("\n" + line)

    assert refusal(config) == f"{config}, line 2: prot is not a setting; did you mean port?"


def test_a_file_that_is_missing_or_not_toml_is_refused(config: Path, tmp_path: Path) -> None:
    assert "cannot be read: No such file" in refusal(tmp_path / "other.toml")
    assert "cannot be read" in refusal(tmp_path)
    config.write_bytes(b"\xff\xfe")
    assert "not UTF-8" in refusal(config)
    config.write_text("port = = 1")
    assert "is not TOML" in refusal(config)


def test_the_suites_own_variables_are_not_settings(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CALLMCP_TEST_POSTGRES_URL", "postgresql://h/x")

    load(config)


def test_a_secret_can_come_from_a_file(config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    secret = tmp_path / "secret"
    secret.write_text("postgresql://u:s3cret@h/x\n")
    monkeypatch.setenv("CALLMCP_DATABASE_URL_FILE", str(secret))

    assert load(config).database_url == "postgresql://u:s3cret@h/x"

    monkeypatch.setenv("CALLMCP_DATABASE_URL", "sqlite:///x.db")
    assert "keep one" in refusal(config)


def test_the_password_of_the_database_is_never_shown(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "s3cret" not in repr(load(config, database_url="postgresql://u:s3cret@h/x"))
    monkeypatch.setenv("CALLMCP_DATABASE_URL", "oracle://u:s3cret@h/x")
    assert "s3cret" not in refusal(config)


def test_a_list_is_comma_separated_in_the_environment_and_a_list_in_the_file(
    config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config.write_text('allowed_hosts = ["calls.example.org", "[::1]:80"]')
    monkeypatch.setenv("CALLMCP_ALLOWED_ORIGINS", "https://A.example, http://b.example:8080/ ,")

    settings = load(config)

    assert settings.allowed_hosts == ("calls.example.org", "[::1]:80")
    assert settings.allowed_origins == ("https://a.example", "http://b.example:8080")


def test_settings_do_not_change_once_read(config: Path) -> None:
    with pytest.raises(ValueError, match="frozen"):
        load(config).port = 1  # type: ignore[misc]


def example_with_its_lines_uncommented() -> dict[str, Any]:
    lines = EXAMPLE.read_text(encoding="utf-8").splitlines()
    names = tuple(f"# {name} =" for name in Settings.model_fields)
    return tomllib.loads("\n".join(line.removeprefix("# ") for line in lines if line.startswith(names)))


def test_the_shipped_file_lists_every_setting_with_its_default() -> None:
    shipped = example_with_its_lines_uncommented()

    assert list(shipped) == list(Settings.model_fields), "each setting, once, in the order of the class"
    defaults = Settings().model_dump(mode="json")
    made_of_others = {"database_url": "sqlite:///data/callmcp.db"}
    without = {name: shipped[name] for name, default in defaults.items() if default is None}  # shown with an example
    assert shipped == {**defaults, **made_of_others, **without}


def test_the_shipped_file_changes_nothing_as_it_is() -> None:
    assert tomllib.loads(EXAMPLE.read_text(encoding="utf-8")) == {}
    assert load(EXAMPLE) == load() == Settings()


def test_the_shipped_files_own_suggestions_are_valid(config: Path) -> None:
    config.write_text(
        "\n".join(
            line.removeprefix("# ")
            for line in EXAMPLE.read_text(encoding="utf-8").splitlines()
            if line.startswith(tuple(f"# {name} =" for name in Settings.model_fields))
        )
    )

    assert load(config).log_format is LogFormat.AUTO


def test_an_identity_provider_outside_is_named_as_it_names_itself() -> None:
    assert "CALLMCP_OAUTH_ISSUER" in refusal(oauth="external")
    assert load(oauth="external", oauth_issuer="https://id.example.org/").oauth_issuer == "https://id.example.org/"
