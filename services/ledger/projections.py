"""Balances made anew from the transfers, while money goes on moving."""

from typing import Final

import grpc

from chassis.database import Pool
from chassis.errors import Refused
from services.ledger.app.operations import BalanceDifference, Rebuilt
from services.ledger.domain.journal import Balance, Currency

# Any number, the same for all replicas.
_LOCK: Final = 0x6C65_6467
# Some tens of millions of transfers; of the comparison, during which nobody can move money, much less is needed.
FOLD_SECONDS: Final = 600
COMPARE_SECONDS: Final = 60


async def rebuild(pool: Pool, *, dry_run: bool) -> Rebuilt:
    """Fold all transfers, compare, and, unless it is a dry run, put right what differs.

    Refused with REBUILD_RUNNING while another one is under way. Broken off anywhere it changes nothing.
    """
    async with pool.acquire() as session, session.transaction():
        await session.execute(f"set local statement_timeout = '{FOLD_SECONDS}s'")
        if not await session.fetchval("select pg_try_advisory_xact_lock($1)", _LOCK):
            raise Refused(
                "REBUILD_RUNNING", grpc.StatusCode.FAILED_PRECONDITION, "The projection is being made anew already."
            )
        transfers = await session.fetchval("select fold_transfers()", timeout=FOLD_SECONDS)
        await session.execute(f"set local statement_timeout = '{COMPARE_SECONDS}s'")
        rows = await session.fetch("select * from compare_balances($1)", dry_run, timeout=COMPARE_SECONDS)
        balances = await session.fetchval("select count(*) from rebuilt_balance")
    differences = tuple(
        BalanceDifference(account, Currency(currency), _balance(posted, held), _balance(posted_anew, held_anew))
        for account, currency, posted, held, posted_anew, held_anew in rows
    )
    return Rebuilt(transfers, balances, differences, not dry_run)


def _balance(posted: int | None, held: int | None) -> Balance | None:
    return None if posted is None or held is None else Balance(posted, held)
