"""Every setting of a deployment, in one place; the only reader of the environment and of the configuration file.

A setting `x` is, the first that is there: a command line option, the variable `CALLMCP_X` (or `CALLMCP_X_FILE`, a file
that holds the value, for secrets), the key `x` of the TOML file, the default below. Whatever cannot be used, a
misspelt name too, ends in BadConfiguration that says where it stands and what is allowed: a server that starts with
half of what was meant is worse than one that does not start.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from ipaddress import ip_address
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails

from callmcp.agents.model import E164, MODEL_FORMS, names_a_model
from callmcp.calls.cost import amount
from callmcp.calls.policy.limits import MOST, Hours, limits_of
from callmcp.errors import BadConfiguration

PREFIX = "CALLMCP_"
TEST_PREFIX = "CALLMCP_TEST_"  # the test suite's own variables; not settings
CHECKOUT = Path(__file__).resolve().parent.parent
DATABASE_SCHEMES = ("sqlite", "postgresql", "postgresql+psycopg", "postgres")


NUMBER = f"^{E164.pattern}$"
ACCOUNT_SID = r"^AC[0-9a-fA-F]{32}$"
API_KEY_SID = r"^SK[0-9a-fA-F]{32}$"
CURRENCY = "^[A-Z]{3}$"
_PATTERNS = {
    CURRENCY: "must be three capital letters (ISO 4217), such as USD",
    NUMBER: "must be in E.164 format, such as +15550100000",
    ACCOUNT_SID: "must be AC and 32 hex digits, as the Twilio console shows it",
    API_KEY_SID: "must be SK and 32 hex digits, as the Twilio console shows it",
}


class Carrier(StrEnum):
    SIMULATOR = "simulator"
    TWILIO = "twilio"


class OAuth(StrEnum):
    """`embedded`: this server is its own authorization server. `external`: another one is. `off`: keys only."""

    EMBEDDED = "embedded"
    EXTERNAL = "external"
    OFF = "off"


class LogLevel(StrEnum):
    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


class LogFormat(StrEnum):
    """`auto`: readable on a terminal, JSON lines anywhere else."""

    AUTO = "auto"
    JSON = "json"
    CONSOLE = "console"


def _comma_separated(value: object) -> object:
    """`a, b` as an environment variable is what `["a", "b"]` is in TOML."""
    return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value


def _url(text: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise ValueError("must be http:// or https://, a host, perhaps a port and a path: https://calls.example.org")
    return text.rstrip("/")


def _issuer(text: str) -> str:
    """As it is: an issuer is compared letter by letter, and that of some providers ends with a slash."""
    _url(text)
    return text


def _origin(text: str) -> str:
    url = _url(text)
    if urlsplit(url).path:
        raise ValueError(f"{text!r} has a path; an origin is scheme, host and port, such as https://app.example.org")
    return url.lower()


def _host(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z0-9.\-]+(:\d{1,5})?|\[[0-9A-Fa-f:.]+\](:\d{1,5})?", text):
        raise ValueError(f"{text!r} is not a host name such as calls.example.org, with or without a port")
    return text.lower()


def _database_url(text: str) -> str:
    scheme, found, rest = text.partition("://")
    if not found or scheme not in DATABASE_SCHEMES or (scheme == "sqlite" and not rest.strip("/")):
        raise ValueError("must be sqlite:///PATH or postgresql://USER:PASSWORD@HOST:PORT/NAME")
    return text


def _data(path: Path) -> Path:
    if "?" in str(path):
        raise ValueError("a data directory cannot have a ? in its name: it ends the path in a database URL")
    return path


def _default_public_url(given: dict[str, Any]) -> str:
    host: str = given["host"]
    try:
        address = ip_address(host)
    except ValueError:
        pass  # a name
    else:
        if address.is_unspecified:  # every address of this machine; nobody can connect to 0.0.0.0
            host = "127.0.0.1" if address.version == 4 else "[::1]"  # noqa: PLR2004
        elif address.version == 6:  # noqa: PLR2004
            host = f"[{address}]"
    return f"http://{host}:{given['port']}"


def _default_database_url(given: dict[str, Any]) -> str:
    return f"sqlite:///{(given['data'] / 'callmcp.db').absolute().as_posix()}"


def _model(reference: str) -> str:
    if not names_a_model(reference):
        raise ValueError(MODEL_FORMS)
    return reference


Origin = Annotated[str, AfterValidator(_origin)]
Host = Annotated[str, AfterValidator(_host)]


def _limit(name: str) -> Callable[[object], object]:
    """Reads a limit as `callmcp limits` does: lists may come with commas."""

    def read(value: object) -> object:
        if value is None or not isinstance(value, str | list | tuple | dict):
            return value
        given = _comma_separated(value) if name not in {"hours", "region_hours"} else value
        read = getattr(limits_of({name: given}), name)
        return dict(read) if name == "region_hours" else read

    return read


def _money(value: object) -> object:
    """Micro-units, from 25, 0.014 or "0.014"."""
    return amount(str(value)) if isinstance(value, str | int | float) and not isinstance(value, bool) else value


class Settings(BaseModel):
    """All settings, checked. `config/callmcp.toml` says why one would change each; a test keeps the two alike.

    Times are seconds, sizes bytes. A later default may be made of an earlier field, so their order matters.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True, arbitrary_types_allowed=True)

    # Where it listens, and what it is called from outside. Never taken from a Host or X-Forwarded header.
    host: Annotated[str, Field(min_length=1)] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535)] = 8765
    public_url: Annotated[str, AfterValidator(_url)] = Field(default_factory=_default_public_url)
    allowed_origins: Annotated[tuple[Origin, ...], BeforeValidator(_comma_separated)] = ()
    allowed_hosts: Annotated[tuple[Host, ...], BeforeValidator(_comma_separated)] = ()
    body_limit: Annotated[int, Field(ge=1024, le=64 * 1024 * 1024)] = 1024 * 1024

    # Where it keeps what it knows.
    data: Annotated[Path, AfterValidator(_data)] = Path("data")
    database_url: Annotated[str, AfterValidator(_database_url)] = Field(
        default_factory=_default_database_url,
        repr=False,  # it may hold a password
    )

    # The language models of voice agents.
    model_api_key: str | None = Field(default=None, repr=False)

    # Who carries the calls.
    carrier: Carrier = Carrier.SIMULATOR
    caller_id: Annotated[str, Field(pattern=NUMBER)] = "+15550100000"
    simulator_speed: Annotated[float, Field(gt=0, le=1000)] = 1
    simulator_callee_model: Annotated[str, AfterValidator(_model)] = "scripted"
    simulator_callee_instructions: Annotated[str, Field(min_length=1, max_length=20000)] = (
        "You are Sam, at home on a weekday evening. You are polite, a little busy, and agree to what is reasonable."
    )
    twilio_account_sid: Annotated[str | None, Field(pattern=ACCOUNT_SID)] = None
    twilio_auth_token: Annotated[tuple[str, ...], BeforeValidator(_comma_separated)] = Field(default=(), repr=False)
    twilio_api_key: Annotated[str | None, Field(pattern=API_KEY_SID)] = None
    twilio_api_secret: str | None = Field(default=None, repr=False)
    twilio_from: Annotated[str | None, Field(pattern=NUMBER)] = None
    twilio_api_url: Annotated[str, AfterValidator(_url)] = "https://api.twilio.com"
    silence_seconds: Annotated[float, Field(gt=0, le=3600)] = 15
    give_up_seconds: Annotated[float, Field(gt=0, le=86400)] = 120
    quiet_seconds: Annotated[float, Field(gt=0, le=3600)] = 60
    queue_seconds: Annotated[float, Field(gt=0, le=86400)] = 120
    look_seconds: Annotated[float, Field(gt=0, le=600)] = 5
    overtime_seconds: Annotated[float, Field(gt=0, le=600)] = 30
    restart_seconds: Annotated[float, Field(ge=0, le=30)] = 4
    owner_silence_seconds: Annotated[float, Field(ge=2, le=3600)] = 5

    # Tokens beside keys.
    oauth: OAuth = OAuth.EMBEDDED
    oauth_client_documents: bool = True
    oauth_inside_hosts: Annotated[tuple[str, ...], BeforeValidator(_comma_separated)] = ()
    oauth_issuer: Annotated[str, AfterValidator(_issuer)] | None = None
    oauth_audience: str | None = None
    oauth_account_claim: str | None = None
    oauth_scope_claim: str = "scope"

    # Who may be called, when, and how often. None: safe with a real carrier, no limit with the simulator.
    limit_regions: Annotated[frozenset[str] | None, BeforeValidator(_limit("regions"))] = None
    limit_allow_prefixes: Annotated[tuple[str, ...], BeforeValidator(_limit("allow_prefixes"))] = ()
    limit_deny_prefixes: Annotated[tuple[str, ...], BeforeValidator(_limit("deny_prefixes"))] = ()
    limit_hours: Annotated[Hours | None, BeforeValidator(_limit("hours"))] = None
    limit_region_hours: Annotated[dict[str, Hours], BeforeValidator(_limit("region_hours"))] = {}
    limit_calls_per_minute: Annotated[int | None, Field(ge=0, le=MOST)] = None
    limit_calls_per_hour: Annotated[int | None, Field(ge=0, le=MOST)] = None
    limit_calls_per_day: Annotated[int | None, Field(ge=0, le=MOST)] = None
    limit_calls_at_once: Annotated[int | None, Field(ge=0, le=MOST)] = None
    limit_destination_per_day: Annotated[int | None, Field(ge=0, le=MOST)] = None
    limit_destination_at_once: Annotated[int | None, Field(ge=0, le=MOST)] = None
    limit_destination_pause_seconds: Annotated[int | None, Field(ge=0, le=MOST)] = None
    limit_spend_per_day: Annotated[int | None, BeforeValidator(_money)] = None
    limit_spend_per_month: Annotated[int | None, BeforeValidator(_money)] = None
    currency: Annotated[str, Field(pattern=CURRENCY)] = "USD"
    price_per_minute: Annotated[int | None, BeforeValidator(_money)] = None
    limit_approval: bool = False
    approval_seconds: Annotated[int, Field(ge=60, le=7 * 86400)] = 3600
    limit_consent: Annotated[frozenset[str], BeforeValidator(_limit("consent"))] = frozenset()
    strict_numbers: bool | None = None
    trust_timezone: bool = False

    # What it says about itself.
    log_level: LogLevel = LogLevel.INFO
    log_format: LogFormat = LogFormat.AUTO

    @model_validator(mode="after")
    def _provider_is_named(self) -> "Settings":
        if self.oauth is OAuth.EXTERNAL and self.oauth_issuer is None:
            raise ValueError("CALLMCP_OAUTH: external needs CALLMCP_OAUTH_ISSUER as well, the provider's issuer")
        return self

    @model_validator(mode="after")
    def _twilio_is_whole(self) -> "Settings":
        if self.carrier is not Carrier.TWILIO:
            return self
        needed = ("twilio_account_sid", "twilio_auth_token", "twilio_from")
        missing = [PREFIX + name.upper() for name in needed if not getattr(self, name)]
        if missing:
            raise ValueError(f"CALLMCP_CARRIER: twilio needs {', '.join(missing)} as well")
        if (self.twilio_api_key is None) is not (self.twilio_api_secret is None):
            raise ValueError("CALLMCP_TWILIO_API_KEY and CALLMCP_TWILIO_API_SECRET go together; set both or neither")
        for name in ("public_url", "twilio_api_url"):
            parts = urlsplit(getattr(self, name))
            if parts.scheme == "http" and parts.hostname not in {"localhost", "127.0.0.1", "::1"}:
                raise ValueError(f"{PREFIX}{name.upper()} must be https:// with a real carrier; credentials go there")
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """A value that somebody gave, and where: what an error message must name."""

    value: object
    where: str


