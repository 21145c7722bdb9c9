"""Refusals: how a service says no.

A refusal has a stable reason that programs may compare (docs/errors.md lists them all), a gRPC status code, and a
sentence for people. Services raise `Refused`; `chassis.rpc` alone turns it into what goes over the wire.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import grpc
from google.rpc import error_details_pb2, status_pb2

# The domain of every ErrorInfo: reasons are unique within it.
DOMAIN = "levata"

_CODES = {code.value[0]: code for code in grpc.StatusCode}
_STATUS_DETAILS_KEY = "grpc-status-details-bin"


class FieldViolation(NamedTuple):
    """What is wrong with one field of a request."""

    field: str
    description: str


class Refused(Exception):
    """A request is refused, and nothing was changed by it."""

    def __init__(
        self,
        reason: str,
        code: grpc.StatusCode,
        message: str,
        metadata: Mapping[str, str] | None = None,
        violations: Sequence[FieldViolation] = (),
    ) -> None:
        super().__init__(reason, message)
        self.reason = reason
        self.code = code
        self.message = message
        self.metadata = dict(metadata or {})
        self.violations = tuple(violations)

    def status(self) -> status_pb2.Status:
        """The refusal as it goes over the wire: an ErrorInfo, and a BadRequest where fields are at fault."""
        status = status_pb2.Status(code=self.code.value[0], message=self.message)
        info = error_details_pb2.ErrorInfo(reason=self.reason, domain=DOMAIN, metadata=self.metadata)
        status.details.add().Pack(info)
        if self.violations:
            bad_request = error_details_pb2.BadRequest()
            for field, description in self.violations:
                bad_request.field_violations.add(field=field, description=description)
            status.details.add().Pack(bad_request)
        return status

    @classmethod
    def from_status(cls, status: status_pb2.Status) -> "Refused":
        """The refusal that `status` made a status of."""
        info, bad_request = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
        for detail in status.details:
            detail.Unpack(info) or detail.Unpack(bad_request)
        violations = [FieldViolation(each.field, each.description) for each in bad_request.field_violations]
        return cls(info.reason, _CODES[status.code], status.message, info.metadata, violations)


def refused(reason: str, code: grpc.StatusCode, message: str, **metadata: str) -> Refused:
    """A refusal with its metadata as keywords."""
    return Refused(reason, code, message, metadata)


def status_of(error: grpc.aio.AioRpcError) -> status_pb2.Status | None:
    """The rich status that came with an error, if any: what the network itself reports has none."""
    for key, value in error.trailing_metadata() or ():
        if key == _STATUS_DETAILS_KEY:
            assert isinstance(value, bytes)
            return status_pb2.Status.FromString(value)
    return None


def reason_in(status: status_pb2.Status) -> str | None:
    """The reason that a status of ours carries."""
    info = error_details_pb2.ErrorInfo()
    for detail in status.details:
        if detail.Unpack(info) and info.domain == DOMAIN:
            return str(info.reason)
    return None


def reason_of(error: grpc.aio.AioRpcError) -> str | None:
    """The reason of a refusal, as the calling side sees it; None for errors that are not ours."""
    status = status_of(error)
    return None if status is None else reason_in(status)


def in_a_line(error: Exception) -> str:
    """An error for a log entry: what gRPC says of a failed call takes a dozen lines."""
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    return repr(error)
