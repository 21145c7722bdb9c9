"""Refusals that several use cases give."""

from typing import Final
from uuid import UUID

import grpc

from chassis.errors import Refused

# Versions of UUIDs that nobody can guess.
_RANDOM_VERSIONS: Final = (4, 7)


def refuse_guessable(request_id: UUID) -> None:
    """Refused unless the id is random: who knows a request's id is given its tokens again."""
    if request_id.version not in _RANDOM_VERSIONS:
        raise Refused(
            "REQUEST_ID_NOT_RANDOM", grpc.StatusCode.INVALID_ARGUMENT, "The request id must be a random UUID."
        )


def account_not_found() -> Refused:
    """There is no account of this id, or no more."""
    return Refused("ACCOUNT_NOT_FOUND", grpc.StatusCode.NOT_FOUND, "There is no such account.")