def load(config: Path | None = None, **overrides: object) -> Settings:
    """The settings of this process. `config` is a TOML file (default: `config/callmcp.toml` of a checkout, if any);
    `overrides` are command line options, of which None means not given. Raises BadConfiguration.
    """
    if config is None and (CHECKOUT / "pyproject.toml").is_file():
        own = CHECKOUT / "config" / "callmcp.toml"
        config = own if own.is_file() else None
    given = {
        **(_from_file(config) if config is not None else {}),
        **_from_environment(os.environ),
        **{
            name: Given(value=value, where=f"--{name.replace('_', '-')}")
            for name, value in overrides.items()
            if value is not None
        },
    }
    try:
        return Settings.model_validate({name: one.value for name, one in given.items()})
    except ValidationError as error:
        problems = [_explained(problem, given) for problem in error.errors() if problem["type"] != _NOT_CALLED]
        raise BadConfiguration("; ".join(problems)) from None


_NOT_CALLED = "default_factory_not_called"  # follows from an earlier field's error, which is reported itself


def _explained(problem: ErrorDetails, given: Mapping[str, Given]) -> str:
    if not problem["loc"]:  # several settings that do not go together
        return str(problem["ctx"]["error"])
    name = str(problem["loc"][0])
    where = given[name].where if name in given else f"the default of {name}"
    message = str(problem["ctx"]["error"]) if problem["type"] == "value_error" else _worded(problem["msg"])
    if problem["type"] == "string_pattern_mismatch":
        message = _PATTERNS[problem["ctx"]["pattern"]]
    secret = name in Settings.model_fields and not Settings.model_fields[name].repr
    shown = "" if secret or problem["type"] == "extra_forbidden" else f" (it is {problem['input']!r})"
    if str(problem["input"]).startswith("tcp://"):
        # A Kubernetes Service named callmcp puts CALLMCP_PORT=tcp://ADDRESS:PORT into every pod of its namespace.
        message += "; Kubernetes sets this for a Service named callmcp: set enableServiceLinks: false in the pod"
    return f"{where}: {message}{shown}"


