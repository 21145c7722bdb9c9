"""A replica of a service as a child process, and what it is told through its environment.

`up` and the tests start services through this, so that both run the same thing.
"""

import json
import os
import signal
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import grpc
from grpc_health.v1 import health_pb2

from chassis.settings import Address
from tools.embedded.part import Part

CONNECT_SECONDS = 0.2
HEALTH_SECONDS = 1.0


@dataclass(frozen=True)
class Kind:
    """What `up` must know about a service."""

    name: str
    # The one service that signs people in, and so signs tokens and sends mail, is told how.
    signs_in: bool = False
    # What things cost and bring is told to those who take it, count it or let people in.
    has_catalogue: bool = False


KINDS = {
    kind.name: kind
    for kind in (
        Kind("accounts", signs_in=True),
        Kind("table"),
        Kind("ledger", has_catalogue=True),
        Kind("league", has_catalogue=True),
        Kind("matchmaker", has_catalogue=True),
    )
}


@dataclass(frozen=True)
class Surroundings:
    """What a replica is told; everything else in LEVATA_ variables is kept from it."""

    postgres_dsn: str
    nats_url: str
    jwks_file: Path
    service_token_file: Path
    peers: Mapping[str, Sequence[Address]] = field(default_factory=dict)
    signing_key_file: Path | None = None
    # Variables that only this service knows.
    own: Mapping[str, str] = field(default_factory=dict)
    log_format: str = "text"
    log_level: str = "info"

    def environment(self, listen: Address) -> dict[str, str]:
        """As environment variables, on top of our own environment."""
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("LEVATA_")}
        peers = {service: [str(address) for address in replicas] for service, replicas in self.peers.items()}
        told = {
            "LEVATA_LISTEN": str(listen),
            "LEVATA_POSTGRES_DSN": self.postgres_dsn,
            "LEVATA_NATS_URL": self.nats_url,
            "LEVATA_JWKS_FILE": str(self.jwks_file),
            "LEVATA_SERVICE_TOKEN_FILE": str(self.service_token_file),
            "LEVATA_PEERS": json.dumps(peers),
            "LEVATA_LOG_FORMAT": self.log_format,
            "LEVATA_LOG_LEVEL": self.log_level,
            # What is printed past the logging, say by a crash, comes out in its place.
            "PYTHONUNBUFFERED": "1",
        }
        if self.signing_key_file is not None:
            told["LEVATA_SIGNING_KEY_FILE"] = str(self.signing_key_file)
        return inherited | told | dict(self.own)


class ServiceProcess(Part):
    """One replica. It logs to `log_path`, or, without one, to whoever reads `child.output`."""

    # Streams are ended in order and open commits are waited for.
    stop_steps = ((signal.SIGTERM, 20.0),)

    def __init__(
        self,
        service: str,
        address: Address,
        surroundings: Surroundings,
        *,
        name: str = "",
        log_path: Path | None = None,
    ) -> None:
        super().__init__(log_path, address.port)
        self.name = name or service
        self.service = service
        self.address = address
        self._surroundings = surroundings

    def launch(self) -> None:
        """Start the process."""
        # -P keeps a folder called `services` where the user happens to be from being taken for ours.
        command = [sys.executable, "-P", "-m", f"services.{self.service}"]
        # Services bear to be killed at any time, so an orphan need not be asked nicely.
        self._spawn(command, death_signal=signal.SIGKILL, env=self._surroundings.environment(self.address))

    def _is_up(self) -> bool:
        """Whether its health service says that it serves."""
        with socket.socket() as probe:
            probe.settimeout(CONNECT_SECONDS)
            if probe.connect_ex(self.address) != 0:
                return False
        # A new channel each time: one that was refused would wait a second before it tries again.
        with grpc.insecure_channel(str(self.address)) as channel:
            check = channel.unary_unary(
                "/grpc.health.v1.Health/Check",
                request_serializer=health_pb2.HealthCheckRequest.SerializeToString,
                response_deserializer=health_pb2.HealthCheckResponse.FromString,
            )
            try:
                answer = check(health_pb2.HealthCheckRequest(), timeout=HEALTH_SECONDS)
            except grpc.RpcError:
                return False
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)
