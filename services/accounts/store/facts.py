"""What the accounts service publishes: ids only."""

from typing import assert_never

from levata.accounts.v1 import facts_pb2

from chassis.log import NewFact
from services.accounts.domain.account import Created, Deleted, Event, Registered, Renamed, SessionRevoked

SUBJECT = "levata.accounts.{kind}.{account_id}"


def fact_of(event: Event) -> NewFact:
    """The fact that an event becomes."""
    fact = facts_pb2.AccountFact(account_id=str(event.account_id))
    match event:
        case Created(_, guest):
            fact.created.guest = guest
            fact.created.SetInParent()
        case Registered():
            fact.registered.SetInParent()
        case Renamed():
            fact.renamed.SetInParent()
        case Deleted():
            fact.deleted.SetInParent()
        case SessionRevoked(_, session_id, tokens_expire_at_s):
            fact.session_revoked.session_id = str(session_id)
            fact.session_revoked.tokens_expire_at_s = tokens_expire_at_s
        case _:
            assert_never(event)
    subject = SUBJECT.format(kind=fact.WhichOneof("kind"), account_id=fact.account_id)
    return NewFact(subject, fact.SerializeToString())
