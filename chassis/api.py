"""The API as the protos mark it: which services are public, and which of our processes serves each of them.

Read from the options of levata/edge/v1/edge.proto, so that nothing has to be listed a second time.
"""

import importlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import levata
from google.protobuf.descriptor import FileDescriptor, ServiceDescriptor
from levata.edge.v1 import edge_pb2


class Exposed(NamedTuple):
    """A service that is public or not."""

    descriptor: ServiceDescriptor
    # The process that serves it through the public port; empty: it has no route there.
    served_by: str


@cache
def public_services() -> tuple[Exposed, ...]:
    """Every service that has routes at the public port."""
    return tuple(service for service in _services() if service.served_by)


@cache
def internal_services() -> tuple[ServiceDescriptor, ...]:
    """Every service that the public port does not know."""
    return tuple(service.descriptor for service in _services() if not service.served_by)


def _services() -> Iterator[Exposed]:
    for file in _files():
        for descriptor in file.services_by_name.values():
            yield Exposed(descriptor, descriptor.GetOptions().Extensions[edge_pb2.served_by])


def _files() -> Iterator[FileDescriptor]:
    # The stubs are in namespace packages, which pkgutil does not walk.
    for root in map(Path, levata.__path__):
        for path in sorted(root.rglob("*_pb2.py")):
            module = ".".join(path.relative_to(root.parent).with_suffix("").parts)
            yield importlib.import_module(module).DESCRIPTOR
