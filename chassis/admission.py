"""Who is let in: what each method demands of its caller, and how often a caller may call.

It comes before any work is done for a call. A signature is work too: of a token that is not known yet it is checked
only while the peer that shows it has not shown too many false ones.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Final, NamedTuple, TypeAlias

import grpc

from chassis.auth import Caller, Role, Verifier
from chassis.errors import Refused
from chassis.limits import Limits, Rates

# Quoted: only grpc's stubs know that it has parameters.
Context: TypeAlias = "grpc.aio.ServicerContext[Any, Any]"

# The longest address is shorter; what is longer was made up.
ADDRESS_MAX: Final = 64
# As grpc writes the peer of a connection.
_PEER_SCHEMES: Final = ("ipv4:", "ipv6:")


@dataclass(frozen=True)
class Access:
    """Who may call."""

    roles: frozenset[Role]
    # Where services may call: those of these names, and no other.
    services: frozenset[str] = frozenset()
    # Without a token too; one that proves nothing counts as none, so that a client with an expired one can get anew.
    without_token: bool = False

    PUBLIC: ClassVar["Access"]
    PLAYER: ClassVar["Access"]
    OPERATOR: ClassVar["Access"]
    ANY: ClassVar["Access"]

    @classmethod
    def by(cls, *services: str) -> "Access":
        """An internal call, for the services of these names."""
        assert services, "somebody must be allowed to call"
        return cls(frozenset({Role.SERVICE}), frozenset(services))

    def refuse_others(self, caller: Caller) -> None:
        """Refused unless the caller may."""
        if caller.role not in self.roles:
            roles = " or ".join(sorted(role.value for role in self.roles))
            raise Refused("ROLE_REQUIRED", grpc.StatusCode.PERMISSION_DENIED, f"This call is for a {roles} only.")
        if self.services and caller.role is Role.SERVICE and caller.subject not in self.services:
            raise Refused(
                "SERVICE_NOT_ALLOWED",
                grpc.StatusCode.PERMISSION_DENIED,
                f"This call is not for the service {caller.subject}.",
            )


# Anybody.
Access.PUBLIC = Access(frozenset(Role), without_token=True)
Access.PLAYER = Access(frozenset({Role.PLAYER}))
Access.OPERATOR = Access(frozenset({Role.OPERATOR}))
# Anybody with a valid token.
Access.ANY = Access(frozenset(Role))


class Admitted(NamedTuple):
    """Who has been let in."""

    # None only where no token is needed.
    caller: Caller | None
    # Whose allowance the call is charged to; empty for those that have none to keep to.
    payer: str


class Admission:
    """The door of one server."""

    def __init__(self, verifier: Verifier, limits: Limits) -> None:
        self._verifier = verifier
        self._forwarded_hops = limits.forwarded_hops
        self.rates = Rates(limits.caller_burst, limits.caller_calls_per_second)

    def to(self, access: Access) -> Callable[[Context], Admitted]:
        """What finds out who calls a method, and refuses those who may not, or not so often."""
        remembered, take, refuse_others = self._verifier.remembered, self.rates.take, access.refuse_others

        def admit(context: Context) -> Admitted:
            token = _token(context)
            caller = remembered(token) or self._newcomer(token, context, access)
            if caller is None:
                return Admitted(None, self.peer(context))
            payer = ""
            if caller.role is Role.PLAYER:
                payer = caller.subject
                take(payer)
            refuse_others(caller)
            return Admitted(caller, payer)

        return admit

    def peer(self, context: Context) -> str:
        """The address that calls: as the edge saw it, where the call came through the edge."""
        if self._forwarded_hops:
            for key, value in context.invocation_metadata() or ():
                if key == "x-forwarded-for":
                    # Each proxy appends whom it heard; what stands before the edge's own word anybody may have written.
                    hops = str(value).rsplit(",", self._forwarded_hops)
                    return hops[-self._forwarded_hops :][0].strip()[:ADDRESS_MAX]
        peer = str(context.peer())
        return peer.rpartition(":")[0] if peer.startswith(_PEER_SCHEMES) else peer

    def _newcomer(self, token: str, context: Context, access: Access) -> Caller | None:
        """Whom a token names that is not remembered; a bad one, and a call without one, is the peer's expense."""
        peer = self.peer(context)
        if not token and access.without_token:
            self.rates.take(peer)
            return None
        self.rates.check(peer)
        try:
            return self._verifier.verify(token)
        except Refused:
            self.rates.take(peer)
            if access.without_token:
                return None
            raise


def _token(context: Context) -> str:
    """The bearer token in the metadata of a call; empty without one."""
    for key, value in context.invocation_metadata() or ():
        if key == "authorization":
            return str(value[7:]) if value[:7] in ("Bearer ", "bearer ") else "?"
    return ""