def _worded(message: str) -> str:
    """Pydantic speaks of an input or a string that should be something; a setting must be it."""
    return re.sub(r"^(input|string) should ", "must ", message, flags=re.IGNORECASE)


def _from_environment(environ: Mapping[str, str]) -> dict[str, Given]:
    given: dict[str, Given] = {}
    for variable in sorted(environ):
        if not variable.startswith(PREFIX) or variable.startswith(TEST_PREFIX):
            continue
        name = variable.removeprefix(PREFIX).lower()
        value = environ[variable]
        if name not in Settings.model_fields and name.removesuffix("_file") in Settings.model_fields:
            name = name.removesuffix("_file")
            value = _secret(variable, Path(value))
        if name not in Settings.model_fields or variable != variable.upper():
            raise BadConfiguration(f"{variable} is not a setting{_meant(name, PREFIX)}")
        if name in given:
            raise BadConfiguration(f"{variable} and {given[name].where} say the same thing twice; keep one")
        given[name] = Given(value=value, where=variable)
    return given


def _secret(variable: str, path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfiguration(f"{variable}: {path} cannot be read: {_reason(error)}") from error


def _from_file(path: Path) -> dict[str, Given]:
    try:
        text = path.read_text(encoding="utf-8")
        table = tomllib.loads(text)
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfiguration(f"The configuration file {path} cannot be read: {_reason(error)}") from error
    except tomllib.TOMLDecodeError as error:
        raise BadConfiguration(f"{path} is not TOML: {error}") from error
    given = {}
    for name, value in table.items():
        where = f"{path}{_line(text, name)}"
        if name not in Settings.model_fields:
            raise BadConfiguration(f"{where}: {name} is not a setting{_meant(name, '')}")
        given[name] = Given(value=value, where=f"{where}: {name}")
    return given


def _line(text: str, name: str) -> str:
    for number, line in enumerate(text.splitlines(), 1):
        if re.match(rf"\s*\[*\s*[\"']?{re.escape(name)}[\"']?\s*[=.\]]", line):
            return f", line {number}"
    return ""


def _meant(name: str, prefix: str) -> str:
    close = difflib.get_close_matches(name, Settings.model_fields, n=1)
    return f"; did you mean {_cased(prefix, close[0])}?" if close else "; config/callmcp.toml lists the settings"


def _cased(prefix: str, name: str) -> str:
    return prefix + (name.upper() if prefix else name)


def _reason(error: OSError | UnicodeDecodeError) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else "it is not UTF-8"
