"""Settings of a service process, read from the environment: the variables start with LEVATA_.

A service with settings of its own derives from `Settings`. Nothing else in the code reads the environment.
"""

from pathlib import Path
from typing import Annotated, Literal, NamedTuple, TypeVar

from pydantic import BeforeValidator, Field, ValidationError
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from chassis.files import TokenFile
from chassis.limits import Limits


class Address(NamedTuple):
    """Where to listen or connect."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_address(text: object) -> object:
    """`host:port`, the host of IPv6 in brackets; anything but text is left to the caller's validation."""
    if not isinstance(text, str):
        return text
    host, separator, port = text.rpartition(":")
    if not (separator and host and port.isdecimal() and int(port) < 65536):
        raise ValueError(f"{text!r} is not host:port")
    return Address(host.removeprefix("[").removesuffix("]"), int(port))


# NoDecode: the library would take a tuple to be written as JSON.
AddressSetting = Annotated[Address, NoDecode, BeforeValidator(parse_address)]


class Settings(BaseSettings):
    """What every service is told."""

    model_config = SettingsConfigDict(env_prefix="LEVATA_", frozen=True)

    service_name: str
    # Port 0 takes a free one; the line that the service logs when it listens tells which.
    listen: AddressSetting = Address("127.0.0.1", 0)
    # The service's own role, whose search path is the service's schema.
    postgres_dsn: str
    # With the service's own user in it.
    nats_url: str = ""
    # Public keys that tokens are checked with.
    jwks_file: Path
    # How long access tokens live. Accounts signs for so long, and all remember revoked sessions for so long.
    access_token_seconds: int = Field(15 * 60, gt=0)
    # The service's own token, for calls to other services; whoever issues it renews the file.
    service_token_file: Path = Path("service.token")
    # What the server bears; as JSON, with the names that differ from the defaults only.
    limits: Limits = Limits()
    # Addresses of other services' replicas, by service.
    peers: dict[str, list[str]] = {}
    log_format: Literal["text", "json"] = "text"
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    # Where Prometheus may scrape; nothing listens without it.
    metrics_listen: Annotated[Address | None, NoDecode, BeforeValidator(parse_address)] = None

    @property
    def service_token(self) -> TokenFile:
        """The service's own token, as it is at each call."""
        return TokenFile(self.service_token_file)


S = TypeVar("S", bound=Settings)


class SettingsError(Exception):
    """The environment, or a file that it names, does not say what the service must know; the message says where."""


def read_settings(kind: type[S], service_name: str) -> S:
    """Read settings of `kind` from the environment."""
    try:
        return kind(service_name=service_name)
    except ValidationError as error:
        problems = (f"LEVATA_{'_'.join(map(str, e['loc'])).upper()}: {e['msg']}" for e in error.errors())
        raise SettingsError("; ".join(problems)) from None
