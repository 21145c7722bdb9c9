"""The outbox in Postgres: a row for each mail that is still to be sent, or that was given up.

A row is written in the transaction of what the mail tells of. Replicas share the rows by short leases: who takes one
has it to itself until the lease ends, and if it dies meanwhile, another one sends the mail (perhaps again).
"""

from typing import Final, NamedTuple
from uuid import UUID

from chassis.database import Pool

# Given-up mails are kept for so long, without their address, for the operator to see.
KEPT_DAYS: Final = 7

_CLAIM: Final = "select * from claim_mail($1, $2)"
# Only by who has the lease still: the attempts tell.
_PUT_BACK: Final = """
    update mail_outbox set next_at = levata_now() + $3 * interval '1 second'
    where id = $1 and attempts = $2 and given_up is null"""
_GIVE_UP: Final = """
    update mail_outbox set given_up = $3, address = ''
    where id = $1 and attempts = $2 and given_up is null"""
# Not while somebody sends it, or has just put it back.
_GIVE_UP_EXPIRED: Final = """
    update mail_outbox set given_up = $1, address = ''
    where given_up is null and expires_at <= levata_now() and next_at <= levata_now() returning id, attempts"""
# A code that was used, or that another one has replaced, is in nobody's mind any more.
_DROP_UNWANTED: Final = """
    delete from mail_outbox m
    where given_up is null and expires_at > levata_now()
      and not exists (select from sign_in_code c where c.code_id = m.code_id and c.spent_by is null)"""
_FORGET: Final = f"""
    delete from mail_outbox
    where given_up is not null and created_at < levata_now() - interval '{KEPT_DAYS} days'"""
_BACKLOG: Final = """
    select count(*) as waiting,
           coalesce(extract(epoch from levata_now() - min(created_at)), 0)::float8 as oldest_seconds
    from mail_outbox where given_up is null"""


class Mail(NamedTuple):
    """A mail that this process has a lease on."""

    mail_id: UUID
    address: str
    language: str
    code_id: UUID
    # Until it is of no use.
    seconds_left: float
    # This one included.
    attempts: int


class Expired(NamedTuple):
    """A mail that could not be sent in time."""

    mail_id: UUID
    attempts: int


class Backlog(NamedTuple):
    """What waits to be sent."""

    waiting: int
    oldest_seconds: float


class Outbox:
    """The table `mail_outbox`."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool

    async def claim(self, lease_seconds: float) -> Mail | None:
        """Take the mail that has been due for longest; None when none is due."""
        return await self._claim(lease_seconds, None)

    async def sent(self, mail: Mail, lease_seconds: float) -> Mail | None:
        """It is out, and nothing of it is kept; takes the next one, as `claim` does."""
        return await self._claim(lease_seconds, mail.mail_id)

    async def _claim(self, lease_seconds: float, sent: UUID | None) -> Mail | None:
        record = await self._pool.fetchrow(_CLAIM, lease_seconds, sent)
        return None if record is None else Mail(*record)

    async def put_back(self, mail: Mail, seconds: float) -> None:
        """Try it again after a pause."""
        await self._pool.execute(_PUT_BACK, mail.mail_id, mail.attempts, seconds)

    async def give_up(self, mail: Mail, reason: str) -> None:
        """It will never be sent; the address is not kept."""
        await self._pool.execute(_GIVE_UP, mail.mail_id, mail.attempts, reason)

    async def give_up_expired(self) -> list[Expired]:
        """Give up what is of no use any more; answers with what this call gave up."""
        return [Expired(*record) for record in await self._pool.fetch(_GIVE_UP_EXPIRED, "expired")]

    async def drop_unwanted(self) -> None:
        """Delete the mails of codes that are used or replaced."""
        await self._pool.execute(_DROP_UNWANTED)

    async def forget(self) -> None:
        """Delete what was given up long ago."""
        await self._pool.execute(_FORGET)

    async def backlog(self) -> Backlog:
        """How much waits, and for how long already."""
        record = await self._pool.fetchrow(_BACKLOG)
        assert record is not None
        return Backlog(*record)
