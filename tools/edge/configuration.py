"""Envoy's configuration: deploy/envoy.yaml with addresses, limits, certificate and routes filled in."""

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from string import Template
from typing import Any

import grpc

from chassis.errors import Refused
from chassis.settings import Address
from tools.edge.routes import routes

TEMPLATE = Path(__file__).parents[2] / "deploy" / "envoy.yaml"
# Those that the template has clusters for; one without replicas is answered UNAVAILABLE.
SERVICES = ("accounts", "table", "ledger", "league", "matchmaker")


@dataclass(frozen=True)
class Limits:
    """What the edge bears, and what it lets one caller have."""

    connections: int = 50_000
    connection_idle_seconds: int = 300
    streams_per_connection: int = 256
    # Calls, of which an open stream is one: of one token, and from one address, which a whole town may share.
    calls_per_second: int = 100
    calls_burst: int = 300
    address_calls_per_second: int = 2_000
    address_calls_burst: int = 4_000
    heap_bytes: int = 2 << 30


@dataclass(frozen=True)
class Certificate:
    """Files with the certificate chain and its private key, as PEM."""

    chain: Path
    key: Path


@dataclass(frozen=True)
class Edge:
    """All that differs from one edge to the next."""

    address: Address
    # By service; names are looked up again and again.
    replicas: Mapping[str, Sequence[Address]]
    access_log: Path = Path("/dev/stdout")
    # Without one, the port speaks plain HTTP.
    certificate: Certificate | None = None
    # The public keys that tokens are checked with, shown to everybody.
    key_set: Path | None = None
    # Pages that may call from a browser; without any, all may: tokens travel in a header that no other page knows.
    origins: Sequence[str] = ()
    # Proxies of our own between the world and the edge.
    trusted_hops: int = 0
    limits: Limits = field(default_factory=Limits)

    def configuration(self) -> str:
        """What Envoy is to read."""
        limits = self.limits
        values: dict[str, object] = {
            "host": self.address.host,
            "port": self.address.port,
            "transport_socket": _transport_socket(self.certificate),
            "trusted_hops": self.trusted_hops,
            "connection_idle": f"{limits.connection_idle_seconds}s",
            "streams_per_connection": limits.streams_per_connection,
            "access_log": str(self.access_log),
            "origins": [{"exact": origin} for origin in self.origins] or [{"safe_regex": {"regex": ".*"}}],
            "routes": routes(self.key_set),
            "rate_limited": _rate_limited(),
            "caller_bucket": _bucket(limits.calls_per_second, limits.calls_burst),
            "address_bucket": _bucket(limits.address_calls_per_second, limits.address_calls_burst),
            "connections": limits.connections,
            "heap_bytes": limits.heap_bytes,
            **{service: _endpoints(self.replicas.get(service, ())) for service in SERVICES},
        }
        # JSON is YAML, and quotes whatever a path may hold.
        filled_in = {name: json.dumps(value) for name, value in values.items()}
        return Template(TEMPLATE.read_text()).substitute(filled_in)


def _endpoints(replicas: Sequence[Address]) -> list[object]:
    return [
        {"endpoint": {"address": {"socket_address": {"address": replica.host, "port_value": replica.port}}}}
        for replica in replicas
    ]


def _bucket(per_second: int, burst: int) -> dict[str, Any]:
    return {"max_tokens": burst, "tokens_per_fill": per_second, "fill_interval": "1s"}


def _transport_socket(certificate: Certificate | None) -> dict[str, Any] | None:
    if certificate is None:
        return None
    pair = {
        "certificate_chain": {"filename": str(certificate.chain)},
        "private_key": {"filename": str(certificate.key)},
    }
    return {
        "name": "envoy.transport_sockets.tls",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.transport_sockets.tls.v3.DownstreamTlsContext",
            "common_tls_context": {
                "tls_params": {"tls_minimum_protocol_version": "TLSv1_2"},
                "alpn_protocols": ["h2", "http/1.1"],
                "tls_certificates": [pair],
            },
        },
    }


def _rate_limited() -> str:
    """The same refusal as a service's own limit has, as the edge sends it: in the base64 of binary metadata."""
    refused = Refused("RATE_LIMITED", grpc.StatusCode.RESOURCE_EXHAUSTED, "Too many calls in a short time.")
    return base64.b64encode(refused.status().SerializeToString()).decode().rstrip("=")
