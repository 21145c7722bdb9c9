"""`./levata edge`: the configuration of an Envoy in front of services that run elsewhere than under `./levata up`.

It is the configuration that `up` runs, for other addresses; Envoy 1.40 or newer reads it with `--config-path`.
"""

from pathlib import Path
from typing import Annotated

import typer

from chassis.settings import Address, parse_address
from tools.edge.configuration import SERVICES, Certificate, Edge, Limits


def main(
    replicas: Annotated[
        list[str],
        typer.Argument(
            metavar="SERVICE=HOST:PORT...",
            help="A replica, or a name that stands for all of them; may be repeated. "
            f"Services are {', '.join(SERVICES)}.",
        ),
    ],
    listen: Annotated[str, typer.Option(metavar="HOST:PORT", help="The public address.")] = "0.0.0.0:443",
    certificate: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The certificate chain (PEM); without one, plain HTTP.")
    ] = None,
    key: Annotated[Path | None, typer.Option(metavar="FILE", help="The certificate's private key (PEM).")] = None,
    key_set: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Public keys (jwks.json) to show to everybody.")
    ] = None,
    origin: Annotated[
        list[str] | None, typer.Option(metavar="URL", help="A page's origin that may call; default: all.")
    ] = None,
    trusted_hops: Annotated[
        int, typer.Option(min=0, help="Proxies of your own in front of it that set x-forwarded-for.")
    ] = 0,
    connections: Annotated[int, typer.Option(min=1, help="How many clients may be connected.")] = Limits.connections,
) -> None:
    """Print Envoy's configuration for services of one's own."""
    if (certificate is None) != (key is None):
        raise typer.BadParameter("a certificate needs its key, and a key its certificate")
    edge = Edge(
        address=_address(listen),
        replicas=_replicas(replicas),
        certificate=None if certificate is None or key is None else Certificate(certificate, key),
        key_set=key_set,
        origins=origin or (),
        trusted_hops=trusted_hops,
        limits=Limits(connections=connections),
    )
    print(edge.configuration(), end="")


def _replicas(named: list[str]) -> dict[str, list[Address]]:
    replicas: dict[str, list[Address]] = {service: [] for service in SERVICES}
    for entry in named:
        service, _, address = entry.partition("=")
        if service not in replicas:
            raise typer.BadParameter(f"{entry}: there is no service {service!r}, but {', '.join(SERVICES)}")
        replicas[service].append(_address(address))
    return replicas


def _address(text: str) -> Address:
    try:
        address = parse_address(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None
    assert isinstance(address, Address)
    return address
